import asyncio
import json
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from gadget_api.messages import ToolCallRequest
from gadget_api.permissions import Access, Capability
from gadget_drone.errors import ToolError
from gadget_drone.tools.tool import SideEffect, Tool, ToolContext, ToolResult, tool
from gadget_drone.tools.toolbox import Preview, Toolbox


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


def a_call(name: str, /, **params: Any) -> ToolCallRequest:
    return ToolCallRequest(call_id="c", name=name, params=params)


@pytest.mark.parametrize(
    ("called", "effect"),
    [
        (a_call("read", path="a"), SideEffect.READ_ONLY),
        (a_call("search", pattern="a"), SideEffect.READ_ONLY),
        (a_call("fetch", url="https://example.org"), SideEffect.READ_ONLY),
        (a_call("git", action="status"), SideEffect.READ_ONLY),
        (a_call("git", action="branch"), SideEffect.READ_ONLY),
        (a_call("git", action="branch", name="x"), SideEffect.OTHER),
        (a_call("git", action="switch", name="x"), SideEffect.IDEMPOTENT),
        (a_call("git", action="commit", message="x"), SideEffect.OTHER),
        (a_call("job", action="wait", job_id="x"), SideEffect.READ_ONLY),
        (a_call("job", action="stop", job_id="x"), SideEffect.IDEMPOTENT),
        (a_call("job", action="write", job_id="x", input="x"), SideEffect.OTHER),
        (a_call("ask_user", question="x"), SideEffect.RESUMABLE),
        (a_call("write", path="x", content=""), SideEffect.IDEMPOTENT),
        (a_call("shell", command="x"), SideEffect.OTHER),
        (a_call("shell", comand="x"), SideEffect.READ_ONLY),
        (a_call("shel", command="x"), SideEffect.READ_ONLY),
    ],
    ids=lambda value: " ".join(map(str, value.params.values())) if isinstance(value, ToolCallRequest) else str(value),
)
def test_what_a_call_does_is_known_before_it_runs(called: ToolCallRequest, effect: SideEffect) -> None:
    assert Toolbox.standard().effect_of(called) is effect
    assert Toolbox.standard().parallel(called) is (effect is SideEffect.READ_ONLY)


@pytest.mark.parametrize(
    ("called", "accesses"),
    [
        (a_call("list"), ["read ."]),
        (a_call("list", path="src"), ["read src"]),
        (a_call("glob", pattern="*.py", path="src"), ["read src"]),
        (a_call("search", pattern="x", path="../y"), ["read ../y"]),
        (a_call("shell", command="rm -rf x | cat"), ["execute rm -rf x | cat"]),
        (a_call("shell", command="x", background=True), ["execute x"]),
        (a_call("job", action="list"), []),
        (a_call("job", action="write", job_id="a", input="rm x\n"), ["execute rm x\n", "execute $(unreadable) rm x\n"]),
        (a_call("job", action="write", job_id="a", input=""), []),
        (a_call("git", action="diff"), ["git diff", "read ."]),
        (a_call("git", action="diff", paths=["a", "b"]), ["git diff", "read a", "read b"]),
        (a_call("git", action="blame", paths=[".env"]), ["git blame", "read .env"]),
        (a_call("git", action="show", ref="HEAD:.env"), ["git show", "read .env"]),
        (a_call("git", action="show", ref="HEAD:"), ["git show", "read ."]),
        (a_call("git", action="commit", message="x", all=True), ["git commit"]),
        (a_call("git", action="switch", name="main"), ["git switch main", "write (unknown) what git changes"]),
        (a_call("git", action="branch", name="new"), ["git branch new"]),
        (a_call("fetch", url="HTTPS://Example.ORG.:8443/a#b"), ["network example.org"]),
        (a_call("fetch", url="https://b\u00fccher.example"), ["network xn--bcher-kva.example"]),
        (a_call("fetch", url="https://[2606:4700::1111]/"), ["network 2606:4700::1111"]),
        (a_call("fetch", url="file:///etc/passwd"), []),
        (a_call("todo", items=[]), []),
        (a_call("ask_user", question="x"), []),
        (a_call("shell"), []),
    ],
    ids=str,
)
def test_what_a_call_reaches_is_known_before_it_runs(called: ToolCallRequest, accesses: list[str]) -> None:
    found = Toolbox.standard().accesses(called)
    assert [f"{access.capability} {access.target}" for access in found] == accesses


