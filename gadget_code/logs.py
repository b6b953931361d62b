"""Logs: to stderr, as text or as JSON lines. Control characters in what is logged are escaped."""

import json
import logging
import re
import sys

from gadget_api.model import iso, utc_now

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_NOISY = ("gadget_code.socketio", "gadget_code.engineio", "uvicorn", "pymongo", "httpx", "httpcore")


class _Text(logging.Formatter):
    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", super().format(record))


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "at": iso(utc_now()),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry)


def set_up_logs(level: str, form: str) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if form == "json" else _Text())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for name in _NOISY:
        logging.getLogger(name).setLevel(logging.DEBUG if level == "debug" else logging.WARNING)
    # It warns of each event for a client that has just left.
    logging.getLogger("gadget_code.engineio").setLevel(logging.DEBUG if level == "debug" else logging.ERROR)
