"""What a pattern of a denying rule covers is the same at every door: one table, each door played with it."""

import asyncio
import os
import subprocess
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from gadget_api.messages import ToolCallRequest
from gadget_api.permissions import Decision
from gadget_drone.agent.permission import judged, targets_of
from gadget_drone.jobs.jobs import Jobs
from gadget_drone.permissions.covered import Covered
from gadget_drone.permissions.decide import decide
from gadget_drone.permissions.patterns import path_fits
from gadget_drone.processes.environment import child_environment
from gadget_drone.processes.supervised import Supervisor
from gadget_drone.sandbox.probe import probe
from gadget_drone.sandbox.standing import Standing
from gadget_drone.tools.tool import ToolContext, ToolResult
from gadget_drone.tools.toolbox import Toolbox
from tests.gadget_drone.permissions.conftest import judge, policy, rule
from tests.gadget_drone.permissions.test_decide import PATHS, PATTERNS

TABLE = """
secrets             secrets/key                 yes
secrets             secrets/deep/a              yes
secrets             src/secrets/key             yes
secrets             SECRETS/other               yes
secrets             secretsx/a                  no
secrets             src/secrets.txt             no
/secrets            secrets/key                 yes
/secrets            secrets/deep/a              yes
/secrets            SECRETS/other               yes
/secrets            src/secrets/key             no
secrets/            secrets/key                 yes
secrets/            secrets/deep/a              yes
secrets/            src/secrets/key             yes
secrets/            secretsx/a                  no
/secrets/           secrets/key                 yes
/secrets/           src/secrets/key             no
secrets/**          secrets/key                 yes
secrets/**          secrets/deep/a              yes
secrets/**          src/secrets/key             no
SECRETS/**          secrets/key                 yes
SECRETS/**          SECRETS/other               yes
SECRETS/**          secretsx/a                  no
/SECRETS/**         secrets/deep/a              yes
Secrets             secrets/key                 yes
secrets/*           secrets/key                 yes
secrets/*           secrets/deep/a              yes
secrets/*           secretsx/a                  no
secrets/*y          secrets/key                 yes
secrets/*y          secrets/deep/a              no
secrets/deep        secrets/deep/a              yes
secrets/deep        secrets/key                 no
secrets/**/a        secrets/deep/a              yes
secrets/**/a        secrets/key                 no
**/secrets          src/secrets/key             yes
**/secrets          secrets/key                 yes
**/secrets/**       src/secrets/key             yes
src/secrets         src/secrets/key             yes
src/secrets         secrets/key                 no
src/*/key           src/secrets/key             yes
*/secrets           src/secrets/key             yes
*/secrets           secrets/key                 no
*.pem               a.pem                       yes
*.pem               src/B.PEM                   yes
*.pem               a.pem.txt                   no
*.PEM               a.pem                       yes
/*.pem              a.pem                       yes
/*.pem              src/B.PEM                   no
.env                .env                        yes
.env                src/.env                    yes
.env                .env.example                no
/.env               src/.env                    no
.env*               .env.example                yes
.env.*              .env                        no
key?                key1                        yes
key?                secrets/key                 no
key[0-9]            key1                        yes
key[!0-9]           key1                        no
key[[:digit:]]      key1                        yes
key[[:digit:]]      secretsx/a                  no
[[:LOWER:]].pem     a.pem                       no
[[:upper:]].pem     src/B.PEM                   yes
key[!]a]            key1                        yes
[A-Z].pem           a.pem                       yes
[!A-Z].pem          a.pem                       yes
[!a-z].pem          a.pem                       no
[\\]a].pem           a.pem                       yes
[b\\-].pem           a.pem                       no
{a,b}.txt           {a,b}.txt                   yes
{a,b}.txt           a.txt                       no
!x                  !x                          yes
#x                  #x                          yes
~x                  ~x/in                       yes
/~x/**              ~x/in                       yes
a b                 a b/c                       yes
caf\u00e9           cafe\u0301/menu             yes
\u00c4RGER               \u00e4rger/x                   yes
/stra\u00dfe            STRASSE/x                 yes
*                   a.txt                       yes
**                  secrets/deep/a              yes
""".strip().splitlines()  # fmt: skip
CASES = [tuple(part.strip() for part in line.split("  ") if part.strip()) for line in TABLE]
ALL_PATHS = sorted({path for _, path, _ in CASES})
ALL_PATTERNS = sorted({pattern for pattern, _, _ in CASES})
BY_PATTERN = [
    pytest.param(pattern, {path: said == "yes" for other, path, said in CASES if other == pattern}, id=pattern)
    for pattern in ALL_PATTERNS
]
Run = Callable[..., Awaitable[ToolResult]]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("space") / "project"
    for path in ALL_PATHS:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("canary\n")
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    return root


