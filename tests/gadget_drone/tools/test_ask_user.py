from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from gadget_api.inquiries import Answer, Choice, InquiryStatus
from gadget_api.messages import ToolCallRequest
from gadget_drone.tools.tool import ToolContext, ToolResult
from gadget_drone.tools.toolbox import Toolbox


class User:
    """Answers as told, and keeps what was asked."""

    def __init__(self, status: InquiryStatus, answer: Answer | None = None) -> None:
        self.status = status
        self.answer = answer
        self.asked: list[tuple[str, list[str], Answer, bool]] = []

    async def __call__(
        self, question: str, choices: Sequence[Choice], *, default: Answer, takes_text: bool
    ) -> tuple[InquiryStatus, Answer]:
        self.asked.append((question, [choice.label for choice in choices], default, takes_text))
        return self.status, default if self.answer is None else self.answer


async def ask(context: ToolContext, user: User, **params: Any) -> ToolResult:
    call = ToolCallRequest(call_id="c", name="ask_user", params=params)
    return await Toolbox.standard().run(call, replace(context, ask=user))


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Answer(choice="2"), "The user chose: SQLite."),
        (Answer(text=" as you like\n"), "The user wrote: as you like."),
        (Answer(choice="1", text="v16"), "The user chose: Postgres; and wrote: v16."),
    ],
)
async def test_the_answer_comes_in_words(answer: Answer, said: str, context: ToolContext) -> None:
    user = User(InquiryStatus.ANSWERED, answer)
    result = await ask(context, user, question="Which?", choices=["Postgres", "SQLite"], default="SQLite")
    assert result == ToolResult(said)
    assert user.asked == [("Which?", ["Postgres", "SQLite"], Answer(choice="2"), True)]


async def test_without_an_answer_the_default_counts(context: ToolContext) -> None:
    nobody = User(InquiryStatus.EXPIRED)
    result = await ask(context, nobody, question="Which?", choices=["a", "b"], default="b", takes_text=False)
    assert result.content == "Nobody answered in time, so the default counts: b."
    assert nobody.asked[0][3] is False
    result = await ask(context, nobody, question="Why?")
    assert result.content.startswith("Nobody answered in time. Decide yourself")
    assert (await ask(context, User(InquiryStatus.WITHDRAWN), question="Why?")).is_error


async def test_where_there_is_no_user_the_default_counts(context: ToolContext) -> None:
    call = ToolCallRequest(call_id="c", name="ask_user", params={"question": "?", "choices": ["a"], "default": "a"})
    assert "the default counts: a" in (await Toolbox.standard().run(call, context)).content


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"choices": ["a"], "default": "b"}, "default must be one of the choices"),
        ({"takes_text": False}, "no way to answer"),
        ({"choices": ["a", "a"]}, "must differ"),
        ({"choices": list("abcdefg")}, "choices"),
    ],
)
async def test_a_question_that_is_none_is_not_asked(params: dict[str, Any], said: str, context: ToolContext) -> None:
    user = User(InquiryStatus.ANSWERED, Answer(text="x"))
    result = await ask(context, user, question="?", **params)
    assert result.is_error
    assert said in result.content
    assert user.asked == []
