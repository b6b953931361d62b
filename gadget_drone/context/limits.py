"""How much of a model's context window a request may fill."""

from dataclasses import dataclass

from gadget_ai.windows import context_window
from gadget_api.work_order import OrderProvider

_MAX_ANSWER_TOKENS = 20_000
"""Kept free for thinking and answer. Models that write more than this at once have windows where it does not matter."""
_MIN_ANSWER_TOKENS = 2_048
_MAX_RESULT_BYTES = 64_000


@dataclass(frozen=True)
class WindowLimits:
    """Of one model. Made again whenever the model changes."""

    window_tokens: int

    @classmethod
    def of(cls, provider: OrderProvider) -> "WindowLimits":
        return cls(context_window(provider))

    @property
    def answer_tokens(self) -> int:
        """An eighth of the window; of a small one more, of a large one less."""
        wanted = max(_MIN_ANSWER_TOKENS, min(self.window_tokens // 8, _MAX_ANSWER_TOKENS))
        return min(wanted, self.window_tokens // 4)

    @property
    def input_tokens(self) -> int:
        """What a request may have."""
        return self.window_tokens - self.answer_tokens

    @property
    def result_bytes(self) -> int:
        """What one tool result may have, so that one never fills a small window: about a quarter of it."""
        return min(_MAX_RESULT_BYTES, self.input_tokens)
