"""Tokens: opaque, kept as their SHA-256, looked up by it. The token's kind is what makes a connection an IDE's or a
drone's; nothing else a client says does."""

import hashlib
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from pymongo import IndexModel
from pymongo.asynchronous.collection import AsyncCollection

from gadget_api.model import utc_now
from gadget_code.store.records import Document, stamped, store_errors


class TokenKind(StrEnum):
    IDE = "ide"
    DRONE = "drone"
    SIGN_IN = "signIn"
    """Exchanged once for an IDE token."""


IDE_IDLE = timedelta(hours=12)
IDE_LIFE = timedelta(days=7)
SIGN_IN_LIFE = timedelta(minutes=15)
DRONE_LIFE = timedelta(days=365)
_TOUCH_EVERY = timedelta(minutes=5)

INDEXES = [
    # MongoDB's TTL monitor runs once a minute; a check of our own makes expiry exact.
    IndexModel([("expiresAt", 1)], name="expiry", expireAfterSeconds=0),
    IndexModel([("user", 1)], name="user"),
    IndexModel([("drone", 1)], name="drone", sparse=True),
]


@dataclass(frozen=True)
class Identity:
    """Who a verified token stands for."""

    user: str
    kind: TokenKind
    token_hash: str
    drone: str | None = None
    """The registration a drone token is bound to; None before it has registered."""


def hash_of(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


class TokenStore:
    def __init__(self, collection: AsyncCollection[Document]) -> None:
        self.collection = collection

    async def issue(self, user: str, kind: TokenKind, *, drone: str | None = None) -> tuple[str, datetime]:
        """A fresh token in the clear (told once, never stored), and when it ends."""
        token = secrets.token_urlsafe(32)
        now = utc_now()
        life = {TokenKind.IDE: IDE_LIFE, TokenKind.DRONE: DRONE_LIFE, TokenKind.SIGN_IN: SIGN_IN_LIFE}[kind]
        document: Document = {
            "_id": hash_of(token),
            "user": user,
            "kind": kind,
            "createdAt": now,
            "usedAt": now,
            "expiresAt": now + life,
        }
        if drone is not None:
            document["drone"] = drone
        with store_errors():
            await self.collection.insert_one(stamped(document))
        return token, now + life

    async def identify(self, token: str) -> Identity | None:
        """Whom `token` stands for, or None when it is unknown, revoked, expired or idle for too long."""
        with store_errors():
            document = await self.collection.find_one({"_id": hash_of(token)})
            if document is None or not _is_live(document):
                return None
            if document["kind"] == TokenKind.IDE and utc_now() - document["usedAt"] > _TOUCH_EVERY:
                await self.collection.update_one({"_id": document["_id"]}, {"$set": {"usedAt": utc_now()}})
        return Identity(document["user"], TokenKind(document["kind"]), document["_id"], document.get("drone"))

    async def live(self, hashes: set[str]) -> set[str]:
        """Those of `hashes` that still stand; a token that is in use is not idle."""
        with store_errors():
            documents = await self.collection.find({"_id": {"$in": list(hashes)}}).to_list(None)
        return {document["_id"] for document in documents if _is_live(document)}

    async def touch(self, hashes: set[str]) -> None:
        """Notes that these are in use (an open socket is)."""
        with store_errors():
            await self.collection.update_many({"_id": {"$in": list(hashes)}}, {"$set": {"usedAt": utc_now()}})

    async def take_sign_in(self, token: str) -> str | None:
        """Uses up a sign-in token and answers its user; None when it is not a live one."""
        with store_errors():
            document = await self.collection.find_one_and_delete({"_id": hash_of(token), "kind": TokenKind.SIGN_IN})
        return document["user"] if document is not None and _is_live(document) else None

    async def bind_drone(self, token_hash: str, drone: str) -> bool:
        """Binds a drone token to the registration that uses it first; False when that was another."""
        with store_errors():
            bound = await self.collection.update_one(
                {"_id": token_hash, "drone": {"$in": [None, drone]}}, {"$set": {"drone": drone}}
            )
        return bound.matched_count == 1

    async def revoke(self, **query: Any) -> None:
        """Revokes every token that matches, such as `user=...` or `drone=...`; `keep` is the hash of one to spare."""
        keep = query.pop("keep", None)
        if keep is not None:
            query["_id"] = {"$ne": keep}
        with store_errors():
            await self.collection.delete_many(query)


def _is_live(document: Document) -> bool:
    now = utc_now()
    if document["expiresAt"] <= now:
        return False
    return document["kind"] != TokenKind.IDE or bool(now - document["usedAt"] < IDE_IDLE)
