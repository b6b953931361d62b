"""The tool `git`, in real repositories; the hostile ones would leave a file `pwned` behind."""

import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gadget_api.messages import ToolCallRequest
from gadget_drone.tools.tool import ToolContext
from gadget_drone.tools.toolbox import Toolbox
from tests.gadget_drone.tools.conftest import Run


def git(repository: Path, *words: str, **env: str) -> str:
    environment = {"PATH": os.environ["PATH"], "HOME": str(repository.parent), "GIT_CONFIG_NOSYSTEM": "1"} | env
    command = ["git", "-c", "user.name=Ada", "-c", "user.email=ada@example.org", *words]
    ran = subprocess.run(command, cwd=repository, env=environment, capture_output=True, text=True, timeout=30)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user with an own, empty configuration."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    (tmp_path / ".gitconfig").write_text("[user]\nname = Ada\nemail = ada@example.org\n[init]\ndefaultBranch = main\n")
    return tmp_path


@pytest.fixture
def project(tmp_path: Path, home: Path) -> Path:
    """Two commits on `main`."""
    project = tmp_path / "project"
    project.mkdir()
    git(project, "init", "-q", "-b", "main")
    (project / "a.txt").write_text("one\n")
    (project / ".env").write_text("KEY=1\n")
    git(project, "add", ".")
    git(project, "commit", "-qm", "First")
    (project / "a.txt").write_text("one\ntwo\n")
    git(project, "commit", "-qam", "Second")
    return project


async def ok(run: Run, **params: Any) -> str:
    result = await run("git", **params)
    assert not result.is_error, result.content
    return result.content


async def refused(run: Run, **params: Any) -> str:
    result = await run("git", **params)
    assert result.is_error, result.content
    return result.content


async def test_status(project: Path, run: Run) -> None:
    assert await ok(run, action="status") == "## main\n[clean]"
    (project / "a.txt").write_text("changed\n")
    (project / "new é.txt").touch()
    assert await ok(run, action="status") == '## main\n M a.txt\n?? "new é.txt"'
    assert await ok(run, action="status", paths=["a.txt"]) == "## main\n M a.txt"


async def test_diff_of_work_tree_index_and_commits(project: Path, run: Run) -> None:
    assert await ok(run, action="diff") == "No differences."
    (project / "a.txt").write_text("one\ntwo\nthree\n")
    assert "\n+three\n" in await ok(run, action="diff")
    assert await ok(run, action="diff", staged=True) == "No differences."
    git(project, "add", "a.txt")
    assert await ok(run, action="diff") == "No differences."
    assert "\n+three\n" in await ok(run, action="diff", staged=True)
    assert "\n+two\n+three\n" in await ok(run, action="diff", ref="HEAD~1")
    for between in ("HEAD~1..HEAD", "HEAD~1..", "HEAD~1...main"):
        diff = await ok(run, action="diff", ref=between)
        assert "\n+two\n" in diff
        assert "three" not in diff
    assert await ok(run, action="diff", ref="HEAD~1..HEAD", paths=[".env"]) == "No differences."


async def test_log_show_and_blame(project: Path, run: Run) -> None:
    log = (await ok(run, action="log")).splitlines()
    assert [line.rpartition(" ")[2] for line in log] == ["Second", "First"]
    assert " Ada (HEAD -> main) Second" in log[0]
    assert len((await ok(run, action="log", max_count=1)).splitlines()) == 1
    assert (await ok(run, action="log", paths=[".env"])).endswith(" First\n")
    assert (await ok(run, action="log", ref="HEAD~1..")).endswith(" Second\n")
    shown = await ok(run, action="show")
    assert "Second" in shown
    assert "\n+two" in shown
    assert await ok(run, action="show", ref="HEAD~1:a.txt") == "one\n"
    assert "two" in (await ok(run, action="blame", paths=["a.txt"])).splitlines()[1]
    assert len((await ok(run, action="blame", paths=["a.txt"], ref="HEAD~1")).splitlines()) == 1


