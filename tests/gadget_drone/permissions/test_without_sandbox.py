"""Rules where no sandbox holds them, and programs that have another name or read what they run."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from gadget_api.messages import ToolCallRequest
from gadget_api.permissions import Decision, Policy
from gadget_drone.agent.permission import judged
from gadget_drone.permissions.decide import decide, only_read
from gadget_drone.processes.environment import child_environment
from gadget_drone.tools.toolbox import Toolbox
from tests.gadget_drone.permissions.conftest import judge, policy, rule


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    for name, text in {"sub/.env": "CANARY\n", "README.md": "x\n", "Makefile": "all:\n"}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    return root


def run(line: str, tree: Path) -> str:
    command = ["/bin/sh", "-c", line.format(tree=tree)]
    return subprocess.run(command, cwd=tree, env=child_environment(), capture_output=True, text=True, timeout=30).stdout


READS = [
    "grep -r CANARY s*",
    "grep -d recurse CANARY sub",
    "grep --dereference-rec CANARY sub",
    "curl -s file://{tree}/sub/.env",
    "sh /dev/stdin <<E\ncat sub/.e*\nE",
]


@pytest.mark.parametrize("line", READS)
def test_what_reads_a_denied_file_asks(line: str, tree: Path) -> None:
    assert not shutil.which(line.split()[0]) or "CANARY" in run(line, tree)
    given = policy("full", rule("deny", "read", ".env"))
    assert judge(line.format(tree=tree), given, tree, is_sandboxed=False).decision is not Decision.ALLOW


WRITES = [
    "sort -uosub/.env README.md",
    "git config -f sub/.env a.b c",
    "printf 'all:\\n\\trm sub/.env' | make -sf-",
    "sh /dev/fd/0 <<E\nrm sub/.e*\nE",
    ". /dev/stdin <<E\nrm sub/.e*\nE",
]


@pytest.mark.parametrize("line", WRITES)
def test_what_changes_a_denied_file_asks(line: str, tree: Path) -> None:
    given = policy("full", rule("deny", "write", "sub/.env"))
    assert judge(line, given, tree, is_sandboxed=False).decision is not Decision.ALLOW
    run(line, tree)
    assert not (tree / "sub/.env").exists() or (tree / "sub/.env").read_text() != "CANARY\n"


def test_each_command_asks_that_may_do_more_than_read_until_a_rule_allows_it(tree: Path) -> None:
    denying = rule("deny", "read", ".env")
    (asked,) = judge("pytest -q", policy("full", denying), tree, is_sandboxed=False).verdicts
    assert asked.decision is Decision.ASK
    assert asked.because == "There is no sandbox here to hold the rule that denies reading `.env`."
    for given, line in (
        (policy("full", denying, rule("allow", "execute", "pytest *")), "pytest -q"),
        (policy("full", denying), "cat README.md"),
        (policy("full", rule("deny", "execute", "rm *"), rule("allow", "write", "*")), "pytest -q"),
        (policy("full"), "pytest -q"),
    ):
        assert judge(line, given, tree, is_sandboxed=False).decision is Decision.ALLOW
    assert judge("cat sub/.env", policy("full", denying), tree, is_sandboxed=False).decision is Decision.DENY
    assert judge("pytest -q", policy("full", denying), tree, is_sandboxed=True).decision is Decision.ALLOW


@pytest.mark.parametrize(
    "line",
    [
        "sh /dev/stdin <<E\n{}\nE", "bash /dev/fd/0 <<E\n{}\nE", "sh //dev/../proc/self/fd/0 <<E\n{}\nE",
        ". /dev/stdin <<E\n{}\nE", "cd /dev; sh stdin <<E\n{}\nE", "sh -s x <<E\n{}\nE", ". /dev/std?n <<E\n{}\nE",
        "./shell /dev/stdin <<E\n{}\nE", "./shell <<E\n{}\nE",
        "python3 /proc/self/fd/0 <<E\nimport os; os.system('{}')\nE",
    ],
)  # fmt: skip
def test_a_script_from_the_standard_input_is_not_run_unasked(line: str, tree: Path) -> None:
    (tree / "shell").symlink_to("/bin/sh")
    assert "ran" in run(line.replace("{}", "echo ran"), tree)
    given = policy("full", rule("deny", "execute", "git push *"))
    assert judge(line.replace("{}", "$A push"), given, tree).decision is not Decision.ALLOW


def test_a_link_to_a_program_is_judged_by_the_programs_name_too(tree: Path) -> None:
    (tree / "far").symlink_to(shutil.which("git") or "")
    (tree / "g").symlink_to("far")
    (tree / "python").symlink_to("/usr/bin/python3")
    for line in ("./g push", "cd sub; ../g -C . push", f"env {tree}/g push"):
        assert judge(line, policy("full", rule("deny", "execute", "git push *")), tree).decision is Decision.DENY
        assert judge(line, policy("full", rule("deny", "git", "push *")), tree).decision is Decision.DENY
    # It needs no second rule that allows, and is not allowed by another's.
    assert (
        judge("./python x.py", policy("ask", rule("allow", "execute", "./python *")), tree).decision is Decision.ALLOW
    )
    assert judge("./python x.py", policy("ask", rule("allow", "execute", "python3 *")), tree).decision is Decision.ASK
    assert judge("./python x.py", policy("plan"), tree).decision is Decision.DENY


@pytest.mark.parametrize("level", ["plan", "ask", "autoEdit"])
def test_git_is_no_command_that_only_reads_where_nothing_holds_what_a_repository_makes_it_run(
    level: str, tree: Path
) -> None:
    for words in (["config", "filter.x.clean", "touch pwned; cat"], ["add", "README.md"]):
        (tree / ".gitattributes").write_text("*.md filter=x\n")
        subprocess.run(["git", "-C", str(tree), *words], check=True)
    (tree / "pwned").unlink(missing_ok=True)
    os.utime(tree / "README.md", (1, 1))
    run("git status", tree)
    assert (tree / "pwned").exists()
    assert judge("git status", policy(level), tree, is_sandboxed=False).decision is not Decision.ALLOW
    assert judge("git status", policy(level), tree, is_sandboxed=True).decision is Decision.ALLOW


@pytest.mark.parametrize("action", ["status", "diff", "log", "show", "blame", "branch"])
def test_the_git_tool_asks_as_a_git_in_a_shell_does(action: str, tree: Path) -> None:
    call = ToolCallRequest(call_id="c1", name="git", params={"action": action, "paths": ["README.md"]})
    accesses = judged(Toolbox.standard().accesses(call), tree, {"README.md": "README.md", ".": "."})

    def decided(given: Policy, *, is_sandboxed: bool = False) -> Decision:
        return decide(accesses, given, is_sandboxed=is_sandboxed).decision

    assert decided(policy("plan")) is Decision.DENY
    assert decided(policy("autoEdit")) is Decision.ASK
    assert decided(policy("ask", rule("allow", "git", f"{action} *"))) is Decision.ALLOW
    assert decided(policy("ask", rule("deny", "read", "README.md"), rule("allow", "git", "*"))) is Decision.DENY
    # A rule about git is about changes, and what is held needs no question.
    denying = rule("deny", "git", "*")
    assert decided(policy("full", denying)) is Decision.ALLOW
    assert decided(policy("plan", denying), is_sandboxed=True) is Decision.ALLOW
    assert only_read(accesses)
