"""Model providers, their models and prices. A response never contains a provider's key."""

from enum import StrEnum
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, StringConstraints

from gadget_api.ids import Id
from gadget_api.messages import Usage
from gadget_api.model import MAX_COUNT, UtcTime, WireModel
from gadget_api.sessions import Effort, Name


class ApiType(StrEnum):
    """The API of a provider."""

    OPENAI = "openai"
    OLLAMA = "ollama"


class ModelParams(WireModel):
    """Sampling and reasoning parameters; null means the provider's default."""

    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, ge=0, le=1)
    top_k: int | None = Field(default=None, ge=1, le=MAX_COUNT)
    effort: Effort | None = None
    """The session's own effort has priority."""


class ModelPrice(WireModel):
    """US dollars per million tokens."""

    input: float = Field(ge=0)
    cached_input: float | None = Field(default=None, ge=0)
    """Null: the same as `input`."""
    output: float = Field(ge=0)

    def cost_usd(self, usage: Usage) -> float:
        cached_price = self.input if self.cached_input is None else self.cached_input
        fresh = usage.input_tokens - usage.cached_input_tokens
        return (
            fresh * self.input + usage.cached_input_tokens * cached_price + usage.response_tokens * self.output
        ) / 1_000_000


class ProviderModel(WireModel):
    id: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    """The provider's name for the model."""
    name: Name
    context_window: int | None = Field(default=None, ge=256, le=MAX_COUNT)
    """Tokens; null when unknown. Ollama is asked to use this size."""
    params: ModelParams = ModelParams()
    price: ModelPrice | None = None
    sees_images: bool = False


def _check_base_url(url: str) -> str:
    # urlsplit drops line ends and tabs, and browsers read a backslash as a slash: check the same text that is stored.
    if not url.isprintable() or " " in url or "\\" in url:
        raise ValueError("must be an http:// or https:// URL without blanks, line ends or backslashes")
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as exc:
        raise ValueError("must be an http:// or https:// URL") from exc
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        raise ValueError("must be an http:// or https:// URL with a host and without a user or password")
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
    """Includes the version path if the API has one, such as `https://api.openai.com/v1`."""
    api_key_hint: str | None = None
    """The last four characters of the key; null when there is no key."""
    models: tuple[ProviderModel, ...] = ()


class NewProvider(WireModel):
    name: Name
    api_type: ApiType
    base_url: BaseUrl
    api_key: ApiKey | None = None
    models: tuple[ProviderModel, ...] = Field(default=(), max_length=1000)


class ProviderChanges(WireModel):
    """Changes to a provider. A new `baseUrl` without a new `apiKey` deletes the stored key."""

    name: Name | None = None
    api_type: ApiType | None = None
    base_url: BaseUrl | None = None
    api_key: ApiKey | None = None
    """Null or empty deletes the key."""
    models: tuple[ProviderModel, ...] | None = Field(default=None, max_length=1000)


class ListedModel(WireModel):
    """A model in the provider's own list."""

    id: str
    context_window: int | None = None


class ListedModels(WireModel):
    items: tuple[ListedModel, ...]