@pytest.fixture
async def run(tree: Path, tmp_path: Path) -> Any:
    supervisor, jobs = Supervisor(), Jobs()
    context = ToolContext(tree, lambda text: None, tmp_path, supervisor, jobs=jobs)

    async def run(name: str, hidden: str, **params: Any) -> ToolResult:
        call = ToolCallRequest(call_id="c1", name=name, params=params)
        return await Toolbox.standard().run(call, replace(context, hidden=(hidden,)))

    yield run
    await jobs.close()
    supervisor.close()


@pytest.mark.parametrize(("pattern", "path", "said"), CASES)
def test_the_definition(pattern: str, path: str, said: str) -> None:
    assert path_fits(pattern, path, wide=True) == Covered([pattern]).covers(path) == (said == "yes")


CALLS: dict[str, tuple[str, Callable[[str], dict[str, Any]]]] = {
    "read": ("read", lambda path: {"path": path}),
    "write": ("write", lambda path: {"path": path, "content": "x"}),
    "edit": ("edit", lambda path: {"path": path, "edits": [{"old_text": "x", "new_text": "y"}]}),
    "apply_patch": ("apply_patch", lambda path: {"patch": f"*** Begin Patch\n*** Delete File: {path}\n*** End Patch"}),
    "move": (
        "apply_patch",
        lambda path: {"patch": f"*** Begin Patch\n*** Update File: {path}\n*** Move to: m\n*** End Patch"},
    ),
    "search in it": ("search", lambda path: {"pattern": "x", "path": path}),
    "git show": ("git", lambda path: {"action": "show", "ref": f"HEAD:{path}"}),
    "git blame": ("git", lambda path: {"action": "blame", "paths": [path]}),
    "cat": ("shell", lambda path: {"command": f"cat '{path}'"}),
    "redirected": ("shell", lambda path: {"command": f"sort < '{path}' > '{path}'"}),
    "mv": ("shell", lambda path: {"command": f"mv '{path}' elsewhere"}),
}  # fmt: skip


@pytest.mark.parametrize("door", CALLS)
@pytest.mark.parametrize(("pattern", "path", "said"), CASES)
def test_a_call_that_names_it(door: str, pattern: str, path: str, said: str, tree: Path) -> None:
    name, params = CALLS[door]
    call = ToolCallRequest(call_id="c1", name=name, params=params(path))
    for capability in ("read", "write"):
        if (capability == "write" and name in ("read", "search", "git")) or (name, capability) == ("write", "read"):
            continue
        if (door, capability) == ("cat", "write"):
            continue
        accesses = Toolbox.standard().accesses(call)
        accesses = judged(accesses, tree, targets_of(accesses, tree))
        decision = decide(accesses, policy("full", rule("deny", capability, pattern)), is_sandboxed=True).decision
        # Quoted braces are not known to a shell's reader before they run.
        refused = (Decision.DENY, Decision.ASK) if name == "shell" and "{" in path else (Decision.DENY,)
        assert (decision in refused) == (said == "yes"), (capability, accesses)


@pytest.mark.parametrize(("pattern", "path", "said"), [case for case in CASES if "/" in case[1]])
def test_no_new_file_in_a_directory_that_is_covered(pattern: str, path: str, said: str, tree: Path) -> None:
    directory = path.rpartition("/")[0]
    if not Covered([pattern]).covers(directory):
        return
    for name, params in (
        ("write", {"path": f"{directory}/new", "content": "x"}),
        ("write", {"path": f"{directory}/sub/new", "content": "x"}),
        ("shell", {"command": f"touch '{directory}/new'"}),
        ("shell", {"command": f"cp a.txt '{directory}/'"}),
        ("shell", {"command": f"cd '{directory}' && echo x > new"}),
    ):
        call = ToolCallRequest(call_id="c1", name=name, params=params)
        accesses = Toolbox.standard().accesses(call)
        accesses = judged(accesses, tree, targets_of(accesses, tree))
        assert (
            decide(accesses, policy("full", rule("deny", "write", pattern)), is_sandboxed=True).decision
            is Decision.DENY
        ), params


@pytest.mark.parametrize(("pattern", "said"), BY_PATTERN)
async def test_what_looks_through_all_files_leaves_it_out(pattern: str, said: dict[str, bool], run: Run) -> None:
    if pattern in ("*", "**"):
        return  # such a rule denies the call itself
    listed = (await run("list", pattern, path=".", depth=9)).content.splitlines()
    globbed = (await run("glob", pattern, pattern="**/*")).content.splitlines()
    searched = (await run("search", pattern, pattern="canary")).content.splitlines()
    named = (await run("search", pattern, pattern="canary", files_only=True)).content.splitlines()
    for path, is_covered in said.items():
        assert [path in found for found in (listed, globbed, searched, named)] == [not is_covered] * 4, path
    assert searched.count("1:canary") == len(named) - (named == ["No matches."])


