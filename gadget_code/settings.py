"""Settings of the web service, from the environment (`GADGET_*`); built once at the entry and passed on."""

import ipaddress
import json
import os
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from gadget_api.budgets import Budget

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")


def default_data_dir() -> Path:
    """`$XDG_DATA_HOME/gadget-code`, by default `~/.local/share/gadget-code`."""
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share") / "gadget-code"


class Settings(BaseSettings):
    """An operator's settings. Each is the environment variable `GADGET_` + its name in capitals."""

    model_config = SettingsConfigDict(env_prefix="GADGET_", extra="ignore", frozen=True, hide_input_in_errors=True)

    mongodb_url: SecretStr | None = Field(
        None, description="A MongoDB replica set to use; without it, a private server is started."
    )
    database: str = Field("gadget", pattern=r"^[A-Za-z0-9_-]{1,38}$", description="Name of the database.")
    data_dir: Path = Field(
        default_factory=default_data_dir,
        description="Where the private MongoDB, the secret key and the logs are kept. "
        "Default: `gadget-code` in `$XDG_DATA_HOME` or `~/.local/share`.",
    )
    host: str = Field("127.0.0.1", description="Address to bind. An address other than loopback needs TLS in front.")
    port: int = Field(4270, ge=0, le=65535, description="Port to bind; 0 takes a free one.")
    public_url: str | None = Field(None, description="The URL users open, such as `https://gadget.example.org`.")
    allowed_origins: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="Further browser origins that may connect, separated by commas."
    )
    trusted_proxies: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="Addresses or networks of your reverse proxies, separated by commas, such as `127.0.0.1` or "
        "`10.0.0.0/8`. Their `X-Forwarded-For` says who the client is; anyone else's is ignored.",
    )
    connections_per_address: int = Field(
        1000,
        ge=10,
        description="How many connections one address may have open at a time. A trusted proxy's are not counted.",
    )
    redis_url: SecretStr | None = Field(None, description="Redis, to run more than one web process.")
    secret_key_file: Path | None = Field(
        None, description="The key that encrypts provider keys. Default: `secret.key` in the data directory."
    )
    open_registration: bool = Field(False, description="Whether anyone may create an account.")
    delta_days: int = Field(
        30,
        ge=0,
        description="Days to keep deltas, the pieces in which answers and outputs are streamed; 0 keeps them "
        "as long as their session. Complete answers, tool calls and results always stay.",
    )
    answer_hours: float = Field(
        24,
        gt=0,
        le=24 * 365,
        description="Hours that a turn waits for an answer of its user; then the default is used.",
    )
    storage_mb: int = Field(
        5000, ge=1, le=10**9, description="MB that each user may store of large tool outputs and images together."
    )
    turn_budget: Annotated[Budget, NoDecode] = Field(
        Budget(),
        description="What a turn may use before it pauses and asks, unless its session or its user sets another "
        'budget. For example `{"steps": 200, "usd": 5, "minutes": 60}`; `tokens` can be limited, too.',
    )
    session_budget: Annotated[Budget, NoDecode] = Field(
        Budget(), description="The same for all turns of a session together."
    )
    unusual_turn: Annotated[Budget, NoDecode] = Field(
        Budget(steps=100, usd=2.0, minutes=30.0),
        description="A turn is shown as unusual when it uses more than this, and five times as much as the largest of "
        "its session's last 10 turns (of its user's, when the session has fewer than 3). It continues. A figure "
        "that is not named is not watched; `{}` switches it off.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="How much is logged.")
    log_format: Literal["text", "json"] = Field("text", description="The log's format.")
    allow_private_urls: bool = Field(
        False,
        description="Whether providers may be on loopback or private addresses. Off under `serve`, on under `up`.",
    )

    @field_validator("allowed_origins", "trusted_proxies", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return (
            tuple(part.strip().rstrip("/") for part in value.split(",") if part.strip())
            if isinstance(value, str)
            else value
        )

    @field_validator("trusted_proxies")
    @classmethod
    def _check_networks(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for proxy in value:
            ipaddress.ip_network(proxy)
        return value

    @field_validator("turn_budget", "session_budget", "unusual_turn", mode="before")
    @classmethod
    def _read_json(cls, value: object) -> object:
        try:
            return json.loads(value) if isinstance(value, str) else value
        except ValueError:
            raise ValueError('must be JSON such as {"steps": 200, "usd": 5, "minutes": 60}') from None

    @field_validator("data_dir", "secret_key_file")
    @classmethod
    def _absolute(cls, value: Path | None) -> Path | None:
        return value and value.expanduser().absolute()

    @model_validator(mode="after")
    def _check_urls(self) -> Self:
        for url in (self.public_url, *self.allowed_origins):
            if url is not None and (urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname):
                raise ValueError("PUBLIC_URL and ALLOWED_ORIGINS must be http:// or https:// URLs with a host")
        return self

    @property
    def is_loopback(self) -> bool:
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def origin(self) -> str:
        """The origin that users open: of `public_url`, or of the bound address."""
        if self.public_url is not None:
            return _origin(self.public_url)
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    @property
    def is_https(self) -> bool:
        return self.origin.startswith("https://")

    @property
    def origins(self) -> tuple[str, ...]:
        """The origins that browsers may come from."""
        own = [f"http://{name}:{self.port}" for name in LOOPBACK_NAMES] if self.is_loopback else []
        return tuple(dict.fromkeys([self.origin, *self.allowed_origins, *own]))

    @property
    def host_names(self) -> frozenset[str]:
        """The values of `Host` (without port) that are served."""
        names = {urlsplit(origin).netloc.rpartition("@")[2] for origin in self.origins}
        return frozenset(name if name.endswith("]") else name.rpartition(":")[0] or name for name in names)

    @property
    def keep_deltas(self) -> timedelta | None:
        return timedelta(days=self.delta_days) if self.delta_days else None

    @property
    def key_file(self) -> Path:
        return self.secret_key_file or self.data_dir / "secret.key"


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
