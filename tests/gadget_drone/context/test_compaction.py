"""Whatever is planned leaves a conversation that a model takes and that fits, and what matters most in it."""

from collections.abc import Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gadget_api.errors import ErrorCode
from gadget_api.history import messages_for_model
from gadget_api.messages import (
    TRIMMED_RESULT,
    Compaction,
    Message,
    ModelMessage,
    ToolCallRequest,
    ToolMessage,
    UserMessage,
)
from gadget_drone.context.compaction import CLEARED, ContextTooLong, Plan, Summarise, Trim, View, plan
from gadget_drone.context.facts import facts_of, is_summary
from gadget_drone.context.tokens import message_tokens
from tests.gadget_drone.context.conversations import fault, prompt, step, text, view


def mark(planned: Plan, said: str = "Use tabs.") -> Compaction:
    if isinstance(planned, Summarise):
        return planned.compaction(facts_of(planned.dropped), said)
    return planned.compaction


def done(view: View, planned: Plan, said: str = "Use tabs.") -> list[Message]:
    return messages_for_model([*view.messages, mark(planned, said)])


def tokens(messages: Sequence[Message]) -> int:
    return sum(map(message_tokens, messages))


def test_what_fits_is_left_alone() -> None:
    assert plan(view([prompt(), *step("a", text(900))], 1000)) is None


def test_old_results_give_way_first_large_ones_before_small_ones() -> None:
    messages = [prompt(), *step("small", text(300)), *step("old", text(4000)), *step("large", text(5000))]
    messages += [*step("last2", text(2000)), *step("last1", text(2000))]
    seen = view(messages, 13_000)
    planned = plan(seen)
    assert isinstance(planned, Trim)
    assert planned.compaction == Compaction(trimmed=("old", "large"))
    after = done(seen, planned)
    assert [m.content == TRIMMED_RESULT for m in after if isinstance(m, ToolMessage)] == [
        False,
        True,
        True,
        False,
        False,
    ]
    assert tokens(after) < 7_000


def test_the_last_steps_are_never_trimmed_while_there_is_another_way() -> None:
    messages: list[Message] = [prompt(text(3000)), ModelMessage(content=text(9000))]
    messages += [prompt(), *step("a", text(200)), *step("b", text(4000)), *step("c", text(4000))]
    seen = view(messages, 20_000, prompt_index=2)
    planned = plan(seen)
    assert isinstance(planned, Summarise)
    after = done(seen, planned)
    assert planned.trimmed == ()
    assert [m.call_id for m in after if isinstance(m, ToolMessage)][-2:] == ["b", "c"]


def test_a_prompt_that_still_fits_stays_word_for_word() -> None:
    old: list[Message] = [prompt("First."), ModelMessage(content=text(9000))]
    now: list[Message] = [prompt("Second, and exactly so."), *step("a"), *step("b"), *step("c")]
    seen = view([*old, *now], 8000, prompt_index=2)
    planned = plan(seen)
    assert isinstance(planned, Summarise)
    assert done(seen, planned)[1:] == now


def test_a_prompt_that_is_too_far_back_is_in_the_summary_word_for_word() -> None:
    messages: list[Message] = [prompt("Rename `x` to `y`,\n# but not in docs.")]
    for _ in range(60):
        messages += [ModelMessage(content=text(150)), UserMessage(content="on")]
    seen = view(messages, 4000)
    planned = plan(seen)
    assert isinstance(planned, Summarise)
    summary = done(seen, planned)[0]
    assert "> Rename `x` to `y`,\n> # but not in docs.\n" in summary.content


def test_a_prompt_that_fits_nowhere_is_refused_with_what_to_do() -> None:
    with pytest.raises(ContextTooLong, match="shorten it") as caught:
        plan(view([prompt("Hello."), prompt(text(5000))], 4000, prompt_index=1))
    assert caught.value.code is ErrorCode.CONTEXT_TOO_LONG


def test_a_window_that_the_tools_fill_is_refused_with_what_to_do() -> None:
    with pytest.raises(ContextTooLong, match="larger context window"):
        plan(view([prompt()], 4000, fixed_tokens=5000))


def test_one_result_that_is_larger_than_the_window_gives_way() -> None:
    seen = view([prompt(), *step("a", text(9000))], 6000)
    planned = plan(seen)
    assert isinstance(planned, Trim)
    assert planned.compaction.trimmed == ("a",)


def test_a_step_that_nothing_can_be_taken_from_is_refused() -> None:
    call = ToolCallRequest(call_id="a", name="write", params={"path": "a", "content": text(9000)})
    result = ToolMessage(call_id="a", name="write", content="ok")
    messages: list[Message] = [prompt(), ModelMessage(content="", tool_calls=(call,)), result]
    with pytest.raises(ContextTooLong, match="/clear"):
        plan(view(messages, 6000))


def test_a_user_may_have_a_short_conversation_summarised_and_the_last_steps_stay() -> None:
    messages: list[Message] = [prompt(), *step("a", text(2000)), *step("b"), *step("c"), ModelMessage(content="Done.")]
    seen = view(messages, 100_000, prompt_index=None)
    planned = plan(seen, force=True)
    assert isinstance(planned, Summarise)
    assert done(seen, planned)[1:] == messages[-3:]