@pytest.mark.parametrize(("pattern", "said"), BY_PATTERN)
def test_the_sandbox_hides_it_and_keeps_it_as_it_is(
    pattern: str, said: dict[str, bool], tree: Path, tmp_path: Path
) -> None:
    if (found := probe()).kind == "none":
        pytest.skip(f"no sandbox here: {found.reason}")
    if pattern in ("*", "**"):
        return  # such a rule denies each command by itself
    places = Covered([pattern]).places(tree)
    script = "".join(
        f"if grep -q canary {_quoted(path)}; then echo 'read {path}'; fi\n"
        f"if echo changed 2>/dev/null >> {_quoted(path)}; then echo 'written {path}'; fi\n"
        f"if touch {_quoted(os.path.dirname(path) or '.')}/new 2>/dev/null; then echo 'made beside {path}'; fi\n"
        for path in said
    )
    hidden = _in_sandbox(script, tree, tmp_path / "one", hidden=places)
    kept = _in_sandbox(script, tree, tmp_path / "two", read_only=places)
    for path, is_covered in said.items():
        assert (f"read {path}" in hidden) == (not is_covered), path
        assert (f"written {path}" in kept) == (not is_covered), path
        assert f"read {path}" in kept, path
        if Covered([pattern]).covers(os.path.dirname(path)):
            assert f"made beside {path}" not in kept
    for place in tree.rglob("new"):
        place.unlink()
    for path in ALL_PATHS:
        (tree / path).write_text("canary\n")


def _quoted(path: str) -> str:
    return f"'./{path}'"


def _in_sandbox(
    script: str, tree: Path, workspace: Path, hidden: Sequence[Path] = (), read_only: Sequence[Path] = ()
) -> list[str]:
    workspace.mkdir()
    standing = Standing(workspace)

    async def ended() -> None:
        with (workspace / "output").open("wb") as output:
            env = child_environment() | {"HOME": str(workspace)}
            running = await standing.start(
                ["/bin/sh", "-c", script],
                env,
                project_dir=tree,
                output=output.fileno(),
                network=False,
                hidden=hidden,
                read_only=read_only,
            )
            await asyncio.wait_for(running.ended(), 20)
            await running.kill()
        await standing.close()

    asyncio.run(ended())
    return (workspace / "output").read_text().splitlines()


@pytest.mark.parametrize(("pattern", "said"), BY_PATTERN)
async def test_the_git_tool_leaves_it_out(pattern: str, said: dict[str, bool], tree: Path, run: Run) -> None:
    if pattern in ("*", "**"):
        return  # such a rule denies the call itself
    await asyncio.to_thread(subprocess.run, ["git", "-C", str(tree), "add", "-A"], check=True)
    shown = (await run("git", pattern, action="diff", staged=True)).content
    for path, is_covered in said.items():
        assert (f"b/{path}\n" in shown) == (not is_covered), path


def test_what_is_hidden_keeps_its_place(tree: Path, tmp_path: Path) -> None:
    if (found := probe()).kind == "none":
        pytest.skip(f"no sandbox here: {found.reason}")
    places = Covered(["/src/secrets/**"]).places(tree)
    script = "mv src moved; ls; rm -rf src/secrets; touch src/made && rm src/made && echo works"
    printed = _in_sandbox(script, tree, tmp_path / "space", hidden=places)
    assert "moved" not in printed
    assert "works" in printed
    assert (tree / "src/secrets/key").exists()


@settings(max_examples=300, deadline=None)
@given(PATTERNS, PATHS)
def test_the_fast_way_says_what_the_definition_says(pattern: str, path: str) -> None:
    assert Covered([pattern, "zz"]).covers(path) == path_fits(pattern, path, wide=True)


@pytest.mark.parametrize(
    "line", ["mv a b", "mv a/secrets a/other", "cp -r a b", "ln -s a/secrets s", "git mv a b", "tar c a"]
)
def test_a_directory_above_what_is_denied_does_not_move_unasked(line: str, tmp_path: Path) -> None:
    (tmp_path / "a/secrets").mkdir(parents=True)
    (tmp_path / "a/secrets/key").touch()
    assert judge(line, policy("full", rule("deny", "read", "/a/secrets/**")), tmp_path).decision is not Decision.ALLOW
