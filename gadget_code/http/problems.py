"""Turns every error that a route raises into an RFC 9457 problem document."""

import logging

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response

from gadget_api.errors import ErrorCode, GadgetError, InvalidInput, NotAuthenticated, Problem, TooMany

log = logging.getLogger(__name__)
_SENTENCES = {
    404: "There is nothing at this address.",
    405: "This address does not support that method.",
}

_MAX_PLACE = 100
"""Characters of a field's name: the name of an unknown field comes from the caller and may be of any length."""

_BY_STATUS = {
    401: ErrorCode.NOT_AUTHENTICATED,
    403: ErrorCode.NOT_ALLOWED,
    404: ErrorCode.NOT_FOUND,
    405: ErrorCode.METHOD_NOT_ALLOWED,
    413: ErrorCode.TOO_LARGE,
}


def problem_response(error: GadgetError) -> Response:
    headers = {}
    if isinstance(error, NotAuthenticated):
        headers["WWW-Authenticate"] = "Bearer"
    if isinstance(error, TooMany):
        headers["Retry-After"] = str(error.retry_after_s)
    return _response(error.http_status, error.title, error.message, error.code, headers)


def handle_errors(app: FastAPI) -> None:
    """Registers the error handlers on `app`."""

    async def known(_: Request, error: Exception) -> Response:
        assert isinstance(error, GadgetError)
        if error.http_status >= 500:
            log.warning("%s: %s", error.code, error.message)
        return problem_response(error)

    async def invalid(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        # Place and reason, never the input: it may be a password.
        problems = "; ".join(f"{_place(e['loc'])}: {_reason(e['msg'])}" for e in error.errors()[:5])
        return problem_response(InvalidInput(f"The request is invalid: {problems}."))

    async def http(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        code = _BY_STATUS.get(error.status_code, ErrorCode.INVALID_REQUEST)
        detail = _SENTENCES.get(error.status_code) or f"{str(error.detail).rstrip('.')}."
        return _response(error.status_code, "The request is invalid", detail, code, dict(error.headers or {}))

    async def left(_: Request, error: Exception) -> Response:
        # The client left in the middle of its body, or got its error response already. Nobody reads this one.
        return problem_response(InvalidInput("The request ended too early."))

    async def unexpected(_: Request, error: Exception) -> Response:
        log.error("a request failed", exc_info=error)
        return problem_response(GadgetError(ErrorCode.INTERNAL, "An internal error occurred; see the server's log."))

    app.add_exception_handler(GadgetError, known)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(ClientDisconnect, left)
    app.add_exception_handler(Exception, unexpected)


def _place(location: tuple[int | str, ...]) -> str:
    place = ".".join(map(str, location[1:])) or str(location[0])
    return place[:_MAX_PLACE]


def _reason(message: str) -> str:
    return message.removeprefix("Value error, ").rstrip(".")


def _response(status: int, title: str, detail: str, code: ErrorCode, headers: dict[str, str]) -> Response:
    problem = Problem(title=title, status=status, detail=detail, code=code)
    return JSONResponse(problem.to_wire(), status, headers, media_type="application/problem+json")
