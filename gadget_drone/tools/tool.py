"""The tool seam: what a tool is, what it gets, and what it answers.

A tool is an async function whose signature and docstring are all the model is told of it:

    @tool(effect=SideEffect.READ_ONLY)
    async def weather(context: ToolContext, city: Annotated[str, Field(description="A town.")]) -> ToolResult:
        \"\"\"The weather in a city.\"\"\"
"""

import inspect
import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, create_model
from pydantic.json_schema import GenerateJsonSchema

from gadget_ai.client import ToolSpec
from gadget_api.errors import ErrorCode, GadgetError
from gadget_api.permissions import Access
from gadget_drone.editing.seen import SeenFiles
from gadget_drone.supervised import Supervisor


class SideEffect(StrEnum):
    """What it means to run a call again whose outcome is unknown."""

    READ_ONLY = "readOnly"
    IDEMPOTENT = "idempotent"
    """Changes something, and the same call again leaves it the same."""
    OTHER = "other"


class ToolError(GadgetError):
    """A failure that the model is told, in words it can act on; the turn goes on."""

    title = "The tool failed"

    def __init__(self, message: str, code: ErrorCode = ErrorCode.TOOL_FAILED) -> None:
        super().__init__(code, message)


@dataclass(frozen=True)
class Image:
    """An image that the model is shown beside the text."""

    media_type: str
    """One of `gadget_api.images.ImageType`."""
    data: bytes
    """At most 2,000,000."""
    width: int
    height: int
    """At most 1568 pixels, as the width."""


@dataclass(frozen=True)
class ToolResult:
    content: str
    """What the model is told: at most 64,000 bytes of UTF-8 once the toolbox hands it out."""
    is_error: bool = False
    whole: Path | None = None
    """A file in `ToolContext.spool_dir` with the entire output, where `content` had to be cut."""
    images: tuple[Image, ...] = ()


@dataclass(frozen=True)
class ToolContext:
    """Where a call runs."""

    project_dir: Path
    output: Callable[[str], None]
    """Takes live output, in pieces; called on the event loop, must be cheap."""
    spool_dir: Path
    """Large outputs are kept here."""
    supervisor: Supervisor
    """Runs commands."""
    seen: SeenFiles = field(default_factory=SeenFiles)
    """What the model knows of the files: one object for the whole session."""


ToolFunction = Callable[..., Awaitable[ToolResult]]
AccessFunction = Callable[..., Iterable[Access]]
"""What a call would reach; takes the validated arguments as keywords. Raises `ToolError` where they make no sense."""
PreviewFunction = Callable[..., str]
"""What a call would do, byte for byte, to be approved; takes the context and the arguments as keywords. May block, and
raises `ToolError` where the call would fail."""


class _CompactSchema(GenerateJsonSchema):
    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


@dataclass(frozen=True)
class Tool:
    spec: ToolSpec
    effect: SideEffect
    arguments: type[BaseModel]
    """Validates the arguments of a call."""
    function: ToolFunction
    access: AccessFunction | None = None
    preview: PreviewFunction | None = None

    @classmethod
    def of(
        cls,
        function: ToolFunction,
        *,
        effect: SideEffect,
        access: AccessFunction | None = None,
        preview: PreviewFunction | None = None,
    ) -> "Tool":
        """The tool that `function` is; its first parameter takes the `ToolContext`.

        A trailing underscore in its name is dropped. Raises TypeError when a parameter has no annotation or the
        docstring is missing.
        """
        name = function.__name__.rstrip("_")
        docstring = inspect.getdoc(function)
        if not docstring:
            raise TypeError(f"the tool {name} has no docstring")
        description = re.sub(r"(?<!\n)\n(?!\n)", " ", docstring)
        fields: dict[str, Any] = {}
        for parameter in list(inspect.signature(function, eval_str=True).parameters.values())[1:]:
            if parameter.annotation is parameter.empty:
                raise TypeError(f"the parameter {parameter.name} of the tool {name} has no annotation")
            default = ... if parameter.default is parameter.empty else parameter.default
            fields[parameter.name] = (parameter.annotation, default)
        config = ConfigDict(extra="forbid", hide_input_in_errors=True)
        arguments: type[BaseModel] = create_model(name, __config__=config, **fields)
        schema = arguments.model_json_schema(schema_generator=_CompactSchema)
        for titled in (schema, *schema.get("$defs", {}).values()):
            titled.pop("title", None)
        return cls(ToolSpec(name, description, schema), effect, arguments, function, access, preview)


def tool(
    *, effect: SideEffect, access: AccessFunction | None = None, preview: PreviewFunction | None = None
) -> Callable[[ToolFunction], Tool]:
    """Makes a `Tool` of the function below it."""
    return lambda function: Tool.of(function, effect=effect, access=access, preview=preview)
