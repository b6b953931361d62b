"""The moments of a turn at which something can go wrong, and how a test gets there without guessing."""

import asyncio
from collections.abc import Awaitable, Callable
from enum import StrEnum

from gadget_ai.testing.script import Reply, Text
from gadget_api.ids import new_id
from tests.faults.proxy import Way, Weather
from tests.faults.stage import Stage
from tests.faults.story import Gate, HeldReply, Step, held_call, logged_call
from tests.harness import until


class Moment(StrEnum):
    BEFORE_ACCEPT = "before accept"
    FIRST_TOKEN = "before first token"
    MID_STREAM = "mid stream"
    DURING_TOOL = "during tool"
    BETWEEN = "between"
    AT_END = "at the end"
    IN_RECOVERY = "in recovery"


_STRUCK_S = 1.0
PLAN = 2
"""How many model calls the story takes when nothing happens."""


class Story:
    """A turn of two steps and two tool calls that stands still at one moment until `go_on`."""

    def __init__(self, moment: Moment, padding_chars: int = 0) -> None:
        """`padding_chars` make each answer longer."""
        self.moment = moment
        self._padding = Text("." * padding_chars)
        self.prompt = f"Do it. {new_id()}"
        self.first, self.second = f"{new_id()}a", f"{new_id()}b"
        self._first_token = Gate(is_open=moment is not Moment.FIRST_TOKEN)
        self._mid_stream = Gate(is_open=moment is not Moment.MID_STREAM)
        self._between = Gate(is_open=moment not in (Moment.BETWEEN, Moment.AT_END))
        self._holds_tool = moment in (Moment.DURING_TOOL, Moment.IN_RECOVERY)
        self._file = f"hold-{self.first}"

    @property
    def steps(self) -> list[Step]:

        more = [self._padding] if self._padding.content else []

        def work(attempt: int) -> Reply:
            # Each attempt has ids of its own, as a real model's would.
            mark = "" if attempt == 1 else str(attempt)
            second = self.second + mark
            held = held_call(second, self._file) if self._holds_tool else logged_call(second)
            calls = logged_call(self.first + mark), held
            return HeldReply(
                self._first_token, Text("I begin. ", 3), self._mid_stream, Text("And go on.", 2), *more, *calls
            )

        return [work, lambda _attempt: HeldReply(self._between, Text("It is done.", 3), *more)]

    async def reach(self, stage: Stage) -> str:
        """Sends the prompt, and returns at the moment; the turn's id."""
        turn = await stage.prompt(self.prompt, self.steps)
        match self.moment:
            case Moment.BEFORE_ACCEPT:
                pass
            case Moment.FIRST_TOKEN:
                await _passed(self._first_token)
            case Moment.MID_STREAM:
                await _passed(self._mid_stream)
                await stage.watcher.until_event(turn, "response")
            case Moment.DURING_TOOL:
                await self._tool_runs(stage)
            case Moment.BETWEEN:
                await stage.watcher.until_event(turn, "toolCall", 2)
            case Moment.AT_END:
                await self._end_is_on_its_way(stage, turn)
            case Moment.IN_RECOVERY:
                await self._tool_runs(stage)
                await stage.kill_drone()
                await stage.start_drone()
                await stage.until_turn(turn, lambda document: document["epoch"] == 2)
        return turn

    def go_on(self, stage: Stage) -> None:
        for gate in (self._first_token, self._mid_stream, self._between):
            gate.open()
        (stage.checkout / self._file).unlink(missing_ok=True)

    async def _tool_runs(self, stage: Stage) -> None:
        async def ran() -> bool | None:
            return True if self.second in stage.calls else None

        await until(ran)

    async def _end_is_on_its_way(self, stage: Stage, turn: str) -> None:
        """The last event is in the drone's journal, and the network holds it."""
        await _passed(self._between)
        await stage.watcher.until_event(turn, "toolCall", 2)
        stage.drone_link.weather = Weather(held=Way.UP)
        self._between.open()
        await until_journaled(stage, turn)


Act = Callable[[], Awaitable[None]]


async def nothing() -> None:
    """Where there is nothing to do."""


async def through(stage: Stage, moment: Moment, strike: Act, meanwhile: Act = nothing) -> tuple[Story, str]:
    """A turn that is struck at the moment, goes on, and is mended after `meanwhile`. The story, and the turn, over."""
    story = Story(moment)
    if moment is Moment.BEFORE_ACCEPT:
        await strike()
        sending = asyncio.create_task(story.reach(stage))
        # It is accepted, refused or waits; a fault that is mended at once would be none.
        await asyncio.wait([sending], timeout=_STRUCK_S)
        await stage.heal()
        turn = await sending
    else:
        turn = await story.reach(stage)
        await strike()
        story.go_on(stage)
        await meanwhile()
        await stage.heal()
    await stage.until_over(turn)
    return story, turn


async def until_journaled(stage: Stage, turn: str) -> None:
    """The drone has come to the end of the turn by itself."""

    async def ended() -> bool | None:
        return True if '"workOrderComplete"' in stage.journal(turn) else None

    await until(ended)


async def check_undisturbed(stage: Stage, story: Story, turn: str) -> None:
    """The turn went through as if nothing had happened to it: one epoch, nothing repeated, nothing interrupted."""
    document = await stage.turn(turn)
    assert (document["status"], document["response"]) == ("finished", "It is done."), f"{document}\n{stage.logs()}"
    results = [event for event in await stage.user.events(turn) if event["type"] == "toolCall"]
    if story.moment is Moment.IN_RECOVERY:
        assert len(results) == 2
        return
    if story.moment is not Moment.BEFORE_ACCEPT:  # an offer that nobody answered counts, too
        assert document["epoch"] == 1, document
    assert [result["isError"] for result in results] == [False, False], results
    assert stage.calls == [story.first, story.second]
    assert len(stage.book.asked_for(story.prompt)) == PLAN


async def _passed(gate: Gate) -> None:
    async def reached() -> bool | None:
        return True if gate.reached.is_set() else None

    await until(reached)
