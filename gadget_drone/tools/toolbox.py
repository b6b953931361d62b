"""The tools of a turn, and the one door through which they run."""

import asyncio
import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

from gadget_ai.client import ToolSpec
from gadget_api.messages import ToolCallRequest
from gadget_api.permissions import Access
from gadget_drone.clip import clip, quoted
from gadget_drone.errors import ToolError
from gadget_drone.tools.apply_patch import apply_patch
from gadget_drone.tools.ask_user import ask_user
from gadget_drone.tools.edit import edit
from gadget_drone.tools.fetch import fetch
from gadget_drone.tools.git import git
from gadget_drone.tools.glob import glob
from gadget_drone.tools.job import job
from gadget_drone.tools.list import list_
from gadget_drone.tools.read import read
from gadget_drone.tools.search import search
from gadget_drone.tools.shell import shell
from gadget_drone.tools.todo import todo
from gadget_drone.tools.tool import SideEffect, Tool, ToolContext, ToolResult
from gadget_drone.tools.write import write

log = logging.getLogger(__name__)

BUILT_IN = (read, write, edit, apply_patch, list_, glob, search, shell, job, git, fetch, todo, ask_user)

_MAX_PROBLEMS = 10


@dataclass(frozen=True)
class Preview:
    """What a call would do."""

    text: str
    is_diff: bool
    """Whether the text is a unified diff that the tool made."""


class Toolbox:
    def __init__(self, tools: Iterable[Tool]) -> None:
        self._tools = {tool.spec.name: tool for tool in tools}

    @classmethod
    def standard(cls, third_party: Iterable[Tool] = ()) -> "Toolbox":
        """The built-in tools, and those of `find_tools`."""
        return cls((*BUILT_IN, *third_party))

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """What the model is told; always in the same order, so that a request's prefix stays the same."""
        return tuple(tool.spec for tool in self._tools.values())

    def effect_of(self, call: ToolCallRequest) -> SideEffect:
        """What a repeat of the call means; one that cannot run changes nothing."""
        with _told(call.name):
            found = self._valid(call)
            return SideEffect.READ_ONLY if found is None else found[0].effect_of(found[1])

    def parallel(self, call: ToolCallRequest) -> bool:
        """Whether it only reads: such calls of one answer may run at once."""
        return self.effect_of(call) is SideEffect.READ_ONLY

    def accesses(self, call: ToolCallRequest) -> list[Access]:
        """What the call would reach; nothing where `run` would refuse it unread. Raises ToolError where that cannot be
        said: the call must not run."""
        with _told(call.name):
            found = self._valid(call)
            return [] if found is None else found[0].accesses(found[1])

    async def preview(self, call: ToolCallRequest, context: ToolContext) -> Preview | None:
        """What the call would do, byte for byte; None where its arguments say all. Raises ToolError where it would
        fail."""
        with _told(call.name):
            found = self._valid(call)
            if found is None or (preview := found[0].preview) is None:
                return None
            return Preview(await asyncio.to_thread(preview, context, **found[1]), found[0].previews_diff)

    async def run(self, call: ToolCallRequest, context: ToolContext) -> ToolResult:
        """Runs one call. Every failure is a result with `is_error`; cancellation alone is raised."""
        try:
            with _told(call.name):
                tool, arguments = self._validated(call)
                result = await tool.function(context, **arguments)
        except ToolError as error:
            result = ToolResult(error.message, is_error=True)
        return replace(result, content=clip(result.content))

    def _valid(self, call: ToolCallRequest) -> tuple[Tool, dict[str, Any]] | None:
        try:
            return self._validated(call)
        except ToolError:
            return None

    def _validated(self, call: ToolCallRequest) -> tuple[Tool, dict[str, Any]]:
        if call.error is not None:
            raise ToolError(call.error)
        tool = self._tools.get(call.name)
        if tool is None:
            raise ToolError(f"There is no tool {quoted(call.name)}; there are: {', '.join(self._tools)}.")
        try:
            return tool, dict(tool.arguments.model_validate(call.params))
        except ValidationError as invalid:
            raise ToolError(f"Invalid arguments for {call.name}:\n{_problems(invalid)}") from invalid


@contextmanager
def _told(name: str) -> Iterator[None]:
    """Whatever goes wrong in a tool's own code is a `ToolError`."""
    try:
        yield
    except ToolError:
        raise
    except Exception as error:
        log.exception("the tool %s failed", quoted(name))
        raise ToolError(f"{name} failed: {type(error).__name__}: {error}") from error


def _problems(invalid: ValidationError) -> str:
    problems = invalid.errors(include_url=False, include_context=False, include_input=False)
    lines = [
        f"- {quoted('.'.join(map(str, problem['loc'])))}: {problem['msg']}" for problem in problems[:_MAX_PROBLEMS]
    ]
    if len(problems) > _MAX_PROBLEMS:
        lines.append(f"- and {len(problems) - _MAX_PROBLEMS} more")
    return "\n".join(lines)
