"""Identifiers."""

import secrets
import threading
import time
from datetime import datetime
from typing import Annotated

from pydantic import StringConstraints

Id = Annotated[str, StringConstraints(min_length=1, max_length=64)]
"""The `_id` of a document. Our own ids have 24 hexadecimal digits; other text is "not found", not "invalid"."""

_RANDOM_BITS = 48
_lock = threading.Lock()
_last = 0


def new_id() -> str:
    """Returns a new id of 24 hexadecimal digits: 48 bits of milliseconds since 1970, then 48 random bits.

    The ids of one process sort by time of creation, so "newest first" is `_id` descending.
    """
    global _last
    fresh = (time.time_ns() // 1_000_000 << _RANDOM_BITS) | secrets.randbits(_RANDOM_BITS)
    with _lock:
        _last = fresh if fresh > _last else _last + 1
        return f"{_last:024x}"


def id_after(other: str) -> str:
    """Returns the next id after `other`, for an order that must not depend on clocks."""
    return f"{int(other, 16) + 1:024x}"


def first_id(at: datetime) -> str:
    """Returns the lowest id of a moment: it sorts before every id that is created at or after that moment."""
    return f"{max(0, int(at.timestamp() * 1000)) << _RANDOM_BITS:024x}"
