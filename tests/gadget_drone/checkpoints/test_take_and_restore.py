import os
import stat
from pathlib import Path

import pytest

from gadget_api.errors import ErrorCode
from gadget_drone.checkpoints import CheckpointError, CheckpointLimits, Checkpoints
from tests.gadget_drone.checkpoints.conftest import Project, digest
from tests.gadget_drone.conftest import git


async def taken(checkpoints: Checkpoints, parent: str | None = None, label: str = "step 1") -> str:
    checkpoint = await checkpoints.take(label, parent)
    assert checkpoint is not None
    return checkpoint.checkpoint_id


async def test_nothing_is_taken_when_nothing_changed_and_one_process_sees_it(project: Project) -> None:
    checkpoints = project.open()
    first = await taken(checkpoints)
    assert await checkpoints.take("step 2", first) is None
    assert await checkpoints.take("step 3", first) is None
    assert checkpoints.processes == 1
    again = project.open()
    assert await again.take("step 4", first) is None


async def test_a_change_costs_four_processes_and_is_listed(project: Project) -> None:
    checkpoints = project.open()
    first = await taken(checkpoints)
    project.write("a.txt", "one\n2\nthree\n")
    project.write("new.txt", "n\n")
    (project.dir / "src/main.py").rename(project.dir / "src/hello.py")
    second = await checkpoints.take("step 2", first)
    assert second is not None
    assert checkpoints.processes <= 4
    assert second.parent == first
    assert [(f.path, f.old_path, f.status, f.added, f.removed) for f in second.files] == [
        ("a.txt", None, "modified", 1, 1),
        ("new.txt", None, "added", 1, 0),
        ("src/hello.py", "src/main.py", "renamed", 0, 0),
    ]
    assert second.file_count == 3


async def test_back_and_forth(project: Project) -> None:
    checkpoints = project.open()
    before = project.tree()
    first = await taken(checkpoints)
    project.write("a.txt", "changed\n")
    project.write("deep/er/new.txt")
    (project.dir / "src/main.py").unlink()
    after = project.tree()
    preview = await checkpoints.restore(first, preview=True)
    assert project.tree() == after
    assert preview.redo is None
    done = await checkpoints.restore(first, preview=False)
    assert project.tree() == before
    assert (done.files, done.file_count, done.left_alone) == (preview.files, preview.file_count, [])
    assert [(f.path, f.status) for f in done.files] == [
        ("a.txt", "modified"),
        ("deep/er/new.txt", "deleted"),
        ("src/main.py", "added"),
    ]
    assert not (project.dir / "deep").exists()
    assert done.redo is not None
    await checkpoints.restore(done.redo, preview=False)
    assert project.tree() == after


async def test_nothing_to_restore_makes_no_checkpoint(project: Project) -> None:
    checkpoints = project.open()
    first = await taken(checkpoints)
    done = await checkpoints.restore(first, preview=False)
    assert (done.files, done.file_count, done.redo) == ([], 0, None)


async def test_the_users_git_is_not_touched(project: Project) -> None:
    project.write("staged.txt")
    git(project.dir, "add", "staged.txt")
    before = digest(project.dir / ".git")
    checkpoints = project.open()
    first = await taken(checkpoints)
    project.write("a.txt", "changed\n")
    await taken(checkpoints, first)
    await checkpoints.diff(None, None)
    await checkpoints.restore(first, preview=True)
    await checkpoints.restore(first, preview=False)
    await checkpoints.prune()
    assert digest(project.dir / ".git") == before


