"""The database: collections, indexes, connection."""

import fcntl
import logging
import os
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from pathlib import Path

from pymongo import AsyncMongoClient, IndexModel, ReadPreference, WriteConcern
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import ConfigurationError, OperationFailure, PyMongoError
from pymongo.read_concern import ReadConcern

from gadget_api.errors import ErrorCode, GadgetError, Unavailable
from gadget_api.events import InquiryAsked, ToolCall, TurnEvent
from gadget_api.turns import ChatTurn
from gadget_code.settings import Settings
from gadget_code.store import (
    blobs,
    drones,
    events,
    images,
    inquiries,
    projects,
    providers,
    sessions,
    tokens,
    turns,
    users,
)
from gadget_code.store.blobs import BlobStore
from gadget_code.store.drones import DroneStore
from gadget_code.store.events import EventStore, StoredEvent
from gadget_code.store.images import ImageStore
from gadget_code.store.inquiries import InquiryStore
from gadget_code.store.install import InstallStore
from gadget_code.store.mongod import private_mongod, running_mongod
from gadget_code.store.projects import ProjectStore
from gadget_code.store.providers import ProviderStore
from gadget_code.store.quota import MB, Quota
from gadget_code.store.records import Document
from gadget_code.store.sessions import SessionStore
from gadget_code.store.tokens import TokenStore
from gadget_code.store.turns import TurnStore
from gadget_code.store.users import UserStore
from gadget_code.store.vault import Vault

log = logging.getLogger(__name__)

_SERVER_SELECTION_MS = 5000  # a request waits this long for an unreachable database, then returns 503
_MAJORITY = WriteConcern("majority", wtimeout=10_000)

INDEXES: Mapping[str, Sequence[IndexModel]] = {
    "users": users.INDEXES,
    "tokens": tokens.INDEXES,
    "projects": projects.INDEXES,
    "providers": providers.INDEXES,
    "drones": drones.INDEXES,
    "sessions": sessions.INDEXES,
    "turns": turns.INDEXES,
    "events": events.INDEXES,
    "blobs": blobs.INDEXES,
    "inquiries": inquiries.INDEXES,
    "images": images.INDEXES,
    "install": (),
}


class MongoStore:
    """All collections, each behind its own class."""

    def __init__(
        self, database: AsyncDatabase[Document], vault: Vault, keep_deltas: timedelta | None, storage_bytes: int
    ) -> None:
        """`storage_bytes`: each user's limit for blobs and images."""
        self.database = database
        self.quota = quota = Quota(database, storage_bytes)
        self.users = UserStore(database.users)
        self.tokens = TokenStore(database.tokens)
        self.projects = ProjectStore(database.projects)
        self.providers = ProviderStore(database.providers, database.provider_keys, vault)
        self.drones = DroneStore(database.drones)
        self.sessions = SessionStore(database.sessions)
        self.turns = TurnStore(database.turns)
        self.events = EventStore(database.events, keep_deltas)
        self.blobs = BlobStore(database.blobs, quota)
        self.inquiries = InquiryStore(database.inquiries)
        self.images = ImageStore(database.images, quota)
        self.install = InstallStore(database.install)

    async def make_indexes(self) -> None:
        for name, indexes in INDEXES.items():
            if indexes:
                await self.database[name].create_indexes(list(indexes))

    async def record(
        self,
        turn: ChatTurn,
        group: Sequence[StoredEvent],
        after: ChatTurn,
        steered: list[str],
        events: Sequence[TurnEvent] = (),
    ) -> bool:
        """Stores the next events of `turn`, and `after`, which is the turn after them. Returns False when the stored
        turn is not `turn` any more: it has other events or another epoch.

        One write to the turn's document decides: events count up to its `lastSeq`. So a turn's events have neither gaps
        nor duplicates, no event of an old epoch counts, however late a process is, and a process that dies in between
        leaves only what its successor overwrites. (A transaction would do the same, but would block the turn for a
        minute when its process dies.)

        Inquiries and images in `events` are stored before: an event that counts has them.
        """
        if not await self.events.put(turn.id, group):
            return False
        images = {image.id for event in events if isinstance(event, ToolCall) for image in event.images}
        if images:
            await self.images.use(turn.user, images)
        await self.inquiries.ask(turn, [event for event in events if isinstance(event, InquiryAsked)])
        return await self.turns.apply_events(turn, after, steered, images)

    async def ping(self) -> None:
        """Raises Unavailable when the database does not take writes."""
        try:
            answer = await self.database.client.admin.command("hello")
        except PyMongoError as exc:
            raise Unavailable(ErrorCode.STORE_UNAVAILABLE, "The database does not answer.") from exc
        if not answer.get("isWritablePrimary"):
            raise Unavailable(ErrorCode.STORE_UNAVAILABLE, "The database has no primary.")


