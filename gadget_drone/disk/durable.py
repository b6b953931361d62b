"""Files that are whole or not there, whatever happens while they are written."""

import os
import secrets
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
