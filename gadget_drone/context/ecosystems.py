"""What a project's own files say about how it is built, tested and checked: one function for each kind of project.

They answer with commands that they make of names they know; nothing that is written in the project is repeated, but for
the names of scripts and targets, which are checked.
"""

import json
import re
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from gadget_drone.context.project_files import ProjectFiles

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,39}")
_USEFUL = re.compile(
    r"(build|compile|test|tests|check|checks|lint|lints|format|fmt|types?|type-?check|tsc|ci|verify|e2e|unit|coverage|bench"
    r"|dev|start|serve|run|install|setup|generate|docs?)([:_.-].*)?"
)
_MAX_SCRIPTS = 10
_TARGET = re.compile(r"^([A-Za-z0-9][A-Za-z0-9_.-]{0,39})(?:[ \t][A-Za-z0-9_. \t-]{0,80})?:(?![=:])", re.MULTILINE)
_RECIPE = re.compile(r"^@?([A-Za-z0-9][A-Za-z0-9_-]{0,39})(?:\s[^:=\n]{0,200})?:(?!=)", re.MULTILINE)
_REQUIREMENT = re.compile(r"^\s*([A-Za-z0-9][A-Za-z0-9._-]*)", re.MULTILINE)


@dataclass
class Findings:
    frameworks: set[str] = field(default_factory=set)
    managers: list[str] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    """In the order in which they were found."""

    def of_dependencies(self, names: set[str], known: str) -> None:
        """`known`: names of dependencies; `a=B` where the framework has another name."""
        for entry in known.split():
            name, _, shown = entry.partition("=")
            if name in names:
                self.frameworks.add(shown.replace("_", " ") or name)


def findings(files: ProjectFiles) -> Findings:
    """What all of them found at the root of the project."""
    found = Findings()
    for look in _LOOKERS:
        look(files, found)
    return found


def _node(files: ProjectFiles, found: Findings) -> None:
    if "package.json" not in files.names:
        return
    package = _json(files.text("package.json"))
    locks = {"pnpm-lock.yaml": "pnpm", "yarn.lock": "yarn", "bun.lock": "bun", "bun.lockb": "bun"}
    manager = next((manager for lock, manager in locks.items() if lock in files.names), "npm")
    found.managers.append(manager)
    found.commands += [f"{manager} run {name}" for name in _useful(_table(package, "scripts"))]
    names = {*_table(package, "dependencies"), *_table(package, "devDependencies")}
    found.of_dependencies(
        names,
        "react=React next=Next.js vue=Vue nuxt=Nuxt svelte=Svelte @sveltejs/kit=SvelteKit @angular/core=Angular "
        "solid-js=Solid astro=Astro express=Express fastify=Fastify @nestjs/core=NestJS koa=Koa hono=Hono "
        "electron=Electron react-native=React_Native vite=Vite webpack jest=Jest vitest=Vitest mocha=Mocha "
        "@playwright/test=Playwright cypress=Cypress eslint=ESLint @biomejs/biome=Biome prettier=Prettier "
        "typescript=TypeScript tailwindcss=Tailwind prisma=Prisma",
    )


