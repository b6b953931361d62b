"""The model of the benches: a process that answers at once, with what the prompt asks for, and notes when.

    python -m benchmarks.model          prints {"url"} and serves until stdin ends

A prompt says what it wants: `bench:tag=a1;steps=100;deltas=400` calls the shell 100 times, each call after 400 deltas
of text, and then ends; `rate=50` sends that many a second, each with the time it was sent (`<nanoseconds>`, of the
clock that all processes of a machine share); `rounds=N` is how many results of tools came before this prompt's.
`GET /notes?TAG` answers what was noted of each request with that tag, in the same nanoseconds.

Unlike `gadget_ai.testing.server`, which plays faults byte by byte and judges each history, it costs next to nothing:
what it costs would be in every figure, ours and the floor's.
"""

import asyncio
import os
import re
import sys
import time
from collections import defaultdict
from typing import Any, cast

import orjson

_PLAN = re.compile(rb"bench:([a-z0-9=;_.-]+)")
_RESULT = b'"role":"tool"'
_CHUNK_DELTAS = 100
"""Deltas in one write when they come at once, as a busy server's arrive."""
_PIECE = "word "
_OPEN_S = 120.0
"""How long an answer that is to be cancelled goes on."""


def _line(choice: dict[str, Any], reason: str | None = None, **fields: Any) -> bytes:
    head = {"id": "bench", "object": "chat.completion.chunk", "created": 1_760_000_000, "model": "bench"}
    return (
        b"data: "
        + orjson.dumps({**head, "choices": [{"index": 0, "delta": choice, "finish_reason": reason}], **fields})
        + b"\n\n"
    )


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_DELTA = _line({"content": _PIECE})


def _deltas(count: int) -> bytes:
    """Chunks of as many deltas."""
    whole, rest = divmod(count, _CHUNK_DELTAS)
    return _chunk(_DELTA * _CHUNK_DELTAS) * whole + (_chunk(_DELTA * rest) if rest else b"")


def _end(body: bytes, call_id: str | None, command: str) -> bytes:
    usage = {"prompt_tokens": len(body) // 4, "completion_tokens": 10, "total_tokens": len(body) // 4 + 10}
    lines = []
    if call_id is not None:
        function = {"name": "shell", "arguments": orjson.dumps({"command": command}).decode()}
        lines.append(_line({"tool_calls": [{"index": 0, "id": call_id, "type": "function", "function": function}]}))
    lines.append(_line({}, "tool_calls" if call_id is not None else "stop"))
    last = b"data: " + orjson.dumps({"id": "bench", "model": "bench", "choices": [], "usage": usage}) + b"\n\n"
    return _chunk(b"".join([*lines, last, b"data: [DONE]\n\n"])) + b"0\r\n\r\n"


class _Notes:
    def __init__(self) -> None:
        self.by_tag: dict[str, list[dict[str, int]]] = defaultdict(list)


class _Connection(asyncio.Protocol):
    def __init__(self, notes: _Notes) -> None:
        self._notes = notes
        self._buffer = bytearray()
        self._need = -1
        """Bytes of the request that is arriving; -1 before its head is here."""
        self._answering: asyncio.Task[None] | None = None
        self._note: dict[str, int] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by its bases
        self._transport.set_write_buffer_limits(high=64 * 1024 * 1024)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._note is not None:
            self._note["closed"] = time.perf_counter_ns()
        if self._answering is not None:
            self._answering.cancel()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if self._need < 0:
            head_end = self._buffer.find(b"\r\n\r\n")
            if head_end < 0:
                return
            length = re.search(rb"(?i)content-length: *(\d+)", self._buffer[:head_end])
            self._need = head_end + 4 + (int(length[1]) if length else 0)
        if len(self._buffer) < self._need:
            return
        now = time.perf_counter_ns()
        head, _, body = bytes(self._buffer[: self._need]).partition(b"\r\n\r\n")
        del self._buffer[: self._need]
        self._need = -1
        path = head.split(b" ", 2)[1]
        if path.startswith(b"/notes?"):
            self._document(self._notes.by_tag.get(path.partition(b"?")[2].decode(), []))
        elif path == b"/v1/models":
            self._document({"object": "list", "data": [{"id": "bench", "object": "model", "owned_by": "bench"}]})
        else:
            self._chat(body, now)

    def _document(self, document: Any) -> None:
        data = orjson.dumps(document)
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(data)
        self._transport.write(head + data)

    def _chat(self, body: bytes, now: int) -> None:
        plans = list(_PLAN.finditer(body))
        plan = dict(part.split("=", 1) for part in plans[-1][1].decode().split(";")) if plans else {"tag": ""}
        done = body.count(_RESULT, plans[-1].end()) if plans else 0
        note = self._note = {"received": now, "bytes": len(body)}
        self._notes.by_tag[plan["tag"]].append(note)
        is_last = done >= int(plan.get("steps", 0))
        call_id = None if is_last else f"call_{plan['tag']}_{done}"
        count = int(plan.get("deltas", 0))
        end = _end(body, call_id, plan.get("command", "echo") + f" {plan['tag']}")
        if (rate := float(plan.get("rate", 0))) > 0:
            self._answering = asyncio.create_task(self._slowly(note, count, rate, end))
            return
        note["first"] = time.perf_counter_ns()
        self._transport.write(_HEAD + (_deltas(count) or _chunk(_DELTA)) + end)
        note["last"] = time.perf_counter_ns()
        self._note = None

    async def _slowly(self, note: dict[str, int], count: int, rate: float, end: bytes) -> None:
        self._transport.write(_HEAD)
        begun = time.perf_counter()
        note["first"] = time.perf_counter_ns()
        for number in range(count):
            await asyncio.sleep(max(0.0, begun + (number + 1) / rate - time.perf_counter()))
            self._transport.write(_chunk(_line({"content": f"<{time.perf_counter_ns()}>"})))
        note["last"] = time.perf_counter_ns()
        self._transport.write(end)
        self._note = None


async def _serve() -> None:
    loop = asyncio.get_running_loop()
    notes = _Notes()
    server = await loop.create_server(lambda: _Connection(notes), "127.0.0.1", 0)
    stop = asyncio.Event()

    def stdin_ended() -> None:
        if not os.read(sys.stdin.fileno(), 65_536):
            loop.remove_reader(sys.stdin.fileno())
            stop.set()

    loop.add_reader(sys.stdin.fileno(), stdin_ended)
    print(orjson.dumps({"url": f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"}).decode(), flush=True)
    await stop.wait()
    server.close()


if __name__ == "__main__":
    import uvloop

    uvloop.run(_serve())
