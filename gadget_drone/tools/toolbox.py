"""The tools of a turn, and the one door through which they run."""

import logging
from collections.abc import Iterable
from dataclasses import replace

from pydantic import ValidationError

from gadget_ai.client import ToolSpec
from gadget_api.messages import ToolCallRequest
from gadget_drone.tools.apply_patch import apply_patch
from gadget_drone.tools.clip import clip, quoted
from gadget_drone.tools.edit import edit
from gadget_drone.tools.list import list_
from gadget_drone.tools.read import read
from gadget_drone.tools.search import search
from gadget_drone.tools.shell import shell
from gadget_drone.tools.tool import SideEffect, Tool, ToolContext, ToolError, ToolResult
from gadget_drone.tools.write import write

log = logging.getLogger(__name__)

_MAX_PROBLEMS = 10


class Toolbox:
    def __init__(self, tools: Iterable[Tool]) -> None:
        self._tools = {tool.spec.name: tool for tool in tools}

    @classmethod
    def standard(cls) -> "Toolbox":
        """The built-in tools."""
        return cls((read, write, edit, apply_patch, list_, search, shell))

    @classmethod
    def read_only(cls) -> "Toolbox":
        """The built-in tools that change nothing: what plan mode works with."""
        return cls(tool for tool in cls.standard()._tools.values() if tool.effect is SideEffect.READ_ONLY)

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """What the model is told; always in the same order, so that a request's prefix stays the same."""
        return tuple(tool.spec for tool in self._tools.values())

    def effect_of(self, name: str) -> SideEffect:
        """What a repeat of a call means; a tool that is not here runs nothing."""
        tool = self._tools.get(name)
        return SideEffect.READ_ONLY if tool is None else tool.effect

    async def run(self, call: ToolCallRequest, context: ToolContext) -> ToolResult:
        """Runs one call. Every failure is a result with `is_error`; cancellation alone is raised."""
        try:
            result = await self._run(call, context)
        except ToolError as error:
            result = ToolResult(error.message, is_error=True)
        except Exception as error:
            log.exception("the tool %s failed", quoted(call.name))
            result = ToolResult(f"{call.name} failed: {type(error).__name__}: {error}", is_error=True)
        return replace(result, content=clip(result.content))

    async def _run(self, call: ToolCallRequest, context: ToolContext) -> ToolResult:
        if call.error is not None:
            raise ToolError(call.error)
        tool = self._tools.get(call.name)
        if tool is None:
            raise ToolError(f"There is no tool {quoted(call.name)}; there are: {', '.join(self._tools)}.")
        try:
            arguments = tool.arguments.model_validate(call.params)
        except ValidationError as invalid:
            raise ToolError(f"Invalid arguments for {call.name}:\n{_problems(invalid)}") from invalid
        return await tool.function(context, **dict(arguments))


def _problems(invalid: ValidationError) -> str:
    problems = invalid.errors(include_url=False, include_context=False, include_input=False)
    lines = [
        f"- {quoted('.'.join(map(str, problem['loc'])))}: {problem['msg']}" for problem in problems[:_MAX_PROBLEMS]
    ]
    if len(problems) > _MAX_PROBLEMS:
        lines.append(f"- and {len(problems) - _MAX_PROBLEMS} more")
    return "\n".join(lines)