async def test_commit_takes_paths_everything_or_what_is_staged(project: Path, run: Run) -> None:
    for name in ("a.txt", "b.txt", "c.txt", "d.txt"):
        (project / name).write_text("new\n")
    git(project, "add", "d.txt")
    message = "Add b\n\n# not a comment: $(touch pwned)"
    assert "Add b" in await ok(run, action="commit", message=message, paths=["b.txt"])
    assert git(project, "show", "--format=%B%an <%ae>", "--name-only").splitlines() == [
        *message.splitlines(),
        "Ada <ada@example.org>",
        "",
        "b.txt",
    ]
    await ok(run, action="commit", message="Add d")
    assert git(project, "show", "--format=", "--name-only") == "d.txt"
    (project / "b.txt").unlink()
    (project / ".gadget").mkdir()
    (project / ".gadget/key").touch()
    await ok(run, action="commit", message="All", all=True)
    assert git(project, "show", "--format=", "--name-status", "--no-renames").splitlines() == [
        "M\ta.txt",
        "D\tb.txt",
        "A\tc.txt",
    ]
    assert not (project / "pwned").exists()
    said = await refused(run, action="commit", message="None", paths=["a.txt"])
    assert "Nothing was committed" in said


async def test_a_commit_that_is_none_is_refused(project: Path, run: Run) -> None:
    (project / "a.txt").write_text("x\n")
    assert "needs a message" in await refused(run, action="commit", message=" \n")
    assert "not both" in await refused(run, action="commit", message="x", paths=["a.txt"], all=True)
    assert "did not match" in await refused(run, action="commit", message="x", paths=["absent"])
    assert "outside repository" in await refused(run, action="commit", message="x", paths=["../x"])
    assert "give paths or all" in await refused(run, action="commit", message="x")
    assert git(project, "rev-list", "--count", "HEAD") == "2"


async def test_patterns_in_paths_are_names(project: Path, run: Run) -> None:
    for name in ("*.txt", ":(glob)x", "-x"):
        (project / name).write_text("odd\n")
        await ok(run, action="commit", message=f"Add {name}", paths=[name])
        assert git(project, "show", "--format=", "--name-only") == name
    (project / "a.txt").write_text("changed\n")
    assert await ok(run, action="diff", paths=["*.txt"]) == "No differences."


async def test_who_commits_without_a_name_is_gadget(project: Path, home: Path, run: Run) -> None:
    (home / ".gitconfig").unlink()
    (project / "a.txt").write_text("x\n")
    await ok(run, action="commit", message="x", all=True)
    assert git(project, "log", "-1", "--format=%an <%ae> %cn") == "Gadget <gadget@localhost> Gadget"


async def test_while_a_merge_is_in_progress_nothing_is_committed(project: Path, run: Run) -> None:
    git(project, "switch", "-qc", "other", "HEAD~1")
    (project / "a.txt").write_text("else\n")
    git(project, "commit", "-qam", "Else")
    with pytest.raises(AssertionError):
        git(project, "merge", "main")
    assert "[a merge is in progress]" in await ok(run, action="status")
    said = await refused(run, action="commit", message="x", all=True)
    assert said.startswith("A merge is in progress: finish it")
    git(project, "merge", "--abort")
    with pytest.raises(AssertionError):
        git(project, "rebase", "main")
    assert (await refused(run, action="commit", message="x", all=True)).startswith("A rebase is in progress")


async def test_branches_are_listed_made_and_switched_to(project: Path, run: Run) -> None:
    assert "Made the branch feature/x" in await ok(run, action="branch", name="feature/x", ref="HEAD~1")
    assert git(project, "branch", "--show-current") == "main"
    assert await ok(run, action="switch", name="feature/x") == "On the branch feature/x."
    assert (project / "a.txt").read_text() == "one\n"
    listed = await ok(run, action="branch")
    assert "* feature/x" in listed
    assert "  main" in listed
    assert "already exists" in await refused(run, action="branch", name="main")
    assert "invalid reference" in await refused(run, action="switch", name="absent")
    (project / "a.txt").write_text("mine\n")
    assert "would be overwritten" in await refused(run, action="switch", name="main")
    assert (project / "a.txt").read_text() == "mine\n"


