"""The estimate comes near what a provider reports, learns from it, and is never fooled far."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gadget_ai.client import ToolSpec
from gadget_api.images import ImageRef
from gadget_api.messages import UserMessage
from gadget_drone.context.tokens import (
    MAX_RATIO,
    MIN_RATIO,
    Calibration,
    TokenEstimate,
    image_tokens,
    message_tokens,
    tools_tokens,
)
from tests.gadget_drone.context.conversations import prompt, step, text


def image(width: int, height: int) -> ImageRef:
    return ImageRef(id="i", media_type="image/png", size_bytes=1, width=width, height=height)


@pytest.mark.parametrize(
    ("width", "height", "tokens"),
    [(1, 1, 255), (512, 512, 255), (1024, 1024, 765), (2048, 4096, 1105), (100_000, 10, 765), (640, 480, 425)],
)
def test_images_count_by_their_tiles(width: int, height: int, tokens: int) -> None:
    assert image_tokens(image(width, height)) == tokens  # 1024x1024 and 2048x4096: the examples of OpenAI's guide


def test_a_message_counts_with_its_calls_and_its_images() -> None:
    asked, result = step("a", text(100), path="x" * 400)
    assert 100 < message_tokens(asked) < 130
    assert 100 <= message_tokens(result) <= 105
    seen = UserMessage(content="", images=(image(512, 512), image(512, 512)))
    assert message_tokens(seen) == message_tokens(prompt("")) + 510


def test_text_that_is_not_latin_counts_more() -> None:
    assert message_tokens(prompt("日本語" * 100)) > 2 * message_tokens(prompt("abc" * 100))


def test_adding_keeps_the_sum_and_the_sizes() -> None:
    estimate = TokenEstimate("m", Calibration(), fixed_tokens=50)
    messages = [prompt(), *step("a", text(100))]
    for message in messages:
        estimate.add(message)
    assert estimate.sizes == [message_tokens(message) for message in messages]
    assert estimate.tokens == estimate.raw_tokens == 50 + sum(estimate.sizes)
    estimate.replace(messages[:1])
    assert estimate.tokens == 50 + message_tokens(messages[0])


def test_a_report_corrects_the_estimate_for_that_model_alone() -> None:
    calibration = Calibration()
    one, other = TokenEstimate("a", calibration), TokenEstimate("b", calibration)
    for estimate in (one, other):
        estimate.add(prompt(text(1000)))
    raw = one.raw_tokens
    one.reported(raw * 2)
    assert one.tokens == 2 * raw
    assert other.tokens == raw


def test_it_goes_up_at_once_and_down_slowly() -> None:
    calibration = Calibration()
    calibration.learn("m", 1000, 1000)
    calibration.learn("m", 1000, 1500)
    assert calibration.ratio("m") == 1.5
    calibration.learn("m", 1000, 1000)
    assert 1.3 < calibration.ratio("m") < 1.5
    for _ in range(30):
        calibration.learn("m", 1000, 1000)
    assert calibration.ratio("m") == pytest.approx(1.0, abs=0.01)


def test_a_count_without_what_is_cached_teaches_nothing() -> None:
    calibration = Calibration()
    calibration.learn("m", 10_000, 9_000)
    calibration.learn("m", 20_000, 40)
    calibration.learn("m", 20_000, 0)
    assert calibration.ratio("m") == 0.9


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**9)), max_size=30))
def test_the_ratio_stays_in_its_bounds(reports: list[tuple[int, int]]) -> None:
    calibration = Calibration()
    for raw, reported in reports:
        calibration.learn("m", raw, reported)
        assert MIN_RATIO <= calibration.ratio("m") <= MAX_RATIO


def test_tools_count_with_their_schemas() -> None:
    small = ToolSpec("a", "b", {"type": "object"})
    large = ToolSpec("a", "b" * 400, {"type": "object", "properties": {"x" * 400: {"type": "string"}}})
    assert tools_tokens([large]) - tools_tokens([small]) > 190
