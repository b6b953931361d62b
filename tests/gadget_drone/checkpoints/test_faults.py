import asyncio
import fcntl
import os
import random
import shutil
import sys
from pathlib import Path

import pytest

from gadget_api.errors import ErrorCode
from gadget_drone.checkpoints import CheckpointError, CheckpointLimits
from tests.gadget_drone.checkpoints.conftest import Project
from tests.gadget_drone.checkpoints.test_take_and_restore import taken
from tests.gadget_drone.conftest import git

SOON_S = 20.0

TAKES = """
import asyncio, sys
from pathlib import Path
from gadget_drone.checkpoints import Checkpoints

async def main(store, project):
    checkpoints = Checkpoints(store, project)
    parent, number = None, 0
    while True:
        number += 1
        for name in range(20):
            (project / f"f{name}").write_text(f"{number} {name}" * 1000)
        taken = await checkpoints.take("step", parent)
        parent = taken.checkpoint_id
        print(parent, flush=True)
        if number % 5 == 0:
            await checkpoints.restore(parent, preview=False)
        if number % 7 == 0:
            await checkpoints.prune()

asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2])))
"""


def loose_objects(store: Path) -> list[Path]:
    return [path for path in (store / "objects").glob("??/*") if path.is_file()]


async def test_killed_at_any_moment(project: Project) -> None:
    chance = random.Random(4)
    known: list[str] = []
    for _ in range(8):
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", TAKES, str(project.store_dir), str(project.dir)), stdout=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        try:
            async with asyncio.timeout(SOON_S):
                for _ in range(chance.randrange(1, 4)):
                    known.append((await process.stdout.readline()).decode().strip())
            await asyncio.sleep(chance.random() * 0.1)  # the moment is what is tried here
        finally:
            process.kill()
            await process.communicate()
        async with asyncio.timeout(SOON_S):
            checkpoints = project.open()
            before = project.tree()
            now = await taken(checkpoints)
            project.write("f0", "other")
            project.write("f99", "new")
            await checkpoints.restore(now, preview=False)
            assert project.tree() == before
            await checkpoints.restore(chance.choice(known), preview=False)
            contents = {project.tree()[b"f%d" % number][1].split(b" ")[0] for number in range(20)}
            assert len(contents) == 1  # all of one step
    assert project.notices == []


async def test_a_lock_file_that_was_left_is_no_obstacle(project: Project) -> None:
    checkpoints = project.open()
    first = await taken(checkpoints)
    (project.store_dir / "index.lock").write_bytes(b"")
    project.write("a.txt", "changed")
    await taken(checkpoints, first)
    assert project.notices == []


async def test_another_process_that_holds_the_store_is_waited_for(project: Project) -> None:
    checkpoints = project.open(CheckpointLimits(take_s=0.2))
    first = await taken(checkpoints)
    holder = os.open(project.store_dir.with_name("p1.lock"), os.O_RDWR)
    try:
        fcntl.flock(holder, fcntl.LOCK_EX)
        with pytest.raises(CheckpointError, match=r"more than 0\.2 s"):
            await checkpoints.take("step 2", first)
    finally:
        os.close(holder)
    assert await project.open().take("step 2", first) is None


@pytest.mark.parametrize("content", [b"", b"DIRC", b"garbage" * 100])
async def test_a_damaged_index_is_made_again(content: bytes, project: Project) -> None:
    checkpoints = project.open()
    first = await taken(checkpoints)
    (project.store_dir / "index").write_bytes(content)
    project.write("a.txt", "changed")
    second = await checkpoints.take("step 2", first)
    assert second is not None
    assert [file.path for file in second.files] == ["a.txt"]
    await checkpoints.restore(first, preview=False)
    assert (project.dir / "a.txt").read_text() == "one\ntwo\nthree\n"


async def test_objects_that_are_missing_are_written_again(project: Project) -> None:
    checkpoints = project.open()
    first = await taken(checkpoints)
    project.write("a.txt", "changed\n")
    await taken(checkpoints, first)
    await checkpoints.prune()
    for pack in (project.store_dir / "objects/pack").iterdir():
        pack.unlink()
    again = project.open()
    with pytest.raises(CheckpointError) as gone:
        await again.restore(first, preview=False)
    assert gone.value.code is ErrorCode.CHECKPOINT_GONE
    assert "missing" in project.notices[0]
    before = project.tree()
    second = await taken(again)
    project.write("a.txt", "more\n")
    await again.restore(second, preview=False)
    assert project.tree() == before