@asynccontextmanager
async def open_store(settings: Settings, *, join: bool = False) -> AsyncIterator[MongoStore]:
    """Opens the store: of an external server, or of the private one, which runs as long as the context.

    With `join` it uses the private server of a running service, if there is one. Raises GadgetError when there is no
    database.
    """
    url = settings.mongodb_url.get_secret_value() if settings.mongodb_url is not None else None
    if url is None and join:
        url = running_mongod(settings.data_dir)
    if url is not None:
        async with _connected(settings, url) as store:
            yield store
        return
    with _sole_user(settings.data_dir):
        async with private_mongod(settings.data_dir, settings.database) as url, _connected(settings, url) as store:
            yield store


@contextmanager
def _sole_user(data_dir: Path) -> Iterator[None]:
    """Locks the data directory; the kernel releases the lock when this process dies."""
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(data_dir / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as exc:
        raise GadgetError(
            ErrorCode.STORE_UNAVAILABLE,
            f"The data directory {data_dir} cannot be used ({exc.strerror}); choose another with GADGET_DATA_DIR.",
        ) from exc
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as exc:
        raise GadgetError(
            ErrorCode.STORE_UNAVAILABLE,
            f"Gadget Code runs with the data directory {data_dir} already; stop it, or set another GADGET_DATA_DIR.",
        ) from exc
    finally:
        os.close(lock)


@asynccontextmanager
async def _connected(settings: Settings, url: str) -> AsyncIterator[MongoStore]:
    vault = Vault.open(settings.key_file)
    try:
        client: AsyncMongoClient[Document] = AsyncMongoClient(
            url, tz_aware=True, serverSelectionTimeoutMS=_SERVER_SELECTION_MS, appname="gadget-code"
        )
    except (ConfigurationError, ValueError) as exc:
        raise GadgetError(ErrorCode.STORE_UNAVAILABLE, "GADGET_MONGODB_URL is not a MongoDB URL; correct it.") from exc
    async with client:
        database = client.get_database(
            settings.database,
            write_concern=_MAJORITY,
            read_concern=ReadConcern("majority"),
            read_preference=ReadPreference.PRIMARY,
        )
        store = MongoStore(database, vault, settings.keep_deltas, settings.storage_mb * MB)
        try:
            answer = await client.admin.command("hello")
            if not answer.get("setName"):
                raise GadgetError(
                    ErrorCode.STORE_UNAVAILABLE,
                    "This MongoDB is not a replica set; start it with --replSet and run rs.initiate() once.",
                )
            await store.make_indexes()
        except OperationFailure as exc:
            raise GadgetError(
                ErrorCode.STORE_UNAVAILABLE,
                f"MongoDB refuses what the service needs ({exc.details.get('codeName') if exc.details else exc.code}); "
                "give the user in GADGET_MONGODB_URL the roles readWrite and dbAdmin on GADGET_DATABASE.",
            ) from exc
        except PyMongoError as exc:
            raise GadgetError(
                ErrorCode.STORE_UNAVAILABLE,
                "MongoDB does not answer at GADGET_MONGODB_URL; start it, or unset the variable to use a private one. "
                f"({type(exc).__name__})",
            ) from exc
        yield store
