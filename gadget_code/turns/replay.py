"""Replay: everything after a watcher's last event, then the live stream, in order and once. There is no second path:
page load, reload, second tab, lost network and server restart all come here."""

from collections.abc import Sequence

from gadget_api.commands import Cursor
from gadget_api.turns import ChatTurn, ChatTurnStatus
from gadget_code.sockets.rooms import Rooms, session_room
from gadget_code.sockets.server import SocketServer
from gadget_code.store.database import Store
from gadget_code.turns.recorder import Recorder


def start_of(latest: Sequence[ChatTurn]) -> Cursor:
    """Where a watcher without a cursor starts, given the session's latest turns, newest first: at the start of the
    running turn, or after all that is over."""
    for turn in latest:
        if turn.status is ChatTurnStatus.PROCESSING:
            return Cursor(turn_id=turn.id, seq=0)
    if not latest:
        return Cursor(turn_id="0", seq=0)
    return Cursor(turn_id=latest[0].id, seq=latest[0].last_seq)


class Replay:
    def __init__(self, server: SocketServer, rooms: Rooms, store: Store, recorder: Recorder) -> None:
        self._server = server
        self._rooms = rooms
        self._store = store
        self._recorder = recorder

    async def watch(self, sid: str, session: str, position: Cursor) -> None:
        """Sends `sid` what comes after `position`, then lets it into the session's room."""
        while True:
            reached = await self._send_stored(sid, session, position)
            if reached is None:
                return  # the watcher is gone
            live = self._recorder.relayed(session)
            if live is None or live[0] == reached or live[0].seq == 0:
                break
            turn = live[0].turn_id
            for event in live[1]:
                if event.seq == (reached.seq if turn == reached.turn_id else 0) + 1:
                    await self._rooms.send(sid, event.type, event.parsed())
                    reached = Cursor(turn_id=turn, seq=event.seq)
            position = reached
        # Nothing was awaited since we saw that nothing is left, so no event of this process can fall between.
        await self._server.enter_room(sid, session_room(session))
        if self._server.is_shared:
            # What another process relayed between our look and the room; a watcher drops what it has.
            await self._send_stored(sid, session, reached)

    async def _send_stored(self, sid: str, session: str, position: Cursor) -> Cursor | None:
        """Sends what is stored after `position`; where that led to, or None when the watcher is gone."""
        for turn in await self._store.turns.from_turn(session, position.turn_id):
            seq = position.seq if turn == position.turn_id else 0
            async for event in self._store.events.replay(turn, seq):
                if not await self._server.drained(sid):
                    return None
                await self._rooms.send(sid, event.type, event.parsed())
                position = Cursor(turn_id=turn, seq=event.seq)
        return position
