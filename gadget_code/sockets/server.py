"""The Socket.IO server with our bounds: what a client may send, and how much may wait unsent for it.

Gaps of python-socketio 5.18 and engineio 4.15 are closed here (measured; each can go when the library does it itself):
a client can call the handlers of `connect` and `disconnect` by name, binary attachments are taken, a second CONNECT
makes a second identity that never leaves, a frame that is no packet leaves its writer behind, and nothing limits what
is queued for a slow reader.
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
"""Past that, what terminals say is not sent: who reads again sees the gap, and attaches anew to what is kept."""
_OUTPUT = '2["terminalOutput",'
_REPLAY_AHEAD_BYTES = 128 * 1024
"""What a replay queues ahead: little, so that a ping is never long in the queue of a slow link."""
PING_INTERVAL_S = 5
PING_TIMEOUT_S = 10
_RESERVED = frozenset({"connect", "disconnect", "connect_error"})
_FROM_CLIENT = ("1", "3", "4")
"""Engine.IO packet types a client sends over WebSocket: close, pong, message."""


class _OrjsonCodec:
    """What python-socketio asks of a json module, by orjson: stricter, and a fraction of the cost of a delta."""

    @staticmethod
    def dumps(value: Any, **_: Any) -> str:
        return orjson.dumps(value).decode()

    @staticmethod
    def loads(text: str, **_: Any) -> Any:
        return orjson.loads(text)


class _Malformed(Exception):
    """What a client sent ends its connection."""


class _ClientPacket(Packet):  # type: ignore[misc]  # the library has no types
    """A Socket.IO packet that is JSON, names an event a client may name, and has no attachments."""

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
    """One per process. Peers are addressed by room, never by object."""

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
            # In the order they were sent: two events of one socket never overtake each other.
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
                    log.info("a frame that is no packet closed its connection")
                    return {"type": "websocket.disconnect", "code": 1008}
                return message

            await served(scope, packets if scope["type"] == "websocket" else receive, send)

        return checked

    async def _handle_eio_connect(self, eio_sid: str, environ: dict[str, Any]) -> None:
        FrameSocket.adopt(self.eio.sockets[eio_sid])
        await super()._handle_eio_connect(eio_sid, environ)

    async def _handle_eio_message(self, eio_sid: str, data: str) -> None:
        try:
            if not data:  # the library would take it for a packet that it is to make
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
        """As the library's, but for a socket that is gone there is nothing to do."""
        if self.is_open(sid):
            await super().enter_room(sid, room, namespace)

    def may_have_members(self, room: str) -> bool:
        """Whether anybody is in the room; with several processes it may always be somebody of another."""
        return self.is_shared or any(True for _ in self.manager.get_participants("/", room))

    def is_open(self, sid: str) -> bool:
        """Whether the connection of `sid` is one of this process that is not closed."""
        socket = self.eio.sockets.get(self.manager.eio_sid_from_sid(sid, "/"))
        return socket is not None and not socket.closed

    def put(self, sid: str, event: str, payload: dict[str, Any]) -> None:
        """Queues an event for one socket of this process, at once: nothing else can come between two of these."""
        socket = self.eio.sockets.get(self.manager.eio_sid_from_sid(sid, "/"))
        if socket is not None and not socket.closed:
            socket.queue.put_nowait(self.frame(event, payload))

    def frame(self, event: str, payload: dict[str, Any]) -> EngineFrame:
        """An event, as it goes to a socket; the same frame may go to many."""
        return EngineFrame(MESSAGE, self.packet_class(EVENT, namespace="/", data=[event, payload]).encode())

    async def _send_eio_packet(self, eio_sid: str, eio_pkt: EngineFrame) -> None:
        socket = self.eio.sockets.get(eio_sid)
        if socket is None or socket.closed:
            return
        unsent_bytes = socket.queue.unsent_bytes
        if unsent_bytes > MAX_UNSENT_OUTPUT_BYTES and _is_output(eio_pkt):
            return
        if unsent_bytes > MAX_UNSENT_BYTES:
            log.warning("a socket read too slowly and was cut; it can come back and catch up")
            await self.abort(eio_sid)
            return
        socket.queue.put_nowait(eio_pkt)

    async def abort(self, eio_sid: str) -> None:
        """Ends a connection without waiting for what is still unsent on it."""
        socket = self.eio.sockets.get(eio_sid)
        if socket is None:
            return
        while not socket.queue.empty():
            socket.queue.get_nowait()
            socket.queue.task_done()
        await socket.close(wait=False)
        socket.queue.put_nowait(None)

    async def abort_client(self, sid: str) -> None:
        """`cut` for the connection of an admitted socket of this process."""
        eio_sid = self.manager.eio_sid_from_sid(sid, "/")
        if eio_sid is not None:
            await self.abort(eio_sid)

    async def drained(self, sid: str, below_bytes: int = _REPLAY_AHEAD_BYTES) -> bool:
        """Waits until less than `below_bytes` wait unsent for `sid`; False when it is gone, or cut for not reading."""
        while True:
            socket = self.eio.sockets.get(self.manager.eio_sid_from_sid(sid, "/"))
            if socket is None or socket.closed:
                return False
            if socket.queue.unsent_bytes < below_bytes:
                return True
            socket.queue.sent.clear()
            try:
                await asyncio.wait_for(socket.queue.sent.wait(), PING_INTERVAL_S + PING_TIMEOUT_S)
            except TimeoutError:
                await self.abort(socket.sid)
                return False
