"""The tool `git` in real repositories, in the sandbox and without it; hostile ones would leave a file `pwned`."""

import asyncio
import hashlib
import os
import shutil
import struct
import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gadget_api.messages import ToolCallRequest
from gadget_drone.processes.supervised import Supervisor
from gadget_drone.sandbox.standing import Standing
from gadget_drone.tools.tool import ToolContext
from gadget_drone.tools.toolbox import Toolbox
from tests.gadget_drone.sandbox.conftest import need_sandbox
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


@dataclass(frozen=True)
class Pwned:
    """A file that a program of a hostile repository would make, here or in the sandbox's home."""

    path: Path

    def exists(self) -> bool:
        return self.path.exists() or any(self.path.parent.glob(f".gadget/home/*/{self.path.name}"))


@pytest.fixture
def pwned(tmp_path: Path) -> Pwned:
    return Pwned(tmp_path / "pwned")


@pytest.fixture(params=["sandboxed", "plain"])
async def context(
    request: pytest.FixtureRequest, project: Path, supervisor: Supervisor, tmp_path: Path
) -> AsyncIterator[ToolContext]:
    context = ToolContext(project, lambda _: None, tmp_path / "blobs", supervisor)
    if request.param == "plain":
        yield context
        return
    await asyncio.to_thread(need_sandbox)
    standing = Standing(tmp_path)
    yield replace(context, sandboxed=partial(standing.start, network=False))
    await standing.close()


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
    assert await refused(run, action="switch", name="absent") == "There is no branch absent: make it first."
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
def hostile(project: Path, tmp_path: Path, pwned: Pwned) -> Pwned:
    """A repository that runs something wherever git would let it."""
    git(project, "branch", "other", "HEAD~1")
    (project / ".gitattributes").write_text("* filter=evil diff=evil merge=evil\n")
    git(project, "add", ".gitattributes")
    git(project, "commit", "-qm", "Attributes")
    for name, value in HOSTILE.items():
        git(project, "config", name, value.format(pwned.path))
    hooks = tmp_path / "hooks"
    for place in (project / ".git/hooks", hooks):
        place.mkdir(exist_ok=True)
        for hook in HOOKS:
            (place / hook).write_text(f"#!/bin/sh\ntouch {pwned.path}\n")
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
async def test_nothing_of_a_hostile_configuration_runs(params: dict[str, Any], hostile: Pwned, run: Run) -> None:
    await ok(run, **params)
    assert not hostile.exists()


@pytest.mark.parametrize("words", [("status",), ("show",), ("blame", "a.txt")], ids=" ".join)
def test_the_hostile_configuration_would_run(words: tuple[str, ...], hostile: Pwned, project: Path) -> None:
    subprocess.run(["git", *words], cwd=project, capture_output=True, timeout=30, check=False)
    assert hostile.exists()


async def test_what_its_filters_would_change_is_refused(hostile: Pwned, project: Path, run: Run) -> None:
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


async def test_filters_of_the_users_own_configuration_run(project: Path, home: Path, pwned: Pwned, run: Run) -> None:
    with (home / ".gitconfig").open("a") as config:
        config.write('[filter "upper"]\nclean = tr a-z A-Z\nsmudge = tr A-Z a-z\n')
    (project / ".gitattributes").write_text("*.up filter=upper\n")
    (project / "x.up").write_text("abc\n")
    await ok(run, action="commit", message="x", all=True)
    assert git(project, "show", "HEAD:x.up") == "ABC"
    assert await ok(run, action="status") == "## main\n[clean]"
    git(project, "config", "filter.upper.clean", f"touch {pwned.path}; cat")
    (project / "x.up").write_text("abcd\n")
    assert "did not run (upper)" in await ok(run, action="status")
    assert "has filters (upper)" in await refused(run, action="commit", message="x", all=True)
    assert not pwned.exists()


