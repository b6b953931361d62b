"""What can go wrong with a model: one class, told apart by `code`.

`retryable` says whether the same request may do better later; `retry_after_s` is what the provider asked for.
The SDKs' own exceptions stop at `gadget_ai.openai` and `gadget_ai.ollama`.
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
