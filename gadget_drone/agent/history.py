"""A session's history as the drone keeps it between turns: fetched once, encoded once, gone with the process."""

from collections import OrderedDict
from dataclasses import dataclass, field

from gadget_ai.client import ChatClient, Encoded
from gadget_api.history import TurnHistory
from gadget_api.messages import Message
from gadget_api.work_order import WorkOrder
from gadget_drone.agent.conversation import call_ids
from gadget_drone.server import Server

_MAX_SESSIONS = 4
"""A history may have tens of megabytes; a drone seldom works for more sessions than this in turn."""


@dataclass
class _Known:
    sdk: str
    last_turn: str | None = None
    encoded: list[Encoded] = field(default_factory=list)
    used_call_ids: set[str] = field(default_factory=set)


class Histories:
    def __init__(self) -> None:
        self._known: OrderedDict[str, _Known] = OrderedDict()

    async def fetch(
        self, server: Server, order: WorkOrder, client: ChatClient
    ) -> tuple[list[Encoded], set[str], tuple[Message, ...]]:
        """What came before the order's turn, encoded; the call ids in it; and the turn's own messages so far.

        Asks the server only for the turns that are not known here yet. Raises GadgetError.
        """
        session = order.session.id
        known = self._known.get(session)
        if known is None or known.sdk != order.provider.sdk:
            known = _Known(order.provider.sdk)
        own: tuple[Message, ...] = ()

        def take(turns: tuple[TurnHistory, ...]) -> None:
            nonlocal own
            for turn in turns:
                if turn.turn_id == order.turn.id:
                    own = turn.messages
                    continue
                known.encoded.extend(client.encode(message) for message in turn.messages)
                known.used_call_ids |= call_ids(turn.messages)
                known.last_turn = turn.turn_id

        self._known.pop(session, None)  # half a page is not kept when the fetching fails
        await server.history(session, after_turn=known.last_turn, on_page=take)
        self._known[session] = known
        while len(self._known) > _MAX_SESSIONS:
            self._known.popitem(last=False)
        return known.encoded, set(known.used_call_ids), own
