"""The floor of a service: python-socketio on uvicorn and uvloop, everything in memory, the agent's loop in the same
process. Nothing is stored, nobody signs in.

    python -m benchmarks.floors.relay       prints {"url"} and serves until stdin ends

`watch {room}` · `prompt {url, content, room}` (answers at once; then `response {content}` and `done` to the room) ·
`cancel {room}` · `relay {room, ...}` (what came, to the room, as `response`) · `replay {count, content}` (that many to
who asked, then `done`).
"""

import asyncio
import os
import socket
import sys
from typing import Any

import httpx
import orjson
import socketio
import uvicorn

from benchmarks.floors.loop import turn
from tests.wire_json import WireJson


def make_app() -> Any:
    server = socketio.AsyncServer(
        async_mode="asgi",
        transports=["websocket"],
        cors_allowed_origins="*",
        json=WireJson,
        async_handlers=False,
        max_http_buffer_size=16_000_000,
    )
    running: dict[str, asyncio.Task[None]] = {}
    client = httpx.AsyncClient(timeout=120)

    async def watch(sid: str, ask: dict[str, Any]) -> dict[str, Any]:
        await server.enter_room(sid, ask["room"])
        return {"ok": True}

    async def work(ask: dict[str, Any]) -> None:
        async def tell(text: str) -> None:
            await server.emit("response", {"content": text}, room=ask["room"])

        await turn(client, ask["url"], [{"role": "user", "content": ask["content"]}], tell)
        await server.emit("done", {}, room=ask["room"])

    async def prompt(_sid: str, ask: dict[str, Any]) -> dict[str, Any]:
        running[ask["room"]] = asyncio.create_task(work(ask))
        return {"ok": True}

    async def cancel(_sid: str, ask: dict[str, Any]) -> dict[str, Any]:
        task = running[ask["room"]]
        task.cancel()
        await asyncio.wait([task])
        await server.emit("done", {}, room=ask["room"])
        return {"ok": True}

    async def relay(_sid: str, event: dict[str, Any]) -> None:
        await server.emit("response", event, room=event["room"])

    async def replay(sid: str, ask: dict[str, Any]) -> None:
        for _ in range(ask["count"]):
            await server.emit("response", {"content": ask["content"]}, to=sid)
        await server.emit("done", {}, to=sid)

    for handler in (watch, prompt, cancel, relay, replay):
        server.on(handler.__name__, handler)
    return socketio.ASGIApp(server)


async def main() -> None:
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    config = uvicorn.Config(make_app(), ws="websockets-sansio", log_level="warning", ws_per_message_deflate=False)
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    while not server.started:  # noqa: ASYNC110  (uvicorn has no event for it)
        await asyncio.sleep(0.002)
    loop = asyncio.get_running_loop()

    def stdin_ended() -> None:
        if not os.read(sys.stdin.fileno(), 65_536):
            loop.remove_reader(sys.stdin.fileno())
            server.should_exit = True

    loop.add_reader(sys.stdin.fileno(), stdin_ended)
    print(orjson.dumps({"url": f"http://127.0.0.1:{listener.getsockname()[1]}"}).decode(), flush=True)
    await serving


if __name__ == "__main__":
    import uvloop

    uvloop.run(main())