def test_a_tool_that_declares_no_access_counts_as_a_command_of_its_name() -> None:
    access = Access(capability=Capability.EXECUTE, target="tool:echo", is_tool=True)
    assert toolbox.accesses(a_call("echo", text="x")) == [access]


async def test_what_would_be_approved_is_shown_byte_for_byte(context: ToolContext) -> None:
    standard = Toolbox.standard()
    assert await standard.preview(a_call("shell", command="a\n b\x1b"), context) == Preview("a\n b\x1b", is_diff=False)
    assert await standard.preview(a_call("list"), context) is None
    assert await standard.preview(a_call("shell"), context) is None


async def test_what_the_tools_that_change_files_show_is_a_diff_and_a_command_never_is(
    project: Path, context: ToolContext
) -> None:
    (project / "f").write_text("a\n")
    diff = "--- a/f\n+++ b/f\n@@ -1,1 +1,1 @@\n-a\n+b\n"
    calls = [
        a_call("write", path="new", content="a\n"),
        a_call("edit", path="f", edits=[{"old_text": "a", "new_text": "b"}]),
        a_call("apply_patch", patch=diff),
        a_call("shell", command=f"git apply <<'X'\n{diff}X\n\\touch HIDDEN"),
    ]
    shown = [await Toolbox.standard().preview(call, context) for call in calls]
    assert [preview and preview.is_diff for preview in shown] == [True, True, True, False]


async def test_a_call_whose_access_or_preview_fails_must_not_run(context: ToolContext) -> None:
    def broken(*_: object, **__: object) -> Any:
        raise KeyError("bug")

    @tool(effect=SideEffect.OTHER, access=broken, preview=broken)
    async def odd(context: ToolContext) -> ToolResult:
        """Do it."""
        return ToolResult("done")

    with pytest.raises(ToolError, match="odd failed: KeyError"):
        Toolbox((odd,)).accesses(a_call("odd"))
    with pytest.raises(ToolError, match="odd failed: KeyError"):
        await Toolbox((odd,)).preview(a_call("odd"), context)


def test_schemas_are_short_and_need_no_references() -> None:
    class Part(BaseModel):
        title: str
        count: int | None = None

    @tool(effect=SideEffect.READ_ONLY)
    async def odd(context: ToolContext, parts: list[Part], first: Part | None = None) -> ToolResult:
        """Do it."""
        return ToolResult("")

    part = {
        "type": "object",
        "properties": {"title": {"type": "string"}, "count": {"type": "integer"}},
        "required": ["title"],
    }
    assert odd.spec.parameters["properties"] == {"parts": {"type": "array", "items": part}, "first": part}


def test_the_standard_toolbox_costs_the_model_little() -> None:
    # A tool as OpenAI's API takes it. JSON has about four characters a token.
    told = [
        {"type": "function", "function": {"name": s.name, "description": s.description, "parameters": s.parameters}}
        for s in Toolbox.standard().specs
    ]
    assert len(json.dumps(told)) / 4 < 3500


def test_the_file_tools_cost_few_tokens() -> None:
    names = {"read", "write", "edit", "apply_patch"}
    told = [[spec.name, spec.description, spec.parameters] for spec in Toolbox.standard().specs if spec.name in names]
    assert len(told) == 4
    assert len(json.dumps(told, separators=(",", ":"))) / 4 < 900  # a token of JSON is about 4 characters


@pytest.mark.parametrize("spec", Toolbox.standard().specs, ids=lambda spec: spec.name)
def test_every_built_in_parameter_is_described(spec: Any) -> None:
    assert spec.parameters["additionalProperties"] is False
    assert "title" not in str(spec.parameters)
    said_by_their_name = {"action", "sort", "url", "ignore_case"}
    for name, parameter in spec.parameters["properties"].items():
        assert "description" in parameter or name in said_by_their_name, name
