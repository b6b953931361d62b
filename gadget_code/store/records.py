"""Documents of users as their wire models.

A document is the model's JSON (camelCase, `_id`) with BSON dates and two more fields: `schemaVersion`, and `store` for
what only the store needs (a password hash, an idempotency key). Neither leaves this module.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Generic, TypeVar, get_args

from bson.errors import BSONError
from pydantic import ValidationError
from pymongo import ReturnDocument
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.errors import DuplicateKeyError, PyMongoError

from gadget_api.errors import Conflict, ErrorCode, GadgetError, InvalidInput, NotFound, Unavailable
from gadget_api.model import WireModel

Document = dict[str, Any]
SCHEMA_VERSION = 1
MAX_PAGE = 200

UPGRADES: Mapping[int, Callable[[Document], Document]] = {}
"""Schema version -> upgrade to the next; each has a golden document in the tests."""


@contextmanager
def store_errors() -> Iterator[None]:
    """Converts PyMongo's exceptions to those of `gadget_api.errors`."""
    try:
        yield
    except DuplicateKeyError as exc:
        raise Conflict(ErrorCode.ALREADY_EXISTS, "There is already one with that name.") from exc
    except (OverflowError, BSONError) as exc:
        raise InvalidInput("A number or a text in this is too large to be stored.") from exc
    except PyMongoError as exc:
        raise Unavailable(
            ErrorCode.STORE_UNAVAILABLE, "The database does not answer now; try again in a moment."
        ) from exc


def stamped(document: Document, **store: Any) -> Document:
    """Returns `document` with the fields that only the store uses."""
    return {**document, "schemaVersion": SCHEMA_VERSION, **({"store": store} if store else {})}


def load(document: Document) -> Document:
    """Upgrades a stored document, and removes the fields that only the store uses."""
    version = document.pop("schemaVersion", 0)
    document.pop("store", None)
    if version > SCHEMA_VERSION:
        raise GadgetError(
            ErrorCode.INTERNAL, "The database was written by a newer Gadget Code; update this one before you use it."
        )
    while version < SCHEMA_VERSION:
        if version not in UPGRADES:
            raise GadgetError(ErrorCode.INTERNAL, f"A document of schema version {version} cannot be read any more.")
        document = UPGRADES[version](document)
        version += 1
    return document


ModelT = TypeVar("ModelT", bound=WireModel)


class Page(WireModel, Generic[ModelT]):
    """A page of a list, newest first."""

    items: tuple[ModelT, ...]
    next_cursor: str | None = None


class Records(Generic[ModelT]):
    """One collection of `model`. Error messages name a record `noun`."""

    def __init__(self, collection: AsyncCollection[Document], model: type[ModelT], noun: str) -> None:
        self.collection = collection
        self.model = model
        self.noun = noun

    def read(self, document: Document) -> ModelT:
        try:
            return self.model.model_validate(load(document))
        except ValidationError as exc:
            raise GadgetError(ErrorCode.INTERNAL, f"A {self.noun} in the database cannot be read.") from exc

    async def insert(self, record: ModelT, **store: Any) -> ModelT:
        with store_errors():
            await self.collection.insert_one(stamped(record.model_dump(), **store))
        return record

    async def find(self, query: Mapping[str, Any]) -> ModelT | None:
        with store_errors():
            document = await self.collection.find_one(query)
        return None if document is None else self.read(document)

    async def owned(self, user: str, record_id: str) -> ModelT:
        """Returns the user's record. Raises NotFound for an unknown id and for another user's."""
        record = await self.find({"_id": record_id, "user": user})
        if record is None:
            raise NotFound(self.noun)
        return record

    async def all(
        self, query: Mapping[str, Any], *, limit: int = 1000, newest_first: bool = False, hint: str | None = None
    ) -> list[ModelT]:
        """Returns at most `limit` records, in the order of their ids.

        `hint` names the index. Without it MongoDB may prefer the index over ids, and keep it for later queries of the
        same shape.
        """
        order = -1 if newest_first else 1
        with store_errors():
            cursor = self.collection.find(query, hint=hint).sort("_id", order).limit(limit)
            documents = await cursor.to_list(limit)
        return [self.read(document) for document in documents]

    async def page(
        self, query: Mapping[str, Any], *, limit: int, cursor: str | None, hint: str | None = None
    ) -> Page[ModelT]:
        """Returns at most `limit` records older than `cursor`, newest first."""
        if cursor is not None:
            query = {**query, "_id": {"$lt": cursor}}
        records = await self.all(query, limit=limit + 1, newest_first=True, hint=hint)
        items = tuple(records[:limit])
        return Page(items=items, next_cursor=_id_of(items[-1]) if len(records) > limit else None)

    async def update(
        self, query: Mapping[str, Any], changes: Mapping[str, Any], **operators: Mapping[str, Any]
    ) -> ModelT | None:
        """Sets `changes` (camelCase) on the first match and returns it after that; None when nothing matches.

        Further update operators are named without the dollar: `inc={"epoch": 1}`.
        """
        update = {f"${name}": value for name, value in operators.items() if value}
        if changes:
            update["$set"] = changes
        with store_errors():
            document = await self.collection.find_one_and_update(query, update, return_document=ReturnDocument.AFTER)
        return None if document is None else self.read(document)

    async def change(self, query: Mapping[str, Any], changes: WireModel) -> ModelT:
        """Sets the fields that are given in `changes` on the match. Raises NotFound, Conflict."""
        given = self.given(changes)
        record = await self.update(query, given) if given else await self.find(query)
        if record is None:
            raise NotFound(self.noun)
        return record

    def given(self, changes: WireModel) -> Document:
        """Returns the fields of this model that `changes` sets. A null counts only for a nullable field."""
        fields = self.model.model_fields
        nullable = {name for name, field in fields.items() if type(None) in get_args(field.annotation)}
        given = {name for name in changes.model_fields_set if name in nullable or getattr(changes, name) is not None}
        return changes.model_dump(include=given & fields.keys())

    async def delete(self, user: str, record_id: str) -> None:
        """Raises NotFound when the user has no such record."""
        with store_errors():
            result = await self.collection.delete_one({"_id": record_id, "user": user})
        if not result.deleted_count:
            raise NotFound(self.noun)


def _id_of(record: Any) -> str:
    return str(record.id)