async def test_a_filter_in_a_file_that_the_configuration_includes_does_not_run(
    project: Path, pwned: Pwned, run: Run
) -> None:
    (project / "more").write_text(f'[filter "evil"]\nclean = touch {pwned.path}; cat\n')
    git(project, "config", "include.path", "../more")
    (project / ".git/info/attributes").write_text("* filter=evil\n")
    os.utime(project / "a.txt", (1e9, 1e9))
    assert "did not run (evil)" in await ok(run, action="status")
    assert "has filters (evil)" in await refused(run, action="commit", message="x", all=True)
    assert not pwned.exists()


@pytest.mark.parametrize("name", ["", "a=b", "a.b", "A", "."])
async def test_a_filter_with_an_odd_name_does_not_run(name: str, project: Path, pwned: Pwned, run: Run) -> None:
    git(project, "config", f"filter.{name}.clean", f"touch {pwned.path}; cat")
    (project / ".git/info/attributes").write_text(f"* filter={name}\n")
    os.utime(project / "a.txt", (1e9, 1e9))
    assert f"did not run ({name or '(empty name)'})" in await ok(run, action="status")
    await ok(run, action="diff")
    assert "has filters" in await refused(run, action="commit", message="x", all=True)
    assert not pwned.exists()
    (project / "a.txt").write_text("changed\n")
    git(project, "diff")
    assert pwned.exists(), "it would run"


async def test_a_merge_is_shown_without_merging_it_again(project: Path, pwned: Pwned, context: ToolContext) -> None:
    """With `log.diffMerges=remerge`, `git show -m` runs the merge drivers that the configuration names."""
    (project / ".git/info/attributes").write_text("* merge=evil\n")
    git(project, "switch", "-qc", "other", "HEAD~1")
    (project / "a.txt").write_text("else\n")
    git(project, "commit", "-qam", "Else")
    git(project, "merge", "-q", "--strategy=ours", "main")
    git(project, "config", "merge.evil.driver", f"touch {pwned.path}; false")
    git(project, "config", "log.diffMerges", "remerge")
    call = ToolCallRequest(call_id="c", name="git", params={"action": "show"})
    result = await Toolbox.standard().run(call, replace(context, hidden=(".env",)))
    assert "Merge branch" in result.content
    assert not pwned.exists()
    git(project, "show", "-m", "--name-only")
    assert pwned.exists(), "it would run"


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


async def test_a_submodule_is_not_looked_into(project: Path, pwned: Pwned, run: Run) -> None:
    inner = project / "inner"
    inner.mkdir()
    git(inner, "init", "-q")
    git(inner, "commit", "-q", "--allow-empty", "-m", "x")
    git(project, "add", "inner")
    git(project, "commit", "-qm", "Inner")
    git(inner, "config", "core.fsmonitor", f"touch {pwned.path}; false")
    (inner / "new").touch()
    assert await ok(run, action="status") == "## main\n[clean]"
    await ok(run, action="diff")
    await ok(run, action="diff", ref="HEAD~1")
    assert not pwned.exists()


async def test_objects_that_are_missing_are_not_fetched(project: Path, pwned: Pwned, run: Run) -> None:
    blob = git(project, "rev-parse", "HEAD:a.txt")
    (project / ".git/objects" / blob[:2] / blob[2:]).unlink()
    for name, value in {
        "extensions.partialClone": "origin",
        "core.repositoryFormatVersion": "1",
        "remote.origin.promisor": "true",
        "remote.origin.url": f"ext::touch {pwned.path}",
        "protocol.ext.allow": "always",
        "core.sshCommand": f"touch {pwned.path}",
    }.items():
        git(project, "config", name, value)
    await refused(run, action="show")
    git(project, "config", "remote.origin.url", "ssh://example.invalid/x")
    await refused(run, action="show")
    assert not pwned.exists()


# What a script of the agent may have left in the repository


