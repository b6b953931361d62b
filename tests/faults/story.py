"""What the scripted model says in a fault test: by the history it is sent, and held at gates until the test goes on.

A turn that is recovered asks again from its last step. So a reply is not the next of a list: it is that of the step
which the history has come to, whatever happened before.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from gadget_ai.client import ToolCallDelta
from gadget_ai.testing.script import Call, Delta, HttpError, Pause, Piece, Reply, RequestView
from tests.harness import while_there

_LOOK_S = 0.02


class Gate:
    """A place in a reply where it stays until the gate is opened."""

    def __init__(self, *, is_open: bool = False) -> None:
        self._is_open = is_open
        self.reached = asyncio.Event()

    def open(self) -> None:
        self._is_open = True

    def pauses(self) -> Iterator[Pause]:
        self.reached.set()
        while not self._is_open:
            yield Pause(_LOOK_S)


class HeldReply(Reply):
    """A reply with gates in it."""

    def __init__(self, *parts: Piece | Gate) -> None:
        super().__init__(*(part for part in parts if not isinstance(part, Gate)))
        self._parts = parts

    def deltas(self) -> Iterator[Delta]:
        calls = 0
        for part in self._parts:
            if isinstance(part, Gate):
                yield from part.pauses()
                continue
            for delta in Reply(part).deltas():
                yield replace(delta, index=calls) if isinstance(delta, ToolCallDelta) else delta
            calls += isinstance(part, Call)


class Faulty(Reply):
    """A reply that is rightly asked for again, though all of it was sent."""


Step = Callable[[int], Reply]
"""The reply of a step, by the attempt: 1 at first, more when a call was cut and is made again."""


@dataclass
class Asked:
    """One request that the model got."""

    prompt: str
    step: int
    attempt: int
    is_answered: bool = False
    """Whether all of the reply was sent, and it was one."""


class _Told(Reply):
    """A reply that notes when it was sent whole."""

    def __init__(self, reply: Reply, asked: Asked) -> None:
        super().__init__(*reply.pieces, finish=reply.finish, done=reply.done, content_type=reply.content_type)
        self._reply = reply
        self._asked = asked

    def deltas(self) -> Iterator[Delta]:
        yield from self._reply.deltas()
        self._asked.is_answered = not isinstance(self._reply, Faulty)


@dataclass
class Book:
    """The model's whole part, by prompt. Called with each request by `Script`."""

    plans: dict[str, Sequence[Step]] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)

    def __call__(self, request: RequestView) -> Reply:
        prompt, step = self._place(request)
        steps = self.plans.get(prompt, ())
        before = [a for a in self.asked if (a.prompt, a.step) == (prompt, step)]
        asked = Asked(prompt, step, len(before) + 1)
        self.asked.append(asked)
        if step >= len(steps):
            return Reply(HttpError(400, {"error": {"message": f"Nobody expected step {step} of {prompt!r}."}}))
        return _Told(steps[step](asked.attempt), asked)

    def asked_for(self, prompt: str) -> list[Asked]:
        return [asked for asked in self.asked if asked.prompt == prompt]

    def _place(self, request: RequestView) -> tuple[str, int]:
        """The prompt that is worked on, and how many steps of it the history holds."""
        step = 0
        for message in reversed(request.messages):
            if message["role"] == "assistant":
                step += 1
            elif message["role"] == "user" and message["content"] in self.plans:
                return str(message["content"]), step
        return "", step


def always(reply: Callable[[], Reply]) -> Step:
    return lambda _attempt: reply()


def logged_call(call_id: str, then: str = ":", *, first: str = ":") -> Call:
    """A shell call that leaves its id in `calls.log`, and then runs `then`."""
    return Call("shell", {"command": f"{first}; echo {call_id} >> calls.log; {then}"}, call_id=call_id)


def held_call(call_id: str, name: str) -> Call:
    """A call that runs until the file `name`, which it makes, is gone."""
    return logged_call(call_id, while_there(name), first=f": > {name}")