async def test_objects_that_a_power_cut_left_empty_are_written_again(project: Project) -> None:
    checkpoints = project.open()
    first = await taken(checkpoints)
    commit = project.store_dir / "objects" / first[:2] / first[2:]
    for path in loose_objects(project.store_dir):
        if path != commit:
            path.chmod(0o600)
            path.write_bytes(b"")
    project.write("a.txt", "changed\n")
    again = project.open()
    second = await taken(again)
    before = project.tree()
    project.write("a.txt", "more\n")
    (project.dir / "src/main.py").unlink()
    await again.restore(second, preview=False)
    assert project.tree() == before
    assert "missing" in project.notices[0]


async def test_a_store_without_objects_while_it_is_in_use(project: Project) -> None:
    checkpoints = project.open()
    first = await taken(checkpoints)
    shutil.rmtree(project.store_dir / "objects")
    project.write("a.txt", "changed")
    with pytest.raises(CheckpointError) as gone:
        await checkpoints.restore(first, preview=False)
    assert gone.value.code is ErrorCode.CHECKPOINT_GONE
    assert (project.dir / "a.txt").read_text() == "changed"
    second = await taken(checkpoints)
    project.write("a.txt", "more")
    await checkpoints.restore(second, preview=False)
    assert (project.dir / "a.txt").read_text() == "changed"


async def test_a_parent_that_is_gone_is_no_obstacle(project: Project) -> None:
    checkpoints = project.open()
    first = await taken(checkpoints)
    shutil.rmtree(project.store_dir)
    second = await project.open().take("step 2", first)
    assert second is not None
    assert (second.parent, second.files) == (None, ())


