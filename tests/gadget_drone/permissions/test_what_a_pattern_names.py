"""Patterns of a shell, and paths that are others for each process: what they name is judged, in bounded time."""

import time
from pathlib import Path

import pytest

from gadget_api.permissions import Decision
from tests.gadget_drone.permissions.conftest import judge, policy, rule

ASKS = policy("full", rule("ask", "read", "secrets/**"))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("secrets/key", "secrets/inner/x", "src/a.py", "src/sub/b.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x\n")
    (tmp_path / "docs").symlink_to("secrets")
    (tmp_path / "here").symlink_to("/proc/self/cwd")
    return tmp_path


@pytest.mark.parametrize(
    "line",
    [
        "cat doc*/key",
        "cat d*/k*",
        "cat doc*/inner/../key",
        "cat s*/../x",
        "cat [d]ocs/key",
        "cat /proc/self/cwd/secrets/key",
        "cat < /proc/thread-self/cwd/secrets/key",
        "cat /proc/self/task/../cwd/secrets/key",
        "cat /proc/*/root/secrets/key",
        "cat /pro?/self/cwd/secrets/key",
        "cat /dev/fd/../cwd/secrets/key",
        "cat 9< secrets /dev/fd/9/key",
        "cat here/secrets/key",
        "cat her*/secrets/key",
        "cd here; cat secrets/key",
        "grep -r x s*",
        "cat " + "*a" * 20_000,
        "cat " + "./" * 3_000 + "secrets/key",
    ],
)
def test_a_name_that_leads_to_the_file_asks(line: str, tree: Path) -> None:
    assert judge(line, ASKS, tree).decision is Decision.ASK, line


@pytest.mark.parametrize("line", ["cat src/*.py", "cat src/*/*.py", "cat /proc/cpuinfo", "ls src/s*"])
def test_another_name_does_not(line: str, tree: Path) -> None:
    assert judge(line, ASKS, tree).decision is Decision.ALLOW, line


def test_a_pattern_in_the_root_of_the_file_system_is_no_file_of_the_project(tree: Path) -> None:
    given = policy("ask", rule("allow", "execute", "cat *"))
    assert judge("cat /et?/hostname", given, tree).decision is Decision.ASK


@pytest.mark.parametrize(
    "line", ["cat *.pem", "cat s*/*", "grep -r x .", "grep -r x s*", "cat doc*/id_rsa", "tar c src"]
)
def test_always_for_a_command_does_not_count_for_likely_secrets(line: str, tree: Path) -> None:
    for name in ("server.pem", "secrets/id_rsa", "src/.env"):
        (tree / name).write_text("x\n")
    given = policy("autoEdit", *(rule("allow", "execute", f"{name} *") for name in ("cat", "grep", "tar")))
    assert judge(line, given, tree).decision is Decision.ASK
    assert judge("grep -r x src/sub; cat src/*.py", given, tree).decision is Decision.ALLOW


@pytest.mark.parametrize(
    "line",
    ["cat " + "*/" * 20 + "zz", "cat " + "[a" * 20_000, "cat " + "*a" * 20_000, "ls\n" * 20_000, "x" * 1_000_000],
)
def test_a_line_is_judged_in_bounded_time(line: str, tree: Path) -> None:
    for number in range(6):
        (tree / f"l{number}").symlink_to(".")
    rules = policy("full", *(rule("ask", "read", f"conf{number}/**") for number in range(20)))
    begun = time.monotonic()
    assert judge(line, rules, tree).decision is Decision.ASK
    assert time.monotonic() - begun < 5
