"""A scripted model as a real HTTP server on 127.0.0.1, with both APIs and control over every byte.

`/v1/chat/completions` and `/v1/models` are OpenAI's API; `/api/chat`, `/api/tags`, `/api/show`, `/api/version` are
Ollama's. A history with a `history_fault` gets the status 400.
"""

import asyncio
import socket
import struct
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import h11
import orjson

from gadget_ai.client import TextDelta, ThinkingDelta, ToolCallDelta
from gadget_ai.testing.script import (
    Cut,
    HttpError,
    Pause,
    RawBytes,
    Reply,
    RequestView,
    Reset,
    Script,
    history_fault,
)
from gadget_ai.testing.wire import CREATED, OllamaWire, OpenAIWire

_READ_BYTES = 65_536
_CLOSE_S = 2.0
"""How long the server waits at its end for the connections to close."""


class ScriptedServer:
    """An async context manager that serves `script`, or one script per model name.

    `requests` are the chat requests so far; `disconnected` counts the clients that disconnected during an answer.
    """

    def __init__(self, script: Script | Mapping[str, Script], *, port: int = 0) -> None:
        self.requests: list[RequestView] = []
        self.disconnected = 0
        self.connections = 0
        self._scripts = {"scripted": script} if isinstance(script, Script) else dict(script)
        self._any_model = script if isinstance(script, Script) else None
        self._port = port
        self._has_disconnected = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes the connections in bounded time. Raises the exception of a callable script."""
        self._server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_CLOSE_S)
        await self._server.wait_closed()
        for task in tasks:
            if task.done() and not task.cancelled():
                task.result()

    @property
    def root_url(self) -> str:
        """The base URL for Ollama."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def openai_url(self) -> str:
        return f"{self.root_url}/v1"

    async def wait_disconnected(self, timeout_s: float = 5.0) -> None:
        """Waits until a client has disconnected during an answer. Raises TimeoutError."""
        async with asyncio.timeout(timeout_s):
            await self._has_disconnected.wait()

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # The stream protocol would log a cancelled handler as an error (Python 3.11), so this makes its own task.
        self.connections += 1
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)

        def ended(task: asyncio.Task[None]) -> None:
            if task.cancelled() or task.exception() is None:
                self._tasks.discard(task)

        task.add_done_callback(ended)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = _Connection(reader, writer)
        try:
            while await self._exchange(connection):
                pass
        except (ConnectionError, h11.ProtocolError):
            pass
        except _ClientDisconnected:
            self.disconnected += 1
            self._has_disconnected.set()
        finally:
            writer.close()

    async def _exchange(self, connection: "_Connection") -> bool:
        """Handles one request. Returns False when the connection has ended."""
        received = await connection.request()
        if received is None:
            return False
        method, path, headers, body = received
        if method == "POST" and path in ("/v1/chat/completions", "/api/chat"):
            return await self._chat(connection, path, headers, body)
        status, document = self._document(path)
        await connection.respond(status, document)
        return connection.next_cycle()

    async def _chat(self, connection: "_Connection", path: str, headers: dict[str, str], body: bytes) -> bool:
        document = orjson.loads(body)
        api = "openai" if path.startswith("/v1/") else "ollama"
        request = RequestView(api, document["model"], document["messages"], document.get("tools") or [], headers, body)
        self.requests.append(request)
        script = self._any_model or self._scripts.get(request.model)
        if fault := history_fault(request.messages):
            reply = _refusal(api, 400, fault)
        elif script is None:
            reply = _refusal(api, 404, f"model {request.model!r} not found")
        else:
            reply = script.next(request)
        wire = OpenAIWire(request) if api == "openai" else OllamaWire(request)
        headers_sent = False
        for delta in reply.deltas():
            if isinstance(delta, HttpError):
                await connection.respond(delta.status, delta.body, delta.headers)
                return connection.next_cycle()
            if isinstance(delta, Pause):
                await connection.pause(delta.seconds)
                continue
            if not headers_sent:
                await connection.begin(200, {"content-type": reply.content_type or wire.content_type})
                headers_sent = True
            match delta:
                case Cut():
                    return False
                case Reset():
                    connection.reset()
                    return False
                case RawBytes(data):
                    await connection.send(data)
                case TextDelta() | ThinkingDelta() | ToolCallDelta():
                    await connection.send(wire.delta(delta))
        if not headers_sent:
            await connection.begin(200, {"content-type": reply.content_type or wire.content_type})
        if reply.done:
            await connection.send(wire.end(reply))
        await connection.end()
        return connection.next_cycle()

    def _document(self, path: str) -> tuple[int, Any]:
        names = list(self._scripts)
        match path:
            case "/v1/models":
                data = [{"id": name, "object": "model", "created": CREATED, "owned_by": "scripted"} for name in names]
                return 200, {"object": "list", "data": data}
            case "/api/tags":
                return 200, {"models": [{"name": name, "model": name} for name in names]}
            case "/api/show":
                return 200, {"capabilities": ["completion", "tools"], "details": {}, "model_info": {}}
            case "/api/version":
                return 200, {"version": "0.0.0"}
        return 404, {"error": {"message": f"there is no {path} here"}}


