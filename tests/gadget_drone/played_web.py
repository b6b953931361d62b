"""A web service that a test plays: it takes a drone's events in order and fences epochs as the real one does, and
withholds acknowledgements, refuses or revokes where the test says so. Nothing of the product's service is in it."""

import asyncio
import time
from collections.abc import Callable
from email.utils import formatdate
from typing import Any, Self

import socketio
from aiohttp import web

from gadget_api.events import EVENT_TYPES, turn_event
from gadget_api.history import work_messages
from gadget_api.ids import new_id
from gadget_api.messages import UserMessage
from gadget_api.model import iso, utc_now
from tests.harness import START_S
from tests.wire_json import WireJson

WAIT_S = START_S
"""What is waited for may be a drone that starts again."""
DONE: dict[str, Any] = {"ok": True}


class PlayedWeb:
    """One turn of one session, worked on by whoever registers. An async context manager."""

    def __init__(self, model_url: str, git_url: str, prompt: str = "Go.") -> None:
        self.turn, self.session, self._project = new_id(), new_id(), new_id()
        self.epoch = 0
        self.events: list[dict[str, Any]] = []
        """The turn's events as they are stored: each once, in order."""
        self.received: list[tuple[str, dict[str, Any]]] = []
        """All that the drone said, events too, as it came."""
        self.stores = True
        """False: what comes is neither stored nor acknowledged, as while the database is away."""
        self.acknowledges = True
        self.revokes = False
        self.answers_begin = True
        """False: a turn may not begin yet, as while the database is away."""
        self.histories = 0
        """How often it was asked for the session's history."""
        self.epoch_ahead = 0
        """How many epochs it is ahead of its next answer to a recovery: it has taken up later questions meanwhile."""
        self.steers: list[dict[str, Any]] = []
        self.clock_s = 0.0
        """How much its clock is ahead."""
        self.url = ""
        self._model_url, self._git_url, self._prompt = model_url, git_url, prompt
        self._arrived = asyncio.Event()
        self._drone: str | None = None
        self._io = socketio.AsyncServer(async_mode="aiohttp", json=WireJson, cors_allowed_origins="*")
        self._io.on("connect", self._connect)
        self._io.on("disconnect", self._disconnect)
        self._io.on("*", self._receive)

    async def __aenter__(self) -> Self:
        app = web.Application()
        self._io.attach(app)
        app.router.add_post("/api/v1/drones/registrations", self._register)
        app.router.add_get("/api/v1/sessions/{session}/context", self._context)
        app.router.add_get("/health/live", self._live)
        app.router.add_put("/api/v1/turns/{turn}/blobs/{blob}", self._blob)
        self._runner = web.AppRunner(app, shutdown_timeout=1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", int(self.url.rpartition(":")[2] or 0))
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._drone is not None:
            await self._io.disconnect(self._drone)
        await self._runner.cleanup()

    @property
    def order(self) -> dict[str, Any]:
        seq = len(self.events)
        return {
            "workOrderId": self.turn,
            "epoch": self.epoch,
            "project": {"_id": self._project, "name": "Project", "slug": "project", "gitUrl": self._git_url},
            "session": {"_id": self.session, "name": "A session", "mode": "build"},
            "provider": {
                "_id": new_id(),
                "name": "scripted",
                "sdk": "openai",
                "baseUrl": self._model_url,
                "apiKey": "sk-played-0123456789",
                "modelId": "scripted",
            },
            "turn": {
                "_id": self.turn,
                "createdAt": iso(utc_now()),
                "user": {"_id": new_id(), "email": "ada@example.org", "displayName": "Ada"},
            },
            "prompt": self._prompt,
            "resume": {"ackedSeq": seq} if seq else None,
            "steers": self.steers,
        }

    async def dispatch(self) -> dict[str, Any]:
        """Offers the turn; what the drone answers."""
        await self.until("droneStatus", lambda p: p["status"] == "available")
        self.epoch += 1
        return await self.ask("processWorkOrder", {"workOrder": self.order})

    async def ask(self, event: str, payload: dict[str, Any]) -> dict[str, Any]:
        reply: dict[str, Any] = await self._io.call(event, payload, to=self._drone, timeout=WAIT_S)
        return reply

    async def tell(self, event: str, payload: dict[str, Any]) -> None:
        await self._io.emit(event, payload, to=self._drone)

    async def acknowledge(self) -> None:
        await self.tell("turnAck", {"turnId": self.turn, "seq": len(self.events)})

    async def store_again(self) -> None:
        """The database is back."""
        self.stores = True
        await self.tell("turnResend", {"turnId": self.turn, "afterSeq": len(self.events)})

    async def drop_drone(self) -> None:
        """Ends its connection; it comes again."""
        assert self._drone is not None
        await self._io.disconnect(self._drone)

    async def until(
        self, event: str, wanted: Callable[[dict[str, Any]], bool] = lambda _: True, *, begin: int = 0
    ) -> dict[str, Any]:
        """The first `event` from number `begin` on of what was received, ever, that is wanted."""
        async with asyncio.timeout(WAIT_S):
            while True:
                self._arrived.clear()
                for name, payload in self.received[begin:]:
                    if name == event and wanted(payload):
                        return payload
                await self._arrived.wait()

    def stored(self, type: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["type"] == type]

    async def _connect(self, sid: str, _environ: Any, _auth: Any = None) -> None:
        self._drone = sid

    async def _disconnect(self, sid: str, _reason: str = "") -> None:
        if self._drone == sid:
            self._drone = None
        self.received.append(("gone", {}))
        self._arrived.set()

    async def _receive(self, event: str, _sid: str, payload: dict[str, Any]) -> dict[str, Any]:
        self.received.append((event, payload))
        if event in EVENT_TYPES:
            await self._record(payload)
        elif event == "requestCrashRecovery":
            await self._recover(payload)
        self._arrived.set()
        if event == "beginTurn":
            if payload["epoch"] != self.epoch:
                return {"ok": False, "error": {"code": "staleEpoch", "message": "It went on.", "retryable": False}}
            if not self.answers_begin:
                return {"ok": False, "error": {"code": "storeUnavailable", "message": "Away.", "retryable": True}}
        return DONE

    async def _record(self, event: dict[str, Any]) -> None:
        if self.revokes or event["epoch"] != self.epoch:
            await self.tell("turnRevoked", {"turnId": self.turn, "code": "staleEpoch", "message": "It went on."})
            return
        if not self.stores:
            return
        if event["seq"] == len(self.events) + 1:
            turn_event.validate_python(event)
            self.events.append(event)
            self.steers = [steer for steer in self.steers if steer["steerId"] != event.get("steerId")]
        if event["seq"] > len(self.events):
            await self.tell("turnResend", {"turnId": self.turn, "afterSeq": len(self.events)})
        elif self.acknowledges:
            await self.acknowledge()

    async def _recover(self, ask: dict[str, Any]) -> None:
        is_over = bool(self.stored("workOrderComplete"))
        answer: dict[str, Any] = {"turnId": ask["turnId"], "action": "discard"}
        if ask["turnId"] == self.turn and not is_over and not self.revokes:
            self.epoch += 1
            seq = len(self.events)
            answer |= {
                "action": "resume" if ask["lastSeq"] >= seq else "retry",
                "epoch": self.epoch,
                "ackedSeq": seq,
                "workOrder": self.order,
            }
        self.epoch, self.epoch_ahead = self.epoch + self.epoch_ahead, 0
        await self.tell("crashRecoveryResponse", answer)

    async def _register(self, request: web.Request) -> web.Response:
        new = await request.json()
        now = iso(utc_now())
        registration = {
            "_id": new_id(),
            "createdAt": now,
            "user": new_id(),
            "name": "played",
            "status": "starting",
            "workspaceMode": "idle",
            "lastSeenAt": now,
            **{name: new[name] for name in ("hostname", "workspaceDir", "workspaceId")},
        }
        return web.json_response({"registration": registration, "token": "drone-token"}, status=201)

    async def _context(self, _request: web.Request) -> web.Response:
        self.histories += 1
        events = map(turn_event.validate_python, self.events)
        own = [UserMessage(content=self._prompt), *work_messages(events, is_over=False)]
        item = {"turnId": self.turn, "messages": [message.to_wire() for message in own]}
        return web.json_response({"items": [item], "nextCursor": None})

    async def _live(self, _request: web.Request) -> web.Response:
        return web.json_response({}, headers={"Date": formatdate(time.time() + self.clock_s, usegmt=True)})

    async def _blob(self, request: web.Request) -> web.Response:
        await request.read()
        return web.json_response({})