@pytest.mark.parametrize("name", ["COMMIT_EDITMSG", "logs/HEAD", "index.lock", "HEAD.lock", "logs/refs/heads/main"])
async def test_a_commit_writes_through_no_link(name: str, project: Path, tmp_path: Path, context: ToolContext) -> None:
    victim = tmp_path / "victim"
    victim.write_text("as it was\n")
    link = project / ".git" / name
    link.unlink(missing_ok=True)
    link.symlink_to(victim)
    (project / "a.txt").write_text("changed\n")
    call = ToolCallRequest(call_id="c", name="git", params={"action": "commit", "message": "x", "all": True})
    result = await Toolbox.standard().run(call, context)
    assert victim.read_text() == "as it was\n"
    if context.sandboxed is None:
        assert f"{name} is a symbolic link" in result.content


async def test_a_commit_on_a_branch_called_objects_writes_through_no_link(
    project: Path, tmp_path: Path, context: ToolContext
) -> None:
    git(project, "switch", "-qc", "objects/sub/x")
    await test_a_commit_writes_through_no_link("logs/refs/heads/objects/sub/x", project, tmp_path, context)


def written_index(project: Path, name: str) -> bytes:
    """An index with one file, of any name."""
    entry = bytes(24) + struct.pack(">IIII", 0o100644, 0, 0, 0) + bytes.fromhex(git(project, "rev-parse", "HEAD:a.txt"))
    entry += struct.pack(">H", len(name)) + name.encode()
    index = b"DIRC" + struct.pack(">II", 2, 1) + entry + bytes(8 - len(entry) % 8)
    return index + hashlib.sha1(index).digest()


@pytest.mark.parametrize("name", ["../key", "{}/key", "d/../keys/k", "./keys/k", "keys//k", ".git/k", "sub/.GIT/k"])
async def test_names_in_an_index_made_by_hand_lead_nowhere(
    name: str, project: Path, tmp_path: Path, context: ToolContext
) -> None:
    name = name.format(tmp_path)
    for path in ("../key", "keys/k", ".git/k", "sub/.GIT/k", "d/x"):
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_text("SECRET\n")
    (project / ".git/index").write_bytes(written_index(project, name))
    assert "SECRET" in git(project, "diff"), "git itself prints it"
    call = ToolCallRequest(call_id="c", name="git", params={"action": "diff"})
    result = await Toolbox.standard().run(call, replace(context, hidden=("keys/",)))
    assert f"lists a file {name!r}" in result.content
    assert "SECRET" not in result.content


@pytest.mark.parametrize("path", [".git", ".git/commondir", ".git/objects/info/alternates", "link", "objects"])
async def test_another_repository_is_not_shown(path: str, project: Path, tmp_path: Path, run: Run) -> None:
    private = tmp_path / "home/private"
    private.mkdir(parents=True)
    git(private, "init", "-q", "-b", "main")
    (private / "key").write_text("SECRET\n")
    git(private, "add", "key")
    git(private, "commit", "-qm", "Key")
    commit, there = git(private, "rev-parse", "HEAD"), private / ".git"
    if path in (".git", "link"):
        shutil.move(project / ".git", tmp_path / "was")
    match path:
        case "link":
            (project / ".git").symlink_to(there)
        case "objects":
            for file in (there / "objects").glob("??/*"):
                (project / ".git" / file.relative_to(there)).parent.mkdir(exist_ok=True)
                (project / ".git" / file.relative_to(there)).symlink_to(file)
        case _:
            named = there / "objects" if path.endswith("alternates") else there
            (project / path).write_text(f"{'gitdir: ' if path == '.git' else ''}{named}\n")
    assert "SECRET" in git(project, "show", commit), "git itself prints it"
    result = await run("git", action="show", ref=commit)
    assert result.is_error
    assert "SECRET" not in result.content
    (project / "new").write_text("x\n")
    await run("git", action="commit", message="x", all=True)
    assert git(private, "rev-list", "--count", "--all") == "1"


