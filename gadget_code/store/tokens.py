"""Tokens: opaque, stored and looked up by their SHA-256. Only the token's kind makes a connection an IDE's or a
drone's; nothing that a client says does.

An IDE's token has two halves. A browser keeps one in the session cookie, which it sends to every port of the host, and
one in the storage of the page's origin, which no other port can read. The hash is that of the whole token, so one half
matches nothing.
"""

import hashlib
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pymongo import IndexModel
from pymongo.asynchronous.collection import AsyncCollection

from gadget_api.model import utc_now
from gadget_api.tokens import TokenInfo, TokenKind
from gadget_code.store.records import Document, stamped, store_errors

IDE_IDLE = timedelta(hours=12)
IDE_LIFE = timedelta(days=7)
SIGN_IN_LIFE = timedelta(minutes=15)
DRONE_LIFE = timedelta(days=365)
_TOUCH_EVERY = timedelta(minutes=5)
_ID_DIGITS = 24
"""Of a token's hash, in the token's public id. The hash grants no access; still, nobody needs all of it."""
_CLIENT_CHARS = 200
_LISTED = 200

INDEXES = [
    # MongoDB's TTL monitor runs once a minute; `_is_live` makes expiry exact.
    IndexModel([("expiresAt", 1)], name="expiry", expireAfterSeconds=0),
    IndexModel([("user", 1), ("createdAt", -1)], name="newest"),
    IndexModel([("drone", 1)], name="drone", sparse=True),
]


@dataclass(frozen=True)
class Caller:
    """The user and the rights of a verified token."""

    user: str
    kind: TokenKind
    token_hash: str
    drone: str | None = None
    """The registration that a drone token is bound to; None before it has registered."""


def hash_of(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


class TokenStore:
    def __init__(self, collection: AsyncCollection[Document]) -> None:
        self.collection = collection

    async def issue(
        self,
        user: str,
        kind: TokenKind,
        *,
        drone: str | None = None,
        name: str | None = None,
        client: str | None = None,
    ) -> tuple[str, datetime]:
        """Creates a token. Returns it in the clear (it is not stored), and when it expires."""
        token = secrets.token_urlsafe(32)
        if kind is TokenKind.IDE:
            token += f".{secrets.token_urlsafe(32)}"
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
        if client is not None:
            client = "".join(c for c in client if c.isprintable())[:_CLIENT_CHARS]
        given = {"drone": drone, "name": name, "client": client}
        document |= {field: value for field, value in given.items() if value}
        with store_errors():
            await self.collection.insert_one(stamped(document))
        return token, now + life

    async def identify(self, token: str) -> Caller | None:
        """Returns the caller of `token`; None when it is unknown, revoked, expired or idle for too long."""
        with store_errors():
            document = await self.collection.find_one({"_id": hash_of(token)})
            if document is None or not _is_live(document):
                return None
            if document["kind"] != TokenKind.SIGN_IN and utc_now() - document["usedAt"] > _TOUCH_EVERY:
                await self.collection.update_one({"_id": document["_id"]}, {"$set": {"usedAt": utc_now()}})
        return Caller(document["user"], TokenKind(document["kind"]), document["_id"], document.get("drone"))

    async def live(self, hashes: set[str]) -> set[str]:
        """Returns those of `hashes` that are valid. Tokens in use are not idle."""
        with store_errors():
            documents = await self.collection.find({"_id": {"$in": list(hashes)}}).to_list(None)
        return {document["_id"] for document in documents if _is_live(document)}

    async def touch(self, hashes: set[str]) -> None:
        """Marks these tokens as used now (their sockets are open)."""
        with store_errors():
            await self.collection.update_many({"_id": {"$in": list(hashes)}}, {"$set": {"usedAt": utc_now()}})

    async def take_sign_in(self, token: str) -> str | None:
        """Uses a sign-in token up and returns its user; None when it is not valid."""
        with store_errors():
            document = await self.collection.find_one_and_delete({"_id": hash_of(token), "kind": TokenKind.SIGN_IN})
        return document["user"] if document is not None and _is_live(document) else None

    async def bind_drone(self, token_hash: str, drone: str) -> bool:
        """Binds a drone token to the first registration that uses it. Returns False when it is bound to another."""
        with store_errors():
            bound = await self.collection.update_one(
                {"_id": token_hash, "drone": {"$in": [None, drone]}}, {"$set": {"drone": drone}}
            )
        return bound.matched_count == 1

    async def revoke(self, **query: Any) -> None:
        """Revokes every token that matches, such as `user=...` or `drone=...`, except the one with the hash `keep`."""
        keep = query.pop("keep", None)
        if keep is not None:
            query["_id"] = {"$ne": keep}
        with store_errors():
            await self.collection.delete_many(query)

    async def infos(self, caller: Caller) -> list[TokenInfo]:
        """Returns the valid tokens of the caller's account, newest first, including its own."""
        with store_errors():
            documents = await self.collection.find({"user": caller.user}).sort("createdAt", -1).limit(_LISTED).to_list()
        return [_info(document, caller) for document in documents if _is_live(document)]

    async def rename(self, user: str, token_id: str, name: str | None) -> bool:
        """Returns whether the user has such a token."""
        with store_errors():
            renamed = await self.collection.update_one(_named(user, token_id), {"$set": {"name": name}})
        return renamed.matched_count == 1

    async def revoke_one(self, user: str, token_id: str) -> bool:
        """Returns whether the user had such a token."""
        with store_errors():
            return (await self.collection.delete_one(_named(user, token_id))).deleted_count == 1

    async def revoke_sign_ins(self, user: str, keep: str | None = None) -> None:
        """Revokes the account's sign-ins except the hash `keep`, and unused links."""
        await self.revoke(user=user, kind={"$in": [TokenKind.IDE, TokenKind.SIGN_IN]}, keep=keep)


def _named(user: str, token_id: str) -> Document:
    """Matches the user's token of this id."""
    if len(token_id) != _ID_DIGITS or not token_id.isalnum():
        return {"_id": None}
    return {"_id": {"$gte": token_id, "$lt": token_id + "~"}, "user": user}


def _info(document: Document, caller: Caller) -> TokenInfo:
    fields = {
        name: document.get(name) for name in ("kind", "name", "client", "drone", "createdAt", "usedAt", "expiresAt")
    }
    return TokenInfo.model_validate(
        {**fields, "_id": document["_id"][:_ID_DIGITS], "isCurrent": document["_id"] == caller.token_hash}
    )


def _is_live(document: Document) -> bool:
    now = utc_now()
    if document["expiresAt"] <= now:
        return False
    return document["kind"] != TokenKind.IDE or bool(now - document["usedAt"] < IDE_IDLE)
