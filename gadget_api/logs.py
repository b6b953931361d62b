"""Logs, of both processes: what libraries say about contents is left out, and control characters are escaped."""

import logging
import re
from collections.abc import Iterable

_OURS = frozenset({"gadget_api", "gadget_ai", "gadget_code", "gadget_drone"})
_FLOORS = {
    # In debug mode it warns of a slow call, with the call's arguments.
    "asyncio": logging.ERROR,
    # It warns of each event for a client that has just left.
    "engineio": logging.ERROR,
}
"""Of libraries that are to be quieter than `_FLOOR`."""
_FLOOR = logging.WARNING
"""Below it libraries print frames, requests and commands whole, with the tokens and keys in them."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class PlainText(logging.Formatter):
    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", super().format(record))


def set_up(level: str, handlers: Iterable[logging.Handler], formatter: logging.Formatter) -> None:
    """Logs to `handlers`: our own words from `level` on, everyone else's from warnings on, whatever `level` is and
    whatever level a library gives itself (openai does, by `OPENAI_LOG`)."""
    handlers = list(handlers)
    for handler in handlers:
        handler.setFormatter(formatter)
        handler.addFilter(_is_printed)
    logging.basicConfig(level=max(_FLOOR, _number(level)), handlers=handlers, force=True)
    for name in _OURS:
        logging.getLogger(name).setLevel(_number(level))


def _number(level: str) -> int:
    return logging.getLevelNamesMapping()[level.upper()]


def _is_printed(record: logging.LogRecord) -> bool:
    package = record.name.partition(".")[0]
    return package in _OURS or record.levelno >= _FLOORS.get(package, _FLOOR)
