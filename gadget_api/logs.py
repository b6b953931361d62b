"""Logging of both processes: hides libraries' messages with user content, and escapes control characters."""

import logging
import re
from collections.abc import Iterable

_OUR_PACKAGES = frozenset({"gadget_api", "gadget_ai", "gadget_code", "gadget_drone"})
_LIBRARY_LEVELS = {
    # In debug mode it warns about a slow call and prints the call's arguments.
    "asyncio": logging.ERROR,
    # It warns about each event for a client that has just disconnected.
    "engineio": logging.ERROR,
}
"""The lowest level of libraries for which `_LIBRARY_LEVEL` is too low."""
_LIBRARY_LEVEL = logging.WARNING
"""The lowest level of all other libraries. Below it they print whole frames, requests and commands, with the tokens and
keys in them."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class PlainText(logging.Formatter):
    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", super().format(record))


def configure_logging(level: str, handlers: Iterable[logging.Handler], formatter: logging.Formatter) -> None:
    """Logs to `handlers`: our own messages from `level` on, those of libraries from warnings on. A library's own
    setting (openai has `OPENAI_LOG`) does not change that."""
    handlers = list(handlers)
    for handler in handlers:
        handler.setFormatter(formatter)
        handler.addFilter(_is_printed)
    logging.basicConfig(level=max(_LIBRARY_LEVEL, _number(level)), handlers=handlers, force=True)
    for name in _OUR_PACKAGES:
        logging.getLogger(name).setLevel(_number(level))


def _number(level: str) -> int:
    return logging.getLevelNamesMapping()[level.upper()]


def _is_printed(record: logging.LogRecord) -> bool:
    package = record.name.partition(".")[0]
    return package in _OUR_PACKAGES or record.levelno >= _LIBRARY_LEVELS.get(package, _LIBRARY_LEVEL)
