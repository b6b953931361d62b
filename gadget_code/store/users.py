"""Accounts. The password's hash never leaves the store."""

from pymongo import IndexModel, ReturnDocument
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.asynchronous.collection import AsyncCollection

from gadget_api.errors import Conflict, ErrorCode, NotFound
from gadget_api.ids import new_id
from gadget_api.model import utc_now
from gadget_api.users import User
from gadget_code.store.records import Document, Records, store_errors
from gadget_code.store.transactions import in_transaction

INDEXES = [
    IndexModel([("email", 1)], name="email", unique=True),
    IndexModel([("isAdmin", 1)], name="administrators", partialFilterExpression={"isAdmin": True}),
]

OWNER_ID = "owner"
"""The id of an install's first account, so that it can be created only once."""


class UserStore(Records[User]):
    def __init__(self, collection: AsyncCollection[Document]) -> None:
        super().__init__(collection, User, "user")

    async def create(
        self, email: str, password_hash: str | None, *, display_name: str, is_admin: bool = False, user_id: str = ""
    ) -> User:
        """Creates an account. Raises Conflict when the address (or the id) is taken. Without a hash nobody can sign in
        with a password."""
        user = User(
            id=user_id or new_id(), created_at=utc_now(), email=email, display_name=display_name, is_admin=is_admin
        )
        try:
            return await self.insert(user, passwordHash=password_hash)
        except Conflict as exc:
            raise Conflict(ErrorCode.ALREADY_EXISTS, f"There is already an account for {email}.") from exc

    async def get(self, user_id: str) -> User:
        user = await self.find({"_id": user_id})
        if user is None:
            raise NotFound("user")
        return user

    async def by_email(self, email: str) -> User | None:
        return await self.find({"email": email.strip().lower()})

    async def password_hash(self, user_id: str) -> str | None:
        with store_errors():
            document = await self.collection.find_one({"_id": user_id}, {"store.passwordHash": 1})
        return None if document is None else document.get("store", {}).get("passwordHash")

    async def set_password_hash(self, user_id: str, password_hash: str) -> None:
        with store_errors():
            await self.collection.update_one({"_id": user_id}, {"$set": {"store.passwordHash": password_hash}})

    async def set_admin(self, user_id: str, is_admin: bool) -> User:
        """Raises NotFound, and Conflict for the last administrator."""

        async def change(session: AsyncClientSession) -> Document | None:
            if not is_admin:
                await self._leave_an_admin(user_id, session)
            return await self.collection.find_one_and_update(
                {"_id": user_id},
                {"$set": {"isAdmin": is_admin}},
                return_document=ReturnDocument.AFTER,
                session=session,
            )

        changed = await in_transaction(self.collection, change)
        if changed is None:
            raise NotFound("user")
        return self.read(changed)

    async def remove(self, user_id: str) -> None:
        """Raises Conflict for the last administrator while there are other accounts."""

        async def remove(session: AsyncClientSession) -> None:
            if await self.collection.find_one({"_id": {"$ne": user_id}}, {"_id": 1}, session=session):
                await self._leave_an_admin(user_id, session)
            await self.collection.delete_one({"_id": user_id}, session=session)

        await in_transaction(self.collection, remove)

    async def _leave_an_admin(self, user_id: str, session: AsyncClientSession) -> None:
        """Raises Conflict when this user is the only administrator. Writes to every administrator, so that of two
        concurrent changes one is refused."""
        admins = await self.collection.find({"isAdmin": True}, {"_id": 1}, session=session).to_list()
        if [admin["_id"] for admin in admins] == [user_id]:
            raise Conflict(
                ErrorCode.LAST_ADMIN, "This is the only administrator; make another one before you change that."
            )
        await self.collection.update_many(
            {"isAdmin": True}, {"$set": {"store.adminsCheckedAt": utc_now()}}, session=session
        )
