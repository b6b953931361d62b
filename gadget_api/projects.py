"""Projects: a git repository that a user works on."""

import re
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, StringConstraints

from gadget_api.ids import Id
from gadget_api.model import UtcTime, WireModel
from gadget_api.sessions import Name

Slug = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{0,99}$")]
"""Names the project's directory in a workspace."""

_SCP_LIKE = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.-]*@[A-Za-z0-9.][A-Za-z0-9.-]*:[^-:\s][^:\s]*")
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*|\[[0-9A-Fa-f:.]+\]")
_CONTROL = re.compile(r"[\x00-\x20\x7f]")


def is_remote_git_url(url: str) -> bool:
    """Whether `url` is `https://host/path`, `ssh://[user@]host/path` or `user@host:path`, without a password in it."""
    if _CONTROL.search(url) or len(url) > 2000:
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
    if parts.username is not None and (parts.scheme == "https" or parts.username.startswith("-")):
        return False
    return _HOST.fullmatch(parts.netloc.rpartition("@")[2].removesuffix(f":{parts.port}")) is not None


def is_local_git_url(url: str) -> bool:
    """Whether `url` is an absolute path or `file:///path`: taken only by a drone whose owner allows it."""
    return not _CONTROL.search(url) and len(url) <= 2000 and (url.startswith(("/", "file:///")))


def _check_git_url(url: str) -> str:
    if not (is_remote_git_url(url) or is_local_git_url(url)):
        raise ValueError(
            "must be https://host/path, ssh://host/path or git@host:path, without a password in it "
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


class NewProject(WireModel):
    name: Name
    slug: Slug
    git_url: GitUrl


class ProjectChanges(WireModel):
    name: Name | None = None
    slug: Slug | None = None
    git_url: GitUrl | None = None
