"""A process of the load generator: some of the drones and watchers. Commands come as JSON lines on stdin, answers go to
stdout; it ends with its stdin.

{"open": {url, drones: [{token}], watchers: [{token, session}]}}  -> {"opened"}: connects these, besides those it has
{"take": N}                    -> {"taken"}: its first N drones have each accepted a turn
{"send": {rate, seconds}}      -> what was sent and seen; the turns are ended, and stored
"""

import asyncio
import os
import random
import sys
import time
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any

import orjson

from benchmarks.wire import Wire
from gadget_api.model import iso, utc_now
from gadget_api.protocol import PROTOCOL_VERSION

_AT_ONCE = 20
"""Connections that are opened at the same time."""
_DRAIN_S = 20.0
"""How long a stream that has ended may take to be stored and seen."""
_SAMPLE_S = 0.25
WORDS = "a few words of it"


class SimulatedDrone:
    """Speaks a drone's part of the protocol, and makes up what it says."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.seq = 0
        self.acked = 0
        self.acks = 0
        """How often something was acknowledged: each is a group that was stored."""
        self.resends = 0
        self.is_revoked = False
        self.order: dict[str, Any] | None = None
        self.changed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        wire.on_event = self._take

    def _take(self, name: str, payload: Any) -> None:
        if name == "processWorkOrder":
            self.seq = self.acked = 0
            self._start(self._begin(payload["workOrder"]))
        elif name == "turnAck":
            self.acked = payload["seq"]
            self.acks += 1
        elif name == "turnResend":
            self.resends += 1
        elif name == "turnRevoked":
            self.is_revoked = True
        self.changed.set()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _begin(self, order: dict[str, Any]) -> None:
        ours = {"turnId": order["turn"]["_id"], "epoch": order["epoch"]}
        await self.wire.call("beginTurn", ours)
        self.order = order
        self.changed.set()

    async def until(self, wanted: Callable[[], bool], timeout: float = _DRAIN_S) -> None:
        async with asyncio.timeout(timeout):
            while not wanted():
                self.changed.clear()
                await self.changed.wait()

    async def until_taken(self) -> None:
        """Returns when it has accepted a turn, and may work on it."""
        await self.until(lambda: self.order is not None)

    async def event(self, type: str, **fields: Any) -> None:
        assert self.order is not None
        self.seq += 1
        head = {"type": type, "turnId": self.order["turn"]["_id"], "chatSessionId": self.order["session"]["_id"]}
        await self.wire.emit(
            type, {**head, "epoch": self.order["epoch"], "seq": self.seq, "at": iso(utc_now()), **fields}
        )

    async def stream(self, rate: float, seconds: float, sent: list[int]) -> float:
        """Sends deltas at even times; how late it was at worst, in seconds. `sent[0]` counts along."""
        assert self.order is not None
        turn, session, epoch = self.order["turn"]["_id"], self.order["session"]["_id"], self.order["epoch"]
        head = f'42["response",{{"type":"response","turnId":"{turn}","chatSessionId":"{session}","epoch":{epoch},"seq":'
        begun = time.perf_counter() + random.random() / rate
        worst = 0.0
        for number in range(int(rate * seconds)):
            due = begun + number / rate
            if (wait_s := due - time.perf_counter()) > 0:
                await asyncio.sleep(wait_s)
            worst = max(worst, time.perf_counter() - due)
            self.seq += 1
            at = iso(utc_now())
            said = f"<{time.perf_counter_ns()}> {WORDS}"
            await self.wire.send_text(f'{head}{self.seq},"at":"{at}","content":"{said}"}}]')
            sent[0] += 1
        return worst

    async def end(self) -> None:
        """The turn's last step and its end; returns when both are stored, and the drone is free again."""
        message = {"thinking": "", "content": WORDS, "toolCalls": []}
        await self.event("step", index=1, message=message, usage={}, finishReason="stop", model="bench")
        stats = {"durationMs": 1000}
        await self.event("workOrderComplete", success=True, message="Done.", status="finished", stats=stats)
        await self.until(lambda: self.acked >= self.seq)
        self.order = None
        await self.free()

    async def free(self) -> None:
        await self.wire.call("requestWorkspaceMode", {"mode": "idle"})
        await self.wire.call("droneStatus", {"status": "available"})


