"""requirements/ holds what is installed, by hashes; it must fit pyproject.toml, which says what may be installed."""

import importlib.metadata
import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent
LOCKS = sorted(path.stem for path in (ROOT / "requirements").glob("*.lock"))
EXTRAS = ("test", "local", "web", "drone")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def locked(name: str) -> list[Requirement]:
    """The packages of a lock; some have one version for some platforms and another for others."""
    lines = (ROOT / "requirements" / f"{name}.lock").read_text().replace("\\\n", " ").splitlines()
    return [Requirement(line.partition(" --hash=")[0]) for line in lines]


def asked(extra: str) -> list[Requirement]:
    """What pyproject.toml asks for with this extra, those of the extras in it included."""
    lines = [*PROJECT["project"]["dependencies"], *PROJECT["project"]["optional-dependencies"][extra]]
    found: list[Requirement] = []
    for requirement in map(Requirement, lines):
        own = requirement.name == PROJECT["project"]["name"]
        found += [one for inner in requirement.extras for one in asked(inner)] if own else [requirement]
    return found


def version_of(requirement: Requirement) -> str:
    [pin] = requirement.specifier
    assert pin.operator == "==", requirement
    return pin.version


def test_there_is_a_lock_for_each_way_to_install() -> None:
    assert sorted([*EXTRAS, "build", "node"]) == LOCKS


@pytest.mark.parametrize("extra", EXTRAS)
def test_every_direct_dependency_is_locked_within_its_range(extra: str) -> None:
    pins = {one.name: one for one in locked(extra)}
    for requirement in asked(extra):
        pin = pins[requirement.name.lower()]
        assert version_of(pin) in requirement.specifier, f"{requirement} is locked as {pin}; run scripts/lock"
        assert (pin.marker is None) or (requirement.marker is not None), f"{pin} is not for every platform"


def test_what_builds_the_package_is_locked_within_its_range() -> None:
    pins = {one.name: one for name in ("build", "node") for one in locked(name)}
    for line in [*PROJECT["build-system"]["requires"], _node_wheel(), "editables"]:
        requirement = Requirement(line)
        assert version_of(pins[requirement.name]) in requirement.specifier


def _node_wheel() -> str:
    found = re.search(r'^NODE_WHEEL = "(.+)"$', (ROOT / "ide" / "build.py").read_text(), re.MULTILINE)
    assert found is not None
    return found[1]


@pytest.mark.parametrize("name", LOCKS)
def test_every_locked_package_has_hashes_and_no_host(name: str) -> None:
    text = (ROOT / "requirements" / f"{name}.lock").read_text()
    assert "://" not in text
    for line in text.replace("\\\n", " ").splitlines():
        assert re.fullmatch(r"[^ ]+==[^ ]+ (?:; [^\\]+? )?(?:\s*--hash=sha256:[0-9a-f]{64}\s*)+", line), line[:200]


@pytest.mark.parametrize("name", ["local", "web", "drone", "build"])
def test_the_locks_name_the_same_versions(name: str) -> None:
    tested = {(one.name, version_of(one)) for one in locked("test")}
    names = {name for name, _ in tested}
    assert {pin for one in locked(name) if (pin := (one.name, version_of(one)))[0] in names} <= tested


def test_the_tests_run_with_what_is_locked() -> None:
    for pin in locked("test"):
        if pin.marker is None or pin.marker.evaluate():
            assert importlib.metadata.version(pin.name) == version_of(pin), "remove .venv, and run scripts/test"
