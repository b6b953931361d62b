"""Converts the errors of a provider to `LLMError`. A message never contains the key."""

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

import orjson

from gadget_ai.errors import LLMError
from gadget_api.errors import ErrorCode

_EXCERPT_CHARS = 300
_TOO_LONG_CODES = {"context_length_exceeded", "exceed_context_size_error"}
"""The codes of OpenAI and of llama.cpp's server."""
_TOO_LONG_TEXT = re.compile(
    r"context (length|window|size)|maximum context|prompt is too long|too many (input )?tokens", re.IGNORECASE
)
"""For vLLM, Ollama and Anthropic's compatible API, which have no code for this error."""
_QUOTA_CODES = {"insufficient_quota", "billing_hard_limit_reached"}
_STATUS_OF_CODE = {
    "rate_limit_exceeded": 429,
    "rate_limit_error": 429,
    "insufficient_quota": 429,
    "context_length_exceeded": 400,
    "exceed_context_size_error": 400,
    "invalid_request_error": 400,
    "authentication_error": 401,
    "invalid_api_key": 401,
    "model_not_found": 404,
    "not_found_error": 404,
}
"""The HTTP status for an error inside a stream, because the stream itself has the status 200. Others count as 500."""


class ProviderErrors:
    """Converts the errors of one provider. It removes `api_key` from the provider's messages."""

    def __init__(self, *, base_url: str, model_id: str, api_key: str | None) -> None:
        self._host = urlsplit(base_url).netloc
        self._model_id = model_id
        self._api_key = api_key

    def from_response(self, status: int, headers: Mapping[str, str], body: bytes) -> LLMError:
        """Converts a response with a status other than 200. `headers` must be case-insensitive or in lower case."""
        try:
            document = orjson.loads(body)
        except orjson.JSONDecodeError:
            document = body.decode("utf-8", "replace")
        return self._error(status, document, _retry_after_s(headers))

    def from_event(self, document: Any) -> LLMError:
        """Converts an error object in a stream: `{"error": ...}`, or its content."""
        codes = _codes(document)
        status = next((int(code) for code in codes if code.isdigit() and 400 <= int(code) < 600), None)
        status = status or next((_STATUS_OF_CODE[code] for code in codes if code in _STATUS_OF_CODE), 500)
        return self._error(status, document, None)

    def unreachable(self, reason: BaseException) -> LLMError:
        detail = self.excerpt(str(reason)) or type(reason).__name__
        return LLMError(
            ErrorCode.MODEL_UNREACHABLE,
            f"The provider at {self._host} cannot be reached ({detail}); check that it runs and that its URL is right.",
            retryable=True,
        )

    def connect_timeout(self, connect_s: float) -> LLMError:
        return LLMError(
            ErrorCode.MODEL_TIMEOUT,
            f"No connection to the provider at {self._host} within {connect_s:g} seconds; check that it runs.",
            retryable=True,
        )

    def wrong_api(self, seen: str) -> LLMError:
        return LLMError(
            ErrorCode.MODEL_BAD_RESPONSE,
            f"The provider at {self._host} sent {self.excerpt(seen)} instead of a model's answer; "
            "check the provider's URL (does it end in /v1?) and its API type.",
        )

    def malformed(self, line: bytes) -> LLMError:
        return LLMError(
            ErrorCode.MODEL_BAD_RESPONSE,
            f"The provider sent {self.excerpt(line[:2000].decode('utf-8', 'replace'))!r}, which this client cannot "
            "read; try again, or choose another model.",
            retryable=True,
        )

    def excerpt(self, text: str) -> str:
        """Returns at most 300 printable characters of `text` on one line, without the key."""
        if self._api_key:
            text = text.replace(self._api_key, "***")
        text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
        return text if len(text) <= _EXCERPT_CHARS else text[: _EXCERPT_CHARS - 1] + "…"

    def _error(self, status: int, document: Any, retry_after_s: float | None) -> LLMError:
        codes = set(_codes(document))
        text = _message(document)
        excerpt = self.excerpt(text)
        tail = f". Its message: “{excerpt}”." if excerpt else "."
        if status in (401, 403):
            return LLMError(
                ErrorCode.MODEL_AUTH, f"The provider refused the API key (HTTP {status}); check the key{tail}"
            )
        if status == 404:
            return LLMError(
                ErrorCode.MODEL_NOT_FOUND,
                f"The provider does not have the model {self._model_id!r}; pick another model or check the URL{tail}",
            )
        if status == 402 or codes & _QUOTA_CODES:
            return LLMError(
                ErrorCode.MODEL_RATE_LIMITED, f"Your account at the provider has no credit left; check its plan{tail}"
            )
        if status == 413 or codes & _TOO_LONG_CODES or (status in (400, 422, 500) and _TOO_LONG_TEXT.search(text)):
            return LLMError(
                ErrorCode.CONTEXT_TOO_LONG,
                "The conversation is longer than the model's context window; start a new session, or choose a model "
                f"with a larger one{tail}",
            )
        if status == 429:
            return LLMError(
                ErrorCode.MODEL_RATE_LIMITED,
                f"The provider limits the rate of requests; wait a little{tail}",
                retryable=True,
                retry_after_s=retry_after_s,
            )
        if status >= 500 or status in (408, 409, 425):
            return LLMError(
                ErrorCode.MODEL_OVERLOADED,
                f"The provider failed (HTTP {status}); try again later{tail}",
                retryable=True,
                retry_after_s=retry_after_s,
            )
        if status < 400 or status == 405:
            return self.wrong_api(f"HTTP {status}")
        return LLMError(ErrorCode.MODEL_REFUSED, f"The provider refused the request (HTTP {status}){tail}")


def _inner(document: Any) -> Any:
    """Returns the content of `{"error": ...}`, or the document itself when it has no such field."""
    return document["error"] if isinstance(document, dict) and document.get("error") else document


def _codes(document: Any) -> list[str]:
    error = _inner(document)
    if not isinstance(error, dict):
        return []
    return [str(error[key]) for key in ("code", "type") if isinstance(error.get(key), str | int)]


def _message(document: Any) -> str:
    error = _inner(document)
    if isinstance(error, str):
        return error
    if isinstance(error, dict):
        for key in ("message", "detail"):
            if isinstance(error.get(key), str):
                return str(error[key])
    return orjson.dumps(error).decode()


def _retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Reads `retry-after-ms`, or `Retry-After` in seconds or as a date (RFC 9110, 10.2.3). None: there is neither."""
    for name, unit_s in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name)
        if value is None:
            continue
        try:
            wait_s = float(value) * unit_s
        except ValueError:
            try:
                when = parsedate_to_datetime(value)
            except ValueError:
                continue
            wait_s = (when.replace(tzinfo=when.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
        if math.isfinite(wait_s):
            return max(0.0, wait_s)
    return None
