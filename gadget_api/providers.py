"""Providers: where models are, and what they cost. The key is never part of a provider that is answered."""

from enum import StrEnum
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, StringConstraints

from gadget_api.ids import Id
from gadget_api.messages import Usage
from gadget_api.model import MAX_COUNT, UtcTime, WireModel
from gadget_api.sessions import Effort, Name


class ApiType(StrEnum):
    """Which API a provider speaks."""

    OPENAI = "openai"
    OLLAMA = "ollama"


class ModelParams(WireModel):
    """Sampling and reasoning; null leaves a choice to the provider."""

    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, ge=0, le=1)
    top_k: int | None = Field(default=None, ge=1, le=MAX_COUNT)
    effort: Effort | None = None
    """A session's own goes before it."""


class ModelPrice(WireModel):
    """US dollars for a million tokens."""

    input: float = Field(ge=0)
    cached_input: float | None = Field(default=None, ge=0)
    """Null means the price of other input."""
    output: float = Field(ge=0)

    def cost_usd(self, usage: Usage) -> float:
        cached_price = self.input if self.cached_input is None else self.cached_input
        fresh = usage.input_tokens - usage.cached_input_tokens
        return (
            fresh * self.input + usage.cached_input_tokens * cached_price + usage.response_tokens * self.output
        ) / 1_000_000


class ProviderModel(WireModel):
    id: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    """The provider's own name of the model."""
    name: Name
    context_window: int | None = Field(default=None, ge=256, le=MAX_COUNT)
    """Tokens; null where nobody said. Ollama is asked for this many."""
    params: ModelParams = ModelParams()
    price: ModelPrice | None = None
    sees_images: bool = False


def _check_base_url(url: str) -> str:
    # urlsplit drops line ends and tabs, and browsers read a backslash as a slash: what is judged must be what is kept.
    if not url.isprintable() or " " in url or "\\" in url:
        raise ValueError("must be an http:// or https:// URL without blanks, line ends or backslashes")
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as exc:
        raise ValueError("must be an http:// or https:// URL") from exc
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        raise ValueError("must be an http:// or https:// URL with a host and without a user or password in it")
    if "?" in url or "#" in url:
        raise ValueError("must not have a query or a fragment")
    return url.rstrip("/")


BaseUrl = Annotated[str, StringConstraints(max_length=2000), AfterValidator(_check_base_url)]
ApiKey = Annotated[SecretStr, Field(max_length=10_000)]


class Provider(WireModel):
    id: Id = Field(alias="_id")
    created_at: UtcTime
    user: Id
    name: Name
    api_type: ApiType
    base_url: BaseUrl
    """With the version path where the API has one, such as `https://api.openai.com/v1`."""
    api_key_hint: str | None = None
    """The last four characters of the key; null when there is none."""
    models: tuple[ProviderModel, ...] = ()


class NewProvider(WireModel):
    name: Name
    api_type: ApiType
    base_url: BaseUrl
    api_key: ApiKey | None = None
    models: tuple[ProviderModel, ...] = Field(default=(), max_length=1000)


class ProviderChanges(WireModel):
    """What may be changed of a provider. A new `baseUrl` without a new `apiKey` drops the key that was stored."""

    name: Name | None = None
    api_type: ApiType | None = None
    base_url: BaseUrl | None = None
    api_key: ApiKey | None = None
    """Null or empty removes the key."""
    models: tuple[ProviderModel, ...] | None = Field(default=None, max_length=1000)


class ListedModel(WireModel):
    """A model that a provider says it has."""

    id: str
    context_window: int | None = None


class ListedModels(WireModel):
    items: tuple[ListedModel, ...]
