"""A session's history as the drone keeps it between turns: fetched once, encoded once, gone with the process. A turn
that was worked on here from its beginning to its end is not fetched: its conversation is its history."""

from collections import OrderedDict
from dataclasses import dataclass, field

from gadget_ai.client import ChatClient
from gadget_api.history import TurnHistory, prompt_messages
from gadget_api.messages import Compaction, Message
from gadget_api.work_order import WorkOrder
from gadget_drone.agent.conversation import Conversation, Log, call_ids
from gadget_drone.service.images import Images, images_of
from gadget_drone.service.server import Server

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
        self._ended: tuple[str, str, _Known] | None = None
        """The session, the turn that has just ended in it, and what is known once the server has that end."""

    async def of(self, server: Server, order: WorkOrder, client: ChatClient, *, goes_on: bool) -> History:
        """Asks the server only for what is not known here yet; of a turn that begins, and does not go on, that is
        nothing when the turn before is known. Raises GadgetError."""
        session, key = order.session, _key(order)
        known = self._known.get(session.id)
        if known is None or known.key != key:
            known = _Known(key, Log(client))
        if goes_on or known.last_turn != order.after_turn:
            own = await self._fetch(server, order, known)
        else:
            own = tuple(prompt_messages(order.prompt, order.images))
        self._known[session.id] = known
        self._known.move_to_end(session.id)
        while len(self._known) > _MAX_SESSIONS:
            self._known.popitem(last=False)
        return History(known.log.copy(), set(known.used_call_ids), own)

    def ended(self, order: WorkOrder, conversation: Conversation) -> None:
        """The order's turn was worked on here from its beginning, and this is what its model has read and said."""
        log, ids = conversation.log, conversation.used_call_ids
        self._ended = order.session.id, order.turn.id, _Known(_key(order), log, order.turn.id, ids)

    def stored(self, turn: str) -> None:
        """The server has the turn's end as it came from here: it has no other history of it."""
        if self._ended is not None and self._ended[1] == turn:
            session, _, self._known[session] = self._ended
        self._ended = None

    async def _fetch(self, server: Server, order: WorkOrder, known: _Known) -> tuple[Message | Compaction, ...]:
        """Adds to what is known, and answers the messages of the order's own turn."""
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

        self._known.pop(order.session.id, None)  # half a page is not kept when the fetching fails
        await server.history(order.session.id, after_turn=known.last_turn, on_page=take)
        return own


def _key(order: WorkOrder) -> tuple[object, ...]:
    return order.session.history_version, order.provider.sdk, order.provider.sees_images
