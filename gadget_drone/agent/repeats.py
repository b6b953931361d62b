"""Notices an agent that makes the same call again and again.

Below the level `full` the user is asked whether it may go on. At `full` the model reads a warning once, and the user
sees a notice.
"""

from collections import deque

import orjson

from gadget_api.events import Notice
from gadget_api.ids import new_id
from gadget_api.inquiries import InquiryKind
from gadget_api.messages import ToolCallRequest
from gadget_api.permissions import PermissionLevel
from gadget_api.turns import Steer, SteerOrigin
from gadget_drone.agent.decisions import Decisions
from gadget_drone.agent.emitter import Emitter
from gadget_drone.agent.inbox import Inbox
from gadget_drone.agent.inquiries import Inquiries

_SAME = 3
"""So many equal calls in a row, with equal results, are a loop (opencode's `doom_loop` asks at three, too)."""
_WARNING = (
    "[From Gadget Code, not from the user: you have made the same call three times, with the same result. Try another "
    "way, or say what stands in yours.]"
)


class Repeats:
    def __init__(self, emit: Emitter, inbox: Inbox, decisions: Decisions, inquiries: Inquiries) -> None:
        self._emit = emit
        self._inbox = inbox
        self._decisions = decisions
        self._inquiries = inquiries
        self._warned: set[bytes] = set()
        """Calls that the model was warned of."""
        self._last: deque[tuple[bytes, str]] = deque(maxlen=_SAME - 1)
        """The newest calls and their results."""

    async def before_call(self, call: ToolCallRequest) -> None:
        """Raises StoppedByUser."""
        key, question = _key(call), f"loop {call.call_id}"
        is_loop = len(self._last) == _SAME - 1 and len(set(self._last)) == 1 and self._last[0][0] == key
        if not is_loop and not self._inquiries.was_asked(question):
            return
        title = f"The agent makes the same call of {call.name} for the third time, with the same result so far."
        if self._decisions.policy.level is not PermissionLevel.FULL:
            await self._inquiries.may_go_on(InquiryKind.LOOP, question, title)
            self._last.clear()
        elif key not in self._warned:
            self._warned.add(key)
            self._emit(Notice, level="warning", code="loop", message=title)
            self._inbox.put(Steer(steer_id=new_id(), content=_WARNING, origin=SteerOrigin.SERVICE))

    def after_call(self, call: ToolCallRequest, response: str) -> None:
        self._last.append((_key(call), response))


def _key(call: ToolCallRequest) -> bytes:
    return orjson.dumps([call.name, call.params], option=orjson.OPT_SORT_KEYS)
