"""Descriptions of a user's tokens: sign-ins and drone credentials. They never contain a token."""

from enum import StrEnum

from pydantic import Field

from gadget_api.ids import Id
from gadget_api.model import UtcTime, WireModel
from gadget_api.sessions import Name


class TokenKind(StrEnum):
    IDE = "ide"
    DRONE = "drone"
    SIGN_IN = "signIn"
    """A one-time token that is exchanged for an IDE token."""


class TokenInfo(WireModel):
    id: Id = Field(alias="_id")
    """Identifies the token; it gives no access."""
    kind: TokenKind
    name: Name | None = None
    """Given by the user."""
    client: str | None = None
    """The `User-Agent` of the client that signed in with it."""
    drone: Id | None = None
    """The drone that uses it; null for other kinds, and before a drone has registered with it."""
    created_at: UtcTime
    used_at: UtcTime
    """The time of its last use, exact to five minutes."""
    expires_at: UtcTime
    is_current: bool = False
    """Whether the current request uses it."""


class TokenList(WireModel):
    items: tuple[TokenInfo, ...]
    """Newest first; at most 200."""


class TokenChanges(WireModel):
    name: Name | None = None
    """Null removes the name."""


class DroneTokenName(WireModel):
    """The optional body of `POST /drones/tokens`."""

    name: Name | None = None
