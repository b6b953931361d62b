"""Images, one document each: an image is smaller than MongoDB's limit.

An image that no prompt and no tool result names is deleted after a day (`expireAt`).
"""

from collections.abc import Collection
from datetime import timedelta

from pymongo import IndexModel
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.asynchronous.collection import AsyncCollection

from gadget_api.errors import Conflict, InvalidInput, NotFound
from gadget_api.images import ImageRef
from gadget_api.model import utc_now
from gadget_code.store.quota import Quota
from gadget_code.store.records import SCHEMA_VERSION, Document, store_errors

_UNUSED = timedelta(hours=24)

INDEXES = [
    IndexModel([("user", 1), ("sha256", 1)], name="content", unique=True),
    IndexModel([("user", 1), ("sizeBytes", 1)], name="quota"),
    IndexModel([("expireAt", 1)], name="expiry", expireAfterSeconds=0, sparse=True),
]
_REF = {"mediaType": 1, "sizeBytes": 1, "width": 1, "height": 1}


class ImageStore:
    def __init__(self, collection: AsyncCollection[Document], quota: Quota) -> None:
        self.collection = collection
        self._quota = quota

    async def put(self, user: str, sha256: str, image: ImageRef, data: bytes) -> ImageRef:
        """Stores an image of `user`; the same bytes are the same image. Raises StorageFull."""
        again = {"user": user, "sha256": sha256}
        for _ in range(2):
            with store_errors():
                # An unused image expires a day after its last upload.
                await self.collection.update_one(
                    {**again, "expireAt": {"$exists": True}}, {"$set": {"expireAt": utc_now() + _UNUSED}}
                )
                known = await self.collection.find_one(again, _REF)
            if known is not None:
                return ImageRef.model_validate(known)
            document = {
                **image.model_dump(),
                **again,
                "createdAt": utc_now(),
                "expireAt": utc_now() + _UNUSED,
                "data": data,
                "schemaVersion": SCHEMA_VERSION,
            }

            async def write(session: AsyncClientSession, document: Document = document) -> int:
                await self.collection.insert_one(document, session=session)
                return len(data)

            try:
                await self._quota.add(user, write)
            except Conflict:  # the same bytes were stored at the same time
                continue
            return image
        raise InvalidInput("This image was uploaded several times at once; send it again.")

    async def read(self, user: str, image: str) -> tuple[ImageRef, bytes]:
        """Raises NotFound for an unknown id and for another user's."""
        with store_errors():
            document = await self.collection.find_one({"_id": image, "user": user}, {**_REF, "data": 1})
        if document is None:
            raise NotFound("image")
        data = bytes(document.pop("data"))
        return ImageRef.model_validate(document), data

    async def use(self, user: str, images: Collection[str]) -> list[ImageRef]:
        """Keeps these images, because something that stays names them. Returns those that exist, in the given order."""
        if not images:
            return []
        owned = {"_id": {"$in": list(images)}, "user": user}
        with store_errors():
            await self.collection.update_many(owned, {"$unset": {"expireAt": ""}})
            documents = {document["_id"]: document async for document in self.collection.find(owned, _REF)}
        return [ImageRef.model_validate(documents[image]) for image in images if image in documents]

    async def release(self, user: str, images: Collection[str]) -> None:
        """Lets these images expire after a day, because nothing names them any more."""
        with store_errors():
            await self.collection.update_many(
                {"_id": {"$in": list(images)}, "user": user}, {"$set": {"expireAt": utc_now() + _UNUSED}}
            )
