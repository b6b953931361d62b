"""The Socket.IO server with limits on what a client may send, and on what is queued for it.

Closes gaps of python-socketio 5.18 and engineio 4.15 (measured; each fix can go when the library has it): a client can
call the handlers of `connect` and `disconnect` by name, binary attachments are accepted, a second CONNECT creates a
second identity that never leaves, an invalid frame leaves its writer task behind, and the queue for a slow client has
no limit.
"""

import asyncio
import logging
from typing import Any

import engineio
import orjson
import socketio
from engineio.packet import MESSAGE
from engineio.packet import Packet as EngineFrame
from socketio.packet import ACK, CONNECT, DISCONNECT, EVENT, Packet
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gadget_api.events import MAX_EVENT_BYTES
from gadget_api.protocol import SOCKET_PATH
from gadget_code.sockets.frames import FrameSocket, LocalManager, SharedManager

log = logging.getLogger(__name__)

MAX_UNSENT_BYTES = 4 * 1024 * 1024
MAX_UNSENT_OUTPUT_BYTES = 512 * 1024
"""Above this, terminal output is dropped: the client notices the gap in the offsets, and attaches again."""
_OUTPUT = '2["terminalOutput",'
_REPLAY_AHEAD_BYTES = 128 * 1024
"""How much a replay queues ahead: little, so that a ping never waits long on a slow link."""
PING_INTERVAL_S = 5
PING_TIMEOUT_S = 10
_RESERVED = frozenset({"connect", "disconnect", "connect_error"})
_FROM_CLIENT = ("1", "3", "4")
"""Engine.IO packet types that a client sends over WebSocket: close, pong, message."""


class _OrjsonCodec:
    """The json module for python-socketio, by orjson: stricter, and much faster for deltas."""

    @staticmethod
    def dumps(value: Any, **_: Any) -> str:
        return orjson.dumps(value).decode()

    @staticmethod
    def loads(text: str, **_: Any) -> Any:
        return orjson.loads(text)


class _Malformed(Exception):
    """An invalid packet, which ends its connection."""


class _ClientPacket(Packet):  # type: ignore[misc]  # the library has no types
    """A Socket.IO packet that is JSON, names an event that a client may send, and has no attachments."""

    json = _OrjsonCodec
    uses_binary_events = False

    def decode(self, encoded_packet: str) -> int | None:
        try:
            attachments: int | None = super().decode(encoded_packet)
        except (ValueError, TypeError, IndexError, RecursionError) as exc:
            raise _Malformed("a malformed packet") from exc
        if self.packet_type not in (CONNECT, DISCONNECT, EVENT, ACK) or attachments:
            raise _Malformed("a packet that no client may send")
        if self.packet_type == ACK and not (isinstance(self.data, list) and isinstance(self.id, int)):
            raise _Malformed("an acknowledgement of nothing")
        if self.packet_type == EVENT:
            if not (isinstance(self.data, list) and self.data and isinstance(self.data[0], str)):
                raise _Malformed("an event without a name")
            if self.data[0] in _RESERVED:
                self.data[0] = f"reserved name {self.data[0]}"
        return attachments


def _is_output(frame: EngineFrame) -> bool:
    return isinstance(frame.data, str) and frame.data.startswith(_OUTPUT)


