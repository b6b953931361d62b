"""`scripts/versions` names what the checkout runs with, and the docs say which versions were tried."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent
PROGRAMS = {"Python", "Node", "Chromium", "mongod", "git", "bubblewrap", "Redis"}


def versions(environment: dict[str, str]) -> dict[str, str]:
    """What the script prints: each program and package with its version."""
    command = [sys.executable, "-B", "scripts/versions"]
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    programs, python, npm = re.split(r"^\w+ packages: ", ran.stdout, flags=re.MULTILINE)
    lines = [*programs.splitlines(), *" ".join(f"{python},{npm}".split()).split(",")]
    return {name: version.strip() for name, _, version in (line.strip().partition(" ") for line in lines)}


@pytest.fixture(scope="module")
def printed() -> dict[str, str]:
    return versions(dict(os.environ))


def test_every_program_is_printed_with_its_version(printed: dict[str, str]) -> None:
    assert printed.keys() >= PROGRAMS
    assert printed["Python"] == ".".join(map(str, sys.version_info[:3]))
    for name in ("Node", "mongod", "git"):
        assert re.fullmatch(r"\d+(\.\d+)+", printed[name]), (name, printed[name])


def test_every_direct_dependency_is_printed_with_its_version(printed: dict[str, str]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    for requirement in map(Requirement, (line for group in groups for line in group)):
        if requirement.name != "gadget-code" and (requirement.marker is None or requirement.marker.evaluate()):
            assert printed[requirement.name] in requirement.specifier
    assert re.fullmatch(r"\d+\.\d+\.\d+", printed["svelte"])


def test_a_missing_program_is_printed_as_missing(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "GADGET_TEST_BROWSER"}
    printed = versions({**environment, "PATH": str(tmp_path)})
    assert (printed["git"], printed["Redis"]) == ("missing", "missing")


def test_the_docs_say_which_version_of_each_program_was_tried() -> None:
    table = (ROOT / "docs" / "explanation" / "versions.md").read_text()
    rows = re.findall(r"^\| (\w+) \| [^|]+ \| (\d[^|]*) \| \d{4}-\d\d-\d\d \|$", table, re.MULTILINE)
    assert {name for name, _ in rows} == PROGRAMS


def test_ci_prints_the_versions_before_the_tests() -> None:
    steps = [line for line in (ROOT / ".ci" / "run").read_text().splitlines() if not line.startswith("#")]
    assert steps.index(".venv/bin/python scripts/versions") < steps.index("scripts/test")
