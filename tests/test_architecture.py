"""What holds the house together: who imports whom, what an import does, and where everything may be caught."""

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest

from tests.loading import FOR_USAGE, unwanted

ROOT = Path(__file__).parent.parent
PACKAGES = ("gadget_api", "gadget_ai", "gadget_code", "gadget_drone")

ARROWS = {
    "gadget_api": set[str](),
    "gadget_ai": {"gadget_api"},
    "gadget_code": {"gadget_api"},
    "gadget_drone": {"gadget_api", "gadget_ai"},
}
"""Package -> its siblings that it may import."""

EXTRAS = {"gadget_api": None, "gadget_ai": "drone", "gadget_code": "web", "gadget_drone": "drone"}
"""Package -> the extra that installs what it imports, beside the distribution's own dependencies."""

OPTIONAL = {"opentelemetry": "otel"}
"""What is imported only when somebody switches it on -> the extra that installs it."""

PARTS = {"starlette": "fastapi", "python-engineio": "python-socketio", "yarl": "aiohttp"}
"""Distributions that come with one we name: its own foundation, of the same authors, and versioned by it."""

DOORS = {
    "gadget_code/handlers/events.py:register.door": "the socket of the web service: every event passes it",
    "gadget_drone/service/link.py:_door.handle": "the socket of the drone: every event passes it",
    "gadget_drone/tools/toolbox.py:_told": "tool execution: the model is told, the turn goes on",
    "gadget_drone/tools/entry_points.py:_load": "other people's modules: the drone works without them",
    "gadget_drone/turn/work.py:work": "the drone's work on a turn: the turn ends with a code, the daemon goes on",
}
"""Where every exception may be caught and kept. The door of HTTP is an exception handler of FastAPI (problems.py)."""

NO_NAMES = {"utils", "util", "helpers", "helper", "common", "services", "managers", "misc"}


def modules(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def imported(path: Path) -> Iterator[str]:
    """The top-level names of all that a module imports, within functions and for types alone too."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                yield path.relative_to(ROOT).parts[0]
            else:
                assert node.module is not None
                yield node.module.partition(".")[0]


def third_party(package: str) -> dict[str, str]:
    """Imported name -> one module that imports it."""
    own = {*PACKAGES, *sys.stdlib_module_names}
    return {
        name: str(path.relative_to(ROOT)) for path in modules(package) for name in imported(path) if name not in own
    }


def run_python(program: str, *arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
    """Runs `program` in an empty home, which is also its current directory."""
    environment = {"PATH": os.environ.get("PATH", ""), "HOME": str(home), "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-B", "-W", "error", "-c", program, *arguments],
        cwd=home,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )


def tracked_files() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.decode()
    return [path for name in listed.split("\0") if name and (path := ROOT / name).is_file()]


def texts() -> Iterator[tuple[str, str]]:
    """Every tracked file that is text: its name and content."""
    for path in tracked_files():
        data = path.read_bytes()
        if b"\0" not in data:
            yield str(path.relative_to(ROOT)), data.decode("utf-8", "replace")


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_import_one_way(package: str) -> None:
    for path in modules(package):
        siblings = {name for name in imported(path) if name in PACKAGES} - {package}
        assert siblings <= ARROWS[package], f"{path.relative_to(ROOT)} imports {siblings - ARROWS[package]}"


def rooms(package: str) -> dict[str, set[str]]:
    """Each sub-package, and each module beside them -> those of the package that it imports."""
    root = ROOT / package
    names = {path.stem for path in root.glob("*.py")} | {path.parent.name for path in root.glob("*/__init__.py")}
    graph: dict[str, set[str]] = {}
    for path in modules(package):
        room = path.relative_to(root).parts[0].removesuffix(".py")
        for node in ast.walk(parsed(path)):
            dotted = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                dotted = [f"{node.module}.{alias.name}" for alias in node.names]
            imported_rooms = {name.split(".")[1] for name in dotted if name.startswith(f"{package}.")} & names
            graph.setdefault(room, set()).update(imported_rooms - {room})
    return graph


@pytest.mark.parametrize("package", ["gadget_code", "gadget_drone"])
def test_sub_packages_import_one_way(package: str) -> None:
    try:
        TopologicalSorter(rooms(package)).prepare()
    except CycleError as exc:
        pytest.fail(" imports ".join(reversed(exc.args[1])))


TIMES_OF_DAY = {
    "gadget_drone/checkpoints/prune.py",  # the age of checkpoints, which git dates
    "gadget_drone/checkpoints/store.py",  # the date of a commit
    "gadget_drone/files/reading.py",  # the age of a file, which the file system dates
}


def test_no_duration_is_read_off_the_time_of_day() -> None:
    """`time.time()`, and what is subtracted from `utc_now()`: somebody may set the machine's clock meanwhile."""
    found = set()
    for path in (path for package in PACKAGES for path in modules(package)):
        for node in ast.walk(ast.parse(path.read_text())):
            called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            if called == "time.time":
                found.add(str(path.relative_to(ROOT)))
            measured = ast.unparse(node) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) else ""
            assert not (path.is_relative_to(ROOT / "gadget_drone") and measured.startswith("utc_now()")), path
    assert found <= TIMES_OF_DAY


