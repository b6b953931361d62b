import stat
from pathlib import Path

from tests.gadget_drone.tools.conftest import Run


async def test_a_new_file_and_its_directories_are_made(project: Path, run: Run) -> None:
    result = await run("write", path="a/b/c.txt", content="é\r\n")
    assert result.content == "Created a/b/c.txt: 4 bytes."
    assert (project / "a/b/c.txt").read_bytes() == "é\r\n".encode()
    assert sorted(path.name for path in (project / "a/b").iterdir()) == ["c.txt"]


async def test_a_replaced_file_keeps_its_mode(project: Path, run: Run) -> None:
    script = project / "run.sh"
    script.write_text("old")
    script.chmod(0o751)
    await run("read", path="run.sh")
    assert (await run("write", path="run.sh", content="new")).content.startswith("Replaced run.sh")
    assert script.read_text() == "new"
    assert stat.S_IMODE(script.stat().st_mode) == 0o751


async def test_a_dangling_link_becomes_a_file_unless_it_leads_out(project: Path, run: Run) -> None:
    (project / "out").symlink_to("../new.txt")
    (project / "in").symlink_to("new.txt")
    assert (await run("write", path="out", content="x")).is_error
    assert not (await run("write", path="in", content="x")).is_error
    assert not (project.parent / "new.txt").exists()
    assert not (project / "in").is_symlink()
