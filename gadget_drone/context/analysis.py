"""What a project is, in a few lines for the system prompt: languages, frameworks, commands, what is at its root.

Made without running anything of the project, in bounded time. Whatever is in the project, this is data: names are
written on one line and in quotes where they are not plain.
"""

import asyncio
import logging
import math
import re
from collections import OrderedDict
from pathlib import Path

from gadget_drone.clip import head, quoted
from gadget_drone.context.ecosystems import findings
from gadget_drone.context.languages import languages
from gadget_drone.context.project_files import ProjectFiles

log = logging.getLogger(__name__)

TIMEOUT_S = 2.0
MAX_BYTES = 1_600
"""About 400 tokens."""
_MAX_COMMANDS, _MAX_ENTRIES, _MAX_NESTED = 16, 40, 8
_MAX_SESSIONS = 16
_PLAIN = re.compile(r"[\w.@+-]{1,60}/?", re.ASCII)
_MANIFEST = re.compile(
    r"[\w.@+-]{1,40}(/[\w.@+-]{1,40})?/"
    r"(package\.json|pyproject\.toml|Cargo\.toml|go\.mod|pom\.xml|build\.gradle(\.kts)?|composer\.json|Gemfile)",
    re.ASCII,
)
_CI = re.compile(
    r"\.github/workflows/[\w.-]{1,60}\.ya?ml|\.gitlab-ci\.yml|Jenkinsfile|\.circleci/config\.yml|azure-pipelines\.yml"
    r"|\.travis\.yml|\.drone\.yml|bitbucket-pipelines\.yml|\.woodpecker\.ya?ml",
    re.ASCII,
)
_CONTAINERS = re.compile(r"Dockerfile|Containerfile|(docker-)?compose\.ya?ml", re.ASCII)


class Analyses:
    """Made once for each session: a prompt that changed with every file would cost the provider's cache each time."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, str] = OrderedDict()

    async def of(self, session_id: str, project_dir: Path) -> str:
        """The analysis of the project that the session works on; "" when it took too long."""
        if session_id not in self._known:
            try:
                async with asyncio.timeout(2 * TIMEOUT_S):  # a disk that does not answer holds a thread, and no more
                    text = await asyncio.to_thread(analyse, project_dir)
            except TimeoutError:
                log.warning("%s could not be looked at in time", project_dir)
                text = ""
            self._known[session_id] = text
            while len(self._known) > _MAX_SESSIONS:
                self._known.popitem(last=False)
        self._known.move_to_end(session_id)
        return self._known[session_id]


def analyse(project_dir: Path, *, timeout_s: float = TIMEOUT_S) -> str:
    """At most `MAX_BYTES` of text; the same for the same files. Blocks, for about `timeout_s` at most."""
    files = ProjectFiles(project_dir, timeout_s=timeout_s)
    if not files.paths:
        return "It has no files yet."
    found = findings(files)
    nested, ci, containers = ([match[0] for match in files.fitting(kind)] for kind in (_MANIFEST, _CI, _CONTAINERS))
    lines = [
        ("Size", _size(len(files.paths), files.is_complete)),
        ("Languages by files", languages(files.paths)),
        ("Frameworks and libraries", ", ".join(sorted(found.frameworks))),
        ("Package managers", ", ".join(dict.fromkeys(found.managers))),
        ("Commands it has", ", ".join(f"`{command}`" for command in _first(found.commands, _MAX_COMMANDS))),
        ("Parts of their own", _some(nested, _MAX_NESTED)),
        ("CI", _some(ci, 4)),
        ("Containers", _some(containers, 4)),
        ("At its root", _some(_root(files.paths), _MAX_ENTRIES)),
    ]
    return _bounded([f"{name}: {said}" for name, said in lines if said])


def _bounded(lines: list[str]) -> str:
    text = "\n".join(lines)
    return text if len(text.encode()) <= MAX_BYTES else f"{head(text, MAX_BYTES - 4)} …"


def _size(count: int, is_complete: bool) -> str:
    """Rounded to one digit, so that it does not change with every file."""
    unit = 10 ** int(math.log10(count))
    return f"{'about' if is_complete else 'more than'} {round(count / unit) * unit:,} files"


def _root(paths: list[str]) -> list[str]:
    """Directories first."""
    parts = [path.partition("/") for path in paths]
    directories = sorted({name + "/" for name, slash, _ in parts if slash})
    return [_name(name) for name in [*directories, *sorted(name for name, slash, _ in parts if not slash)]]


def _name(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else quoted(name, 60)


def _first(names: list[str], most: int) -> list[str]:
    return list(dict.fromkeys(names))[:most]


def _some(names: list[str], most: int) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
