"""The service's logs: to stderr, as text or as JSON lines."""

import json
import logging
import sys

from gadget_api import logs
from gadget_api.model import iso, utc_now


class _JsonFormatter(logging.Formatter):
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
    logs.configure_logging(
        level, [logging.StreamHandler(sys.stderr)], _JsonFormatter() if form == "json" else logs.PlainText()
    )
