"""What the model is sent in whole turns: a prefix that stays, instructions, compaction that destroys nothing."""

from itertools import pairwise
from typing import Any

from gadget_ai.testing.script import Call, HttpError, Reply, RequestView, Script, Text
from gadget_api.messages import TRIMMED_RESULT


def long_steps(n: int) -> list[Reply]:
    return [*(Reply(Call("shell", {"command": f"seq {i}000 {i}999"})) for i in range(1, n)), Reply(Text("Done."))]


def says_summary(request: RequestView) -> bool:
    """Whether this is the call that asks for a summary: it offers no tools."""
    return not request.tools


async def turn(stage: Any, prompt: str) -> dict[str, Any]:
    submitted = await stage.ide.submit(stage.session["_id"], prompt)
    over: dict[str, Any] = await stage.user.until_over(submitted["_id"])
    assert over["status"] == "finished", over
    return over


async def test_each_request_repeats_the_one_before_byte_for_byte(stage_for: Any) -> None:
    stage = await stage_for(Script([*long_steps(4), Reply(Text("Again."))]))
    await turn(stage, "Count.")
    await turn(stage, "And again.")
    bodies = [request.messages for request in stage.model.requests]
    for before, after in pairwise(bodies):
        assert after[: len(before)] == before
    assert len({str(request.tools) for request in stage.model.requests}) == 1


async def test_the_projects_instructions_are_in_the_prompt_and_nested_ones_with_what_they_are_about(
    stage_for: Any,
) -> None:
    files = {"AGENTS.md": "Speak like a pirate.\n", "docs/AGENTS.md": "Write British English.\n", "docs/a.md": "A\n"}
    read = Reply(Call("read", {"path": "docs/a.md"}))
    stage = await stage_for(Script([read, read, Reply(Text("Aye."))]), files=files)
    await turn(stage, "Read it.")
    system = stage.model.requests[0].messages[0]["content"]
    assert "Speak like a pirate." in system
    assert "British" not in system
    told = [m["content"] for m in stage.model.requests[-1].messages if m["role"] == "tool"]
    assert ["British" in result for result in told] == [True, False]


async def test_old_outputs_are_trimmed_then_summarised_and_the_log_stays(stage_for: Any) -> None:
    def script(request: RequestView) -> Reply:
        if says_summary(request):
            return Reply(Text("SUMMARY: we count."))
        if request.messages[-1]["role"] == "user" and "goal" in request.messages[-1]["content"]:
            return Reply(Text("Fine."))
        done = sum(1 for r in stage.model.requests if not says_summary(r))
        return Reply(Call("shell", {"command": f"seq {done}0000 {done}0900"})) if done < 14 else Reply(Text("Done."))

    stage = await stage_for(Script(script), contextWindow=16_000)
    over = await turn(stage, "Count until fourteen.")
    events = await stage.user.events(over["_id"])
    compactions = [event for event in events if event["type"] == "compacted"]
    assert compactions
    assert all(event["tokensAfter"] < event["tokensBefore"] for event in compactions)
    assert len([event for event in events if event["type"] == "toolCall"]) == 14 - 1
    assert "110000" in next(e["response"] for e in events if e["type"] == "toolCall" and "110000" in e["response"])
    sent = [str(request.messages) for request in stage.model.requests if not says_summary(request)]
    assert any(TRIMMED_RESULT in body for body in sent) or any("SUMMARY" in body for body in sent)
    assert all("Count until fourteen." in body for body in sent)
    assert max(map(len, sent)) < 16_000 * 4


async def test_a_provider_that_says_too_long_is_asked_again_with_less(stage_for: Any) -> None:
    too_long = {"error": {"message": "maximum context length is 4096 tokens", "code": "context_length_exceeded"}}
    refused = False

    def script(request: RequestView) -> Reply:
        nonlocal refused
        if says_summary(request):
            return Reply(Text("SUMMARY"))
        results = [m for m in request.messages if m["role"] == "tool"]
        if len(results) == 5 and not refused:
            refused = True
            return Reply(HttpError(400, too_long))
        calls = sum(1 for r in stage.model.requests if not says_summary(r))
        return Reply(Call("shell", {"command": f"seq {calls}000 {calls}999"})) if calls < 6 else Reply(Text("Done."))

    stage = await stage_for(Script(script))
    over = await turn(stage, "Count.")
    assert refused
    assert "compacted" in [event["type"] for event in await stage.user.events(over["_id"])]


async def test_compact_and_clear_are_commands_of_a_user(stage_for: Any) -> None:
    def script(request: RequestView) -> Reply:
        return Reply(Text("SUMMARY of it")) if says_summary(request) else Reply(Text("Yes. " * 3000))

    stage = await stage_for(Script(script))
    for prompt in ("One?", "Two?", "Three?", "Four?"):
        await turn(stage, prompt)
    compacted = await turn(stage, "/compact the colours")
    assert "compacted" in [event["type"] for event in await stage.user.events(compacted["_id"])]
    assert "the colours" in str(stage.model.requests[-1].messages)
    await turn(stage, "Five?")
    said = [m["content"] for m in stage.model.requests[-1].messages]
    assert "SUMMARY of it" in str(said)
    assert not any(content.startswith("/compact") for content in said)
    await turn(stage, "/clear")
    await turn(stage, "Six?")
    assert [m["content"] for m in stage.model.requests[-1].messages][1:] == ["Six?"]
    turns = (await stage.user.get(f"/sessions/{stage.session['_id']}/turns"))["items"]
    assert len(turns) == 8  # the log is whole