async def test_bytes_come_back_whatever_the_attributes_say(project: Project, tmp_path: Path) -> None:
    pwned = tmp_path / "pwned"
    git(project.dir, "config", "filter.evil.clean", f"touch {pwned}")
    git(project.dir, "config", "filter.evil.smudge", f"touch {pwned}")
    git(project.dir, "config", "core.autocrlf", "true")
    git(project.dir, "config", "core.fsmonitor", f"touch {pwned}")
    hostile = "* text eol=crlf ident filter=evil working-tree-encoding=UTF-16 diff=evil merge=evil\n"
    project.write(".gitattributes", hostile)
    project.write("sub/.gitattributes", "* text=auto filter=lfs diff=lfs merge=lfs -text\n")
    for number, content in enumerate([b"a\r\nb\n\r", b"$Id$\n$Id: 1$", b"\xff\xfe\0", b"", b"no newline", b"\r" * 99]):
        project.write(f"f{number}", content)
        project.write(f"sub/f{number}", content)
    checkpoints = project.open()
    before = project.tree()
    first = await taken(checkpoints)
    for path in project.dir.rglob("f[0-9]"):
        path.write_bytes(b"other\r\n")
    (project.dir / ".gitattributes").unlink()
    await taken(checkpoints, first)
    await checkpoints.diff(first, None)
    await checkpoints.restore(first, preview=False)
    assert project.tree() == before
    assert not pwned.exists()


async def test_names_modes_and_links(project: Project) -> None:
    names = [
        b"new\nline",
        b'quo"te\t',
        "ünï 雪".encode(),
        b"\xff\xfe",
        b"-dash",
        b":(glob)*",
        b"Case",
        b"case",
        b"git~1",
    ]
    for name in names:
        project.write(os.fsdecode(name), name)
    project.write("run.sh", "#!/bin/sh\n").chmod(0o755)
    (project.dir / "link").symlink_to("/nowhere/at all")
    (project.dir / "dirlink").symlink_to("src")
    checkpoints = project.open()
    before = project.tree()
    first = await taken(checkpoints)
    for name in names:
        os.unlink(os.path.join(os.fsencode(project.dir), name))
    (project.dir / "run.sh").chmod(0o644)
    (project.dir / "link").unlink()
    (project.dir / "link").mkdir()
    project.write("link/file")
    (project.dir / "dirlink").unlink()
    project.write("dirlink", "a file")
    second = await checkpoints.take("step 2", first)
    assert second is not None
    statuses = {file.path: file.status for file in second.files}
    assert statuses["dirlink"] == "typeChanged"
    assert statuses["run.sh"] == "modified"
    after = project.tree()
    done = await checkpoints.restore(first, preview=False)
    assert done.left_alone == []
    assert project.tree() == before
    assert done.redo is not None
    await checkpoints.restore(done.redo, preview=False)
    assert project.tree() == after


async def test_who_may_read_a_file_stays(project: Project) -> None:
    secret = project.write("secret.txt", "one")
    secret.chmod(0o600)
    checkpoints = project.open()
    first = await taken(checkpoints)
    secret.write_text("two")
    await checkpoints.restore(first, preview=False)
    assert (secret.read_text(), stat.S_IMODE(secret.stat().st_mode)) == ("one", 0o600)


async def test_ignored_files_are_neither_taken_nor_touched(project: Project, home: Path) -> None:
    excludes = home / "excludes"
    excludes.write_text("*.global\n")
    git(project.dir, "config", "--global", "core.excludesFile", str(excludes))
    (project.dir / ".git/info/exclude").write_text("*.local\n")
    checkpoints = project.open()
    first = await taken(checkpoints)
    for name in ("x.log", "build/out", "x.global", "x.local"):
        project.write(name)
    assert await checkpoints.take("step 2", first) is None
    project.write("a.txt", "changed")
    await checkpoints.restore(first, preview=False)
    assert {b"x.log", b"build/out", b"x.global", b"x.local"} <= project.tree().keys()


async def test_what_git_tracks_although_it_is_ignored_is_taken(project: Project) -> None:
    project.write("kept.log", "one\n")
    git(project.dir, "add", "-f", "kept.log")
    checkpoints = project.open()
    first = await taken(checkpoints)
    project.write("kept.log", "two\n")
    await checkpoints.restore(first, preview=False)
    assert (project.dir / "kept.log").read_text() == "one\n"


async def test_a_file_that_was_ignored_then_is_not_deleted(project: Project) -> None:
    checkpoints = project.open()
    project.write("x.log", "precious")
    first = await taken(checkpoints)
    project.write(".gitignore", "")
    preview = await checkpoints.restore(first, preview=True)
    done = await checkpoints.restore(first, preview=False)
    assert (project.dir / "x.log").read_text() == "precious"
    assert [left.path for left in preview.left_alone] == [left.path for left in done.left_alone] == ["x.log"]
    assert [file.path for file in done.files] == [file.path for file in preview.files] == [".gitignore"]


