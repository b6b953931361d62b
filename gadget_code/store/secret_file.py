"""Secrets that an install generates: 64 hexadecimal digits in a file."""

import os
import secrets
from pathlib import Path

_DIGITS = 64


def secret_in(path: Path) -> str:
    """Returns the secret in `path`; creates the file (mode 0600) when it does not exist. Raises OSError, and ValueError
    when the file holds anything else."""
    if not path.exists():
        _make(path)
    secret = path.read_text().strip()
    if len(bytes.fromhex(secret)) * 2 != _DIGITS:
        raise ValueError(f"it holds {len(secret)} digits")
    return secret


def _make(path: Path) -> None:
    """Creates the file atomically and only once, even when the process dies or another one starts meanwhile."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    with open(fresh, "x", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(secrets.token_hex(_DIGITS // 2) + "\n")
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(fresh, path)
    except FileExistsError:
        pass  # another process made it first: its secret counts
    finally:
        fresh.unlink()
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
