"""What a process loads when it starts, and what it does not.

with loading(), without(*BESIDE_SOCKETIO):
    from gadget_code.server.serve import serve
"""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

REDIS = ("redis", "valkey", "aioredis")
BESIDE_SOCKETIO = ("kafka", "kombu", "aio_pika", "zmq", "requests", "websocket", "tornado")
"""What python-socketio and python-engineio load where it is installed, for ways of theirs that we do not go; Redis only
where there is more than one web process. With what these load in turn it is 10 MB and 0.1 s (python-socketio 5.18
beside redis 7 and requests 2)."""


@contextmanager
def without(*names: str) -> Iterator[None]:
    """Whoever tries to import one of `names` while this is open is told that it is not installed.

    For libraries that try what they can do without. What is loaded already stays; afterwards everything can be imported
    again. It holds for the whole process: only for before there is a second thread.
    """
    hidden = [name for name in names if name not in sys.modules]
    known: dict[str, Any] = sys.modules
    known.update(dict.fromkeys(hidden))  # None: the import system raises ModuleNotFoundError
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]


@contextmanager
def loading() -> Iterator[None]:
    """For as long as it takes to start: what is loaded stays for ever, so nobody looks for garbage in it.

    Each look at everything takes 30 to 60 ms once all is loaded, and the event loop stands still in it; a start has
    several. Afterwards only what came later is looked at.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_on:
            gc.enable()