@pytest.mark.parametrize("messages", [[], [prompt()], [prompt(), ModelMessage(content="Hello.")]])
def test_there_may_be_nothing_to_summarise(messages: list[Message]) -> None:
    assert plan(view(messages, 100_000, prompt_index=None), force=True) is None


def test_clear_leaves_nothing() -> None:
    assert messages_for_model([prompt(), *step("a"), CLEARED, prompt("Afresh.")]) == [prompt("Afresh.")]


sizes = st.integers(0, 3000)


@st.composite
def conversations(draw: st.DrawFn) -> list[Message]:
    """As a loop makes them: prompts, steps with some calls each, words in between, answers."""
    messages: list[Message] = []
    calls = 0
    for _ in range(draw(st.integers(1, 4))):
        messages.append(prompt(text(draw(sizes) // 4)))
        for _ in range(draw(st.integers(0, 6))):
            count = draw(st.integers(1, 3))
            requests = tuple(
                ToolCallRequest(call_id=f"c{calls + n}", name="shell", params={"command": "x"}) for n in range(count)
            )
            calls += count
            messages.append(ModelMessage(content=text(draw(sizes) // 8), tool_calls=requests))
            messages += [ToolMessage(call_id=r.call_id, name=r.name, content=text(draw(sizes))) for r in requests]
            if draw(st.booleans()):
                messages.append(prompt("By the way."))
        if draw(st.booleans()):
            messages.append(ModelMessage(content=text(draw(sizes) // 8)))
    if isinstance(messages[-1], ModelMessage):  # a model is asked after a prompt or a result
        messages.append(prompt("And now?"))
    return messages


@settings(max_examples=400, deadline=None)
@given(conversations(), st.integers(500, 12_000), st.integers(0, 1500), st.booleans(), st.text(max_size=3000))
def test_after_any_plan_the_conversation_is_valid_fits_and_ends_as_it_ended(
    messages: list[Message], limit: int, fixed: int, force: bool, said: str
) -> None:
    index = max(n for n, message in enumerate(messages) if isinstance(message, UserMessage))
    seen = view(messages, limit, fixed_tokens=fixed, prompt_index=index)
    log = list(messages)
    try:
        planned = plan(seen, force=force)
    except ContextTooLong:
        assert seen.tokens > limit
        last_size = seen.sizes[index] if index == len(messages) - 1 else limit
        assert fixed > limit - 400 or fixed + last_size + 200 > limit, "the prompt would have fitted"
        return
    assert messages == log
    if planned is None:
        assert force or seen.tokens <= limit
        return
    compaction = mark(planned, said)
    after = messages_for_model([*messages, compaction])
    assert fault(after) is None
    assert fixed + tokens(after) <= limit
    assert tokens(after) < tokens(messages)
    last = after[-1]
    if isinstance(last, ToolMessage) and last.call_id in compaction.trimmed:
        last = last.replace(content=messages[-1].content)
    assert last == messages[-1]
    if isinstance(planned, Summarise):
        assert is_summary(after[0].content)
        assert isinstance(messages[len(messages) - planned.kept], UserMessage | ModelMessage)


def _calls(*call_ids: str, content: str = "") -> ModelMessage:
    requests = [ToolCallRequest(call_id=call_id, name="shell", params={"command": "x"}) for call_id in call_ids]
    return ModelMessage(content=content, tool_calls=tuple(requests))


def _results(*call_ids: str, content: str = "") -> list[Message]:
    return [ToolMessage(call_id=call_id, name="shell", content=content) for call_id in call_ids]


LONG_LAST_PROMPT: list[list[Message]] = [
    [prompt("")],
    [
        prompt(text(273)),
        _calls("c0", "c1", "c2", content=text(250)),
        *_results("c0", "c1", "c2"),
        _calls("c3"),
        *_results("c3", content=text(1060)),
    ],
]
"""The smallest summary has to hold the first prompt and a long last one."""


@settings(max_examples=150, deadline=None)
@example(turns=LONG_LAST_PROMPT, limit=1500)
@given(st.lists(conversations(), min_size=2, max_size=5), st.integers(1500, 6000))
def test_compaction_after_compaction_stays_valid_and_keeps_the_first_prompt(
    turns: list[list[Message]], limit: int
) -> None:
    log: list[Message | Compaction] = [prompt("The very first word.")]
    for number, turn in enumerate(turns):
        renamed = [_renamed(message, f"t{number}") for message in turn]
        log += renamed
        seen = view(messages_for_model(log), limit, prompt_index=None)
        try:
            planned = plan(seen)
        except ContextTooLong:
            return
        if planned is not None:
            log.append(mark(planned))
        after = messages_for_model(log)
        assert fault(after) is None
        assert tokens(after) <= limit
        assert any("The very first word." in message.content for message in after)


def _renamed(message: Message, prefix: str) -> Message:
    if isinstance(message, ToolMessage):
        return message.replace(call_id=prefix + message.call_id)
    if isinstance(message, ModelMessage):
        calls = tuple(call.replace(call_id=prefix + call.call_id) for call in message.tool_calls)
        return message.replace(tool_calls=calls)
    return message
