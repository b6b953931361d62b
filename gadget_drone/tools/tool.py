"""The tool seam: what a tool is, what it gets, and what it answers.

A tool is an async function whose signature and docstring are all the model is told of it:

    def reached(city: str) -> list[Access]:
        return [Access(capability=Capability.NETWORK, target="weather.example.org")]

    @tool(effect=SideEffect.READ_ONLY, access=reached)
    async def weather(context: ToolContext, city: Annotated[str, Field(description="A town.")]) -> ToolResult:
        \"\"\"The weather in a city.\"\"\"

`access` says what a call would reach; that is judged before it runs. How to add one: docs/howto/add-a-tool.md.
"""

import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict, create_model

from gadget_ai.client import ToolSpec
from gadget_api.inquiries import Answer, Choice, InquiryStatus
from gadget_api.permissions import Access, Capability
from gadget_drone.clip import quoted
from gadget_drone.disk.confined import relative_target
from gadget_drone.editing.seen import SeenFiles
from gadget_drone.errors import ToolError
from gadget_drone.jobs.jobs import Jobs
from gadget_drone.processes.environment import child_environment
from gadget_drone.processes.supervised import Supervised, Supervisor
from gadget_drone.tools.schema import compact_schema


class SideEffect(StrEnum):
    """What it means to run a call again whose outcome is unknown."""

    READ_ONLY = "readOnly"
    IDEMPOTENT = "idempotent"
    """Changes something, and the same call again leaves it the same."""
    RESUMABLE = "resumable"
    """Changes nothing, and waits for what is kept elsewhere: the same call again goes on waiting."""
    OTHER = "other"


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


class Ask(Protocol):
    """Asks the user, and waits, for hours where it must. EXPIRED and WITHDRAWN come with `default`."""

    async def __call__(
        self, question: str, choices: Sequence[Choice], *, default: Answer, takes_text: bool
    ) -> tuple[InquiryStatus, Answer]: ...


async def nobody(
    question: str, choices: Sequence[Choice], *, default: Answer, takes_text: bool
) -> tuple[InquiryStatus, Answer]:
    """Where there is no user to ask: the default counts."""
    return InquiryStatus.EXPIRED, default


class Sandboxed(Protocol):
    """Starts a command in a sandbox, in the project's directory. Raises NotStarted."""

    async def __call__(
        self,
        command: Sequence[str],
        env: Mapping[str, str],
        *,
        project_dir: Path,
        output: int,
        errors: int | None,
        stdin: int | None,
    ) -> Supervised: ...


@dataclass(frozen=True)
class ToolContext:
    """Where a call runs."""

    project_dir: Path
    output: Callable[[str], None]
    """Takes live output, in pieces; called on the event loop, must be cheap."""
    spool_dir: Path
    """Large outputs are kept here."""
    supervisor: Supervisor
    """Runs commands where there is no sandbox."""
    seen: SeenFiles = field(default_factory=SeenFiles)
    """What the model knows of the files: one object for the whole session."""
    jobs: Jobs = field(default_factory=Jobs)
    """What runs in the background for this session; whoever makes it closes it."""
    ask: Ask = nobody
    network: bool = True
    """Whether commands may use the network."""
    sandboxed: Sandboxed | None = None
    allow_private: bool = False
    """Whether `fetch` may go to loopback and private addresses."""
    targets: Mapping[str, str] | None = None
    """Where the paths of the call lead, as they were judged; None: nobody judged it."""
    hidden: Sequence[str] = ()
    """What may not be read, as patterns of .gitignore: `search`, `list`, `glob` and `git` leave it out."""

    def target(self, path: str) -> str:
        """Where a path of the call leads, relative to the project: what was judged is what has to be opened. Blocks.

        Raises ToolError, also for a path that the tool's `access` does not name.
        """
        if self.targets is None:
            return relative_target(self.project_dir, path)
        if path not in self.targets:
            raise ToolError(f"{quoted(path)} was not judged: the tool did not say that it would reach it.")
        return self.targets[path]

    async def start(
        self,
        command: Sequence[str],
        *,
        output: int,
        errors: int | None = None,
        stdin: int | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Supervised:
        """Runs a program in the project's directory, in the sandbox where there is one; as `Supervisor.start` does.

        `env`: its whole environment, without secrets. Cancelled, it has started nothing. Raises NotStarted.
        """
        env, where = child_environment() if env is None else env, self.project_dir
        if self.sandboxed is None:
            return self.supervisor.start(command, cwd=where, env=env, output=output, errors=errors, stdin=stdin)
        return await self.sandboxed(command, env, project_dir=where, output=output, errors=errors, stdin=stdin)


ToolFunction = Callable[..., Awaitable[ToolResult]]
AccessFunction = Callable[..., Iterable[Access]]
"""What a call would reach; takes the validated arguments as keywords."""
PreviewFunction = Callable[..., str]
"""What a call would do, byte for byte, to be approved; takes the context and the arguments as keywords. May block, and
raises `ToolError` where the call would fail."""
EffectFunction = Callable[..., SideEffect]
"""Where the effect depends on the arguments; takes them as keywords."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")  # what OpenAI's API takes, and begins with a letter


@dataclass(frozen=True)
class Tool:
    spec: ToolSpec
    effect: SideEffect | EffectFunction
    arguments: type[BaseModel]
    """Validates the arguments of a call."""
    function: ToolFunction
    access: AccessFunction | None = None
    """None: the tool says nothing about it, and its name is what is judged."""
    preview: PreviewFunction | None = None
    previews_diff: bool = False
    """Whether `preview` makes a unified diff, which clients show as one."""

    @classmethod
    def of(
        cls,
        function: ToolFunction,
        *,
        effect: SideEffect | EffectFunction,
        access: AccessFunction | None = None,
        preview: PreviewFunction | None = None,
        previews_diff: bool = False,
    ) -> "Tool":
        """The tool that `function` is; its first parameter takes the `ToolContext`.

        A trailing underscore in its name is dropped. Raises TypeError when a parameter has no annotation, the
        docstring is missing, or the name is none that models take.
        """
        name = function.__name__.rstrip("_")
        if not _NAME.fullmatch(name):
            raise TypeError(f"a tool cannot be called {name!r}: ASCII letters, digits and _ alone, at most 64")
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
        spec = ToolSpec(name, description, compact_schema(arguments))
        return cls(spec, effect, arguments, function, access, preview, previews_diff)

    def effect_of(self, arguments: Mapping[str, Any]) -> SideEffect:
        """Of a call with these validated arguments."""
        return self.effect if isinstance(self.effect, SideEffect) else self.effect(**arguments)

    def accesses(self, arguments: Mapping[str, Any]) -> list[Access]:
        """What a call with these validated arguments would reach."""
        if self.access is None:
            return [Access(capability=Capability.EXECUTE, target=f"tool:{self.spec.name}", is_tool=True)]
        return list(self.access(**arguments))


def tool(
    *,
    effect: SideEffect | EffectFunction,
    access: AccessFunction | None = None,
    preview: PreviewFunction | None = None,
    previews_diff: bool = False,
) -> Callable[[ToolFunction], Tool]:
    """Makes a `Tool` of the function below it. Without `access` a call counts as EXECUTE of `tool:<name>`."""
    return lambda function: Tool.of(
        function, effect=effect, access=access, preview=preview, previews_diff=previews_diff
    )
