"""How many tokens a request has, before the provider says: an estimate that learns from what was reported.

Sizes are raw: four bytes of UTF-8 a token, whatever the model. `Calibration` says how many reported tokens of one model
make a raw one. No tokenizer: each model has its own, and most are not published.
"""

import math
from collections.abc import Iterable, Sequence

import orjson

from gadget_ai.client import ToolSpec
from gadget_api.images import ImageRef
from gadget_api.messages import Message, ModelMessage, ToolMessage, UserMessage

BYTES_A_TOKEN = 4
"""Of English and of code, with the tokenizers in use; text that is not Latin has more bytes a character, and about as
many more tokens."""
MESSAGE_TOKENS = 4
"""Around each message: its role and what sets it apart (OpenAI's cookbook counts 3 to 4)."""

MIN_RATIO, MAX_RATIO = 0.25, 4.0
_LEARN_DOWN = 0.25
_TILE_PX, _MAX_SIDE_PX, _SHORT_SIDE_PX = 512, 2048, 768
_IMAGE_TOKENS, _TILE_TOKENS = 85, 170
"""OpenAI's rule for images in full detail (its vision guide): tiles of 512 pixels, once the image has been made to fit
2048 by 2048 and its shorter side 768. Others count less."""


def text_tokens(text: str) -> int:
    """Raw tokens of `text`."""
    return math.ceil(len(text.encode("utf-8", "replace")) / BYTES_A_TOKEN)


def image_tokens(image: ImageRef) -> int:
    """Raw tokens of an image, by its size in pixels."""
    scale = min(1.0, _MAX_SIDE_PX / max(image.width, image.height))
    scale *= min(1.0, _SHORT_SIDE_PX / (min(image.width, image.height) * scale))
    tiles = math.ceil(image.width * scale / _TILE_PX) * math.ceil(image.height * scale / _TILE_PX)
    return _IMAGE_TOKENS + _TILE_TOKENS * tiles


def message_tokens(message: Message) -> int:
    """Raw tokens of a message, with its tool calls and images."""
    tokens = MESSAGE_TOKENS + text_tokens(message.content)
    if isinstance(message, ModelMessage):
        for call in message.tool_calls:
            arguments = math.ceil(len(orjson.dumps(call.params)) / BYTES_A_TOKEN)
            tokens += MESSAGE_TOKENS + text_tokens(call.name) + arguments
    elif isinstance(message, UserMessage | ToolMessage):
        tokens += sum(map(image_tokens, message.images))
    return tokens


def tools_tokens(specs: Iterable[ToolSpec]) -> int:
    """Raw tokens of what the model is told of its tools."""
    return sum(
        MESSAGE_TOKENS + math.ceil(len(orjson.dumps([spec.name, spec.description, spec.parameters])) / BYTES_A_TOKEN)
        for spec in specs
    )


class Calibration:
    """How many tokens a raw one is, for each model that has reported. Kept from turn to turn; gone with the process."""

    def __init__(self) -> None:
        self._ratios: dict[str, float] = {}

    def ratio(self, model: str) -> float:
        """1 until `model` has reported. `model` is any name for one model at one provider."""
        return self._ratios.get(model, 1.0)

    def learn(self, model: str, raw_tokens: int, reported_tokens: int) -> None:
        """A request of `raw_tokens` had `reported_tokens` of input, by the provider's count; 0 where it gave none.

        A count below a quarter of the estimate is none of the whole request: some versions of Ollama leave out what is
        cached. Up at once and down slowly, for too low an estimate costs a refused request, and one too high only an
        early compaction.
        """
        if raw_tokens <= 0 or reported_tokens < MIN_RATIO * raw_tokens:
            return
        seen = min(MAX_RATIO, reported_tokens / raw_tokens)
        known = self._ratios.get(model, seen)
        self._ratios[model] = max(seen, known + _LEARN_DOWN * (seen - known))


class TokenEstimate:
    """The size of one conversation for one model. Adding a message costs what reading it once costs."""

    def __init__(self, model: str, calibration: Calibration, *, fixed_tokens: int = 0) -> None:
        """`fixed_tokens`: raw, of what is sent with every request: the system prompt and the tools."""
        self.fixed_tokens = fixed_tokens
        self.sizes: list[int] = []
        """Raw tokens of each message that was added, in order."""
        self._model = model
        self._calibration = calibration
        self._raw = fixed_tokens

    def add(self, message: Message) -> None:
        size = message_tokens(message)
        self.sizes.append(size)
        self._raw += size

    def replace(self, messages: Sequence[Message]) -> None:
        """The conversation was made shorter: it is these messages now."""
        self.sizes = []
        self._raw = self.fixed_tokens
        for message in messages:
            self.add(message)

    @property
    def raw_tokens(self) -> int:
        """Of the whole request, before calibration."""
        return self._raw

    @property
    def ratio(self) -> float:
        return self._calibration.ratio(self._model)

    @property
    def tokens(self) -> int:
        """Of the whole request, as the provider will count them."""
        return math.ceil(self._raw * self.ratio)

    def reported(self, input_tokens: int) -> None:
        """What the provider counted for the conversation as it is now, before the answer is added."""
        self._calibration.learn(self._model, self._raw, input_tokens)
