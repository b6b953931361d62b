"""Provider keys at rest: encrypted with AES-256-GCM under a key in its own file.

The associated data binds a ciphertext to its user, provider and base URL: it cannot be decrypted in another record, or
after the URL was changed in the database.
"""

import secrets
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from gadget_api.errors import ErrorCode, GadgetError
from gadget_api.providers import Provider
from gadget_code.store.secret_file import secret_in

_NONCE_BYTES = 12  # NIST SP 800-38D: the size GCM is made for


class Vault:
    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key)

    @classmethod
    def open(cls, key_file: Path) -> "Vault":
        """Opens the vault with the key in `key_file`; creates the file (mode 0600) when it does not exist. Raises
        GadgetError."""
        try:
            return cls(bytes.fromhex(secret_in(key_file)))
        except (OSError, ValueError) as exc:
            raise GadgetError(
                ErrorCode.INTERNAL,
                f"The secret key {key_file} cannot be used ({exc}); it must hold 64 hexadecimal digits.",
            ) from exc

    def seal(self, secret: str, provider: Provider) -> bytes:
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, secret.encode(), _bound_to(provider))

    def unseal(self, sealed: bytes, provider: Provider) -> str:
        """Raises GadgetError when it was encrypted for another record or with another key."""
        try:
            return self._cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], _bound_to(provider)).decode()
        except InvalidTag as exc:
            raise GadgetError(
                ErrorCode.INTERNAL, f"The key of provider {provider.name} cannot be decrypted; enter it again."
            ) from exc


def _bound_to(provider: Provider) -> bytes:
    return "\0".join((provider.user, provider.id, provider.base_url)).encode()