def test_nothing_in_the_product_imports_the_tests() -> None:
    for package in PACKAGES:
        for path in modules(package):
            assert "tests" not in set(imported(path)), path


def test_what_can_be_said_needs_pydantic_alone(tmp_path: Path) -> None:
    assert third_party("gadget_api").keys() - OPTIONAL.keys() == {"pydantic"}
    names = [f"gadget_api.{path.stem}" for path in modules("gadget_api") if path.stem != "__init__"]
    assert not loaded_by(tmp_path, *names) & OPTIONAL.keys()


LOADS = (
    "import importlib, json, sys; [importlib.import_module(m) for m in sys.argv[1:]]; print(json.dumps([*sys.modules]))"
)


def loaded_by(home: Path, *names: str) -> set[str]:
    ran = run_python(LOADS, *names, home=home)
    assert ran.returncode == 0, ran.stderr
    return {name.partition(".")[0] for name in json.loads(ran.stdout)}


def test_a_drone_loads_no_web_server_and_no_database_driver(tmp_path: Path) -> None:
    loaded = loaded_by(tmp_path, "gadget_drone.cli", "gadget_drone.daemon", "gadget_drone.start")
    assert not loaded & {"fastapi", "starlette", "uvicorn", "pymongo", "bson", "argon2", "gadget_code"}


def test_the_web_service_loads_no_model_sdk(tmp_path: Path) -> None:
    loaded = loaded_by(tmp_path, "gadget_code.app", "gadget_code.server.serve")
    assert not loaded & {"openai", "ollama", "gadget_ai", "gadget_drone"}


IMPORT_ALL = """
import importlib, logging, os, signal, sys, threading
def state():
    return (
        dict(os.environ), os.getcwd(), threading.active_count(), logging.getLogger().handlers[:],
        logging.getLogger().level, [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)],
    )
before = state()
for name in sys.argv[1:]:
    importlib.import_module(name)
    assert state() == before, name
"""


