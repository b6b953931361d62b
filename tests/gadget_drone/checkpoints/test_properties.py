"""Whatever is done to the files between checkpoints, each checkpoint brings back the exact tree of its moment."""

import asyncio
import os
import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.gadget_drone.checkpoints.conftest import Project, digest, make_project

NAMES = st.sampled_from([b"a", b"b", b"A", b"new\nline", b"\xc3\xa9", b"\xff", b"d", b" ", b"-x", b"*"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(b"/".join)
CONTENTS = st.sampled_from([b"", b"x", b"y", b"x\r\ny\r\n", b"$Id$\n", b"\0\1", b"long\n" * 500])

OPERATIONS = st.one_of(
    st.tuples(st.just("write"), PATHS, CONTENTS),
    st.tuples(st.just("delete"), PATHS, st.none()),
    st.tuples(st.just("rename"), PATHS, PATHS),
    st.tuples(st.just("chmod"), PATHS, st.booleans()),
    st.tuples(st.just("symlink"), PATHS, st.sampled_from([b"a", b"../b", b"/nowhere", b"d"])),
    st.tuples(st.just("take"), st.none(), st.none()),
    st.tuples(st.just("back"), st.integers(0, 9), st.none()),
)


def clear(path: bytes) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)


def make_room(root: bytes, path: bytes) -> bytes:
    """Where `path` is, nothing being there, and its directories made of whatever was in their place."""
    at = root
    for name in path.split(b"/")[:-1]:
        at = os.path.join(at, name)
        if os.path.islink(at) or not os.path.isdir(at):
            clear(at)
            os.mkdir(at)
    clear(os.path.join(root, path))
    return os.path.join(root, path)


def is_below_a_link(root: bytes, path: bytes) -> bool:
    parts = path.split(b"/")
    return any(os.path.islink(os.path.join(root, *parts[:end])) for end in range(1, len(parts)))


def operate(root: bytes, kind: str, path: bytes, value: bytes | bool | None) -> None:
    full = os.path.join(root, path)
    if kind == "write":
        assert isinstance(value, bytes)
        with open(make_room(root, path), "wb") as file:
            file.write(value)
    elif kind == "symlink":
        assert isinstance(value, bytes)
        os.symlink(value, make_room(root, path))
    elif not os.path.lexists(full) or is_below_a_link(root, path):
        return
    elif kind == "delete":
        clear(full)
    elif kind == "chmod":
        if os.path.isfile(full) and not os.path.islink(full):
            os.chmod(full, 0o755 if value else 0o644)
    elif kind == "rename":
        assert isinstance(value, bytes)
        if not (value + b"/").startswith(path + b"/") and not (path + b"/").startswith(value + b"/"):
            os.rename(full, make_room(root, value))


async def run(project: Project, operations: list[tuple[str, bytes, bytes | bool | None]]) -> None:
    root = os.fsencode(project.dir)
    checkpoints = project.open()
    moments = []
    last: str | None = None
    before = digest(project.dir / ".git")
    for kind, path, value in [*operations, ("take", b"", None)]:
        if kind == "take":
            taken = await checkpoints.take("step", last)
            if taken is not None:
                last = taken.checkpoint_id
                moments.append((last, project.tree()))
            else:
                assert project.tree() == dict(moments)[last or ""]
        elif kind == "back" and moments:
            checkpoint, tree = moments[int(path) % len(moments)]
            now = project.tree()
            done = await checkpoints.restore(checkpoint, preview=False)
            assert project.tree() == tree
            assert done.left_alone == []
            assert (done.redo is None) == (now == tree)
            if done.redo is not None:
                moments.append((done.redo, now))
        elif kind != "back":
            operate(root, kind, path, value)
    for checkpoint, tree in moments:
        now = project.tree()
        preview = await checkpoints.restore(checkpoint, preview=True)
        assert project.tree() == now
        done = await checkpoints.restore(checkpoint, preview=False)
        assert project.tree() == tree
        assert (done.files, done.file_count) == (preview.files, preview.file_count)
        if done.redo is not None:
            await checkpoints.restore(done.redo, preview=False)
            assert project.tree() == now
    assert digest(project.dir / ".git") == before
    assert project.notices == []


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(OPERATIONS, min_size=3, max_size=20))
def test_every_moment_comes_back(operations: list[tuple[str, bytes, bytes | bool | None]]) -> None:
    place = Path(tempfile.mkdtemp())
    try:
        asyncio.run(run(make_project(place / "ws"), operations))
    finally:
        shutil.rmtree(place)
