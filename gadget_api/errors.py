"""Errors: the codes, the exception tree, and the documents on the wire.

    GadgetError                 code, message, retryable
    ├── InvalidInput            the request is invalid                  HTTP 400 / 413 / 422
    ├── NotAuthenticated        the token is missing or invalid         HTTP 401
    ├── NotAllowed              the token does not permit this          HTTP 403
    ├── NotFound                unknown, or owned by another user       HTTP 404
    ├── Conflict                the object's state does not permit this HTTP 409
    ├── TooMany                 a limit on rate or number is reached    HTTP 429
    ├── Unavailable             a dependency is down; try again         HTTP 502 / 503
    ├── StorageFull             the user's quota is used up             HTTP 507
    └── (elsewhere) LLMError in gadget_ai, ToolError in gadget_drone

Every message is one plain sentence that says what to do. Programs compare codes, never texts.
"""

from enum import StrEnum
from typing import Any, ClassVar

from pydantic import ValidationError

from gadget_api.model import WireModel


class ErrorCode(StrEnum):
    """All error codes of REST problem documents, socket replies and the `error` of a turn."""

    # the request
    INVALID_REQUEST = "invalidRequest"
    TOO_LARGE = "tooLarge"
    UNKNOWN_EVENT = "unknownEvent"
    PROTOCOL_MISMATCH = "protocolMismatch"
    METHOD_NOT_ALLOWED = "methodNotAllowed"
    HOST_NOT_ALLOWED = "hostNotAllowed"
    ORIGIN_NOT_ALLOWED = "originNotAllowed"
    RATE_LIMITED = "rateLimited"
    STORAGE_FULL = "storageFull"
    # authentication and authorisation
    BAD_CREDENTIALS = "badCredentials"
    NOT_AUTHENTICATED = "notAuthenticated"
    NOT_ALLOWED = "notAllowed"
    REGISTRATION_CLOSED = "registrationClosed"
    # objects
    NOT_FOUND = "notFound"
    ALREADY_EXISTS = "alreadyExists"
    FILE_CHANGED = "fileChanged"
    URL_NOT_ALLOWED = "urlNotAllowed"
    TURN_OVER = "turnOver"
    TURN_NOT_RUNNING = "turnNotRunning"
    INQUIRY_CLOSED = "inquiryClosed"
    NOTHING_TO_REDO = "nothingToRedo"
    LAST_ADMIN = "lastAdmin"
    # drones and workspaces
    DRONE_BUSY = "droneBusy"
    DRONE_LOCKED = "droneLocked"
    DRONE_OFFLINE = "droneOffline"
    DRONE_STOPPING = "droneStopping"
    WORKSPACE_BUSY = "workspaceBusy"
    WORKSPACE_IN_USE = "workspaceInUse"
    WORKSPACE_MISMATCH = "workspaceMismatch"
    WORKSPACE_REFUSED = "workspaceRefused"
    WORKSPACE_DAMAGED = "workspaceDamaged"
    WORKSPACE_TOO_NEW = "workspaceTooNew"
    NOT_CLONED = "notCloned"
    STALE_EPOCH = "staleEpoch"
    CHECKPOINT_GONE = "checkpointGone"
    CHECKPOINTS_OFF = "checkpointsOff"
    TERMINALS_OFF = "terminalsOff"
    GIT_FAILED = "gitFailed"
    GIT_URL_NOT_ALLOWED = "gitUrlNotAllowed"
    # the model
    MODEL_UNREACHABLE = "modelUnreachable"
    MODEL_TIMEOUT = "modelTimeout"
    MODEL_AUTH = "modelAuth"
    MODEL_NOT_FOUND = "modelNotFound"
    MODEL_RATE_LIMITED = "modelRateLimited"
    MODEL_OVERLOADED = "modelOverloaded"
    MODEL_REFUSED = "modelRefused"
    MODEL_BAD_RESPONSE = "modelBadResponse"
    MODEL_CUT_OFF = "modelCutOff"
    MODEL_EMPTY = "modelEmpty"
    CONTEXT_TOO_LONG = "contextTooLong"
    # tools
    UNKNOWN_TOOL = "unknownTool"
    INVALID_ARGUMENTS = "invalidArguments"
    TOOL_FAILED = "toolFailed"
    # the service
    STORE_UNAVAILABLE = "storeUnavailable"
    SERVER_UNREACHABLE = "serverUnreachable"
    CANCELLED = "cancelled"
    INTERNAL = "internal"


