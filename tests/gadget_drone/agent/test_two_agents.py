"""Two agents in one turn, side by side, over a kill."""

import asyncio
from contextlib import closing
from pathlib import Path
from typing import Any

from gadget_ai.testing.client import ScriptedClient
from gadget_ai.testing.script import Call, Reply, Script, Text
from gadget_api.events import InquiryAsked, turn_event
from gadget_api.history import work_messages
from gadget_api.inquiries import ONCE, Answer, Inquiry, InquiryAnswer, InquiryStatus
from gadget_api.messages import INTERRUPTED_RESULT
from gadget_api.permissions import Capability, Decision, PermissionLevel, Policy, RuleScope, ScopedRule
from gadget_drone.agent.decisions import Decisions
from gadget_drone.turn.journal import Journal
from tests.gadget_drone.agent.bench import Bench, ScriptedAgent
from tests.harness import until

ASKS = ScopedRule(decision=Decision.ASK, capability=Capability.EXECUTE, pattern="touch *", scope=RuleScope.SESSION)
POLICY = Policy(level=PermissionLevel.FULL, rules=(ASKS,))


def inquiries(events: list[dict[str, Any]]) -> list[Inquiry]:
    return [made.inquiry for made in map(turn_event.validate_python, events) if isinstance(made, InquiryAsked)]


def of_agent(events: list[dict[str, Any]], agent_id: str | None) -> list[dict[str, Any]]:
    return [event for event in events if event.get("agentId") == agent_id]


def types(events: list[dict[str, Any]], agent_id: str | None) -> list[str]:
    return [event["type"] for event in of_agent(events, agent_id)]


def replies(agent: str, command: str = "") -> list[Reply]:
    """A command with side effects, then one that the user is asked about. Both agents use the same call ids."""
    return [
        Reply(Call("shell", {"command": command}, call_id="first")),
        Reply(Call("shell", {"command": f"touch asked-{agent}"}, call_id="second")),
        Reply(Text(f"{agent} is done.")),
    ]


async def test_two_agents_share_a_turn_and_both_resume_after_a_kill(tmp_path: Path) -> None:
    hangs = "echo once >> own.txt; sleep 60"
    bench = Bench(tmp_path, Script(replies("own", hangs)), policy=POLICY)
    child = ScriptedAgent(ScriptedClient(Script(replies("child", "echo once >> child.txt"))), "child")
    running = asyncio.create_task(bench.run(child))

    async def own_is_in_its_command_and_the_child_asks() -> bool | None:
        is_in_command = (bench.place / "own.txt").exists()
        return (is_in_command and "inquiryAsked" in types(bench.events, "child")) or None

    await until(own_is_in_its_command_and_the_child_asks)
    running.cancel()
    await asyncio.wait([running])
    bench.journal.close()

    with closing(Journal.load(bench.journal.path)) as journal:  # all that a killed drone leaves
        before = list(journal.unacked())
        assert [event["seq"] for event in before] == list(range(1, len(before) + 1))
        assert types(before, None) == ["step", "toolStarted"]
        assert types(before, "child") == ["step", "toolStarted", "toolCall", "step", "inquiryAsked"]
        assert journal.started_calls() == frozenset({"first"})
        assert journal.started_calls("child") == frozenset()

        bench.journal = journal
        bench.decisions = Decisions(POLICY, inquiries(before))
        bench.own = as_left(before, None, journal, replies("own")[1:])
        task = asyncio.create_task(bench.run(as_left(before, "child", journal, replies("child")[2:])))

        async def both_ask() -> bool | None:
            return len(inquiries(bench.events)) == 2 or None

        await until(both_ask)
        for inquiry in inquiries(bench.events):
            answer = Answer(choice=ONCE)
            bench.decisions.put(InquiryAnswer(inquiry_id=inquiry.id, status=InquiryStatus.ANSWERED, answer=answer))
        events = await task

    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    for agent_id, name in ((None, "own"), ("child", "child")):
        own = of_agent(events, agent_id)
        assert own[-1]["message"]["content"] == f"{name} is done."
        assert [event["callId"] for event in own if event["type"] == "toolCall"] == ["first", "second"]
        assert (bench.place / f"asked-{name}").exists()
        assert (bench.place / f"{name}.txt").read_text() == "once\n"
    results = [event["response"] for event in events if event["type"] == "toolCall" and event["callId"] == "first"]
    assert results[1] == INTERRUPTED_RESULT != results[0]


def as_left(events: list[dict[str, Any]], agent_id: str | None, journal: Journal, left: list[Reply]) -> ScriptedAgent:
    """The agent as its own events have it."""
    own = [turn_event.validate_python(event) for event in of_agent(events, agent_id)]
    history = [event for event in own if event.type in ("step", "toolCall")]
    started_before = journal.started_calls(agent_id)
    assert started_before is not None
    agent = ScriptedAgent(ScriptedClient(Script(left)), agent_id)
    return agent.resume(work_messages(history, is_over=False), started_before)
