"""Files that are whole or not there, whatever happens while they are written."""

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path


def replace_file(path: Path, data: bytes, *, is_synced: bool = True) -> None:
    """Gives `path` (mode 0600) the content `data`; after the return it outlives our death, and a power cut when
    `is_synced`.

    Raises OSError when the disk refuses; `path` is then as it was.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(data)
            file.flush()
            if is_synced:
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with suppress(FileNotFoundError):
            temporary.unlink()
        raise
    if is_synced:
        sync_directory(path.parent)


def read_regular(path: Path) -> bytes:
    """Reads a file. Raises OSError, and ValueError where there is no regular file: a link, a pipe, a directory."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if path.is_symlink():
            raise ValueError("it is a link") from error
        raise
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise ValueError("it is no regular file")
    with open(fd, "rb") as file:
        return file.read()


def remove_file(path: Path) -> None:
    """Removes `path`, if it is there, for good."""
    with suppress(FileNotFoundError):
        path.unlink()
        sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    """Makes the names in `directory` outlive a power cut."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
