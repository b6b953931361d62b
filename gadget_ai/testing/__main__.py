"""`python -m gadget_ai.testing`: runs the demo model as a server, or writes its project.

--port N            serve on 127.0.0.1:N (0: a free port); prints one line, {"url", "model", "prompt"}, and runs until
                    SIGTERM, SIGINT or the end of stdin
--write-project DIR write the demo project to DIR
"""

import argparse
import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path

import orjson

from gadget_ai.testing.demo import DEMO_FILES, DEMO_PROMPT, MODEL_ID, demo_script
from gadget_ai.testing.server import ScriptedServer


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m gadget_ai.testing", description="The scripted demo model.")
    choice = parser.add_mutually_exclusive_group(required=True)
    choice.add_argument("--port", type=int, help="serve on 127.0.0.1 until stdin ends; 0 takes a free port")
    choice.add_argument("--write-project", type=Path, metavar="DIR", help="write the demo project's files")
    args = parser.parse_args()
    if args.write_project is not None:
        args.write_project.mkdir(parents=True, exist_ok=True)
        for path, content in DEMO_FILES.items():
            (args.write_project / path).write_text(content)
    else:
        asyncio.run(_serve(args.port))


async def _serve(port: int) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, stop.set)

    def read_stdin() -> None:
        if not os.read(sys.stdin.fileno(), 65_536):
            loop.remove_reader(sys.stdin.fileno())
            stop.set()

    async with ScriptedServer({MODEL_ID: demo_script()}, port=port) as server:
        # epoll does not support a regular file or /dev/null as stdin; then only signals stop the server.
        with contextlib.suppress(PermissionError):
            loop.add_reader(sys.stdin.fileno(), read_stdin)
        print(orjson.dumps({"url": server.openai_url, "model": MODEL_ID, "prompt": DEMO_PROMPT}).decode(), flush=True)
        await stop.wait()


if __name__ == "__main__":
    main()