@pytest.mark.parametrize(
    "ref",
    ["--output=pwned", "-c", "--", "", " ", "absent", "HEAD --output=pwned", "HEAD\n--output=pwned", "a..--output=x"],
)
@pytest.mark.parametrize("action", ["diff", "log", "show", "blame", "branch"])
async def test_no_ref_is_an_option(action: str, ref: str, project: Path, run: Run) -> None:
    extra = {"paths": ["a.txt"]} if action == "blame" else {"name": "x"} if action == "branch" else {}
    said = await refused(run, action=action, ref=ref, **extra)
    assert "no commit" in said or "no name of a commit" in said
    assert not (project / "pwned").exists()


@pytest.mark.parametrize("name", ["--discard-changes", "-f", "--orphan=x", "@{-1}", "a..b", "x y", "@", ""])
async def test_no_branch_is_an_option(name: str, project: Path, run: Run) -> None:
    for action in ("branch", "switch"):
        assert "cannot be called" in await refused(run, action=action, name=name)


async def test_a_blob_is_not_shown_by_its_hash_alone(project: Path, run: Run) -> None:
    blob = git(project, "rev-parse", "HEAD:.env")
    assert "There is no commit" in await refused(run, action="show", ref=blob)
    assert "cannot have .." in await refused(run, action="show", ref="HEAD:./x/../.env")


async def test_what_is_hidden_is_in_no_difference(project: Path, context: ToolContext) -> None:
    (project / "sub").mkdir()
    (project / "sub/.env.local").write_text("KEY=2\n")
    (project / "keys").mkdir()
    (project / "keys/k").write_text("KEY=3\n")
    (project / "b.txt").write_text("b\n")
    git(project, "add", ".")
    git(project, "commit", "-qm", "Third")
    hidden = replace(context, hidden=(".env*", "keys/"))
    for params in ({"action": "show"}, {"action": "diff", "ref": "HEAD~2..HEAD"}, {"action": "diff", "ref": "HEAD~1"}):
        content = (
            await Toolbox.standard().run(ToolCallRequest(call_id="c", name="git", params=params), hidden)
        ).content
        assert "b.txt" in content
        assert "KEY" not in content


async def test_what_was_asked_about_by_its_name_is_shown(project: Path, context: ToolContext) -> None:
    (project / "keys").mkdir()
    for name in ("keys/k", "b.txt"):
        (project / name).write_text(f"KEY of {name}\n")
    git(project, "add", ".")
    git(project, "commit", "-qm", "Third")
    hidden = replace(context, hidden=("keys/", "//b.txt"))

    async def shown(*paths: str) -> str:
        call = ToolCallRequest(call_id="c", name="git", params={"action": "show", "paths": paths})
        return (await Toolbox.standard().run(call, hidden)).content

    assert "KEY of keys/k" in await shown("./keys/k")
    assert "KEY of keys/k" in await shown("keys")
    assert "KEY of keys/k" not in await shown("keys", "b.txt")
    assert "KEY of keys/k" not in await shown(".")
    # A pattern of files outside is about none in the project.
    assert "KEY of b.txt" in await shown()


async def test_a_large_difference_is_bounded_and_kept(project: Path, run: Run) -> None:
    (project / "big.txt").write_text("".join(f"{n}\n" for n in range(300_000)))
    git(project, "add", ".")
    result = await run("git", action="diff", staged=True)
    assert len(result.content.encode()) <= 64_000
    assert result.whole is not None
    assert result.whole.read_text().endswith("+299999\n")


async def test_outside_of_a_repository_it_says_so(tmp_path: Path, project: Path, context: ToolContext) -> None:
    inner = project / "inner"
    inner.mkdir()
    call = ToolCallRequest(call_id="c", name="git", params={"action": "status"})
    result = await Toolbox.standard().run(call, replace(context, project_dir=inner))
    assert result.content == "The project directory is no git repository."


