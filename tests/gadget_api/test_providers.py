from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr, TypeAdapter, ValidationError

from gadget_api.messages import Usage
from gadget_api.providers import (
    ApiType,
    BaseUrl,
    ModelParams,
    ModelPrice,
    NewProvider,
    Provider,
    ProviderChanges,
    ProviderModel,
)
from gadget_api.sessions import Effort
from gadget_api.work_order import OrderProvider

base_url = TypeAdapter[str](BaseUrl)


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        ("https://api.openai.com/v1", "https://api.openai.com/v1"),
        ("https://api.openai.com/v1/", "https://api.openai.com/v1"),
        ("http://127.0.0.1:11434", "http://127.0.0.1:11434"),
        ("http://127.0.0.1:11434//", "http://127.0.0.1:11434"),
        ("http://[::1]:11434/v1", "http://[::1]:11434/v1"),
        ("https://gateway.example.org/a/b%20c/v1", "https://gateway.example.org/a/b%20c/v1"),
        ("https://modèles.example.org/v1", "https://modèles.example.org/v1"),
    ],
)
def test_a_base_url_is_stored_without_its_last_slash(url: str, kept: str) -> None:
    assert base_url.validate_python(url) == kept


@pytest.mark.parametrize(
    "url",
    [
        "",
        "api.openai.com/v1",
        "ftp://host/v1",
        "file:///etc/passwd",
        "https://",
        "https:///v1",
        "https://host:99999/v1",
        "https://host:port/v1",
        "https://[::1/v1",
        "https://ada@host/v1",
        "https://ada:secret@host/v1",
        "https://:secret@host/v1",
        "https://@host/v1",
        "https://host/v1?key=secret",
        "https://host/v1?",
        "https://host/v1#top",
        "https://host/v1#",
        "https://host/v1\n",
        "https://ho\nst/v1",
        "https://ho\tst/v1",
        "https://host/v1\r\nX-Header: 1",
        " https://host/v1",
        "https://host/v 1",
        "https://host/v1\x00",
        "https://host\\@elsewhere/v1",
        "https://host\\v1",
        "https://host/\u202e1v",
        "https://host/" + "a" * 2000,
    ],
)
def test_an_unclear_base_url_is_refused(url: str) -> None:
    with pytest.raises(ValidationError):
        base_url.validate_python(url)


@given(st.text(max_size=30))
def test_an_accepted_base_url_is_valid_in_a_request(rest: str) -> None:
    try:
        kept = base_url.validate_python(f"https://host/{rest}")
    except ValidationError:
        return
    assert kept.isprintable()
    assert not set(kept) & set(" ?#\\")
    assert base_url.validate_python(kept) == kept


def test_the_key_of_a_provider_is_never_shown() -> None:
    new = NewProvider(name="P", api_type=ApiType.OPENAI, base_url="https://host/v1", api_key=SecretStr("sk-hunter2"))
    assert "hunter2" not in repr(new)
    assert "hunter2" not in new.model_dump_json()
    assert "apiKey" not in {field.alias for field in Provider.model_fields.values()}


def test_the_key_in_a_work_order_is_not_in_its_repr() -> None:
    ordered = OrderProvider(
        id="p", name="P", sdk=ApiType.OPENAI, base_url="https://host/v1", api_key="sk-hunter2", model_id="m"
    )
    assert "hunter2" not in repr(ordered)
    assert ordered.to_wire()["apiKey"] == "sk-hunter2"


def test_an_omitted_key_stays_and_a_null_key_is_removed() -> None:
    assert "api_key" not in ProviderChanges.model_validate({"name": "P"}).model_fields_set
    assert "api_key" in ProviderChanges.model_validate({"apiKey": None}).model_fields_set


@pytest.mark.parametrize(
    "params",
    [{"temperature": -0.1}, {"temperature": 2.1}, {"topP": -0.1}, {"topP": 1.1}, {"topK": 0}, {"topK": 1.5}],
)
def test_sampling_has_limits(params: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ModelParams.model_validate(params)


def test_sampling_is_null_by_default() -> None:
    assert ModelParams() == ModelParams(temperature=None, top_p=None, top_k=None, effort=None)
    said = {"temperature": 0.0, "topP": 0.0, "topK": 1, "effort": "high"}
    assert ModelParams(temperature=0, top_p=0, top_k=1, effort=Effort.HIGH).to_wire() == said


@pytest.mark.parametrize(
    "price",
    [
        {"input": -1, "output": 1},
        {"input": 1, "output": -1},
        {"input": 1, "cachedInput": -1, "output": 1},
        {"input": 1},
        {"output": 1},
    ],
)
def test_a_price_is_complete_and_not_negative(price: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ModelPrice.model_validate(price)


@pytest.mark.parametrize(
    ("price", "usage", "usd"),
    [
        (ModelPrice(input=1, output=2), Usage(), 0),
        (ModelPrice(input=1, output=2), Usage(input_tokens=1_000_000), 1),
        (ModelPrice(input=1, output=2), Usage(response_tokens=1_000_000), 2),
        (ModelPrice(input=1, output=2), Usage(response_tokens=1_000_000, thinking_token_count=900_000), 2),
        (ModelPrice(input=1, output=2), Usage(input_tokens=1_000_000, cached_input_tokens=1_000_000), 1),
        (ModelPrice(input=1, cached_input=0.1, output=2), Usage(input_tokens=10**6, cached_input_tokens=10**6), 0.1),
        (ModelPrice(input=1, cached_input=0.1, output=2), Usage(input_tokens=10**6, cached_input_tokens=500_000), 0.55),
        (ModelPrice(input=1, cached_input=0, output=2), Usage(input_tokens=10**6, cached_input_tokens=10**6), 0),
    ],
)
def test_tokens_are_priced_by_the_million(price: ModelPrice, usage: Usage, usd: float) -> None:
    assert price.cost_usd(usage) == pytest.approx(usd)


@given(st.integers(0, 10**7), st.integers(0, 10**7), st.floats(0, 100), st.floats(0, 1))
def test_a_cache_never_makes_a_call_more_expensive(fresh: int, cached: int, input_usd: float, discount: float) -> None:
    price = ModelPrice(input=input_usd, cached_input=input_usd * discount, output=0)
    with_cache = price.cost_usd(Usage(input_tokens=fresh + cached, cached_input_tokens=cached))
    without = price.cost_usd(Usage(input_tokens=fresh + cached))
    assert 0 <= with_cache <= without * (1 + 1e-9) + 1e-12


@pytest.mark.parametrize("window", [0, -1, 255])
def test_a_context_window_has_a_lower_limit(window: int) -> None:
    with pytest.raises(ValidationError):
        ProviderModel(id="m", name="M", context_window=window)


def test_a_provider_is_the_same_after_the_wire() -> None:
    provider = Provider(
        id="p",
        created_at=datetime(2026, 11, 21, tzinfo=UTC),
        user="u",
        name="P",
        api_type=ApiType.OLLAMA,
        base_url="http://127.0.0.1:11434",
        models=(ProviderModel(id="qwen3:4b", name="Qwen", context_window=32_768, price=ModelPrice(input=0, output=0)),),
    )
    assert Provider.model_validate(provider.to_wire()) == provider
    assert provider.to_wire()["apiType"] == "ollama"
