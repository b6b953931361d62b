from gadget_drone.checkpoints.compare import MAX_DIFF_BYTES, MAX_FILE_DIFF_BYTES
from tests.gadget_drone.checkpoints.conftest import Project, digest
from tests.gadget_drone.checkpoints.test_take_and_restore import taken
from tests.gadget_drone.conftest import git


async def test_the_diff_of_each_kind_of_change(project: Project) -> None:
    project.write("bin", b"\0\1\2")
    project.write("long.txt", "".join(f"line {number}\n" for number in range(50)))
    project.write("kind", "text\n")
    checkpoints = project.open()
    first = await taken(checkpoints)
    project.write("a.txt", "one\n2\nthree\n")
    project.write("bin", b"\0\1\3")
    project.write("née.txt", "neu\n")
    (project.dir / "long.txt").rename(project.dir / "moved.txt")
    (project.dir / "src/main.py").unlink()
    (project.dir / "kind").unlink()
    (project.dir / "kind").symlink_to("a.txt")
    (project.dir / ".gitignore").chmod(0o755)
    second = await taken(checkpoints, first)
    diff = await checkpoints.diff(first, second)
    files = {file.path: file for file in diff.files}
    assert {path: (file.status, file.added, file.removed) for path, file in files.items()} == {
        ".gitignore": ("modified", 0, 0),
        "a.txt": ("modified", 1, 1),
        "bin": ("modified", None, None),
        "kind": ("typeChanged", 1, 1),
        "moved.txt": ("renamed", 0, 0),
        "née.txt": ("added", 1, 0),
        "src/main.py": ("deleted", 0, 1),
    }
    assert files["moved.txt"].old_path == "long.txt"
    assert files["bin"].diff is None
    assert not files["bin"].truncated
    text = files["a.txt"].diff
    assert text is not None
    assert "@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n" in text
    assert "+neu\n" in (files["née.txt"].diff or "")
    assert "deleted file mode" in (files["kind"].diff or "")
    assert "new file mode 120000" in (files["kind"].diff or "")
    assert "new mode 100755" in (files[".gitignore"].diff or "")
    assert (diff.file_count, diff.truncated) == (7, False)
    assert (await checkpoints.diff(first, None)) == diff
    files_alone, count = await checkpoints.changes(first, second)
    assert ([file.path for file in files_alone], count) == (sorted(files), 7)
    assert (await checkpoints.diff(second, second)).files == ()


async def test_large_diffs_are_left_out_whole(project: Project) -> None:
    checkpoints = project.open()
    first = await taken(checkpoints)
    project.write("0 too long", "x" * 79 + "\n" * MAX_FILE_DIFF_BYTES)
    for number in range(10):
        project.write(f"1 part {number}", ("y" * 79 + "\n") * 1100)
    project.write("2 last", "z\n")
    diff = await checkpoints.diff(first, None)
    shown = [file for file in diff.files if file.diff is not None]
    assert sum(len(file.diff or "") for file in shown) <= MAX_DIFF_BYTES
    assert [file.path for file in shown] == [f"1 part {number}" for number in range(6)]
    assert all(file.truncated for file in diff.files if file.diff is None)
    assert (diff.file_count, diff.truncated) == (12, True)
    assert diff.files[0].added == MAX_FILE_DIFF_BYTES


async def test_a_diff_against_the_users_head_copies_nothing(project: Project) -> None:
    git(project.dir, "gc", "-q")
    before = digest(project.dir / ".git")
    project.write("a.txt", "one\n")
    checkpoints = project.open()
    first = await taken(checkpoints)
    diff = await checkpoints.diff(None, first)
    assert [(file.path, file.status, file.removed) for file in diff.files] == [("a.txt", "modified", 2)]
    assert (await checkpoints.diff(None, None)) == diff
    assert digest(project.dir / ".git") == before


async def test_what_the_users_git_removes_is_not_missed(project: Project) -> None:
    tree = project.tree()
    checkpoints = project.open()
    first = await taken(checkpoints)
    await checkpoints.diff(None, first)
    # Everything that was committed goes, objects and all.
    git(project.dir, "checkout", "-q", "--orphan", "other")
    git(project.dir, "rm", "-rfq", ".")
    git(project.dir, "commit", "-q", "--allow-empty", "-m", "Empty")
    git(project.dir, "branch", "-D", "main")
    git(project.dir, "reflog", "expire", "--expire=now", "--all")
    git(project.dir, "gc", "-q", "--prune=now")
    assert project.tree() == {}
    again = project.open()
    await again.restore(first, preview=False)
    assert project.tree() == tree
    assert {file.status for file in (await again.diff(None, None)).files} == {"added"}
    assert project.notices == []


async def test_a_repository_without_a_commit_is_compared_with_nothing(project: Project) -> None:
    git(project.dir, "checkout", "-q", "--orphan", "other")
    diff = await project.open().diff(None, None)
    assert {file.status for file in diff.files} == {"added"}