class SocketServer(socketio.AsyncServer):  # type: ignore[misc]  # the library has no types
    """One per process. Clients are addressed by room, never by object."""

    def __init__(self, origins: list[str], manager: LocalManager) -> None:
        self.is_shared = isinstance(manager, SharedManager)
        super().__init__(
            async_mode="asgi",
            client_manager=manager,
            serializer=_ClientPacket,
            cors_allowed_origins=origins,
            transports=["websocket"],
            max_http_buffer_size=MAX_EVENT_BYTES,
            ping_interval=PING_INTERVAL_S,
            ping_timeout=PING_TIMEOUT_S,
            http_compression=False,
            # In order: two events of one socket never overtake each other.
            async_handlers=False,
            logger=logging.getLogger("socketio"),
            engineio_logger=logging.getLogger("engineio"),
        )

    def asgi(self, app: ASGIApp) -> ASGIApp:
        served: ASGIApp = engineio.ASGIApp(self, app, engineio_path=SOCKET_PATH.strip("/"))

        async def checked(scope: Scope, receive: Receive, send: Send) -> None:
            async def packets() -> Message:
                message = await receive()
                if message["type"] == "websocket.receive" and not (message.get("text") or "").startswith(_FROM_CLIENT):
                    log.info("an invalid frame closed its connection")
                    return {"type": "websocket.disconnect", "code": 1008}
                return message

            await served(scope, packets if scope["type"] == "websocket" else receive, send)

        return checked

    async def _handle_eio_connect(self, eio_sid: str, environ: dict[str, Any]) -> None:
        FrameSocket.adopt(self.eio.sockets[eio_sid])
        await super()._handle_eio_connect(eio_sid, environ)

    async def _handle_eio_message(self, eio_sid: str, data: str) -> None:
        try:
            if not data:  # the library would create a packet from it
                raise _Malformed("an empty packet")
            await super()._handle_eio_message(eio_sid, data)
        except _Malformed as exc:
            log.info("%s closed its connection", exc)
            await self.abort(eio_sid)

    async def _handle_connect(self, eio_sid: str, namespace: str | None, data: Any) -> None:
        if self.manager.sid_from_eio_sid(eio_sid, namespace or "/") is not None:
            raise _Malformed("a second sign-in")
        await super()._handle_connect(eio_sid, namespace, data)

    async def enter_room(self, sid: str, room: str, namespace: str | None = None) -> None:
        """Does what the library does, but ignores a closed socket."""
        if self.is_open(sid):
            await super().enter_room(sid, room, namespace)

    def may_have_members(self, room: str) -> bool:
        """Returns whether the room has members. With several processes it always may."""
        return self.is_shared or any(True for _ in self.manager.get_participants("/", room))

    def is_open(self, sid: str) -> bool:
        """Returns whether this process has the connection of `sid`, and it is open."""
        return self._open_socket(sid) is not None

    def _open_socket(self, sid: str) -> FrameSocket | None:
        socket: FrameSocket | None = self.eio.sockets.get(self.manager.eio_sid_from_sid(sid, "/"))
        return None if socket is None or socket.closed else socket

    def put(self, sid: str, event: str, payload: dict[str, Any]) -> None:
        """Queues an event for one socket of this process without an await, so that nothing comes between two calls."""
        socket = self._open_socket(sid)
        if socket is not None:
            socket.queue.put_nowait(self.frame(event, payload))

    def frame(self, event: str, payload: dict[str, Any]) -> EngineFrame:
        """Returns an event's frame, which can be sent to many sockets."""
        return EngineFrame(MESSAGE, self.packet_class(EVENT, namespace="/", data=[event, payload]).encode())

    async def _send_eio_packet(self, eio_sid: str, eio_pkt: EngineFrame) -> None:
        socket = self.eio.sockets.get(eio_sid)
        if socket is None or socket.closed:
            return
        unsent_bytes = socket.queue.unsent_bytes
        if unsent_bytes > MAX_UNSENT_OUTPUT_BYTES and _is_output(eio_pkt):
            return
        if unsent_bytes > MAX_UNSENT_BYTES:
            log.warning("a socket read too slowly and was closed; it can reconnect and catch up")
            await self.abort(eio_sid)
            return
        socket.queue.put_nowait(eio_pkt)

    async def abort(self, eio_sid: str) -> None:
        """Closes a connection and discards its queue."""
        socket = self.eio.sockets.get(eio_sid)
        if socket is None:
            return
        while not socket.queue.empty():
            socket.queue.get_nowait()
            socket.queue.task_done()
        await socket.close(wait=False)
        socket.queue.put_nowait(None)

    async def abort_client(self, sid: str) -> None:
        """`abort` for the connection of an authenticated socket of this process."""
        eio_sid = self.manager.eio_sid_from_sid(sid, "/")
        if eio_sid is not None:
            await self.abort(eio_sid)

    async def drained(self, sid: str, below_bytes: int = _REPLAY_AHEAD_BYTES) -> bool:
        """Waits until less than `below_bytes` are queued for `sid`. Returns False when it is gone, or was aborted
        because it does not read."""
        while True:
            socket = self._open_socket(sid)
            if socket is None:
                return False
            if socket.queue.unsent_bytes < below_bytes:
                return True
            socket.queue.sent.clear()
            try:
                await asyncio.wait_for(socket.queue.sent.wait(), PING_INTERVAL_S + PING_TIMEOUT_S)
            except TimeoutError:
                await self.abort(socket.sid)
                return False
