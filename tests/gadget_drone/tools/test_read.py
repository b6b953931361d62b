from pathlib import Path

from tests.gadget_drone.tools.conftest import Run


async def test_lines_come_with_their_numbers(project: Path, run: Run) -> None:
    (project / "a.txt").write_bytes("\ufeffone\r\ntwo\n\nvier ü".encode())
    assert (await run("read", path="a.txt")).content == "1\tone\n2\ttwo\n3\t\n4\tvier ü\n"
    assert (await run("read", path="a.txt", start_line=2, end_line=2)).content == "2\ttwo\n"


async def test_a_long_file_says_how_to_go_on(project: Path, run: Run) -> None:
    (project / "a.txt").write_text("".join(f"{n}\n" for n in range(1, 5001)))
    first = await run("read", path="a.txt")
    assert first.content.endswith("2000\t2000\n[there is more: go on with start_line=2001]\n")
    last = await run("read", path="a.txt", start_line=4001)
    assert last.content.endswith("5000\t5000\n")
    wanted = await run("read", path="a.txt", start_line=1, end_line=3000)
    assert wanted.content.endswith("[there is more: go on with start_line=2001]\n")


async def test_wide_lines_are_cut_and_the_whole_stays_in_bounds(project: Path, run: Run) -> None:
    (project / "a.txt").write_text(("é" * 100_000 + "\n") * 100)
    result = await run("read", path="a.txt")
    assert len(result.content.encode()) <= 64_000
    assert "[... the line goes on]" in result.content
    assert "é" * 2001 not in result.content
    assert "there is more: go on with start_line=16]" in result.content


async def test_what_cannot_be_read_is_said(project: Path, run: Run) -> None:
    (project / "empty").touch()
    (project / "binary").write_bytes(b"\x7fELF\0\0")
    (project / "three").write_text("1\n2\n3\n")
    assert (await run("read", path="empty")).content == "(the file is empty)"
    for path, start, said in [
        ("binary", 1, "binary file of 6 bytes (an ELF program or library)"),
        ("three", 4, "has only 3 lines"),
        ("none", 1, "There is no 'none'"),
        (".git", 1, "is a directory"),
    ]:
        result = await run("read", path=path, start_line=start)
        assert result.is_error
        assert said in result.content
    assert (await run("read", path="three", start_line=3, end_line=2)).is_error


async def test_other_encodings_are_read_and_named(project: Path, run: Run) -> None:
    (project / "latin").write_bytes(b"caf\xe9\n")
    assert (await run("read", path="latin")).content.startswith("1\tcafé\n[the file is Windows-1252;")
    (project / "wide").write_bytes("\ufeffcafé\r\n".encode("utf-16-le"))
    assert (await run("read", path="wide")).content.startswith("1\tcafé\n[the file is UTF-16;")
    (project / "mac").write_bytes(b"one\rtwo\r")
    assert (await run("read", path="mac")).content == "1\tone\n2\ttwo\n"


async def test_bytes_of_no_known_encoding_are_replaced(project: Path, run: Run) -> None:
    (project / "russian").write_bytes("привет\n".encode("koi8-r"))
    result = await run("read", path="russian")
    assert result.content.startswith("1\t������\n[not valid UTF-8")
    assert (await run("edit", path="russian", edits=[{"old_text": "\n", "new_text": "!\n"}])).is_error


async def test_a_huge_sparse_file_is_given_up(project: Path, run: Run) -> None:
    with (project / "huge").open("wb") as file:
        file.write(b"a" * 8000)
        file.truncate(2**40)
    result = await run("read", path="huge", start_line=2)
    assert result.is_error
    assert "use the shell" in result.content
