"""Peers that speak the contract with nothing of the product behind them: a drone that is played by the test, and a
WebSocket whose every frame is the test's."""

import asyncio
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import httpx
import socketio
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from gadget_api.ids import new_id
from gadget_api.model import iso, utc_now
from gadget_api.protocol import PROTOCOL_VERSION
from tests.harness import WAIT_S, User, Web, clean_environment, until

REPLY: dict[str, Any] = {"ok": True}


class PlayedDrone:
    """A registered, connected drone. What it is sent is in `received`; requests are answered with `answers`."""

    def __init__(self, user: User, name: str = "played") -> None:
        self.user = user
        self.name = name
        self.workspace_id = new_id()
        self.answers: dict[str, dict[str, Any] | None] = {}
        """What a request is answered; None: never."""
        self.holds: dict[str, asyncio.Event] = {}
        """What a request waits for before it is answered."""
        self.received: list[tuple[str, dict[str, Any]]] = []
        self.acked_seq: dict[str, int] = {}
        self.registration: dict[str, Any] = {}
        self.token = ""
        self._arrived = asyncio.Event()

    async def __aenter__(self) -> Self:
        body = {
            "hostname": "here",
            "workspaceDir": f"/{self.name}",
            "workspaceId": self.workspace_id,
            "name": self.name,
        }
        made = await self.user.post("/drones/registrations", body)
        self.registration, self.token = made["registration"], made["token"]
        await self.connect()
        await self.report("available")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.disconnect()

    @property
    def id(self) -> str:
        return str(self.registration["_id"])

    def same_drone(self, user: User) -> "PlayedDrone":
        """The same drone over another connection, perhaps to another web process."""
        other = PlayedDrone(user, self.name)
        other.workspace_id, other.registration, other.token = self.workspace_id, self.registration, self.token
        return other

    async def connect(self) -> None:
        self._socket = socketio.AsyncClient(reconnection=False, handle_sigint=False)
        self._socket.on("*", self._receive)
        self._closed = asyncio.Event()
        self._socket.on("disconnect", self._disconnected)
        await self._socket.connect(
            self.user.url,
            auth={"token": self.token, "protocolVersion": PROTOCOL_VERSION},
            transports=["websocket"],
            wait_timeout=10,
        )

    async def disconnect(self) -> None:
        await self._socket.disconnect()

    async def until_closed(self, timeout: float = WAIT_S) -> None:
        async with asyncio.timeout(timeout):
            await self._closed.wait()

    async def until_offline(self) -> None:
        """Waits until the service has noticed that it left."""

        async def offline() -> bool | None:
            return (await self.user.get(f"/drones/{self.id}"))["status"] == "offline" or None

        await until(offline)

    async def report(self, status: str) -> None:
        assert (await self.call("droneStatus", {"status": status}))["ok"]

    async def call(self, event: str, payload: Any) -> dict[str, Any]:
        reply: dict[str, Any] = await self._socket.call(event, payload, timeout=WAIT_S)
        return reply

    async def send(self, event: Mapping[str, Any]) -> None:
        await self._socket.emit(event["type"], dict(event))

    async def order(self, turn: str) -> dict[str, Any]:
        """The last work order for this turn."""
        payload = await self.until("processWorkOrder", lambda p: p["workOrder"]["turn"]["_id"] == turn)
        found: dict[str, Any] = payload["workOrder"]
        return found

    async def acked(self, turn: str, seq: int, timeout: float = WAIT_S) -> None:
        """Waits until everything up to `seq` is acknowledged."""
        await self.until("turnAck", lambda p: p["turnId"] == turn and p["seq"] >= seq, timeout)

    async def acked_or_revoked(self, turn: str, seq: int) -> None:
        """As a drone waits that sends no more than a window ahead."""
        async with asyncio.timeout(WAIT_S):
            while self.acked_seq.get(turn, 0) < seq and not self.count("turnRevoked"):
                self._arrived.clear()
                await self._arrived.wait()

    async def until(
        self, event: str, wanted: Callable[[dict[str, Any]], bool] = lambda _: True, timeout: float = WAIT_S
    ) -> dict[str, Any]:
        """The first `event` received, ever, that is wanted."""
        looked = 0
        async with asyncio.timeout(timeout):
            while True:
                self._arrived.clear()
                for name, payload in self.received[looked:]:
                    if name == event and wanted(payload):
                        return payload
                looked = len(self.received)
                await self._arrived.wait()

    def count(self, event: str) -> int:
        return sum(name == event for name, _ in self.received)

    async def _disconnected(self, _reason: str = "") -> None:
        self._closed.set()

    async def _receive(self, event: str, payload: Any = None) -> Any:
        self.received.append((event, payload))
        if event == "turnAck":
            self.acked_seq[payload["turnId"]] = payload["seq"]
        self._arrived.set()
        if (hold := self.holds.get(event)) is not None:
            await hold.wait()
        answer = self.answers.get(event, REPLY)
        if answer is None:
            await asyncio.Event().wait()
        return answer


