import re

import pytest
from pydantic import ValidationError

from gadget_api import errors
from gadget_api.errors import (
    Conflict,
    ErrorCode,
    ErrorInfo,
    GadgetError,
    InvalidInput,
    NotAllowed,
    NotAuthenticated,
    NotFound,
    Problem,
    TooLarge,
    TooMany,
    Unavailable,
    error_reply,
)

EXAMPLES = [
    (GadgetError(ErrorCode.INTERNAL, "See the log."), 500, ErrorCode.INTERNAL, False),
    (InvalidInput("Enter a name."), 422, ErrorCode.INVALID_REQUEST, False),
    (InvalidInput("Use https.", ErrorCode.URL_NOT_ALLOWED), 422, ErrorCode.URL_NOT_ALLOWED, False),
    (TooLarge("Send less."), 413, ErrorCode.TOO_LARGE, False),
    (NotAuthenticated("Sign in again."), 401, ErrorCode.NOT_AUTHENTICATED, False),
    (NotAuthenticated("Wrong.", ErrorCode.BAD_CREDENTIALS), 401, ErrorCode.BAD_CREDENTIALS, False),
    (NotAllowed("Ask the owner."), 403, ErrorCode.NOT_ALLOWED, False),
    (NotFound("project"), 404, ErrorCode.NOT_FOUND, False),
    (Conflict(ErrorCode.TURN_OVER, "It is over."), 409, ErrorCode.TURN_OVER, False),
    (Conflict(ErrorCode.TURN_NOT_RUNNING, "Try again.", retryable=True), 409, ErrorCode.TURN_NOT_RUNNING, True),
    (TooMany("Wait.", retry_after_s=30), 429, ErrorCode.RATE_LIMITED, True),
    (Unavailable(ErrorCode.STORE_UNAVAILABLE, "Try again."), 503, ErrorCode.STORE_UNAVAILABLE, True),
]


@pytest.mark.parametrize(("error", "status", "code", "retryable"), EXAMPLES)
def test_an_error_knows_its_status_and_code(error: GadgetError, status: int, code: ErrorCode, retryable: bool) -> None:
    assert (error.http_status, error.code, error.retryable) == (status, code, retryable)
    assert str(error) == error.message
    assert error.info == ErrorInfo(code=code, message=error.message, retryable=retryable)


@pytest.mark.parametrize(("error", "status", "code", "retryable"), EXAMPLES)
def test_a_client_raises_the_error_of_a_problem_document(
    error: GadgetError, status: int, code: ErrorCode, retryable: bool
) -> None:
    sent = Problem(title=error.title, status=error.http_status, detail=error.message, code=error.code)
    back = Problem.model_validate_json(sent.model_dump_json()).to_error()
    assert (back.code, back.message) == (code, error.message)
    assert back.retryable == (status in (429, 502, 503))


def test_a_problem_document_has_the_fields_of_rfc_9457_and_a_code() -> None:
    problem = Problem(title="Not found", status=404, detail="There is no such turn.", code=ErrorCode.NOT_FOUND)
    assert problem.to_wire() == {
        "type": "about:blank",
        "title": "Not found",
        "status": 404,
        "detail": "There is no such turn.",
        "code": "notFound",
    }


def test_the_reply_of_a_failed_socket_request_has_the_error() -> None:
    assert error_reply(Unavailable(ErrorCode.DRONE_OFFLINE, "Start it.")) == {
        "ok": False,
        "error": {"code": "droneOffline", "message": "Start it.", "retryable": True},
    }


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    drawn = re.findall(r"[├└]── (\w+) ", errors.__doc__ or "")
    kinds = {kind.__name__ for kind in GadgetError.__subclasses__() if kind.__module__ == errors.__name__}
    assert set(drawn) == kinds
    statuses = dict(re.findall(r"[├└]── (\w+) .*HTTP ([\d/ ]+)", errors.__doc__ or ""))
    for name, listed in statuses.items():
        assert str(getattr(errors, name).http_status) in listed.split(" / "), name


def test_codes_are_camel_case_and_named_after_themselves() -> None:
    for code in ErrorCode:
        first, *rest = code.name.lower().split("_")
        assert code.value == first + "".join(word.capitalize() for word in rest)


def test_an_unknown_code_is_refused() -> None:
    with pytest.raises(ValidationError):
        ErrorInfo.model_validate({"code": "soMuchForThat", "message": "?"})