def _python(files: ProjectFiles, found: Findings) -> None:
    project = _toml(files.text("pyproject.toml")) if "pyproject.toml" in files.names else {}
    tools = _table(project, "tool")
    requirements = [path for path in sorted(files.names) if re.fullmatch(r"requirements[\w.-]*\.txt", path)]
    locks = {"uv.lock": "uv", "poetry.lock": "poetry", "pdm.lock": "pdm", "Pipfile.lock": "pipenv"}
    manager = next((manager for lock, manager in locks.items() if lock in files.names), None)
    if project or requirements or "setup.py" in files.names or "setup.cfg" in files.names:
        found.managers.append(manager or ("hatch" if "hatch" in tools else "pip"))
    elif manager is None:
        return
    run = f"{manager} run " if manager else ""
    names = {*_python_dependencies(project)}
    for path in requirements[:3]:
        names |= {name.lower() for name in _REQUIREMENT.findall(files.text(path))}
    has_tests = any(map(_is_python_test, files.paths))
    if "pytest" in tools or "pytest" in names or "pytest.ini" in files.names or "conftest.py" in files.names:
        found.commands.append(f"{run}pytest")
    elif has_tests:
        found.commands.append(f"{run}python -m unittest")
    if "ruff" in tools or "ruff" in names or {"ruff.toml", ".ruff.toml"} & files.names:
        found.commands += [f"{run}ruff check .", f"{run}ruff format ."]
    if "black" in tools or "black" in names:
        found.commands.append(f"{run}black .")
    if "flake8" in names or ".flake8" in files.names:
        found.commands.append(f"{run}flake8")
    if "mypy" in tools or "mypy" in names or "mypy.ini" in files.names:
        found.commands.append(f"{run}mypy{'' if 'mypy' in tools else ' .'}")
    if "pyright" in tools or "pyright" in names or "pyrightconfig.json" in files.names:
        found.commands.append(f"{run}pyright")
    if "tox" in tools:
        found.commands.append("tox")
    if "manage.py" in files.names and "django" in names:
        found.commands.append(f"{run}python manage.py test")
    found.of_dependencies(
        names,
        "django=Django flask=Flask fastapi=FastAPI starlette=Starlette aiohttp tornado=Tornado pydantic "
        "sqlalchemy=SQLAlchemy celery=Celery numpy=NumPy pandas "
        "torch=PyTorch tensorflow=TensorFlow scikit-learn hypothesis=Hypothesis",
    )


def _python_dependencies(project: dict[str, Any]) -> Iterator[str]:
    """Names of all dependencies in a pyproject.toml, in lower case."""
    about = _table(project, "project")
    poetry = _table(_table(project, "tool"), "poetry")
    groups = [
        about.get("dependencies"),
        *_table(about, "optional-dependencies").values(),
        *_table(project, "dependency-groups").values(),
    ]
    for group in groups:
        for entry in group if isinstance(group, list) else ():
            if isinstance(entry, str) and (match := _REQUIREMENT.match(entry)):
                yield match[1].lower()
    for table in (poetry, *_tables(_table(poetry, "group"))):
        yield from (name.lower() for key in ("dependencies", "dev-dependencies") for name in _table(table, key))


def _is_python_test(path: str) -> bool:
    return path.endswith("_test.py") or (path.endswith(".py") and path.rpartition("/")[2].startswith("test_"))


def _rust(files: ProjectFiles, found: Findings) -> None:
    if "Cargo.toml" not in files.names:
        return
    manifest = _toml(files.text("Cargo.toml"))
    found.managers.append("cargo")
    found.commands += ["cargo build", "cargo test", "cargo clippy", "cargo fmt"]
    names = {*_table(manifest, "dependencies"), *_table(_table(manifest, "workspace"), "dependencies")}
    found.of_dependencies(names, "tokio axum actix-web=Actix rocket=Rocket bevy=Bevy tauri=Tauri serde clap warp")


def _go(files: ProjectFiles, found: Findings) -> None:
    if "go.mod" not in files.names:
        return
    found.managers.append("go modules")
    found.commands += ["go build ./...", "go test ./...", "go vet ./...", "gofmt -l ."]
    if {".golangci.yml", ".golangci.yaml", ".golangci.toml"} & files.names:
        found.commands.append("golangci-lint run")
    names = set(re.findall(r"^\s*(?:require\s+)?([\w.-]+\.[\w.-]+/[\w./-]+)\s+v", files.text("go.mod"), re.MULTILINE))
    found.of_dependencies(
        names,
        "github.com/gin-gonic/gin=Gin github.com/labstack/echo/v4=Echo github.com/gofiber/fiber/v2=Fiber "
        "github.com/spf13/cobra=Cobra github.com/go-chi/chi/v5=chi gorm.io/gorm=GORM",
    )


def _jvm(files: ProjectFiles, found: Findings) -> None:
    if "pom.xml" in files.names:
        maven = "./mvnw" if "mvnw" in files.names else "mvn"
        found.managers.append("Maven")
        found.commands += [f"{maven} compile", f"{maven} test"]
        build = files.text("pom.xml")
    elif gradle := next((name for name in ("build.gradle", "build.gradle.kts") if name in files.names), None):
        runner = "./gradlew" if "gradlew" in files.names else "gradle"
        found.managers.append("Gradle")
        found.commands += [f"{runner} build", f"{runner} test"]
        build = files.text(gradle)
    else:
        return
    for mark, framework in (("springframework", "Spring"), ("quarkus", "Quarkus"), ("com.android", "Android")):
        if mark in build:
            found.frameworks.add(framework)


