"""Tools of other distributions: each entry point of the group `gadget.tools` is a `Tool` or several of them."""

import logging
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points

from gadget_drone.tools.tool import Tool

log = logging.getLogger(__name__)

GROUP = "gadget.tools"


@dataclass(frozen=True)
class FoundTools:
    tools: tuple[Tool, ...]
    problems: tuple[str, ...]
    """One sentence for each that was not taken."""


def find_tools(taken: Collection[str]) -> FoundTools:
    """Loads what is installed, once for a process; `taken` are the names of the built-in tools. Nothing in it is fatal:
    what is broken is logged, and told in `problems`. Blocks: it imports other people's modules."""
    names = set(taken)
    tools: list[Tool] = []
    problems: list[str] = []
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value)):
        loaded = _load(entry)
        if isinstance(loaded, str):
            problems.append(f"{_named(entry)} {loaded}")
            continue
        for tool in loaded:
            if tool.spec.name in names:
                problems.append(f"{_named(entry)} brings a tool {tool.spec.name!r}, but there is one of that name.")
                continue
            names.add(tool.spec.name)
            tools.append(tool)
    for problem in problems:
        log.warning("%s", problem)
    return FoundTools(tuple(tools), tuple(problems))


def _load(entry: EntryPoint) -> tuple[Tool, ...] | str:
    """Its tools, or why there are none."""
    try:
        found = entry.load()
        tools = (found,) if isinstance(found, Tool) else tuple(found) if isinstance(found, Iterable) else ()
    except SystemExit:
        return "cannot be loaded: it ends the process."
    except Exception as error:
        log.exception("the entry point %s failed", entry.name)
        return f"cannot be loaded ({type(error).__name__}: {error}); mend it, or uninstall it."
    if not tools or not all(isinstance(tool, Tool) for tool in tools):
        return "is no tool: it must be a gadget_drone.tools.tool.Tool, or several."
    return tools


def _named(entry: EntryPoint) -> str:
    owner = f" of {entry.dist.name} {entry.dist.version}" if entry.dist is not None else ""
    return f"The entry point {entry.name!r}{owner} ({entry.value})"
