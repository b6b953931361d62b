"""A failure of a tool."""

from gadget_api.errors import ErrorCode, GadgetError


class ToolError(GadgetError):
    """A failure that the model is told, in words it can act on; the turn goes on."""

    title = "The tool failed"

    def __init__(self, message: str, code: ErrorCode = ErrorCode.TOOL_FAILED) -> None:
        super().__init__(code, message)
