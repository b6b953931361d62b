"""Users, their settings and sign-in."""

from typing import Annotated

from pydantic import AfterValidator, Field, SecretStr, StringConstraints

from gadget_api.budgets import Budget
from gadget_api.ids import Id
from gadget_api.model import UtcTime, WireModel
from gadget_api.permissions import PermissionLevel, Rules
from gadget_api.sessions import Name


def _check_email(email: str) -> str:
    name, at, domain = email.rpartition("@")
    if not (name and at and domain) or "@" in name or any(c.isspace() or not c.isprintable() for c in email):
        raise ValueError("must be an address such as ada@example.org")
    return email.lower()


Email = Annotated[str, StringConstraints(strip_whitespace=True, max_length=254), AfterValidator(_check_email)]
Password = Annotated[SecretStr, Field(min_length=8, max_length=1024)]


class User(WireModel):
    id: Id = Field(alias="_id")
    created_at: UtcTime
    email: Email
    display_name: str
    is_admin: bool = False
    rules: Rules = ()
    """The permission rules for this user's agents in every project."""
    level: PermissionLevel = PermissionLevel.FULL
    """The level of new sessions."""
    turn_budget: Budget = Budget()
    """The default for each turn. A null limit means the install's."""
    session_budget: Budget = Budget()
    """The default for each session. A null limit means the install's."""


class Login(WireModel):
    email: Annotated[str, StringConstraints(max_length=254)]
    password: Annotated[SecretStr, Field(max_length=1024)]


class LinkLogin(WireModel):
    """The one-time token of a sign-in link."""

    token: Annotated[SecretStr, Field(max_length=200)]


class Registration(WireModel):
    email: Email
    password: Password
    display_name: Name | None = None


class SignedIn(WireModel):
    token: str
    """Two halves separated by a dot. A browser has the first half as its cookie. The page keeps the second half and
    sends it in the header `X-Gadget-Page` and as `page` in the socket's `auth`."""
    user: User


class NewUser(WireModel):
    """An account created by an administrator. It has no password until its user sets one."""

    email: Email
    display_name: Name | None = None
    """Null: the part of the address before the @."""
    is_admin: bool = False


class SignInLink(WireModel):
    """A link that signs in its first visitor; it works once."""

    url: str
    expires_at: UtcTime


class MadeUser(WireModel):
    user: User
    link: SignInLink


class AccountChanges(WireModel):
    """An administrator's changes to an account."""

    is_admin: bool


class UserChanges(WireModel):
    display_name: Name | None = None
    rules: Rules | None = None
    level: PermissionLevel | None = None
    turn_budget: Budget | None = None
    """Applies to turns that start later; so does `sessionBudget`."""
    session_budget: Budget | None = None


class NewPassword(WireModel):
    current_password: Annotated[SecretStr, Field(max_length=1024)]
    new_password: Password
