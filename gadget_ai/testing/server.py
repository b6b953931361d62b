"""A scripted model behind real HTTP on 127.0.0.1, in both APIs, with control over every byte.

`/v1/chat/completions` and `/v1/models` as OpenAI; `/api/chat`, `/api/tags`, `/api/show`, `/api/version` as Ollama.
Refuses with 400 a history that `history_fault` refuses.
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
"""How long leaving the server waits for its connections to end."""


class ScriptedServer:
    """Serves `script`, or one script a model name. An async context manager.

    `requests` are the chat requests so far; `disconnected` counts the clients that left in the middle of an answer.
    """

    def __init__(self, script: Script | Mapping[str, Script], *, port: int = 0) -> None:
        self.requests: list[RequestView] = []
        self.disconnected = 0
        self.connections = 0
        self._scripts = {"scripted": script} if isinstance(script, Script) else dict(script)
        self._any_model = script if isinstance(script, Script) else None
        self._port = port
        self._left = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends the connections, in bounded time. Raises what a callable script raised."""
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
        """For Ollama."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def openai_url(self) -> str:
        return f"{self.root_url}/v1"

    async def wait_disconnected(self, timeout_s: float = 5.0) -> None:
        """Returns when a client has left in the middle of an answer. Raises TimeoutError."""
        async with asyncio.timeout(timeout_s):
            await self._left.wait()

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Not left to the stream protocol, which logs a cancelled handler as an error (Python 3.11).
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
        except _ClientLeft:
            self.disconnected += 1
            self._left.set()
        finally:
            writer.close()

    async def _exchange(self, connection: "_Connection") -> bool:
        """One request and its response; False when the connection is over."""
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


class _ClientLeft(Exception):
    """The client closed its connection in the middle of an answer."""


class _Connection:
    """One client. While an answer is on its way the next read tells that the client has left."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.SERVER)

    async def request(self) -> tuple[str, str, dict[str, str], bytes] | None:
        """Method, path, headers and body; None when the client is done with this connection."""
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
        """A whole response; `document` is JSON, or bytes as they are."""
        body = document if isinstance(document, bytes) else orjson.dumps(document)
        sent = {"content-type": "application/json", **(headers or {}), "content-length": str(len(body))}
        await self.begin(status, sent)
        await self.send(body)
        await self.end()

    async def pause(self, seconds: float) -> None:
        """Raises `_ClientLeft` as soon as the client goes."""
        try:
            async with asyncio.timeout(seconds):
                # No client of ours pipelines: what comes in the middle of an answer is the end of the connection.
                await self._reader.read(1)
                raise _ClientLeft
        except TimeoutError:
            return

    def reset(self) -> None:
        sock: socket.socket = self._writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()

    def next_cycle(self) -> bool:
        """Whether the connection takes another request."""
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        return True

    async def _write(self, event: h11.Response | h11.Data | h11.EndOfMessage) -> None:
        if self._reader.at_eof():
            raise _ClientLeft
        data = self._http.send(event)
        if data:
            self._writer.write(data)
        try:
            await self._writer.drain()
        except ConnectionError:
            raise _ClientLeft from None


def _refusal(api: str, status: int, message: str) -> Reply:
    error: Any = {"message": message, "type": "invalid_request_error"} if api == "openai" else message
    return Reply(HttpError(status, {"error": error}))
