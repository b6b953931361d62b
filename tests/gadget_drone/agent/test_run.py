"""An agent alone: a list takes its events, a scripted model answers, and nothing else is there."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import Any

from gadget_ai.client import ToolSpec
from gadget_ai.testing.client import ScriptedClient
from gadget_ai.testing.script import Call, Reply, Script, Text, Think
from gadget_api.events import Step, ToolCall, TurnEvent
from gadget_api.messages import SystemMessage, ToolMessage, UserMessage
from gadget_api.model import utc_now
from gadget_api.providers import ApiType, ModelPrice
from gadget_api.turns import Steer, SteerOrigin
from gadget_api.work_order import OrderProvider
from gadget_drone.agent.budget import NoBudget
from gadget_drone.agent.conversation import Conversation, Log
from gadget_drone.agent.emitter import Emitter, EventT
from gadget_drone.agent.inbox import Inbox
from gadget_drone.agent.models import Models
from gadget_drone.agent.run import AgentRun
from gadget_drone.agent.window import Window
from gadget_drone.context.tokens import Calibration

PROVIDER = OrderProvider(
    id="m", name="scripted", sdk=ApiType.OPENAI, base_url="http://127.0.0.1:9", model_id="scripted"
)
PRICE = ModelPrice(input=1_000_000.0, output=1_000_000.0)


class Events(list[TurnEvent]):
    """Numbers events as a turn's stream does."""

    def emit(
        self, event: type[EventT], *, agent_id: str | None = None, price: ModelPrice | None = None, **fields: Any
    ) -> EventT:
        head = {"turn_id": "t", "chat_session_id": "s", "epoch": 1, "seq": len(self) + 1, "at": utc_now()}
        made = event(**head, agent_id=agent_id, **fields)
        self.append(made)
        return made

    def delta(self, type: str, content: str, *, agent_id: str | None = None, **fields: Any) -> None:
        pass

    async def room(self) -> None:
        pass

    async def synced(self) -> None:
        pass


class Echo:
    """The one tool, which answers each call with its name."""

    specs: Sequence[ToolSpec] = (ToolSpec("echo", "Say it again.", {"type": "object"}),)

    def __init__(self, emit: Emitter, between: Callable[[], Any] | None = None) -> None:
        self._emit = emit
        self._between = between
        self.waiting: list[Steer] = []

    def before_answer(self) -> None:
        pass

    def news(self) -> list[Steer]:
        waiting, self.waiting = self.waiting, []
        return waiting

    async def run(self, conversation: Conversation, started_before: Collection[str]) -> None:
        for call in conversation.open_calls:
            if self._between is not None:
                await self._between()
            result = f"{self._emit.agent_id} {call.params['text']}"
            self._emit(
                ToolCall,
                call_id=call.call_id,
                name=call.name,
                params=call.params,
                response=result,
                is_error=False,
                duration_ms=0,
            )
            conversation.add(ToolMessage(call_id=call.call_id, name=call.name, content=result))


def an_agent(
    events: Events,
    *replies: Reply,
    agent_id: str | None = None,
    inbox: Inbox | None = None,
    between: Callable[[], Any] | None = None,
) -> tuple[AgentRun, ScriptedClient]:
    client = ScriptedClient(Script(list(replies)))
    conversation = Conversation(client, SystemMessage(content="You work."), Log(client), set())
    conversation.add(UserMessage(content=f"Go, {agent_id}."))
    emit = Emitter(events, agent_id=agent_id, price=PRICE)
    models = Models(PROVIDER, client)
    tools = Echo(emit, between)
    window = Window(conversation, models, tools.specs, emit, Calibration())
    return AgentRun(conversation, window, tools, models, NoBudget(), inbox or Inbox(), emit), client


async def test_an_agent_runs_with_a_list_and_a_scripted_model_alone() -> None:
    events = Events()
    agent, client = an_agent(events, Reply(Think("Hm."), Call("echo", {"text": "hello"})), Reply(Text("Done.")))
    await agent.run()
    assert [event.type for event in events] == ["step", "toolCall", "step"]
    assert agent.conversation.is_answered
    assert [message["role"] for message in client.requests[1].messages] == ["system", "user", "assistant", "tool"]


async def test_what_happens_beside_an_agent_is_put_before_its_model() -> None:
    events = Events()
    inbox = Inbox([Steer(steer_id="1", content="In French.")])
    agent, client = an_agent(events, Reply(Text("Bonjour.")), inbox=inbox)
    assert isinstance(agent.tools, Echo)
    agent.tools.waiting.append(Steer(steer_id="2", content="A job is over.", origin=SteerOrigin.SERVICE))
    await agent.run()
    assert [event.type for event in events] == ["steered", "steered", "step"]
    assert [message["content"] for message in client.requests[0].messages[1:]] == [
        "Go, None.",
        "In French.",
        "A job is over.",
    ]


async def test_two_agents_side_by_side_keep_their_own_conversation_calls_and_stats() -> None:
    events = Events()
    both_are_there = asyncio.Barrier(2)
    agents = [
        an_agent(
            events,
            Reply(Call("echo", {"text": "one"}, call_id="same")),
            Reply(Text("Done.")),
            agent_id=agent_id,
            between=both_are_there.wait,
        )
        for agent_id in (None, "child")
    ]
    async with asyncio.TaskGroup() as tasks:
        for agent, _ in agents:
            tasks.create_task(agent.run())
    assert [event.seq for event in events] == [1, 2, 3, 4, 5, 6]
    for (agent, client), agent_id in zip(agents, (None, "child"), strict=True):
        own = [event for event in events if event.agent_id == agent_id]
        assert [event.type for event in own] == ["step", "toolCall", "step"]
        assert client.requests[1].messages[-1]["content"] == f"{agent_id} one"
        assert agent.emit.stats.step_count == 2
        used = sum(event.usage.input_tokens + event.usage.response_tokens for event in own if isinstance(event, Step))
        assert agent.emit.stats.cost == used
