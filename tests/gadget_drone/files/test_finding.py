import os
from pathlib import Path

import pytest

from gadget_drone.files.scoring import best
from tests.gadget_drone.files.conftest import Room


def first(query: str, *paths: str) -> str:
    return best(paths, query, 10)[0][0]


@pytest.mark.parametrize(
    ("query", "better", "worse"),
    [
        # the file's name before a directory's
        ("loop", "agent/loop.py", "loop/agent.py"),
        ("test", "a/test.py", "test/a/b.py"),
        # letters in a row before letters far apart
        ("conf", "src/conftest.py", "src/c_o_n_other_f.py"),
        # the starts of words before their middles
        ("fr", "file_requests.py", "offer.py"),
        ("gc", "gadget_code.py", "magic.py"),
        ("fB", "src/fooBar.ts", "src/sofabed.ts"),
        # the beginning of the name, and all of it
        ("app", "gadget_code/app.py", "gadget_code/wrapper.py"),
        ("app", "app.py", "app_settings.py"),
        ("readme.md", "docs/deep/down/README.md", "readme.md.txt"),
        # the shorter path of equals
        ("index.ts", "src/index.ts", "src/pages/index.ts"),
        # a slash and several words mean the path
        ("rou/fi", "gadget_code/routes/files.py", "route_files.py"),
        ("files drone", "gadget_drone/files/requests.py", "gadget_code/routes/files_d.py"),
    ],
)
def test_the_better_fit_comes_first(query: str, better: str, worse: str) -> None:
    assert first(query, worse, better) == better
    assert first(query, better, worse) == better


def test_letters_that_are_not_there_in_order_do_not_fit() -> None:
    paths = ["abc", "acb", "cab"]
    assert best(paths, "abc", 10) == (["abc"], False)
    assert best(paths, "ABC", 10) == (["abc"], False)
    assert best(paths, "d", 10) == ([], False)
    assert best(paths, "a x", 10) == ([], False)
    assert best(paths, "", 2) == (["abc", "acb"], True)


def test_letters_that_change_their_length_harm_nothing() -> None:
    assert sorted(best(["İstanbul/İx.txt", "ßx.txt"], "x.", 10)[0]) == ["ßx.txt", "İstanbul/İx.txt"]
    assert best(["a" * 4000], "a" * 200 + "b", 10) == ([], False)


async def test_what_git_ignores_is_not_found_and_dot_files_are(room: Room) -> None:
    (room.dir / ".gitignore").write_text("build/\n")
    for path in ("src/main.py", "build/main.js", ".github/main.yml", ".git/main", ".gadget/main"):
        (room.dir / path).parent.mkdir(exist_ok=True)
        (room.dir / path).write_text("")
    Path(os.fsdecode(os.fsencode(room.dir) + b"/main\xe9")).touch()
    assert sorted(await room.find("main")) == [".github/main.yml", "src/main.py"]


async def test_what_was_made_or_renamed_here_is_found_at_once(room: Room) -> None:
    assert await room.find("new") == []
    await room.write("deep/new.txt", b"x")
    assert await room.find("new") == ["deep/new.txt"]
    await room.rename("deep/new.txt", "deep/newer.txt")
    assert await room.find("new") == ["deep/newer.txt"]
    await room.delete("deep/newer.txt")
    assert await room.find("new") == []