@pytest.mark.parametrize("package", PACKAGES)
def test_importing_any_module_does_nothing_visible(package: str, tmp_path: Path) -> None:
    # A __main__ is a program, not a module that anyone imports.
    paths = [path.relative_to(ROOT) for path in modules(package) if path.stem != "__main__"]
    names = [".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in paths]
    ran = run_python(IMPORT_ALL, *names, home=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == ran.stderr == ""
    assert list(tmp_path.iterdir()) == []


HELP = """
import contextlib, io, json, sys
from importlib import import_module
main = import_module(sys.argv[1]).main
status, said = None, io.StringIO()
with contextlib.redirect_stdout(said):
    try:
        main([*sys.argv[2:], "--help"])
    except SystemExit as exit:
        status = exit.code
print(json.dumps({"status": status, "said": said.getvalue(), "loaded": [*sys.modules]}))
"""


@pytest.mark.parametrize(
    ("module", "command"),
    [
        ("gadget_code.cli", []),
        *(("gadget_code.cli", [name]) for name in ("up", "serve", "user", "login", "prompt", "project", "provider")),
        ("gadget_drone.cli", []),
        *(("gadget_drone.cli", [name]) for name in ("start", "status", "doctor")),
    ],
)
def test_help_loads_nothing_heavy(module: str, command: list[str], tmp_path: Path) -> None:
    ran = run_python(HELP, module, *command, home=tmp_path)
    assert ran.returncode == 0, ran.stderr
    answer: dict[str, Any] = json.loads(ran.stdout)
    assert answer["status"] == 0
    assert "usage:" in answer["said"]
    assert not unwanted(set(answer["loaded"]), FOR_USAGE)


@pytest.mark.parametrize("module", ["gadget_code.cli", "gadget_drone.cli"])
def test_wrong_usage_loads_nothing_heavy(module: str, tmp_path: Path) -> None:
    ran = run_python(HELP.replace('"--help"', '"--nonsense"'), module, home=tmp_path)
    answer: dict[str, Any] = json.loads(ran.stdout)
    assert answer["status"] == 2
    assert not unwanted(set(answer["loaded"]), FOR_USAGE)


def test_no_module_is_named_after_nothing() -> None:
    for package in (*PACKAGES, "tests"):
        for path in modules(package):
            names = {part.removesuffix(".py") for part in path.relative_to(ROOT).parts}
            assert not names & NO_NAMES, path


def requirement_name(requirement: str) -> str:
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found is not None, requirement
    return normal(found[0])


def normal(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()


@pytest.mark.parametrize("package", PACKAGES)
def test_each_extra_covers_what_its_packages_import(package: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extra = EXTRAS[package]
    required = [*project["dependencies"], *(project["optional-dependencies"][extra] if extra else ())]
    covered = {requirement_name(requirement) for requirement in required}
    distributions = packages_distributions()
    for name, where in third_party(package).items():
        if name in OPTIONAL:
            named = {requirement_name(each) for each in project["optional-dependencies"][OPTIONAL[name]]}
            assert any(each.startswith(name) for each in named), f"{where} imports {name}"
            continue
        owners = {normal(owner) for owner in distributions.get(name, ())}
        assert owners, f"{where} imports {name}, which is not installed"
        named = owners | {PARTS[owner] for owner in owners if owner in PARTS}
        assert named & covered, f"{where} imports {name}: add {', '.join(owners)} to the extra {extra or '(none)'}"


def test_no_tracked_file_names_a_path_of_somebodys_machine() -> None:
    # A directory that a person's or a build's files live in; `~` and relative paths say the same for everyone.
    machine = re.compile(r"(?<![\w.~*$}-])/(?:work|root|Users/\w+|home/\w+)/")
    found = [f"{name}: {match[0]}" for name, text in texts() for match in machine.finditer(text)]
    assert found == []


def test_no_tracked_file_names_a_package_registry() -> None:
    registry = re.compile(
        r"(?:extra-)?index-url\b|\"resolved\":|\bregistry\s*=|--registry\b"
        r"|https?://[^\s\"'<>)]*(?:pypi|pythonhost|npmjs|registry\.|artifactory|nexus|/simple\b)",
        re.IGNORECASE,
    )
    own = Path(__file__).relative_to(ROOT)
    found = [f"{name}: {match[0]}" for name, text in texts() if name != str(own) for match in registry.finditer(text)]
    assert found == []


def test_lock_files_pin_versions_and_no_place() -> None:
    for path in tracked_files():
        if path.name == "package-lock.json":
            packages = json.loads(path.read_text())["packages"]
            assert all("resolved" not in entry for entry in packages.values()), path
            assert all("integrity" in entry for name, entry in packages.items() if name), path


class _BroadHandlers(ast.NodeVisitor):
    """Every handler that takes all exceptions, by the qualified name of what it is in."""

    def __init__(self) -> None:
        self.found: list[tuple[str, ast.ExceptHandler]] = []
        self.suppressed: list[str] = []
        self._names: list[str] = []

    def _named(self, node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._names.append(node.name)
        self.generic_visit(node)
        self._names.pop()

    visit_ClassDef = visit_FunctionDef = visit_AsyncFunctionDef = _named

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.type is None or _is_broad(node.type):
            self.found.append((".".join(self._names), node))
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called == "suppress" and any(map(_is_broad, node.args)):
            self.suppressed.append(".".join(self._names))
        self.generic_visit(node)


def _is_broad(node: ast.expr) -> bool:
    return any(isinstance(n, ast.Name) and n.id in ("Exception", "BaseException") for n in ast.walk(node))


def lets_all_through(handler: ast.ExceptHandler) -> bool:
    """Whether a handler cleans up and ends with a bare `raise`: nothing stops at it."""
    last = handler.body[-1]
    leaves = any(isinstance(node, ast.Return | ast.Break | ast.Continue) for node in ast.walk(handler))
    return isinstance(last, ast.Raise) and last.exc is None and not leaves


def broad_handlers() -> Iterator[tuple[str, ast.ExceptHandler]]:
    for package in PACKAGES:
        for path in modules(package):
            visitor = _BroadHandlers()
            visitor.visit(parsed(path))
            where = path.relative_to(ROOT)
            assert not visitor.suppressed, f"{where}: suppress() of everything in {visitor.suppressed}"
            yield from ((f"{where}:{name}", handler) for name, handler in visitor.found)


def test_everything_is_caught_at_the_doors_alone() -> None:
    stopping = {name for name, handler in broad_handlers() if not lets_all_through(handler)}
    assert stopping == DOORS.keys()


def test_each_door_logs_the_traceback_and_lets_cancellation_through() -> None:
    for name, handler in broad_handlers():
        if lets_all_through(handler):
            continue
        assert isinstance(handler.type, ast.Name), name
        assert handler.type.id == "Exception", f"{name} would swallow cancellation"
        called = {node.attr for node in ast.walk(handler) if isinstance(node, ast.Attribute)}
        assert "exception" in called, f"{name} does not log the traceback"
