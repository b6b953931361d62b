import asyncio
import random
import time

import pytest

from gadget_api.errors import ErrorCode
from gadget_drone.checkpoints import CheckpointError, CheckpointLimits
from gadget_drone.checkpoints.prune import prune
from gadget_drone.checkpoints.store import Store
from gadget_drone.checkpoints.store_git import StoreGit
from tests.gadget_drone.checkpoints.conftest import Project
from tests.gadget_drone.checkpoints.test_take_and_restore import taken


async def test_the_oldest_go_when_the_store_is_too_large(project: Project) -> None:
    chance = random.Random(1)
    limits = CheckpointLimits(store_bytes=2_000_000)
    checkpoints = project.open(limits)
    ids: list[str] = []
    for _ in range(12):
        project.write("big", chance.randbytes(400_000))
        ids.append(await taken(checkpoints, ids[-1] if ids else None))
    assert await checkpoints.prune() > 0
    assert not checkpoints.wants_pruning
    assert sum(path.stat().st_size for path in project.store_dir.rglob("*") if path.is_file()) <= 2_000_000
    before = project.tree()
    project.write("big", "small")
    with pytest.raises(CheckpointError) as gone:
        await project.open().restore(ids[0], preview=False)
    assert gone.value.code is ErrorCode.CHECKPOINT_GONE
    await checkpoints.restore(ids[-1], preview=False)
    assert project.tree() == before


async def test_a_full_store_takes_nothing_until_it_is_pruned(project: Project) -> None:
    project.write("big", random.Random(1).randbytes(200_000))
    first = await taken(project.open())
    project.write("big", "small")
    await taken(project.open(), first)
    checkpoints = project.open(CheckpointLimits(store_bytes=100_000))
    with pytest.raises(CheckpointError) as full:
        await checkpoints.take("step", None)
    assert full.value.code is ErrorCode.TOO_LARGE
    assert checkpoints.wants_pruning
    assert await checkpoints.prune() == 1
    await taken(checkpoints)


async def test_the_oldest_go_by_age_and_the_newest_stays(project: Project) -> None:
    checkpoints = project.open()
    first = await taken(checkpoints)
    project.write("a.txt", "changed")
    second = await taken(checkpoints, first)
    store = Store(project.store_dir, project.dir)
    git = StoreGit(project.store_dir, project.dir)
    with store.locked(git):
        assert prune(store, git, CheckpointLimits()) == 0
        assert prune(store, git, CheckpointLimits(), now=time.time() + 31 * 24 * 3600) == 1
    assert await project.open().take("again", second) is None


async def test_pruning_makes_way(project: Project) -> None:
    checkpoints = project.open()
    first = await taken(checkpoints)
    pruning = asyncio.create_task(checkpoints.prune())
    await asyncio.sleep(0)
    assert await checkpoints.take("step 2", first) is None
    assert await pruning == 0
    assert await checkpoints.prune() == 0


async def test_damaged_checkpoints_do_not_keep_the_others_from_being_packed(project: Project) -> None:
    checkpoints = project.open()
    project.write("a.txt", "something else\n")
    first = await taken(checkpoints)
    project.write("a.txt", "two\n")
    second = await taken(checkpoints, first)
    git = StoreGit(project.store_dir, project.dir)
    lost = git.run("rev-parse", f"{first}:a.txt").decode().strip()
    (project.store_dir / "objects" / lost[:2] / lost[2:]).unlink()
    await checkpoints.prune()
    assert project.notices == ["1 checkpoints were damaged, and are gone."]
    await checkpoints.restore(second, preview=False)
    with pytest.raises(CheckpointError):
        await project.open().restore(first, preview=True)
