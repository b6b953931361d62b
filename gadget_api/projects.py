"""Projects: the git repositories that a user works on."""

import re
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, StringConstraints

from gadget_api.ids import Id
from gadget_api.model import UtcTime, WireModel
from gadget_api.permissions import Rules, Trust
from gadget_api.sessions import Name

Slug = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{0,99}$")]
"""The name of the project's directory in a workspace."""

_USER = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.-]*")  # ssh passes it to a shell when its configuration has %r
_SCP_LIKE = re.compile(_USER.pattern + r"@[A-Za-z0-9.][A-Za-z0-9.-]*:[^-:\s][^:\s]*")
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*|\[[0-9A-Fa-f:.]+\]")


def is_remote_git_url(url: str) -> bool:
    """Returns whether `url` is `https://host/path`, `ssh://[user@]host/path` or `user@host:path`, with no password."""
    if not _is_plain(url):
        return False
    if _SCP_LIKE.fullmatch(url):
        return True
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return False
    if parts.scheme not in ("https", "ssh") or parts.password is not None or len(parts.path) < 2:
        return False
    if parts.username is not None and (parts.scheme == "https" or not _USER.fullmatch(parts.username)):
        return False
    return _HOST.fullmatch(parts.netloc.rpartition("@")[2].removesuffix(f":{parts.port}")) is not None


def is_local_git_url(url: str) -> bool:
    """Returns whether `url` is an absolute path or `file:///path`. A drone accepts it only when its owner allows it."""
    return _is_plain(url) and url.startswith(("/", "file:///"))


def _is_plain(url: str) -> bool:
    """Returns whether `url` has only visible characters: no blank, no line end, no hidden character."""
    return url.isprintable() and " " not in url and len(url) <= 2000


def _check_git_url(url: str) -> str:
    if not (is_remote_git_url(url) or is_local_git_url(url)):
        raise ValueError(
            "must be https://host/path, ssh://host/path or git@host:path, without a password "
            "(or an absolute path, for a drone that allows local repositories)"
        )
    return url


GitUrl = Annotated[str, AfterValidator(_check_git_url)]


class Project(WireModel):
    id: Id = Field(alias="_id")
    created_at: UtcTime
    user: Id
    name: Name
    slug: Slug
    """Unique per user."""
    git_url: GitUrl
    rules: Rules = ()
    """The permission rules for the agent in this project."""
    trusted: bool = False
    """Whether the repository may add rules (`.gadget.json`)."""
    trust: Trust | None = None
    """The files of the repository that the user has trusted in an inquiry; null: none."""


class NewProject(WireModel):
    name: Name
    slug: Slug
    git_url: GitUrl


class ProjectChanges(WireModel):
    name: Name | None = None
    slug: Slug | None = None
    git_url: GitUrl | None = None
    rules: Rules | None = None
    trusted: bool | None = None
