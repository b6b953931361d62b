"""Reads and writes the frames of one connection, and emits events to a room.

engineio and python-socketio create a task for each frame that is read, sent and queued, and a timer for the first two:
two thirds of their cost of an event (docs/explanation/performance-steps.md). This does the same steps without them. The
libraries still interpret the frames.
"""

import asyncio
from contextlib import suppress
from typing import Any

from engineio.async_drivers.asgi import WebSocket
from engineio.async_socket import AsyncSocket
from engineio.exceptions import SocketIsClosedError, UnknownPacketError
from engineio.packet import Packet as EngineFrame
from socketio.async_manager import AsyncManager
from socketio.async_redis_manager import AsyncRedisManager


class SendQueue(asyncio.Queue[EngineFrame | None]):
    """The frames that wait to be sent on one socket, counted in bytes; None ends the writer."""

    def __init__(self) -> None:
        super().__init__()
        self.unsent_bytes = 0
        self.sent = asyncio.Event()

    def _put(self, item: EngineFrame | None) -> None:
        self.unsent_bytes += _size(item)
        super()._put(item)

    def _get(self) -> EngineFrame | None:
        item = super()._get()
        self.unsent_bytes -= _size(item)
        self.sent.set()
        return item


def _size(frame: EngineFrame | None) -> int:
    return len(frame.data) if frame is not None and isinstance(frame.data, str) else 0


class _ReceiveTimeout:
    """Cancels its task after a time without frames. One timer serves many frames."""

    def __init__(self, most_s: float) -> None:
        self.since: float | None = None
        """When waiting for a frame began, in the loop's seconds; None while a frame is handled."""
        self._most_s = most_s
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._look_later(self._loop.time())

    def over(self) -> None:
        self._timer.cancel()

    def _look_later(self, since: float) -> None:
        self._timer = self._loop.call_at(since + self._most_s, self._look)

    def _look(self) -> None:
        now = self._loop.time()
        since = now if self.since is None else self.since
        if now - since < self._most_s:
            self._look_later(since)
        elif self._task is not None:
            self._task.cancel()


class FrameSocket(AsyncSocket):  # type: ignore[misc]  # the library has no types
    """A connection over WebSocket only."""

    queue: SendQueue

    @classmethod
    def adopt(cls, socket: AsyncSocket) -> None:
        """Converts `socket`, which has not begun to read: the library has no setting for its socket class."""
        socket.__class__ = cls
        waiting, socket.queue = socket.queue, SendQueue()
        while not waiting.empty():  # the handshake's frame
            socket.queue.put_nowait(waiting.get_nowait())

    async def _websocket_handler(self, ws: WebSocket) -> None:
        self.connected = self.upgraded = True
        writing = asyncio.create_task(self._write(ws), name="a socket's writer")
        try:
            with suppress(asyncio.CancelledError, OSError):
                await self._read(ws)
        finally:
            self.queue.put_nowait(None)
            await writing
            await self.close(wait=False, abort=True, reason=self.server.reason.TRANSPORT_CLOSE)

    async def _read(self, ws: WebSocket) -> None:
        """Handles frames until the connection closes or one is too large. Raises OSError when the client closes,
        CancelledError when it sends nothing for longer than its pongs may take."""
        now = asyncio.get_running_loop().time
        silence = _ReceiveTimeout(self.server.ping_interval + self.server.ping_timeout)
        try:
            while True:
                silence.since = now()
                frame = await ws.wait()
                silence.since = None
                if self.closing:  # an authentication now would never be cleaned up
                    return
                if len(frame) > self.server.max_http_buffer_size:
                    return
                try:
                    # Not decoded by the library: it would parse any JSON here, of any depth.
                    await self.receive(EngineFrame(int(frame[0]), frame[1:]))
                except SocketIsClosedError:
                    return
                except UnknownPacketError:
                    continue
        finally:
            silence.over()

    async def _write(self, ws: WebSocket) -> None:
        with suppress(OSError, RuntimeError):  # the connection is closed; the reader notices it
            while (frame := await self._next()) is not None:
                await ws.send(frame.encode())
        await ws.close()

    async def _next(self) -> EngineFrame | None:
        frame = await self.queue.get()
        self.queue.task_done()
        return frame


class LocalManager(AsyncManager):  # type: ignore[misc]
    """The rooms of this process."""

    async def emit(
        self,
        event: str,
        data: Any,
        namespace: str,
        room: str | None = None,
        skip_sid: Any = None,
        callback: Any = None,
        to: str | None = None,
        **more: Any,
    ) -> None:
        if callback is not None or skip_sid is not None or not isinstance(data, dict):
            await super().emit(event, data, namespace, room, skip_sid, callback, to, **more)
            return
        frame: EngineFrame | None = None
        for _, connection in self.get_participants(namespace, to or room):
            if frame is None:
                frame = self.server.frame(event, data)
            await self.server._send_eio_packet(connection, frame)


class SharedManager(AsyncRedisManager, LocalManager):  # type: ignore[misc]
    """The rooms of several processes: each gets the events for its own sockets from Redis."""
