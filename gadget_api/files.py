"""Project files in the browser: the service relays REST requests for them to the drone that has the workspace."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints

from gadget_api.model import Count, WireModel

FilePath = Annotated[str, StringConstraints(min_length=1, max_length=4096, pattern=r"^[^\x00]+$")]
"""Relative to the project's directory, with `/` as the separator."""
DirectoryPath = Annotated[str, StringConstraints(max_length=4096, pattern=r"^[^\x00]*$")]
"""Like `FilePath`; empty for the project's directory itself."""
FileQuery = Annotated[str, StringConstraints(max_length=200)]
"""A fuzzy search for a path: words separated by blanks. Every word must match; its letters appear in the path in the
same order."""
FileVersion = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
"""The SHA-256 of a file's bytes: its `ETag` over REST."""
MAX_WRITTEN_BYTES = 2 * 1024 * 1024
"""The largest file that can be saved, and therefore edited."""
MAX_READ_BYTES = 32 * 1024 * 1024
"""The largest file that a browser can read."""
MAX_LISTED_ENTRIES = 5_000
MAX_FOUND_FILES = 100


class FileKind(StrEnum):
    FILE = "file"
    DIRECTORY = "directory"
    SYMLINK = "symlink"
    OTHER = "other"
    """A socket or a device; cannot be read or written."""


class FileEntry(WireModel):
    """An entry of a directory."""

    name: str
    path: str
    kind: FileKind
    """The kind of the entry itself: symlinks are not followed."""
    is_directory: bool = False
    """Whether it can be listed: a directory, or a symlink to a directory inside the project."""
    is_ignored: bool = False
    """Whether git ignores it."""
    size_bytes: Count | None = None
    """Null when the entry is not a file."""


class FileList(WireModel):
    """The entries of one directory: subdirectories by name, then files by name."""

    path: str
    """Empty for the project's directory itself."""
    entries: tuple[FileEntry, ...]
    truncated: bool = False


class FoundFiles(WireModel):
    """The paths that match a query, best match first."""

    paths: tuple[str, ...]
    truncated: bool = False
    """Whether the list is incomplete: more paths match, or the project has too many files to search all of them."""


class SavedFile(WireModel):
    path: str
    version: FileVersion
    size_bytes: Count


class RenameFile(WireModel):
    """The body of `POST /sessions/{id}/files/rename`, for a file or a directory. `to` must not exist."""

    path: FilePath
    to: FilePath


class DeletedFiles(WireModel):
    """The response to `DELETE /sessions/{id}/files`."""

    path: str
    file_count: Count = Field(description="Number of deleted files: 1, or all files in a deleted directory.")