PWN = "touch {}; cat"

HOSTILE = {
    "core.fsmonitor": PWN,
    "core.pager": PWN,
    "pager.log": PWN,
    "core.editor": PWN,
    "core.askPass": PWN,
    "core.sshCommand": PWN,
    "core.alternateRefsCommand": PWN,
    "diff.external": PWN,
    "diff.evil.command": PWN,
    "diff.evil.textconv": PWN,
    "filter.evil.clean": PWN,
    "filter.evil.smudge": PWN,
    "filter.evil.process": PWN,
    "filter.evil.required": "true",
    "merge.evil.driver": PWN,
    "gpg.program": PWN,
    "commit.gpgSign": "true",
    "log.showSignature": "true",
    "credential.helper": "!" + PWN,
    "sequence.editor": PWN,
    "gpg.ssh.program": PWN,
    "interactive.diffFilter": PWN,
    "alias.status": "!" + PWN,
    "alias.diff": "!" + PWN,
    "hook.evil.command": PWN,
    "hook.evil.event": "post-checkout",
}
HOOKS = ("pre-commit", "commit-msg", "post-commit", "post-checkout", "reference-transaction", "post-index-change")


@pytest.fixture
def hostile(project: Path, tmp_path: Path) -> Path:
    """A repository that runs something wherever git would let it; the file that would be there then."""
    pwned = tmp_path / "pwned"
    git(project, "branch", "other", "HEAD~1")
    (project / ".gitattributes").write_text("* filter=evil diff=evil merge=evil\n")
    git(project, "add", ".gitattributes")
    git(project, "commit", "-qm", "Attributes")
    for name, value in HOSTILE.items():
        git(project, "config", name, value.format(pwned))
    hooks = tmp_path / "hooks"
    for place in (project / ".git/hooks", hooks):
        place.mkdir(exist_ok=True)
        for hook in HOOKS:
            (place / hook).write_text(f"#!/bin/sh\ntouch {pwned}\n")
            (place / hook).chmod(0o755)
    git(project, "config", "core.hooksPath", str(hooks))
    os.utime(project / "a.txt", (1e9, 1e9))
    (project / ".env").write_text("KEY=2\n")
    return pwned


READING: tuple[dict[str, Any], ...] = (
    {"action": "status"},
    {"action": "diff"},
    {"action": "diff", "ref": "HEAD~1"},
    {"action": "log"},
    {"action": "show"},
    {"action": "show", "ref": "HEAD~1"},
    {"action": "show", "ref": "HEAD:a.txt"},
    {"action": "blame", "paths": ["a.txt"]},
    {"action": "branch"},
    {"action": "branch", "name": "new"},
)


@pytest.mark.parametrize("params", READING, ids=lambda params: " ".join(map(str, params.values())))
async def test_nothing_of_a_hostile_configuration_runs(params: dict[str, Any], hostile: Path, run: Run) -> None:
    await ok(run, **params)
    assert not hostile.exists()


@pytest.mark.parametrize("words", [("status",), ("show",), ("blame", "a.txt")], ids=" ".join)
def test_the_hostile_configuration_would_run(words: tuple[str, ...], hostile: Path, project: Path) -> None:
    subprocess.run(["git", *words], cwd=project, capture_output=True, timeout=30, check=False)
    assert hostile.exists()


async def test_what_its_filters_would_change_is_refused(hostile: Path, project: Path, run: Run) -> None:
    assert "did not run (evil)" in await ok(run, action="status")
    for params in (
        {"action": "commit", "message": "x", "all": True},
        {"action": "commit", "message": "x", "paths": ["a.txt"]},
        {"action": "switch", "name": "other"},
    ):
        assert "has filters (evil)" in await refused(run, **params)
    assert not hostile.exists()
    for key in ("clean", "smudge", "process", "required"):
        git(project, "config", "--unset", f"filter.evil.{key}")
    await ok(run, action="commit", message="x", all=True)
    await ok(run, action="switch", name="other")
    assert not hostile.exists()