class Played:
    """A turn as a played drone tells it: makes its events, numbered."""

    def __init__(self, turn: Mapping[str, Any], epoch: int = 1, seq: int = 0) -> None:
        self.turn = str(turn["_id"])
        self.session = str(turn["session"])
        self.epoch = epoch
        self.seq = seq

    def event(self, type: str, *, seq: int | None = None, **fields: Any) -> dict[str, Any]:
        if seq is None:
            self.seq += 1
            seq = self.seq
        head = {"type": type, "turnId": self.turn, "chatSessionId": self.session, "epoch": self.epoch}
        return {**head, "seq": seq, "at": iso(utc_now()), **fields}

    def response(self, content: str = "x", **fields: Any) -> dict[str, Any]:
        return self.event("response", content=content, **fields)

    def step(self, index: int = 1, content: str = "Hello.", **usage: int) -> dict[str, Any]:
        message = {"thinking": "hm", "content": content, "toolCalls": []}
        return self.event("step", index=index, message=message, usage=usage, finishReason="stop", model="scripted")

    def tool_call(self, call: str = "c1") -> dict[str, Any]:
        fields: dict[str, Any] = {"callId": call, "name": "read", "params": {"a.b": {"$set": 1}, "": None}}
        return self.event("toolCall", **fields, response="done", isError=False, durationMs=5)

    def complete(self, **fields: Any) -> dict[str, Any]:
        end = {"success": True, "message": "Done.", "status": "finished", "stats": {"durationMs": 125_000}}
        return self.event("workOrderComplete", **{**end, **fields})


async def a_session(user: User, **fields: Any) -> dict[str, Any]:
    """A session with a project and a provider that nothing is behind."""
    project = await user.project("https://example.org/a.git", slug=f"p{new_id()}")
    provider = await user.provider("http://127.0.0.1:9/v1", price={"input": 1.0, "cachedInput": 0.5, "output": 10.0})
    return await user.session(project, provider, **fields)


async def a_turn(user: User, session: Mapping[str, Any], content: str = "Go on.") -> dict[str, Any]:
    turn: dict[str, Any] = await user.post(
        f"/sessions/{session['_id']}/turns", {"content": content, "promptId": new_id()}
    )
    return turn


async def is_processing(user: User, turn: str) -> dict[str, Any]:
    async def processing() -> dict[str, Any] | None:
        document: dict[str, Any] = await user.get(f"/turns/{turn}")
        return document if document["status"] == "processing" else None

    found: dict[str, Any] = await until(processing)
    return found


class RawSocket:
    """A WebSocket to the service's Socket.IO address. Answers pings; everything else is in `frames`."""

    def __init__(self, url: str, *, origin: str | None = "", headers: Mapping[str, str] | None = None) -> None:
        self._url = url
        self._headers = dict(headers or {})
        if origin is not None:
            self._headers.setdefault("Origin", origin or url)
        self.frames: list[str] = []
        self.closed = asyncio.Event()
        self._arrived = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._socket: ClientConnection = await connect(
            self._url.replace("http", "ws", 1) + "/socket.io/?EIO=4&transport=websocket",
            additional_headers=self._headers,
            max_size=None,
            ping_interval=None,
            compression=None,
            proxy=None,
        )
        self._reader = asyncio.create_task(self._read())
        await self.until(lambda frame: frame.startswith("0"))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._socket.close()
        self._reader.cancel()
        with suppress(asyncio.CancelledError):
            await self._reader

    async def sign_in(self, auth: Any) -> str:
        """The answer to CONNECT: a frame that begins with 40 (welcome) or 44 (refused)."""
        await self.send("40" + json.dumps(auth))
        return await self.until(lambda frame: frame.startswith(("40", "44")))

    async def send(self, frame: str | bytes) -> None:
        """Sends as much of it as the server takes."""
        with suppress(ConnectionClosed):
            await self._socket.send(frame)

    async def call(self, event: str, *payload: Any, id: int = 1) -> dict[str, Any]:
        await self.send(f"42{id}{json.dumps([event, *payload])}")
        answer = await self.until(lambda frame: frame.startswith(f"43{id}["))
        reply: dict[str, Any] = json.loads(answer[2 + len(str(id)) :])[0]
        return reply

    async def until(self, wanted: Callable[[str], bool]) -> str:
        async with asyncio.timeout(WAIT_S):
            while True:
                self._arrived.clear()
                for frame in self.frames:
                    if wanted(frame):
                        return frame
                if self.closed.is_set():
                    raise ConnectionError(f"closed after {self.frames[-3:]}")
                await self._arrived.wait()

    async def until_closed(self, timeout: float = WAIT_S) -> None:
        async with asyncio.timeout(timeout):
            await self.closed.wait()

    async def _read(self) -> None:
        try:
            async for frame in self._socket:
                assert isinstance(frame, str)
                if frame == "2":
                    await self._socket.send("3")
                    continue
                self.frames.append(frame)
                self._arrived.set()
        except ConnectionClosed:
            pass
        finally:
            self.closed.set()
            self._arrived.set()


