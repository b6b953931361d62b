"""Passwords: argon2id, hashed in a few threads, so that many sign-ins at once neither block the event loop nor exhaust
the memory."""

import asyncio
import functools

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

_HASHES_AT_ONCE = 4  # each takes 64 MiB (argon2-cffi's RFC 9106 low-memory profile)


class Passwords:
    def __init__(self) -> None:
        self._hasher = PasswordHasher()
        self._slots = asyncio.Semaphore(_HASHES_AT_ONCE)

    @functools.cached_property
    def _nobody(self) -> str:
        """The hash that is checked for an unknown user, so that the check takes as long as for a known one."""
        return self._hasher.hash("nobody has this password")

    async def hash(self, password: str) -> str:
        async with self._slots:
            return await asyncio.to_thread(self._hasher.hash, password)

    async def matches(self, password: str, hashed: str | None) -> bool:
        """Returns whether `password` is correct. Without a hash (no such user) it does the same work and returns
        False."""
        async with self._slots:
            return await asyncio.to_thread(self._verify, password, hashed)

    def _verify(self, password: str, hashed: str | None) -> bool:
        try:
            self._hasher.verify(hashed or self._nobody, password)
        except (VerificationError, InvalidHashError):
            return False
        return hashed is not None
