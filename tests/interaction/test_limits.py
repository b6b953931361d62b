"""Budgets, loops and fallback models in whole turns."""

from typing import Any

from gadget_ai.testing.script import Call, HttpError, Reply, RequestView, Script, Text
from gadget_ai.testing.server import ScriptedServer
from tests.interaction.test_permissions import change, pending

LOOK = Call("list", {"path": "."})


def steps(n: int) -> list[Reply]:
    return [*(Reply(Call("shell", {"command": f"echo {i}"})) for i in range(n)), Reply(Text("Done."))]


async def test_a_budget_pauses_asks_and_goes_on(stage_for: Any) -> None:
    stage = await stage_for(Script(steps(4)))
    await change(stage, turnBudget={"steps": 2})
    turn = await stage.ide.submit(stage.session["_id"], "Count.")
    for used in ("2 model calls of 2", "4 model calls of 4"):
        inquiry = await pending(stage.user)
        assert inquiry["kind"] == "budget"
        assert used in inquiry["title"]
        await stage.user.post(f"/inquiries/{inquiry['_id']}/answer", {"choice": "goOn"})
    over = await stage.user.until_over(turn["_id"])
    assert (over["status"], over["stats"]["stepCount"]) == ("finished", 5)


async def test_a_budget_that_is_not_raised_ends_the_turn_and_the_next_prompt_works(stage_for: Any) -> None:
    stage = await stage_for(Script([*steps(1)[:1], Reply(Text("Short."))]))
    await change(stage, turnBudget={"steps": 1})
    turn = await stage.ide.submit(stage.session["_id"], "Count.")
    inquiry = await pending(stage.user)
    await stage.user.post(f"/inquiries/{inquiry['_id']}/answer", {"choice": "stop"})
    assert (await stage.user.until_over(turn["_id"]))["status"] == "cancelled"
    end = (await stage.user.events(turn["_id"]))[-1]
    assert "budget" in end["message"]
    following = await stage.ide.submit(stage.session["_id"], "Shorter.")
    assert (await stage.user.until_over(following["_id"]))["response"] == "Short."


async def test_the_sessions_budget_counts_its_earlier_turns(stage_for: Any) -> None:
    stage = await stage_for(Script([Reply(Text("One.")), Reply(Text("Two."))]))
    await change(stage, budget={"steps": 1})
    first = await stage.ide.submit(stage.session["_id"], "One?")
    assert (await stage.user.until_over(first["_id"]))["status"] == "finished"
    second = await stage.ide.submit(stage.session["_id"], "Two?")
    inquiry = await pending(stage.user)
    assert "The session has used up its budget" in inquiry["title"]
    await stage.user.post(f"/inquiries/{inquiry['_id']}/answer", {"choice": "goOn"})
    assert (await stage.user.until_over(second["_id"]))["response"] == "Two."


async def test_at_the_level_full_a_loop_is_told_to_the_model_and_to_its_user(stage_for: Any) -> None:
    stage = await stage_for(Script([*([Reply(LOOK)] * 6), Reply(Text("Done."))]))
    turn = await stage.ide.submit(stage.session["_id"], "Look.")
    assert (await stage.user.until_over(turn["_id"]))["status"] == "finished"
    events = await stage.user.events(turn["_id"])
    assert [event["code"] for event in events if event["type"] == "notice"].count("loop") == 1
    assert [event["origin"] for event in events if event["type"] == "steered"] == ["service"]
    assert "inquiryAsked" not in [event["type"] for event in events]


async def test_the_same_call_three_times_asks(stage_for: Any) -> None:
    stage = await stage_for(Script([Reply(LOOK), Reply(LOOK), Reply(LOOK), Reply(Text("Done."))]))
    await change(stage, level="ask")
    turn = await stage.ide.submit(stage.session["_id"], "Look.")
    inquiry = await pending(stage.user)
    assert inquiry["kind"] == "loop"
    assert len(stage.model.requests) == 3
    await stage.user.post(f"/inquiries/{inquiry['_id']}/answer", {"choice": "goOn"})
    assert (await stage.user.until_over(turn["_id"]))["status"] == "finished"


async def test_another_model_goes_on_when_the_first_does_not_answer(stage_for: Any) -> None:
    def refuses_in_the_middle(request: RequestView) -> Reply:
        is_first = not any(message["role"] == "tool" for message in request.messages)
        return Reply(LOOK) if is_first else Reply(HttpError(401, {"error": {"message": "no"}}))

    async with ScriptedServer(Script([Reply(Text("I go on."))])) as second:
        stage = await stage_for(Script(refuses_in_the_middle))
        other = await stage.user.post(
            "/providers",
            {
                "name": "second",
                "apiType": "ollama",
                "baseUrl": second.root_url,
                "models": [{"id": "spare", "name": "spare", "price": {"input": 1000.0, "output": 0.0}}],
            },
        )
        await change(stage, fallbacks=[{"provider": other["_id"], "model": "spare"}])
        turn = await stage.ide.submit(stage.session["_id"], "Look.")
        over = await stage.user.until_over(turn["_id"])
        assert (over["status"], over["response"]) == ("finished", "I go on.")
        assert over["stats"]["cost"] > 0  # the price of the model that answered
        events = await stage.user.events(turn["_id"])
        assert [event["model"] for event in events if event["type"] == "step"] == ["scripted", "spare"]
        assert "fallback" in [event["code"] for event in events if event["type"] == "notice"]
        roles = [message["role"] for message in second.requests[0].messages]
        assert roles == ["system", "user", "assistant", "tool"]
