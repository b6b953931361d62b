"""The error of a model call: one class with a `code`.

`retryable` is true when the same request may succeed later; `retry_after_s` is the wait that the provider asks for.
`gadget_ai.openai` and `gadget_ai.ollama` convert all exceptions of their SDKs to it.
"""

from gadget_api.errors import ErrorCode, GadgetError


class LLMError(GadgetError):
    http_status = 502
    title = "The model did not answer"

    def __init__(
        self, code: ErrorCode, message: str, *, retryable: bool = False, retry_after_s: float | None = None
    ) -> None:
        super().__init__(code, message, retryable=retryable)
        self.retry_after_s = retry_after_s