async def test_damaged_content_is_found_before_anything_is_changed(project: Project) -> None:
    checkpoints = project.open()
    first = await taken(checkpoints)
    for path in project.dir.glob("*.txt"):
        path.write_text("changed")
    project.write("src/main.py", "changed")
    before = project.tree()
    for path in loose_objects(project.store_dir):
        path.chmod(0o600)
        data = path.read_bytes()
        if len(data) < 60 and not path.name.startswith(first[2:]):
            path.write_bytes(data[: len(data) // 2])
    with pytest.raises(CheckpointError) as gone:
        await checkpoints.restore(first, preview=False)
    assert gone.value.code is ErrorCode.CHECKPOINT_GONE
    assert project.tree() == before
    second = await checkpoints.take("step 2", None)
    assert second is not None


@pytest.mark.parametrize("damage", ["file", "objects", "HEAD", "config", "gone"])
async def test_a_store_that_is_none(damage: str, project: Project) -> None:
    await taken(project.open())
    store = project.store_dir
    match damage:
        case "file":
            shutil.rmtree(store)
            store.write_text("no directory")
        case "objects":
            shutil.rmtree(store / "objects")
            (store / "objects").write_text("no directory")
        case "HEAD":
            (store / "HEAD").write_bytes(b"\0\0")
        case "config":
            (store / "config").write_bytes(b"[core\n")
        case "gone":
            shutil.rmtree(store)
    checkpoints = project.open()
    first = await taken(checkpoints)
    project.write("a.txt", "changed")
    await checkpoints.restore(first, preview=False)
    assert (project.dir / "a.txt").read_text() == "one\ntwo\nthree\n"
    if damage in ("file", "objects"):
        assert "moved to" in project.notices[0]
        assert len(list((project.workspace / ".gadget").glob("corrupt-*/p1"))) == 1


async def test_a_full_disk_is_said_and_damages_nothing(project: Project) -> None:
    first = await taken(project.open())
    project.write("a.txt", "changed")
    full = project.open(CheckpointLimits(free_bytes=2**62))
    for attempt in (full.take("step 2", first), full.restore(first, preview=False)):
        with pytest.raises(CheckpointError, match="make room"):
            await attempt
    assert (project.dir / "a.txt").read_text() == "changed"
    checkpoints = project.open()
    await taken(checkpoints, first)
    await checkpoints.restore(first, preview=False)
    assert project.notices == []


async def test_two_that_take_too_long_turn_checkpoints_off(project: Project) -> None:
    checkpoints = project.open(CheckpointLimits(first_take_s=0.0))
    with pytest.raises(CheckpointError) as slow:
        await checkpoints.take("step 1", None)
    assert (slow.value.code, slow.value.retryable, checkpoints.off) == (ErrorCode.GIT_FAILED, True, None)
    for _ in range(2):
        with pytest.raises(CheckpointError, match="Checkpoints are off") as off:
            await checkpoints.take("step 2", None)
        assert off.value.code is ErrorCode.CHECKPOINTS_OFF
    await taken(project.open())


PIPES = (
    *(".gitignore", ".gitattributes", "src/.gitignore", "src/.gitattributes"),
    *(".git/HEAD", ".git/index", ".git/info/exclude", "nested/.git/HEAD"),
)


@pytest.mark.parametrize("path", PIPES)
async def test_a_named_pipe_holds_no_checkpoint_up(path: str, project: Project) -> None:
    git(project.dir, "init", "-q", "nested")
    git(project.dir / "nested", "commit", "-q", "--allow-empty", "-m", "First")
    first = await taken(project.open())
    before = project.tree()
    pipe = project.dir / path
    pipe.unlink(missing_ok=True)
    os.mkfifo(pipe)
    project.write("a.txt", "changed")
    checkpoints = project.open(CheckpointLimits(take_s=SOON_S, first_take_s=SOON_S, diff_s=SOON_S, restore_s=SOON_S))
    second = await taken(checkpoints, first)
    project.write("a.txt", "changed again")
    assert "a.txt" in [file.path for file in (await checkpoints.diff(second, None)).files]
    await checkpoints.diff(None, None)
    await checkpoints.restore(first, preview=False)
    if pipe.is_fifo():
        pipe.unlink()
    kept = {name: found for name, found in project.tree().items() if not name.startswith(b"nested/")}
    kept.pop(path.encode(), None)
    assert kept.items() <= before.items()
    assert kept[b"a.txt"] == before[b"a.txt"]
    assert project.notices in ([], [f"Git waits for a named pipe, and takes it for an empty file: remove {pipe}."])


async def test_a_named_pipe_that_is_kept_open_is_named_and_turns_nothing_off(project: Project) -> None:
    checkpoints = project.open()
    await taken(checkpoints)
    os.mkfifo(project.dir / "src/.gitattributes")
    kept = os.open(project.dir / "src/.gitattributes", os.O_RDWR)
    try:
        project.write("src/main.py", "changed")
        checkpoints = project.open(CheckpointLimits(take_s=3.0))
        for _ in range(3):
            with pytest.raises(CheckpointError, match=r"remove .*src/\.gitattributes\."):
                await checkpoints.take("step", None)
            assert checkpoints.off is None
    finally:
        os.close(kept)
    os.unlink(project.dir / "src/.gitattributes")
    await taken(checkpoints)


async def test_a_cancelled_take_ends_and_the_next_one_works(project: Project) -> None:
    for number in range(3000):
        project.write(f"many/{number % 50}/{number}", f"{number}\n" * 100)
    checkpoints = project.open()
    for moment_s in (0.0, 0.02, 0.1):
        work = asyncio.create_task(checkpoints.take("step 1", None))
        await asyncio.wait({work}, timeout=moment_s)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
    async with asyncio.timeout(SOON_S):
        before = project.tree()
        first = await taken(checkpoints)
        shutil.rmtree(project.dir / "many")
        await checkpoints.restore(first, preview=False)
    assert project.tree() == before


async def test_the_event_loop_goes_on_meanwhile(project: Project) -> None:
    for number in range(2000):
        project.write(f"many/{number}")
    loop = asyncio.get_running_loop()
    lags: list[float] = []

    async def measure() -> None:
        while True:
            began = loop.time()
            await asyncio.sleep(0.001)
            lags.append(loop.time() - began)

    measuring = asyncio.create_task(measure())
    await taken(project.open())
    measuring.cancel()
    assert len(lags) > 5
    assert max(lags) < 1.0


async def test_two_at_once_are_one_after_another(project: Project) -> None:
    checkpoints = project.open()
    first, again = await asyncio.gather(checkpoints.take("one", None), checkpoints.take("two", None))
    assert first is not None
    assert again is not None
    project.write("a.txt", "changed")
    await checkpoints.restore(first.checkpoint_id, preview=False)


async def test_a_file_that_cannot_be_written_is_told(project: Project) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write everything")
    checkpoints = project.open()
    first = await taken(checkpoints)
    project.write("src/main.py", "changed")
    (project.dir / "src").chmod(0o500)
    try:
        done = await checkpoints.restore(first, preview=False)
    finally:
        (project.dir / "src").chmod(0o700)
    assert [left.path for left in done.left_alone] == ["src/main.py"]