class _ClientDisconnected(Exception):
    """The client closed its connection during an answer."""


class _Connection:
    """The connection of one client. A read during an answer detects that the client has disconnected."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.SERVER)

    async def request(self) -> tuple[str, str, dict[str, str], bytes] | None:
        """Returns method, path, headers and body; None when the client has closed the connection."""
        head: h11.Request | None = None
        body: list[bytes] = []
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                self._http.receive_data(await self._reader.read(_READ_BYTES))
            elif isinstance(event, h11.Request):
                head = event
            elif isinstance(event, h11.Data):
                body.append(bytes(event.data))
            elif isinstance(event, h11.EndOfMessage) and head is not None:
                headers = {name.decode().lower(): value.decode("latin-1") for name, value in head.headers}
                return head.method.decode(), head.target.decode().partition("?")[0], headers, b"".join(body)
            else:
                return None

    async def begin(self, status: int, headers: Mapping[str, str]) -> None:
        await self._write(h11.Response(status_code=status, headers=[(k, v) for k, v in headers.items()]))

    async def send(self, data: bytes) -> None:
        if data:
            await self._write(h11.Data(data=data))

    async def end(self) -> None:
        await self._write(h11.EndOfMessage())

    async def respond(self, status: int, document: Any, headers: Mapping[str, str] | None = None) -> None:
        """Sends a whole response; `document` is JSON, or bytes that are sent unchanged."""
        body = document if isinstance(document, bytes) else orjson.dumps(document)
        sent = {"content-type": "application/json", **(headers or {}), "content-length": str(len(body))}
        await self.begin(status, sent)
        await self.send(body)
        await self.end()

    async def pause(self, seconds: float) -> None:
        """Waits. Raises `_ClientDisconnected` as soon as the client disconnects."""
        try:
            async with asyncio.timeout(seconds):
                # Our clients do not pipeline requests, so a read during an answer ends only with the connection.
                await self._reader.read(1)
                raise _ClientDisconnected
        except TimeoutError:
            return

    def reset(self) -> None:
        sock: socket.socket = self._writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()

    def next_cycle(self) -> bool:
        """Prepares the connection for the next request. Returns False when there can be none."""
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        return True

    async def _write(self, event: h11.Response | h11.Data | h11.EndOfMessage) -> None:
        if self._reader.at_eof():
            raise _ClientDisconnected
        data = self._http.send(event)
        if data:
            self._writer.write(data)
        try:
            await self._writer.drain()
        except ConnectionError:
            raise _ClientDisconnected from None


def _refusal(api: str, status: int, message: str) -> Reply:
    error: Any = {"message": message, "type": "invalid_request_error"} if api == "openai" else message
    return Reply(HttpError(status, {"error": error}))