async def raw_http(url: str, request: bytes, timeout: float = WAIT_S) -> bytes:
    """What the server answers to these bytes, until it closes."""
    parts = urlsplit(url)
    async with asyncio.timeout(timeout):
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        with suppress(ConnectionError):
            writer.write(request)
            await writer.drain()
        try:
            return await reader.read()
        except ConnectionError:
            return b""
        finally:
            writer.close()


def problem(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """`answer` as the problem document it has to be."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    document: dict[str, Any] = answer.json()
    assert document.keys() == {"type", "title", "status", "detail", "code"}
    assert (document["status"], document["code"]) == (status, code), document
    assert document["detail"].endswith("."), document
    return document


@contextmanager
def a_web(directory: Path, mongodb_url: str, **settings: str) -> Iterator[Web]:
    """A web service of a test's own."""
    env = {
        "GADGET_DATA_DIR": str(directory / "data"),
        "GADGET_OPEN_REGISTRATION": "true",
        "GADGET_ALLOW_PRIVATE_URLS": "true",
        "GADGET_DATABASE": f"t{new_id()}",
        "GADGET_MONGODB_URL": mongodb_url,
        **settings,
    }
    command = [sys.executable, "-m", "gadget_code", "serve", "--port", "0"]
    web = Web(command, clean_environment(**env), directory / "web.log")
    try:
        yield web.start()
    finally:
        web.stop()
    assert "Traceback" not in web.output, web.output


def an_inquiry(of: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    """An approval of a command, as a drone asks for it."""
    return {
        "_id": new_id(),
        "createdAt": iso(utc_now()),
        "user": of["user"],
        "session": of["session"],
        "turn": of["_id"],
        "kind": "approval",
        "callId": "c1",
        "title": "Run a command",
        "detail": "npm run test -- --watch",
        "choices": [{"id": name, "label": name} for name in ("once", "session", "project", "deny")],
        "takesText": True,
        "default": {"choice": "deny"},
        "verdicts": [],
        "rule": {"decision": "allow", "capability": "execute", "pattern": "npm run *"},
        "expiresAt": iso(utc_now() + timedelta(hours=1)),
        **fields,
    }


async def a_finished_turn(
    user: User, drone: PlayedDrone, session: Mapping[str, Any], content: str = "Go on.", *more: dict[str, Any]
) -> dict[str, Any]:
    """A turn that the drone has worked on and ended: the events `more` (types and fields), a step, the end."""
    turn = await a_turn(user, session, content)
    order = await drone.order(turn["_id"])
    played = Played(turn, epoch=order["epoch"])
    for fields in more:
        await drone.send(played.event(**fields))
    await drone.send(played.step(content=f"Answer to {content}", inputTokens=100, responseTokens=10))
    await drone.send(played.complete())
    await drone.acked(turn["_id"], played.seq)
    await drone.report("available")
    return await user.until_over(turn["_id"])


def a_checkpoint(letter: str, parent: str | None = None, files: int = 0) -> dict[str, Any]:
    """The fields of a checkpoint's event; checkpoints are named by a letter here."""
    taken = {"checkpointId": letter * 40, "parent": parent and parent * 40, "fileCount": files}
    return {"type": "checkpoint", "checkpoint": taken}
