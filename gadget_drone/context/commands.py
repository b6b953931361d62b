"""Prompts that speak to Gadget Code and not to the model."""

from dataclasses import dataclass

from gadget_api.history import is_command


@dataclass(frozen=True)
class Compact:
    """`/compact`, or `/compact what to keep in mind`."""

    focus: str | None


@dataclass(frozen=True)
class Clear:
    """`/clear`. What is written behind it counts for nothing."""


def read_command(prompt: str) -> Compact | Clear | None:
    """The command that `prompt` is; None for what goes to the model."""
    if not is_command(prompt):
        return None
    name, *rest = prompt.split(maxsplit=1)
    return Clear() if name == "/clear" else Compact(rest[0].strip() if rest else None)
