"""Tokens as their user sees them: what is signed in, and which drones have a credential. Never a token itself."""

from enum import StrEnum

from pydantic import Field

from gadget_api.ids import Id
from gadget_api.model import UtcTime, WireModel
from gadget_api.sessions import Name


class TokenKind(StrEnum):
    IDE = "ide"
    DRONE = "drone"
    SIGN_IN = "signIn"
    """Exchanged once for an IDE token."""


class TokenInfo(WireModel):
    id: Id = Field(alias="_id")
    """Names the token, and opens nothing."""
    kind: TokenKind
    name: Name | None = None
    """That its user gave it."""
    client: str | None = None
    """What signed in by it, as it names itself (`User-Agent`)."""
    drone: Id | None = None
    """The drone that has it; null for any other token, and before a drone has registered with it."""
    created_at: UtcTime
    used_at: UtcTime
    """To five minutes."""
    expires_at: UtcTime
    is_current: bool = False
    """Whether this very request was made with it."""


class TokenList(WireModel):
    items: tuple[TokenInfo, ...]
    """The newest first; 200 at most."""


class TokenChanges(WireModel):
    name: Name | None = None
    """Null takes the name away."""


class DroneTokenName(WireModel):
    """The body of `POST /drones/tokens`; it may be left out."""

    name: Name | None = None
