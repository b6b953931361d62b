import asyncio
import json
from typing import Annotated, Any

import pytest
from pydantic import Field

from gadget_api.messages import ToolCallRequest
from gadget_drone.tools.tool import SideEffect, Tool, ToolContext, ToolError, ToolResult, tool
from gadget_drone.tools.toolbox import Toolbox


@tool(effect=SideEffect.READ_ONLY)
async def echo_(
    context: ToolContext, text: Annotated[str, Field(description="What to say.")], times: int = 1
) -> ToolResult:
    """Say it
    again.

    Twice."""
    return ToolResult(text * times)


@tool(effect=SideEffect.OTHER)
async def explode(context: ToolContext, how: str) -> ToolResult:
    """Fail."""
    if how == "cancelled":
        raise asyncio.CancelledError
    raise ToolError("known") if how == "tool" else ZeroDivisionError("bug")


toolbox = Toolbox((echo_, explode))


async def call(context: ToolContext, name: str, error: str | None = None, **params: Any) -> ToolResult:
    return await toolbox.run(ToolCallRequest(call_id="c", name=name, params=params, error=error), context)


def test_a_tool_is_described_by_its_signature_and_docstring() -> None:
    assert echo_.spec.name == "echo"
    assert echo_.spec.description == "Say it again.\n\nTwice."
    assert echo_.spec.parameters == {
        "type": "object",
        "properties": {
            "text": {"type": "string", "description": "What to say."},
            "times": {"type": "integer", "default": 1},
        },
        "required": ["text"],
        "additionalProperties": False,
    }


def test_a_function_without_docstring_or_annotations_is_no_tool() -> None:
    async def silent(context: ToolContext) -> ToolResult:
        return ToolResult("")

    async def untyped(context: ToolContext, what) -> ToolResult:  # type: ignore[no-untyped-def]
        """Do it."""
        return ToolResult("")

    with pytest.raises(TypeError, match="docstring"):
        Tool.of(silent, effect=SideEffect.OTHER)
    with pytest.raises(TypeError, match="annotation"):
        Tool.of(untyped, effect=SideEffect.OTHER)


async def test_arguments_are_validated_and_defaults_filled_in(context: ToolContext) -> None:
    assert await call(context, "echo", text="ab") == ToolResult("ab")
    assert await call(context, "echo", text="ab", times="2") == ToolResult("abab")


async def test_bad_arguments_are_each_said_in_one_line_without_the_input(context: ToolContext) -> None:
    params = {"times": "x" * 100_000, "y" * 100_000: 1}
    result = await toolbox.run(ToolCallRequest(call_id="c", name="echo", params=params), context)
    assert result.is_error
    assert len(result.content) < 1000
    assert len(result.content.splitlines()) == 4
    assert "'text': Field required" in result.content


async def test_text_that_is_no_unicode_makes_an_error_or_valid_text(context: ToolContext) -> None:
    assert (await call(context, "echo", text="\ud800")).content == "?"
    write = ToolCallRequest(call_id="c", name="write", params={"path": "f", "content": "\ud800"})
    assert (await Toolbox.standard().run(write, context)).is_error
    assert not (context.project_dir / "f").exists()


async def test_a_call_that_came_broken_does_not_run(context: ToolContext) -> None:
    assert await call(context, "echo", error="arguments were cut off") == ToolResult("arguments were cut off", True)


async def test_an_unknown_tool_is_answered_with_those_there_are(context: ToolContext) -> None:
    result = await call(context, "ehco")
    assert result.is_error
    assert result.content == "There is no tool 'ehco'; there are: echo, explode."


async def test_failures_are_results_and_cancellation_is_not(context: ToolContext) -> None:
    assert await call(context, "explode", how="tool") == ToolResult("known", True)
    assert await call(context, "explode", how="bug") == ToolResult("explode failed: ZeroDivisionError: bug", True)
    with pytest.raises(asyncio.CancelledError):
        await call(context, "explode", how="cancelled")


async def test_content_never_exceeds_its_bound(context: ToolContext) -> None:
    result = await call(context, "echo", text="é", times=100_000)
    assert len(result.content.encode()) <= 64_000
    assert "bytes left out" in result.content


def test_effects_are_known_by_name() -> None:
    standard = Toolbox.standard()
    assert [spec.name for spec in standard.specs] == ["read", "write", "edit", "apply_patch", "list", "search", "shell"]
    read_only = {spec.name for spec in standard.specs if standard.effect_of(spec.name) is SideEffect.READ_ONLY}
    assert read_only == {"read", "list", "search"}
    assert standard.effect_of("write") is SideEffect.IDEMPOTENT
    assert standard.effect_of("shell") is SideEffect.OTHER


def test_the_file_tools_cost_few_tokens() -> None:
    names = {"read", "write", "edit", "apply_patch"}
    told = [[spec.name, spec.description, spec.parameters] for spec in Toolbox.standard().specs if spec.name in names]
    assert len(told) == 4
    assert len(json.dumps(told, separators=(",", ":"))) / 4 < 900  # a token of JSON is about 4 characters


@pytest.mark.parametrize("spec", Toolbox.standard().specs, ids=lambda spec: spec.name)
def test_every_built_in_parameter_is_described(spec: Any) -> None:
    assert spec.parameters["additionalProperties"] is False
    assert "title" not in str(spec.parameters)
    assert all("description" in parameter for parameter in spec.parameters["properties"].values())