async def test_an_ignored_file_in_the_place_of_one_that_was_is_left_alone(project: Project) -> None:
    checkpoints = project.open()
    project.write("out", "then")
    first = await taken(checkpoints)
    (project.dir / "out").unlink()
    project.write(".gitignore", "out\nsrc2/\n")
    await taken(checkpoints, first)
    project.write("out", "ignored, and newer")
    done = await checkpoints.restore(first, preview=False)
    # It is known since the first checkpoint's rules show it again, so its content is in the redo.
    assert (project.dir / "out").read_text() == "ignored, and newer"
    assert [left.path for left in done.left_alone] == ["out"]


async def test_large_files_are_left_out_and_left_alone(project: Project) -> None:
    limits = CheckpointLimits(file_bytes=1000)
    checkpoints = project.open(limits)
    project.write("grows", "small")
    project.write("was large", "x" * 2000)
    first = await taken(checkpoints)
    assert [(left.path, "MiB" in left.reason) for left in checkpoints.skipped] == [("was large", True)]
    project.write("grows", "y" * 3000)
    project.write("was large", "small now")
    project.write("comes large", "z" * 2000)
    second = await taken(checkpoints, first)
    assert {left.path for left in checkpoints.skipped} == {"grows", "comes large"}
    done = await checkpoints.restore(first, preview=False)
    assert {left.path for left in done.left_alone} == {"grows", "was large"}
    assert (project.dir / "grows").read_text() == "y" * 3000
    assert (project.dir / "was large").read_text() == "small now"
    assert (project.dir / "comes large").exists()
    # What one side has not looked at has neither come nor gone.
    assert (await checkpoints.diff(first, second)).file_count == 0


async def test_repositories_within_are_left_alone(project: Project) -> None:
    inner = project.dir / "vendor" / "inner"
    inner.mkdir(parents=True)
    git(inner, "init", "-q")
    fresh = project.dir / "fresh"
    fresh.mkdir()
    git(fresh, "init", "-q")
    (fresh / "uncommitted").write_text("x")
    (inner / "file").write_text("one")
    git(inner, "add", ".")
    git(inner, "commit", "-q", "-m", "Inner")
    project.write("vendor/plain.txt", "one")
    checkpoints = project.open()
    first = await taken(checkpoints)
    assert [left.path for left in checkpoints.skipped] == ["fresh/", "vendor/inner/"]
    (inner / "file").write_text("two")
    project.write("vendor/plain.txt", "two")
    before = digest(inner)
    await checkpoints.restore(first, preview=False)
    assert digest(inner) == before
    assert (project.dir / "vendor/plain.txt").read_text() == "one"
    assert (fresh / "uncommitted").exists()


async def test_a_submodule_is_left_alone(project: Project, origin: Path) -> None:
    git(project.dir, "submodule", "add", "-q", str(origin), "sub")
    checkpoints = project.open()
    first = await taken(checkpoints)
    (project.dir / "sub/hello.txt").write_text("changed")
    project.write("a.txt", "changed")
    before = digest(project.dir / ".git")
    diff = await checkpoints.diff(None, None)
    assert "sub" not in {file.path for file in diff.files}
    await checkpoints.restore(first, preview=False)
    assert (project.dir / "sub/hello.txt").read_text() == "changed"
    assert digest(project.dir / ".git") == before


async def test_a_repository_in_the_place_of_a_file_stays(project: Project) -> None:
    project.write("thing", "a file")
    checkpoints = project.open()
    first = await taken(checkpoints)
    (project.dir / "thing").unlink()
    (project.dir / "thing").mkdir()
    git(project.dir / "thing", "init", "-q")
    before = digest(project.dir / "thing")
    done = await checkpoints.restore(first, preview=False)
    assert [left.path for left in done.left_alone] == ["thing"]
    assert digest(project.dir / "thing") == before


