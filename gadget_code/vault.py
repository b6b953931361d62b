"""Secrets at rest: provider keys, encrypted with AES-256-GCM under a key that is kept in a file of its own.

The associated data binds a ciphertext to its user, provider and base URL: moved to another record, or its URL
changed in the database, it does not open any more.
"""

import os
import secrets
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from gadget_api.errors import ErrorCode, GadgetError
from gadget_api.providers import Provider

_NONCE_BYTES = 12  # NIST SP 800-38D: the size GCM is made for


class Vault:
    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key)

    @classmethod
    def open(cls, key_file: Path) -> "Vault":
        """With the key in `key_file`, which is made (mode 0600) when it does not exist. Raises GadgetError."""
        try:
            if not key_file.exists():
                _make_key(key_file)
            return cls(bytes.fromhex(key_file.read_text().strip()))
        except (OSError, ValueError) as exc:
            raise GadgetError(
                ErrorCode.INTERNAL,
                f"The secret key {key_file} cannot be used ({exc}); it must hold 64 hexadecimal digits.",
            ) from exc

    def seal(self, secret: str, provider: Provider) -> bytes:
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, secret.encode(), _bound_to(provider))

    def unseal(self, sealed: bytes, provider: Provider) -> str:
        """Raises GadgetError when it was sealed for another record or with another key."""
        try:
            return self._cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], _bound_to(provider)).decode()
        except InvalidTag as exc:
            raise GadgetError(
                ErrorCode.INTERNAL, f"The key of provider {provider.name} cannot be decrypted; enter it again."
            ) from exc


def _make_key(key_file: Path) -> None:
    """Whole or not at all, and once, whoever else starts at this moment or dies in it."""
    key_file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = key_file.with_name(f".{key_file.name}.{secrets.token_hex(4)}")
    with open(fresh, "x", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(secrets.token_hex(32) + "\n")
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(fresh, key_file)
    except FileExistsError:
        pass  # another's, made meanwhile, is the one
    finally:
        fresh.unlink()


def _bound_to(provider: Provider) -> bytes:
    return "\0".join((provider.user, provider.id, provider.base_url)).encode()