async def test_a_switch_leaves_the_drones_state(project: Path, run: Run) -> None:
    for name in (".gadget", ".Gadget"):
        (project / name).mkdir()
        (project / name / "state").write_text("theirs\n")
        git(project, "switch", "-qc", name[1:])
        git(project, "add", name)
        git(project, "commit", "-qm", "State")
        git(project, "switch", "-q", "main")
        (project / name).mkdir(exist_ok=True)
        (project / name / "state").write_text("ours\n")
        assert "has a .gadget of its own" in await refused(run, action="switch", name=name[1:])
        git(project, "symbolic-ref", "HEAD", f"refs/heads/{name[1:]}")
        git(project, "reset", "-q")
        assert "has a .gadget of its own" in await refused(run, action="switch", name="main")
        assert (project / name / "state").read_text() == "ours\n"
        git(project, "symbolic-ref", "HEAD", "refs/heads/main")
        git(project, "reset", "-q")


async def test_nested_repositories_run_nothing(project: Path, pwned: Pwned, run: Run) -> None:
    """`git add --all` runs `git status` in a nested repository, and that runs what its configuration names."""
    inner, deeper = project / "inner", project / "inner/deeper"
    for repository in (inner, deeper):
        repository.mkdir()
        git(repository, "init", "-q")
        (repository / "file").write_text("one\n")
        git(repository, "add", "file")
        git(repository, "commit", "-qm", "x")
    git(inner, "add", "deeper")
    git(inner, "commit", "-qm", "Deeper")
    git(project, "add", "inner")
    git(project, "commit", "-qm", "Inner")
    for repository in (inner, deeper):
        for name in ("core.fsmonitor", "filter.evil.clean", "filter.evil.process"):
            git(repository, "config", name, PWN.format(pwned.path))
        (repository / ".git/info/attributes").write_text("* filter=evil\n")
        (repository / "file").write_text("two\n")
        os.utime(repository / "file", (1e9, 1e9))
    (project / "a.txt").write_text("changed\n")
    await ok(run, action="status")
    await ok(run, action="diff")
    await ok(run, action="commit", message="x", all=True)
    (project / "a.txt").write_text("changed again\n")
    await ok(run, action="commit", message="y", paths=["a.txt", "inner"])
    git(project, "branch", "old", "HEAD~2")
    await ok(run, action="switch", name="old")
    assert not pwned.exists()
    git(project, "add", "--all")
    assert pwned.exists(), "it would run"


async def test_a_repository_elsewhere_that_a_command_names_runs_nothing(
    project: Path, tmp_path: Path, pwned: Pwned, run: Run
) -> None:
    evil = project / "evil"
    git(project, "clone", "-q", "--bare", ".", str(evil))
    git(evil, "config", "core.fsmonitor", PWN.format(pwned.path))
    git(evil, "config", "filter.evil.clean", PWN.format(pwned.path))
    (project / ".gitattributes").write_text("* filter=evil\n")
    (project / ".git/commondir").write_text("../evil\n")
    await run("git", action="status")
    await run("git", action="diff")
    assert not pwned.exists()


async def test_a_commit_of_all_takes_new_changed_and_deleted_files(project: Path, run: Run) -> None:
    (project / "new").write_text("x\n")
    (project / "deep/er").mkdir(parents=True)
    (project / "deep/er/new é").write_text("x\n")
    (project / "a.txt").unlink()
    (project / "a.txt").mkdir()
    (project / "a.txt/file").write_text("x\n")
    (project / ".env").write_text("KEY=2\n")
    (project / ".gitignore").write_text("ignored\n")
    (project / "ignored").touch()
    await ok(run, action="commit", message="x", all=True)
    assert await ok(run, action="status") == "## main\n[clean]"
    listed = git(project, "ls-tree", "-r", "-z", "--name-only", "HEAD").split("\0")
    assert listed == [".env", ".gitignore", "a.txt/file", "deep/er/new é", "new", ""]
    (project / "new").unlink()
    await ok(run, action="commit", message="y", paths=["new"])
    assert "new" not in git(project, "ls-tree", "-r", "--name-only", "HEAD").split()