class ErrorInfo(WireModel):
    """An error as part of another document or a reply."""

    code: ErrorCode
    message: str
    """One sentence for a person: the cause and the remedy."""
    retryable: bool = False


class GadgetError(Exception):
    """The base of all errors with a code."""

    http_status: ClassVar[int] = 500
    title: ClassVar[str] = "Something failed"

    def __init__(self, code: ErrorCode, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.retryable = retryable

    @property
    def info(self) -> ErrorInfo:
        return ErrorInfo(code=self.code, message=self.message, retryable=self.retryable)


class InvalidInput(GadgetError):
    http_status = 422
    title = "The request is invalid"

    def __init__(self, message: str, code: ErrorCode = ErrorCode.INVALID_REQUEST) -> None:
        super().__init__(code, message)


class TooLarge(InvalidInput):
    http_status = 413
    title = "Too large"

    def __init__(self, message: str) -> None:
        super().__init__(message, ErrorCode.TOO_LARGE)


class NotAuthenticated(GadgetError):
    http_status = 401
    title = "Not signed in"

    def __init__(self, message: str, code: ErrorCode = ErrorCode.NOT_AUTHENTICATED) -> None:
        super().__init__(code, message)


class NotAllowed(GadgetError):
    http_status = 403
    title = "Not allowed"

    def __init__(self, message: str, code: ErrorCode = ErrorCode.NOT_ALLOWED) -> None:
        super().__init__(code, message)


class NotFound(GadgetError):
    http_status = 404
    title = "Not found"

    def __init__(self, what: str, *, message: str | None = None) -> None:
        """`message` replaces the default "There is no such `what`."."""
        super().__init__(ErrorCode.NOT_FOUND, message or f"There is no such {what}.")


class Conflict(GadgetError):
    http_status = 409
    title = "The state does not permit this"


class TooMany(GadgetError):
    http_status = 429
    title = "Too many"

    def __init__(self, message: str, *, retry_after_s: int = 1) -> None:
        super().__init__(ErrorCode.RATE_LIMITED, message, retryable=True)
        self.retry_after_s = retry_after_s


class Unavailable(GadgetError):
    http_status = 503
    title = "Not available now"

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(code, message, retryable=True)


class StorageFull(GadgetError):
    """The user's quota is used up. The status 507 comes from WebDAV (RFC 4331)."""

    http_status = 507
    title = "No storage left"

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.STORAGE_FULL, message)


class Problem(WireModel):
    """An RFC 9457 problem document, `application/problem+json`."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    code: ErrorCode

    def to_error(self) -> GadgetError:
        """Returns the error that a client raises: Unavailable when a retry may succeed."""
        if self.status in (429, 502, 503):
            return Unavailable(self.code, self.detail)
        return GadgetError(self.code, self.detail)


def error_from_response(status: int, body: bytes, server: str) -> GadgetError:
    """Returns the error that a client raises for an unsuccessful response: the error of the problem document `body`. If
    `body` is something else, the URL `server` is not a Gadget Code server, and the error is Unavailable."""
    try:
        return Problem.model_validate_json(body).to_error()
    except ValidationError:
        return Unavailable(
            ErrorCode.SERVER_UNREACHABLE,
            f"{server} is not a Gadget Code server (it responded with status {status}); check the URL.",
        )


def error_reply(error: GadgetError) -> dict[str, Any]:
    """Returns the socket reply of a failed request: `{ok: false, error: {code, message, retryable}}`."""
    return {"ok": False, "error": error.info.to_wire()}
