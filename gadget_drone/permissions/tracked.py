"""Likely secrets that git keeps, by its index."""

import re
from pathlib import Path

_MAX_INDEX_BYTES = 64 * 2**20
_NAME = re.compile(
    rb"(?:\.env(?:\.[\w.-]{1,80})?|\.envrc|\.netrc|\.npmrc|\.pypirc|\.pgpass|\.git-credentials|\.htpasswd|"
    rb"id_(?:rsa|dsa|ecdsa|ed25519)|[\w.-]{1,80}\.(?:pem|p12|pfx|keystore))\0"
)


def tracked_secrets(directory: str) -> list[str]:
    """Their names, without directories; nothing where there is no repository. Blocks."""
    index = Path(directory, ".git", "index")
    try:
        if index.stat().st_size > _MAX_INDEX_BYTES:
            return []
        data = index.read_bytes()
    except OSError:
        return []  # none yet, or a worktree, whose index is elsewhere
    found: dict[str, None] = {}
    for match in _NAME.finditer(data):
        name, before = match[0][:-1], data[match.start() - 1 : match.start()]
        # In a directory, or at the top: there the byte before a name is its length.
        if before == b"/" or before == bytes([len(name) % 256]):
            found[name.decode("ascii", "replace")] = None
    return list(found)