async def test_what_may_not_be_read_is_not_committed_as_deleted(project: Path, context: ToolContext) -> None:
    (project / "keys").mkdir()
    (project / "keys/a").write_text("secret\n")
    git(project, "add", "keys")
    git(project, "commit", "-qm", "Keys")
    hidden = replace(context, hidden=[".env", "keys"])
    if isinstance(context.sandboxed, partial):
        paths = [project / ".env", project / "keys"]
        hidden = replace(hidden, sandboxed=partial(context.sandboxed, hidden=paths))
    (project / "a.txt").write_text("changed\n")
    toolbox = Toolbox.standard()

    async def run(**params: Any) -> str:
        call = ToolCallRequest(call_id="c", name="git", params=params)
        return (await toolbox.run(call, hidden)).content

    assert await run(action="status") == "## main\n M a.txt"
    await run(action="commit", message="x", all=True)
    await run(action="commit", message="x", paths=[".", "keys"])
    assert git(project, "ls-tree", "-r", "--name-only", "HEAD").split() == [".env", "a.txt", "keys/a"]
    assert git(project, "show", "HEAD:a.txt") == "changed"


async def test_it_works_in_a_linked_work_tree(project: Path, tmp_path: Path, context: ToolContext) -> None:
    (tmp_path / "workspace").mkdir()
    tree = tmp_path / "workspace/tree"
    git(project, "worktree", "add", "-q", str(tree))
    there = replace(context, project_dir=tree)
    toolbox = Toolbox.standard()

    async def run(name: str, **params: Any) -> str:
        return (await toolbox.run(ToolCallRequest(call_id="c", name=name, params=params), there)).content

    (tree / "a.txt").write_text("changed\n")
    assert await run("git", action="status") == "## tree\n M a.txt"
    assert "[tree " in await run("git", action="commit", message="x", all=True)
    assert git(project, "log", "--format=%s", "-1", "tree") == "x"
    if context.sandboxed is None:
        return
    own = project / ".git/worktrees/tree"
    line = f"for f in {project}/.git/config {project}/.git/hooks/x {own}/commondir {own}/gitdir; do echo x >> $f; done"
    before = (project / ".git/config").read_text(), (own / "commondir").read_text(), (own / "gitdir").read_text()
    await run("shell", command=f"{line}; echo x > {own}/config.worktree; mv {own} {own}2; cat {project}/a.txt")
    after = (project / ".git/config").read_text(), (own / "commondir").read_text(), (own / "gitdir").read_text()
    assert after == before
    assert not (project / ".git/hooks/x").exists()
    assert (own / "config.worktree").read_text() == ""


async def test_a_branch_of_a_remote_is_switched_to(project: Path, tmp_path: Path, run: Run) -> None:
    origin = tmp_path / "origin"
    git(project, "clone", "-q", "--bare", ".", str(origin))
    git(origin, "branch", "theirs", "main~1")
    git(project, "remote", "add", "origin", str(origin))
    git(project, "-c", "protocol.file.allow=always", "fetch", "-q", "origin")
    assert await ok(run, action="switch", name="theirs") == "On the new branch theirs, made from origin/theirs."
    assert (project / "a.txt").read_text() == "one\n"


@pytest.mark.parametrize("tool", ["git", "shell"])
async def test_who_commits_is_the_user_of_the_machine(tool: str, project: Path, home: Path, run: Run) -> None:
    (home / "ignored-everywhere").write_text("*.swp\n")
    with (home / ".gitconfig").open("a") as config:
        config.write("[core]\nexcludesFile = ~/ignored-everywhere\n[http]\nextraHeader = secret\n")
    (project / "x.swp").touch()
    (project / "a.txt").write_text("changed\n")
    if tool == "git":
        await ok(run, action="commit", message="x", all=True)
    else:
        await run("shell", command="git add --all && git commit -m x")
    assert git(project, "log", "-1", "--format=%an %ae") == "Ada ada@example.org"
    assert git(project, "ls-tree", "--name-only", "HEAD").split() == [".env", "a.txt"]