class Worker:
    def __init__(self) -> None:
        self._stack = AsyncExitStack()
        self._drones: list[SimulatedDrone] = []
        self._active: list[SimulatedDrone] = []
        self._seen: list[tuple[int, int]] = []
        """When a delta came, and when it was sent (ns)."""
        self._watchers = 0

    async def open(self, url: str, drones: list[dict[str, str]], watchers: list[dict[str, str]]) -> dict[str, Any]:
        slots = asyncio.Semaphore(_AT_ONCE)

        async def connect_drone(drone: dict[str, str]) -> SimulatedDrone:
            async with slots:
                auth = {"token": drone["token"], "protocolVersion": PROTOCOL_VERSION}
                wire = await self._stack.enter_async_context(Wire(url, auth))
                made = SimulatedDrone(wire)
                await made.free()
                return made

        async def connect_watcher(watcher: dict[str, str]) -> None:
            async with slots:
                auth = {"token": watcher["token"], "protocolVersion": PROTOCOL_VERSION}
                wire = await self._stack.enter_async_context(Wire(url, auth, origin=url))
                wire.on_event = self._watch
                await wire.call("selectSession", {"chatSessionId": watcher["session"]})

        self._drones += await asyncio.gather(*map(connect_drone, drones))
        await asyncio.gather(*map(connect_watcher, watchers))
        self._watchers += len(watchers)
        return {"opened": len(self._drones)}

    def _watch(self, name: str, payload: Any) -> None:
        if name == "response":
            self._seen.append((time.perf_counter_ns(), int(payload["content"][1 : payload["content"].index(">")])))

    async def take(self, count: int) -> dict[str, Any]:
        self._active = self._drones[:count]
        for drone in self._active:
            await drone.until_taken()
        return {"taken": len(self._active)}

    async def send(self, rate: float, seconds: float) -> dict[str, Any]:
        self._seen.clear()
        sent = [0]
        cpu, begun = time.process_time(), time.perf_counter()
        sampling = asyncio.create_task(self._sample(sent))
        streams = (drone.stream(rate, seconds, sent) for drone in self._active)
        late = await asyncio.gather(*streams) if self._active else [0.0]
        took = time.perf_counter() - begun
        unacked = sum(drone.seq - drone.acked for drone in self._active)
        used = time.process_time() - cpu
        sampling.cancel()
        ended = await asyncio.gather(*(drone.end() for drone in self._active), return_exceptions=True)
        failed = [repr(end) for end in ended if isinstance(end, BaseException)]
        return {
            "sent": sent[0],
            "tookS": took,
            "lateS": max(late),
            "unacked": unacked,
            "cpuShare": used / took,
            "resends": sum(drone.resends for drone in self._active),
            "failed": failed[:3],
            "failures": len(failed) + sum(drone.is_revoked for drone in self._active),
            "samples": self._samples,
            # Microseconds since the start, and those it took.
            "seen": [[(came - int(begun * 1e9)) // 1000, (came - at) // 1000] for came, at in self._seen],
        }

    async def _sample(self, sent: list[int]) -> None:
        """How much was sent, and how much of it is acknowledged as stored, along the time."""
        self._samples: list[tuple[int, int]] = []
        while True:
            await asyncio.sleep(_SAMPLE_S)
            self._samples.append((sent[0], sum(drone.seq - drone.acked for drone in self._active)))

    async def close(self) -> None:
        await self._stack.aclose()


async def main() -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=64 * 1024 * 1024)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(os.dup(0), "rb"))
    worker = Worker()
    try:
        while line := await reader.readline():
            [(name, given)] = orjson.loads(line).items()
            match name:
                case "open":
                    answer = await worker.open(**given)
                case "take":
                    answer = await worker.take(given)
                case "send":
                    answer = await worker.send(**given)
            await asyncio.to_thread(_say, answer)
    finally:
        await worker.close()


def _say(answer: dict[str, Any]) -> None:
    sys.stdout.buffer.write(orjson.dumps(answer) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    import uvloop

    uvloop.run(main())
