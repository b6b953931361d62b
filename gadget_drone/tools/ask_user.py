"""The tool `ask_user`."""

from typing import Annotated

from pydantic import Field

from gadget_api.inquiries import Answer, Choice, InquiryStatus
from gadget_drone.clip import quoted
from gadget_drone.errors import ToolError
from gadget_drone.tools.access import reaches_nothing
from gadget_drone.tools.tool import SideEffect, ToolContext, ToolResult, tool

Label = Annotated[str, Field(min_length=1, max_length=500)]


@tool(effect=SideEffect.RESUMABLE, access=reaches_nothing)
async def ask_user(
    context: ToolContext,
    question: Annotated[str, Field(min_length=1, max_length=10_000, description="In Markdown, with what it is about.")],
    choices: Annotated[tuple[Label, ...], Field(max_length=6, description="Possible answers.")] = (),
    default: Annotated[str | None, Field(description="The choice that counts when nobody answers.")] = None,
    takes_text: Annotated[bool, Field(description="Take an answer in the user's own words too.")] = True,
) -> ToolResult:
    """Ask the user, and wait; the answer may take hours. Only for what you cannot find out and must not guess."""
    if not choices and not takes_text:
        raise ToolError("Give choices, or set takes_text: there is no way to answer.")
    if len(set(choices)) != len(choices):
        raise ToolError("The choices must differ.")
    if default is not None and default not in choices:
        raise ToolError(f"default must be one of the choices, not {quoted(default)}.")
    offered = [Choice(id=str(number), label=label) for number, label in enumerate(choices, 1)]
    labels = {choice.id: choice.label for choice in offered}
    fallback = Answer(choice=next((choice.id for choice in offered if choice.label == default), None))
    status, answer = await context.ask(question, offered, default=fallback, takes_text=takes_text)
    said = _said(answer, labels)
    match status:
        case InquiryStatus.ANSWERED:
            return ToolResult(f"The user {said or 'gave no answer: decide yourself'}.")
        case InquiryStatus.EXPIRED if default is not None:
            return ToolResult(f"Nobody answered in time, so the default counts: {default}.")
        case InquiryStatus.EXPIRED:
            return ToolResult("Nobody answered in time. Decide yourself, and say at the end what you assumed.")
        case _:
            return ToolResult("The question was withdrawn, unanswered.", is_error=True)


def _said(answer: Answer, labels: dict[str, str]) -> str:
    """What the user did, in words; empty when there is neither choice nor text."""
    text = (answer.text or "").strip()
    chose = f"chose: {labels.get(answer.choice, answer.choice)}" if answer.choice is not None else ""
    wrote = f"wrote: {text}" if text else ""
    return "; and ".join(part for part in (chose, wrote) if part)