async def test_a_symlink_leads_nothing_out(project: Project, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x.txt").write_text("theirs")
    project.write("folder/x.txt", "ours")
    project.write("folder/y.txt", "ours")
    checkpoints = project.open()
    first = await taken(checkpoints)
    project.write(".gitignore", "folder\n")
    await taken(checkpoints, first)
    for path in (project.dir / "folder").iterdir():
        path.unlink()
    (project.dir / "folder").rmdir()
    (project.dir / "folder").symlink_to(outside)
    done = await checkpoints.restore(first, preview=False)
    assert [(path.name, path.read_text()) for path in outside.iterdir()] == [("x.txt", "theirs")]
    assert [left.path for left in done.left_alone] == ["folder/x.txt", "folder/y.txt"]


async def test_a_project_without_git_has_checkpoints(tmp_path: Path) -> None:
    directory = tmp_path / "ws" / "plain"
    directory.mkdir(parents=True)
    project = Project(tmp_path / "ws", directory)
    project.write("a", "one")
    checkpoints = project.open()
    first = await taken(checkpoints)
    project.write("a", "two")
    assert [file.path for file in (await checkpoints.diff(None, None)).files] == ["a"]
    await checkpoints.restore(first, preview=False)
    assert (directory / "a").read_text() == "one"


async def test_the_workspace_itself_may_be_the_project(tmp_path: Path) -> None:
    project = Project(tmp_path, tmp_path)
    git(tmp_path, "init", "-q")
    project.write("a", "one")
    project.write(".gadget/workspace.json", "{}")
    checkpoints = project.open()
    first = await taken(checkpoints)
    assert await checkpoints.take("step 2", first) is None
    project.write("a", "two")
    project.write(".gadget/workspace.json", "{1}")
    done = await checkpoints.restore(first, preview=False)
    assert [file.path for file in done.files] == ["a"]
    assert (tmp_path / ".gadget/workspace.json").read_text() == "{1}"


async def test_a_repository_of_sha256(tmp_path: Path) -> None:
    project = Project(tmp_path / "ws", tmp_path / "ws" / "new")
    project.dir.mkdir(parents=True)
    git(project.dir, "init", "-q", "--object-format=sha256")
    project.write("a", "one\n")
    git(project.dir, "add", ".")
    git(project.dir, "commit", "-q", "-m", "First")
    checkpoints = project.open()
    first = await taken(checkpoints)
    assert len(first) == 64
    project.write("a", "two\n")
    assert [(f.path, f.added) for f in (await checkpoints.diff(None, None)).files] == [("a", 1)]
    await checkpoints.restore(first, preview=False)
    assert (project.dir / "a").read_text() == "one\n"


@pytest.mark.parametrize("place", ["/", "~", "~/..", "/usr", "around"])
async def test_places_that_are_refused(place: str, tmp_path: Path) -> None:
    store = tmp_path / "ws" / ".gadget" / "checkpoints" / "p1"
    directory = tmp_path if place == "around" else Path(place).expanduser()
    checkpoints = Checkpoints(store, directory)
    assert checkpoints.off is not None
    with pytest.raises(CheckpointError, match="directory of the project's own") as refused:
        await checkpoints.take("step 1", None)
    assert refused.value.code is ErrorCode.CHECKPOINTS_OFF
    assert not store.exists()


async def test_limits_are_told_with_the_way_out(project: Project) -> None:
    checkpoints = project.open(CheckpointLimits(new_bytes=1000, files=20))
    first = await taken(checkpoints)
    for number in range(5):
        project.write(f"made/{number}", "x" * 500)
    with pytest.raises(CheckpointError, match=r"\.gitignore; most is in 'made'") as too_large:
        await checkpoints.take("step 2", first)
    assert too_large.value.code is ErrorCode.TOO_LARGE
    for number in range(20):
        project.write(f"made/{number}", "")
    with pytest.raises(CheckpointError, match="20 may be"):
        await checkpoints.take("step 3", first)
    project.write(".gitignore", "made/\n")
    await taken(checkpoints, first)


async def test_an_unknown_checkpoint_is_gone(project: Project) -> None:
    checkpoints = project.open()
    for _ in range(2):
        with pytest.raises(CheckpointError) as gone:
            await checkpoints.restore("0" * 40, preview=False)
        assert gone.value.code is ErrorCode.CHECKPOINT_GONE
        await taken(checkpoints)
    with pytest.raises(CheckpointError):
        await checkpoints.diff("0" * 40, None)