def _others(files: ProjectFiles, found: Findings) -> None:
    names = files.names
    if "composer.json" in names:
        composer = _json(files.text("composer.json"))
        found.managers.append("Composer")
        found.commands += [f"composer run {name}" for name in _useful(_table(composer, "scripts"))]
        needs = {*_table(composer, "require"), *_table(composer, "require-dev")}
        found.of_dependencies(
            needs, "laravel/framework=Laravel symfony/framework-bundle=Symfony phpunit/phpunit=PHPUnit"
        )
    if "Gemfile" in names:
        gems = set(re.findall(r"^\s*gem\s+[\"']([\w-]+)", files.text("Gemfile"), re.MULTILINE))
        found.managers.append("Bundler")
        found.of_dependencies(gems, "rails=Rails sinatra=Sinatra rspec=RSpec rspec-rails=RSpec rubocop=RuboCop")
        tests = [("rails", "bin/rails test"), ("rspec", "bundle exec rspec"), ("rubocop", "bundle exec rubocop")]
        found.commands += [command for gem, command in tests if gem in gems]
    if "mix.exs" in names:
        found.managers.append("Mix")
        found.commands += ["mix compile", "mix test", "mix format"]
    if {"deno.json", "deno.jsonc"} & names:
        found.managers.append("Deno")
        found.commands += ["deno test", "deno lint", "deno fmt"]
    if any(re.fullmatch(r"[^/]+\.(sln|slnx|csproj|fsproj)", path) for path in files.names):
        found.managers.append(".NET")
        found.commands += ["dotnet build", "dotnet test"]
    if "pubspec.yaml" in names:
        found.managers.append("pub")
        found.commands += ["dart test", "dart analyze"]
    if "Package.swift" in names:
        found.managers.append("SwiftPM")
        found.commands += ["swift build", "swift test"]
    if "CMakeLists.txt" in names:
        found.managers.append("CMake")
        found.commands += ["cmake -B build && cmake --build build", "ctest --test-dir build"]
    if "meson.build" in names:
        found.managers.append("Meson")
        found.commands += ["meson setup build && ninja -C build", "meson test -C build"]


def _runners(files: ProjectFiles, found: Findings) -> None:
    """What runs commands whatever the language."""
    if makefile := next((name for name in ("Makefile", "makefile", "GNUmakefile") if name in files.names), None):
        found.commands += [f"make {name}" for name in _useful(_TARGET.findall(files.text(makefile)))]
    if justfile := next((name for name in ("justfile", "Justfile", ".justfile") if name in files.names), None):
        found.commands += [f"just {name}" for name in _useful(_RECIPE.findall(files.text(justfile)))]
    if {"Taskfile.yml", "Taskfile.yaml"} & files.names:
        found.commands.append("task --list")
    if "tox.ini" in files.names:
        found.commands.append("tox")
    if "noxfile.py" in files.names:
        found.commands.append("nox")
    if ".pre-commit-config.yaml" in files.names:
        found.commands.append("pre-commit run --all-files")
    scripts = re.compile(r"(?:bin|scripts?)/([A-Za-z0-9][\w.-]{0,39})")
    named = [(match[0], match[1]) for match in files.fitting(scripts)]
    found.commands += [f"./{path}" for path, name in named if _USEFUL.fullmatch(name)][:_MAX_SCRIPTS]


_LOOKERS: tuple[Callable[[ProjectFiles, Findings], None], ...] = (_runners, _node, _python, _rust, _go, _jvm, _others)


def _useful(names: Any) -> list[str]:
    """Those of `names` that are what they seem, and that somebody who changes code runs; the first ten, each once."""
    fit = [name for name in names if _NAME.fullmatch(name) and _USEFUL.fullmatch(name)]
    return list(dict.fromkeys(fit))[:_MAX_SCRIPTS]


def _json(text: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _toml(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError):
        return {}


def _table(document: dict[str, Any], key: str) -> dict[str, Any]:
    value = document.get(key)
    return value if isinstance(value, dict) else {}


def _tables(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    return (value for value in document.values() if isinstance(value, dict))
