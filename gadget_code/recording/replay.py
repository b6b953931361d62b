"""Replay: sends a watcher everything after its last event, then the live stream, in order and once. There is no second
path: page load, reload, second tab, lost network and server restart all use it."""

import asyncio
import logging
from collections.abc import Sequence

from gadget_api.commands import Cursor
from gadget_api.errors import Unavailable
from gadget_api.turns import ChatTurn
from gadget_code.recording.recorder import Recorder
from gadget_code.sockets.rooms import session_room
from gadget_code.sockets.server import SocketServer
from gadget_code.store.database import MongoStore

log = logging.getLogger(__name__)

_AHEAD_S = 0.05
_AHEAD_MOST_S = 1.0


def start_of(latest: Sequence[ChatTurn]) -> Cursor:
    """Returns where a watcher without a cursor starts, given the session's latest turns, newest first: at the first
    event of the oldest unfinished turn, or after the newest turn."""
    unfinished = [turn for turn in latest if not turn.status.is_over]
    if unfinished:
        return Cursor(turn_id=unfinished[-1].id, seq=0)
    if not latest:
        return Cursor(turn_id="0", seq=0)
    return Cursor(turn_id=latest[0].id, seq=latest[0].last_seq)


class Replay:
    def __init__(self, server: SocketServer, store: MongoStore, recorder: Recorder) -> None:
        self._server = server
        self._store = store
        self._recorder = recorder

    async def watch(self, sid: str, session: str, position: Cursor) -> None:
        """Sends `sid` the events after `position`, then adds it to the session's room."""
        try:
            await self._watch(sid, session, position)
        except Unavailable as exc:
            log.warning("a replay failed, and its watcher was disconnected: %s", exc.message)
            await self._server.abort_client(sid)

    async def _watch(self, sid: str, session: str, position: Cursor) -> None:
        position = await self._agreed(session, position)
        while True:
            ended = self._recorder.streams_ended
            reached = await self._send_stored(sid, session, position)
            if reached is None:
                return  # the watcher is gone
            position = reached
            # No await from here to the room, so that no event of this process falls between.
            live = self._recorder.live(session)
            if live is None:
                if self._recorder.streams_ended == ended:
                    break
                continue  # a stream was closed meanwhile
            if live.turn_id < reached.turn_id:
                break
            seq = reached.seq if live.turn_id == reached.turn_id else 0
            if live.stored_seq > seq:
                continue
            for event in live.unstored:
                if event.seq > seq:
                    self._server.put(sid, event.type, event.parsed())
            break
        await self._server.enter_room(sid, session_room(session))
        if self._server.is_shared:
            # Events that another process relayed before this socket was in the room; the watcher drops duplicates.
            await self._send_stored(sid, session, position)

    async def _agreed(self, session: str, position: Cursor) -> Cursor:
        """Returns `position`, or the last stored event before it that the watcher has.

        A watcher may be ahead of the store: it saw events that a killed process had not stored. The drone sends them
        again, but not to this watcher. When the drone's journal was lost too, a later epoch replaces them.
        """
        wait_s = _AHEAD_S
        while True:
            turn = await self._store.turns.find({"_id": position.turn_id, "session": session})
            if turn is None or position.seq == 0:
                return position
            if position.epoch is not None and turn.epoch > position.epoch:
                seq = min(position.seq, turn.last_seq)
                seq = await self._store.events.last_up_to_epoch(turn.id, position.epoch, seq)
                return position.replace(seq=seq)
            if position.seq <= turn.last_seq:
                return position
            if turn.status.is_over:  # the events that it saw beyond were never stored; the last event was
                return position.replace(seq=turn.last_seq - 1)
            await asyncio.sleep(wait_s)
            wait_s = min(wait_s * 2, _AHEAD_MOST_S)

    async def _send_stored(self, sid: str, session: str, position: Cursor) -> Cursor | None:
        """Sends what is stored after `position`. Returns the position reached, or None when the watcher is gone."""
        for turn, last_seq in await self._store.turns.from_turn(session, position.turn_id):
            seq = position.seq if turn == position.turn_id else 0
            async for event in self._store.events.replay(turn, seq, up_to=last_seq):
                if (
                    event.type == "workOrderComplete"
                    and self._recorder.is_streaming(turn)
                    and not self._server.is_shared
                ):
                    break  # stored this moment, and not relayed yet: it comes to the room, or with our next look
                if not await self._server.drained(sid):
                    return None
                self._server.put(sid, event.type, event.parsed())
                position = Cursor(turn_id=turn, seq=event.seq)
        return position
