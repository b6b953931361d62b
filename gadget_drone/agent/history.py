"""A session's history as the drone keeps it between turns: fetched once, encoded once, gone with the process."""

from collections import OrderedDict
from dataclasses import dataclass, field

from gadget_ai.client import ChatClient
from gadget_api.history import TurnHistory
from gadget_api.messages import Compaction, Message
from gadget_api.work_order import WorkOrder
from gadget_drone.agent.conversation import Log, call_ids
from gadget_drone.images import Images, images_of
from gadget_drone.server import Server

_MAX_SESSIONS = 4
"""A history may have tens of megabytes; a drone seldom works for more sessions than this in turn."""


@dataclass
class _Known:
    key: tuple[object, ...]
    """What it was encoded for, and which version of the session's history it is."""
    log: Log
    last_turn: str | None = None
    used_call_ids: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class History:
    before: Log
    """What came before the order's turn, as its model reads it."""
    used_call_ids: set[str]
    own: tuple[Message | Compaction, ...]
    """The turn's own messages so far."""


class Histories:
    def __init__(self, images: Images) -> None:
        self._images = images
        self._known: OrderedDict[str, _Known] = OrderedDict()

    async def fetch(self, server: Server, order: WorkOrder, client: ChatClient) -> History:
        """Asks the server only for the turns that are not known here yet. Raises GadgetError."""
        session, provider = order.session, order.provider
        key = (session.history_version, provider.sdk, provider.sees_images)
        known = self._known.get(session.id)
        if known is None or known.key != key:
            known = _Known(key, Log(client))
        own: tuple[Message | Compaction, ...] = ()

        async def take(turns: tuple[TurnHistory, ...]) -> None:
            nonlocal own
            await self._images.fetch(images_of(entry for turn in turns for entry in turn.messages))
            for turn in turns:
                if turn.turn_id == order.turn.id:
                    own = turn.messages
                    continue
                for entry in turn.messages:
                    known.log.add(entry)
                known.used_call_ids |= call_ids(turn.messages)
                known.last_turn = turn.turn_id

        self._known.pop(session.id, None)  # half a page is not kept when the fetching fails
        await server.history(session.id, after_turn=known.last_turn, on_page=take)
        self._known[session.id] = known
        while len(self._known) > _MAX_SESSIONS:
            self._known.popitem(last=False)
        return History(known.log.copy(), set(known.used_call_ids), own)