async def test_filters_of_the_users_own_configuration_run(project: Path, home: Path, run: Run) -> None:
    with (home / ".gitconfig").open("a") as config:
        config.write('[filter "upper"]\nclean = tr a-z A-Z\nsmudge = tr A-Z a-z\n')
    (project / ".gitattributes").write_text("*.up filter=upper\n")
    (project / "x.up").write_text("abc\n")
    await ok(run, action="commit", message="x", all=True)
    assert git(project, "show", "HEAD:x.up") == "ABC"
    assert await ok(run, action="status") == "## main\n[clean]"
    git(project, "config", "filter.upper.clean", f"touch {home}/pwned; cat")
    (project / "x.up").write_text("abcd\n")
    assert "did not run (upper)" in await ok(run, action="status")
    assert "has filters (upper)" in await refused(run, action="commit", message="x", all=True)
    assert not (home / "pwned").exists()


async def test_a_filter_in_a_file_that_the_configuration_includes_does_not_run(
    project: Path, tmp_path: Path, run: Run
) -> None:
    (project / "more").write_text(f'[filter "evil"]\nclean = touch {tmp_path}/pwned; cat\n')
    git(project, "config", "include.path", "../more")
    (project / ".git/info/attributes").write_text("* filter=evil\n")
    os.utime(project / "a.txt", (1e9, 1e9))
    assert "did not run (evil)" in await ok(run, action="status")
    assert "has filters (evil)" in await refused(run, action="commit", message="x", all=True)
    assert not (tmp_path / "pwned").exists()


async def test_a_filter_that_cannot_be_turned_off_is_refused(project: Path, run: Run) -> None:
    git(project, "config", "filter.a=b.clean", "touch pwned")
    assert "cannot be turned off" in await refused(run, action="status")


async def test_the_work_tree_is_the_project_whatever_the_configuration_says(
    project: Path, tmp_path: Path, run: Run
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    git(project, "config", "core.worktree", str(other))
    (project / "a.txt").write_text("x\n")
    assert await ok(run, action="status") == "## main\n M a.txt"
    git(project, "branch", "old", "HEAD~1")
    await ok(run, action="commit", message="x", all=True)
    await ok(run, action="switch", name="old")
    assert list(other.iterdir()) == []


async def test_a_submodule_is_not_looked_into(project: Path, tmp_path: Path, run: Run) -> None:
    pwned = tmp_path / "pwned"
    inner = project / "inner"
    inner.mkdir()
    git(inner, "init", "-q")
    git(inner, "commit", "-q", "--allow-empty", "-m", "x")
    git(project, "add", "inner")
    git(project, "commit", "-qm", "Inner")
    git(inner, "config", "core.fsmonitor", f"touch {pwned}; false")
    (inner / "new").touch()
    assert await ok(run, action="status") == "## main\n[clean]"
    await ok(run, action="diff")
    await ok(run, action="diff", ref="HEAD~1")
    assert not pwned.exists()


async def test_objects_that_are_missing_are_not_fetched(project: Path, tmp_path: Path, run: Run) -> None:
    pwned = tmp_path / "pwned"
    blob = git(project, "rev-parse", "HEAD:a.txt")
    (project / ".git/objects" / blob[:2] / blob[2:]).unlink()
    for name, value in {
        "extensions.partialClone": "origin",
        "core.repositoryFormatVersion": "1",
        "remote.origin.promisor": "true",
        "remote.origin.url": f"ext::touch {pwned}",
        "protocol.ext.allow": "always",
        "core.sshCommand": f"touch {pwned}",
    }.items():
        git(project, "config", name, value)
    await refused(run, action="show")
    git(project, "config", "remote.origin.url", "ssh://example.invalid/x")
    await refused(run, action="show")
    assert not pwned.exists()
