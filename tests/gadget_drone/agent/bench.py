"""Agents with a scripted model, real tools, a journal and no socket."""

import asyncio
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gadget_ai.testing.client import ScriptedClient
from gadget_ai.testing.script import Script
from gadget_api.events import BlobRef
from gadget_api.messages import Compaction, Message, SystemMessage, UserMessage
from gadget_api.model import utc_now
from gadget_api.providers import ApiType
from gadget_api.sessions import SessionMode
from gadget_api.traces import NoTracer
from gadget_api.turns import TurnStats
from gadget_api.work_order import OrderProject, OrderProvider, OrderSession, OrderTurn, OrderUser, WorkOrder
from gadget_drone.agent.budget import OrderBudget
from gadget_drone.agent.conversation import Conversation, Log
from gadget_drone.agent.decisions import Decisions
from gadget_drone.agent.emitter import Emitter
from gadget_drone.agent.inbox import Inbox
from gadget_drone.agent.inquiries import Inquiries
from gadget_drone.agent.models import Models
from gadget_drone.agent.permission import Permission
from gadget_drone.agent.place import Place
from gadget_drone.agent.repeats import Repeats
from gadget_drone.agent.run import AgentRun
from gadget_drone.agent.sessions import SessionState
from gadget_drone.agent.snapshots import Snapshots
from gadget_drone.agent.tool_runner import ToolRunner
from gadget_drone.agent.window import Window
from gadget_drone.context.instructions import Instructions
from gadget_drone.context.tokens import Calibration
from gadget_drone.editing.seen import SeenFiles
from gadget_drone.jobs.jobs import Jobs
from gadget_drone.processes.supervised import Supervisor
from gadget_drone.sandbox.bounds import Confined
from gadget_drone.tools.tool import Tool
from gadget_drone.tools.toolbox import Toolbox
from gadget_drone.turn.journal import Journal
from gadget_drone.turn.stream import MAX_UNACKED_BYTES, EventStream


def an_order(**fields: Any) -> WorkOrder:
    """For the scripted model, without limits."""
    return WorkOrder(
        work_order_id="t",
        epoch=1,
        project=OrderProject(id="p", name="Project", slug="project", git_url="https://example.org/p.git"),
        session=OrderSession(id="s", name="A session", mode=SessionMode.BUILD),
        provider=OrderProvider(
            id="m", name="scripted", sdk=ApiType.OPENAI, base_url="http://127.0.0.1:9", model_id="scripted"
        ),
        turn=OrderTurn(id="t", created_at=utc_now(), user=OrderUser(id="u", email="a@example.org", display_name="Ada")),
        prompt="Go.",
        **fields,
    )


@dataclass
class ScriptedAgent:
    """`agent_id` None: the turn's own agent."""

    client: ScriptedClient
    agent_id: str | None = None
    inbox: Inbox = field(default_factory=Inbox)
    started_before: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self.conversation = Conversation(self.client, SystemMessage(content="You work."), Log(self.client), set())
        self.conversation.add(UserMessage(content="Go."))

    def resume(self, messages: list[Message | Compaction], started_before: frozenset[str]) -> "ScriptedAgent":
        self.conversation.add(*messages)
        self.started_before = started_before
        return self


class Bench:
    """A turn of one agent, or of several that run side by side."""

    def __init__(self, directory: Path, script: Script, **fields: Any) -> None:
        self.place = directory / "project"
        self.spool = directory / "spool"
        self.place.mkdir()
        self.spool.mkdir()
        self.order = an_order(**fields)
        self.journal = Journal.create(directory / "turn.ndjson", base_seq=0)
        self.own = ScriptedAgent(ScriptedClient(script))
        self.decisions = Decisions(self.order.policy)
        self.may_begin = asyncio.Event()
        self.may_begin.set()
        self.kept: list[Path] = []
        self.has_room = True
        self.third_party: tuple[Tool, ...] = ()

    @property
    def client(self) -> ScriptedClient:
        return self.own.client

    @property
    def conversation(self) -> Conversation:
        return self.own.conversation

    @property
    def inbox(self) -> Inbox:
        return self.own.inbox

    @inbox.setter
    def inbox(self, inbox: Inbox) -> None:
        self.own.inbox = inbox

    @property
    def events(self) -> list[dict[str, Any]]:
        return list(self.journal.unacked())

    async def run(self, *others: ScriptedAgent, max_unacked_bytes: int = MAX_UNACKED_BYTES) -> list[dict[str, Any]]:
        """Runs the turn's own agent and `others`. Returns the events. Raises what the first failing agent raises."""

        async def nowhere(_type: str, _payload: bytes) -> None:
            raise ConnectionError

        stream = EventStream(
            turn_id="t",
            chat_session_id="s",
            epoch=1,
            journal=self.journal,
            send=nowhere,
            stats=TurnStats(),
            max_unacked_bytes=max_unacked_bytes,
        )
        state = SessionState(SeenFiles(), Jobs(), Confined())
        with closing(Supervisor()) as supervisor:
            running = [
                asyncio.create_task(self._agent(agent, stream, state, supervisor).run(agent.started_before))
                for agent in (self.own, *others)
            ]
            try:
                await asyncio.gather(*running)
            finally:
                for task in running:
                    task.cancel()
                await asyncio.gather(*running, return_exceptions=True)
                await state.jobs.close()
        return self.events

    def _agent(
        self, agent: ScriptedAgent, stream: EventStream, state: SessionState, supervisor: Supervisor
    ) -> AgentRun:
        emit = Emitter(stream, agent_id=agent.agent_id)
        models = Models(self.order.provider, agent.client)
        inquiries = Inquiries(self.order, emit, self.decisions, stream.clock)
        toolbox = Toolbox.standard(self.third_party)
        place = Place(
            project_dir=self.place,
            spool_dir=self.spool,
            supervisor=supervisor,
            sandbox=None,
            session=state,
            allow_private=False,
            keep_output=self._keep,
            keep_image=lambda _: None,
            instructions=Instructions(self.place),
            models=models,
            emit=emit,
            inquiries=inquiries,
            decisions=self.decisions,
        )
        tools = ToolRunner(
            toolbox=toolbox,
            emit=emit,
            inbox=agent.inbox,
            permission=Permission(toolbox, self.decisions, inquiries, self.place, False, place.context),
            repeats=Repeats(emit, agent.inbox, self.decisions, inquiries),
            snapshots=Snapshots(None, self.order, emit),
            place=place,
            jobs=state.jobs,
            may_begin=self.may_begin,
            tracer=NoTracer(),
        )
        window = Window(agent.conversation, models, toolbox.specs, emit, Calibration())
        budget = OrderBudget(self.order, emit, inquiries)
        return AgentRun(agent.conversation, window, tools, models, budget, agent.inbox, emit)

    def _keep(self, path: Path) -> BlobRef | None:
        if not self.has_room:
            return None
        self.kept.append(path)
        return BlobRef(blob_id="b", size_bytes=path.stat().st_size)
