"""A turn after its events, and the end of a turn that no drone ends."""

from datetime import timedelta
from typing import Any

from pymongo import AsyncMongoClient

from gadget_api.events import Step
from gadget_api.messages import AssistantMessage, FinishReason, Usage
from gadget_api.model import utc_now
from gadget_api.sessions import SessionMode
from gadget_api.turns import ChatTurn, ChatTurnStatus, Prompts
from gadget_code.recording.projection import after_event
from tests.gadget_code.peers import a_session, a_turn
from tests.harness import User


async def test_a_turn_ends_though_the_clock_was_set_back_after_it_was_made(user: User, mongodb_url: str) -> None:
    turn = await a_turn(user, await a_session(user))
    client: AsyncMongoClient[dict[str, Any]]
    async with AsyncMongoClient(mongodb_url) as client:
        for name in {*await client.list_database_names()} - {"admin", "config", "local"}:
            later = {"createdAt": utc_now() + timedelta(hours=1)}
            await client[name].turns.update_one({"_id": turn["_id"]}, {"$set": later})
    await user.post(f"/turns/{turn['_id']}/cancel", {})
    ended = await user.get(f"/turns/{turn['_id']}")
    assert (ended["status"], ended["stats"]["durationMs"]) == ("cancelled", 0)


def test_a_turn_answers_with_its_own_agents_words_and_sums_up_the_usage_of_all() -> None:
    now = utc_now()
    turn = ChatTurn(
        id="t",
        created_at=now,
        user="u",
        project="p",
        session="s",
        provider="m",
        llm="m",
        mode=SessionMode.BUILD,
        status=ChatTurnStatus.PROCESSING,
        prompt_id="1",
        prompts=Prompts(user="Go."),
    )
    for seq, agent, text in ((1, None, "own"), (2, "child", "child")):
        step = Step(
            turn_id="t",
            chat_session_id="s",
            epoch=1,
            seq=seq,
            at=now,
            agent_id=agent,
            index=1,
            message=AssistantMessage(content=text),
            usage=Usage(input_tokens=10),
            finish_reason=FinishReason.STOP,
            model="m",
        )
        turn = after_event(turn, step, None)
    assert (turn.response, turn.stats.input_tokens, turn.stats.step_count) == ("own", 20, 2)
