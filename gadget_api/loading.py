"""Makes the start of a process fast: garbage collection is off, and optional modules are not imported.

with gc_paused(), hidden_modules(*UNUSED_BY_SOCKETIO):
    from gadget_code.server.serve import serve
"""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

REDIS = ("redis", "valkey", "aioredis")
UNUSED_BY_SOCKETIO = ("kafka", "kombu", "aio_pika", "zmq", "requests", "websocket", "tornado")
"""Optional dependencies of python-socketio and python-engineio for features that we do not use. These libraries import
them where they are installed; with their own dependencies that costs 10 MB and 0.1 s (python-socketio 5.18 with redis 7
and requests 2). Redis is needed only with more than one web process."""


@contextmanager
def hidden_modules(*names: str) -> Iterator[None]:
    """Makes the modules `names` look uninstalled while the context is open, for libraries that import them optionally.

    Modules that are loaded already stay loaded. It affects the whole process, so use it only before the process starts
    a second thread.
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
def gc_paused() -> Iterator[None]:
    """Turns garbage collection off while the process starts, and then excludes all loaded objects from collection.

    Modules are never garbage, but a full collection of them takes 30 to 60 ms and blocks the event loop; a start has
    several.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_on:
            gc.enable()
