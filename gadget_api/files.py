"""Files of a project, as a browser reads and changes them: over REST, relayed to the drone that holds the workspace."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints

from gadget_api.model import Count, WireModel

FilePath = Annotated[str, StringConstraints(min_length=1, max_length=4096, pattern=r"^[^\x00]+$")]
"""Relative to the project, with `/`."""
DirectoryPath = Annotated[str, StringConstraints(max_length=4096, pattern=r"^[^\x00]*$")]
"""As `FilePath`; empty for the project itself."""
FileQuery = Annotated[str, StringConstraints(max_length=200)]
"""What was typed to find a file: letters of its path in their order, in words that must all fit."""
FileVersion = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
"""The SHA-256 of a file's bytes: its `ETag` over REST."""
MAX_WRITTEN_BYTES = 2 * 1024 * 1024
"""The largest file that may be saved, and so edited."""
MAX_READ_BYTES = 32 * 1024 * 1024
"""The largest file that is sent to a browser."""
MAX_LISTED_ENTRIES = 5_000
MAX_FOUND_FILES = 100


class FileKind(StrEnum):
    FILE = "file"
    DIRECTORY = "directory"
    SYMLINK = "symlink"
    OTHER = "other"
    """A socket, a device: neither read nor written."""


class FileEntry(WireModel):
    """What is in a directory."""

    name: str
    path: str
    kind: FileKind
    """Of what it is itself; where a symlink leads, `isDirectory` says."""
    is_directory: bool = False
    """Whether it can be listed: a directory, or a symlink to one inside the project."""
    is_ignored: bool = False
    """Whether git ignores it."""
    size_bytes: Count | None = None
    """Of a file."""


class FileList(WireModel):
    """One directory: its directories by name, then its files by name."""

    path: str
    """Empty for the project itself."""
    entries: tuple[FileEntry, ...]
    truncated: bool = False


class FoundFiles(WireModel):
    """Paths that fit a query, the best first."""

    paths: tuple[str, ...]
    truncated: bool = False
    """Whether more of them fit, or the project has more files than were looked at."""


class SavedFile(WireModel):
    path: str
    version: FileVersion
    size_bytes: Count


class RenameFile(WireModel):
    """The body of `POST /sessions/{id}/files/rename`: a file or a directory; nothing may be at `to`."""

    path: FilePath
    to: FilePath


class DeletedFiles(WireModel):
    """The answer to `DELETE /sessions/{id}/files`."""

    path: str
    file_count: Count = Field(description="How many files are gone: 1, or those of a directory.")
