"""A session's files for its user's browser: forwards every request to the drone that has them."""

import asyncio
import base64
import hashlib
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from gadget_api import commands as c
from gadget_api.errors import (
    Conflict,
    ErrorCode,
    GadgetError,
    InvalidInput,
    NotAllowed,
    NotFound,
    TooLarge,
    Unavailable,
)
from gadget_api.files import (
    MAX_READ_BYTES,
    DeletedFiles,
    FileList,
    FoundFiles,
    RenameFile,
    SavedFile,
)
from gadget_api.model import WireModel
from gadget_api.work_order import OrderProject
from gadget_code.sockets.rooms import Rooms
from gadget_code.store.database import MongoStore
from gadget_code.workspaces.drones import drone_of, order_project
from gadget_code.workspaces.keyed_semaphore import KeyedSemaphore

_ANSWER_S = 30.0
"""To list, find or read a piece: ripgrep has 30 s, git 20 s, hashing a file of 32 MiB takes less than one."""
_CHANGE_S = 60.0
"""To save, rename or delete: 2 MiB over a slow link, a checkpoint, 10,000 files."""
_READ_S = 300.0
"""To read a whole file: 32 MiB over a slow link. Also bounds a drone that sends each piece late."""
_TRIES = 3
"""To read a file that changes while it is read."""
_PIECES_AT_ONCE = 2
"""Of all reads of a drone: more would queue in its socket, before its turn's events. 30 MiB take 2 s on loopback, on
two busy cores."""

Reply = TypeVar("Reply", bound=WireModel)


@dataclass(frozen=True)
class FileContent:
    version: str
    data: bytes | None
    """None: the caller has this version."""


@dataclass(frozen=True)
class _Location:
    """Where a session's files are."""

    user: str
    drone: str
    project: OrderProject


@dataclass(frozen=True)
class WorkspaceFiles:
    """Every method takes the ids of user and session. Raises NotFound for another user's session; Conflict when no
    drone has the files or the drone refuses; Unavailable when it does not reply; TooMany."""

    store: MongoStore
    rooms: Rooms
    sending: KeyedSemaphore = field(default_factory=lambda: KeyedSemaphore(at_once=4, waiting=4, wait_s=10.0))
    """By user: responses with large files."""
    _asking: KeyedSemaphore = field(default_factory=lambda: KeyedSemaphore(at_once=8, waiting=64, wait_s=30.0))
    """By drone, so that an unresponsive drone delays only its own requests."""
    _whole: KeyedSemaphore = field(default_factory=lambda: KeyedSemaphore(at_once=3, waiting=64, wait_s=30.0))
    """By user: files of more than one piece, each in memory, and twice for a moment."""
    _writing: KeyedSemaphore = field(default_factory=lambda: KeyedSemaphore(at_once=1, waiting=16, wait_s=30.0))
    """By drone: a write is one message, and several at once would exceed a slow socket's limit."""
    _pieces: KeyedSemaphore = field(
        default_factory=lambda: KeyedSemaphore(at_once=_PIECES_AT_ONCE, waiting=256, wait_s=30.0)
    )
    """By drone."""

    async def list_directory(self, user: str, session: str, path: str) -> FileList:
        async with self._located(user, session) as location:
            asked = await self._ask(
                location, "listFiles", c.ListFiles(project=location.project, path=path), c.FilesListed
            )
        return asked.files

    async def find(self, user: str, session: str, query: str, limit: int) -> FoundFiles:
        async with self._located(user, session) as location:
            ask = c.FindFiles(project=location.project, query=query, limit=limit)
            return (await self._ask(location, "findFiles", ask, c.FilesFound)).found

    async def read(self, user: str, session: str, path: str, known: Collection[str] = ()) -> FileContent:
        """Returns the file, whole and of one version; without its bytes when the version is among `known`, or `*`
        is."""
        try:
            async with self._located(user, session) as location, asyncio.timeout(_READ_S):
                for _ in range(_TRIES):
                    try:
                        content = await self._read(location, path, known)
                    except Conflict as exc:
                        if exc.code is not ErrorCode.FILE_CHANGED:
                            raise
                        continue
                    if content is not None:
                        return content
        except TimeoutError:
            message = "The drone is too slow for this file; open it in a terminal."
            raise Unavailable(ErrorCode.DRONE_OFFLINE, message) from None
        raise Conflict(
            ErrorCode.FILE_CHANGED,
            "The file changed each time it was read; try again in a moment.",
            retryable=True,
        )

    async def write(self, user: str, session: str, path: str, version: str | None, data: bytes) -> SavedFile:
        """Saves what was edited from `version`; None creates a file."""
        async with self._located(user, session) as location:
            encoded = (await asyncio.to_thread(base64.b64encode, data)).decode()
            ask = c.WriteFile(project=location.project, path=path, version=version, data=encoded)
            async with self._writing.hold(location.drone):
                return (await self._ask(location, "writeFile", ask, c.FileWritten, _CHANGE_S)).file

    async def rename(self, user: str, session: str, new: RenameFile) -> None:
        async with self._located(user, session) as location:
            ask = c.RenameProjectFile(project=location.project, path=new.path, to=new.to)
            await self._ask(location, "renameFile", ask, c.OkReply, _CHANGE_S)

    async def delete(self, user: str, session: str, path: str, version: str | None, *, recursive: bool) -> DeletedFiles:
        async with self._located(user, session) as location:
            ask = c.DeleteFile(project=location.project, path=path, version=version, recursive=recursive)
            return (await self._ask(location, "deleteFile", ask, c.FilesDeleted, _CHANGE_S)).deleted

    @asynccontextmanager
    async def _located(self, user: str, session_id: str) -> AsyncIterator[_Location]:
        """Gives the location of the session's files, and limits the requests to that drone meanwhile."""
        session = await self.store.sessions.owned(user, session_id)
        drone = await drone_of(self.store, session)
        location = _Location(user, drone.id, await order_project(self.store, session))
        async with self._asking.hold(location.drone):
            yield location

    async def _read(self, location: _Location, path: str, known: Collection[str]) -> FileContent | None:
        """Returns None when the file has changed between its pieces."""
        ask = c.ReadFile(project=location.project, path=path)
        first = await self._piece(location, ask)
        if first.version in known or "*" in known:
            return FileContent(first.version, None)
        if first.size_bytes > MAX_READ_BYTES:
            raise TooLarge(f"Files above {MAX_READ_BYTES // 1024**2} MiB are not shown; open it in a terminal.")
        if first.size_bytes <= c.MAX_CHUNK_BYTES:
            version, data = await asyncio.to_thread(_joined, await asyncio.to_thread(_decoded, [first.data]))
        else:
            async with self._whole.hold(location.user):
                version, data = await self._rest(location, ask, first)
        return FileContent(version, data) if version == first.version else None

    async def _rest(self, location: _Location, ask: c.ReadFile, first: c.FileRead) -> tuple[str, bytes]:
        """Returns version and bytes of the file that begins with the piece `first`."""
        pieces = await asyncio.to_thread(_decoded, [first.data])
        offsets = range(c.MAX_CHUNK_BYTES, first.size_bytes, c.MAX_CHUNK_BYTES)
        for batch in (offsets[n : n + _PIECES_AT_ONCE] for n in range(0, len(offsets), _PIECES_AT_ONCE)):
            rest = [ask.replace(offset=offset, version=first.version) for offset in batch]
            try:
                async with asyncio.TaskGroup() as asking:
                    tasks = [asking.create_task(self._piece(location, each)) for each in rest]
            except* GadgetError as group:
                raise group.exceptions[0] from None
            pieces += await asyncio.to_thread(_decoded, [task.result().data for task in tasks])
        return await asyncio.to_thread(_joined, pieces)

    async def _piece(self, location: _Location, ask: c.ReadFile) -> c.FileRead:
        async with self._pieces.hold(location.drone):
            return await self._ask(location, "readFile", ask, c.FileRead)

    async def _ask(
        self, location: _Location, event: str, ask: WireModel, reply: type[Reply], timeout: float = _ANSWER_S
    ) -> Reply:
        try:
            return await self.rooms.ask_drone(location.drone, event, ask, reply, timeout=timeout)
        except Conflict as exc:
            raise _as_rest_error(exc) from exc


def _decoded(pieces: list[str]) -> list[bytes]:
    """Decodes base64 pieces. Raises Unavailable."""
    try:
        return [base64.b64decode(piece, validate=True) for piece in pieces]
    except ValueError:  # binascii.Error is a ValueError, and so is a text with other characters
        message = "The drone sent an invalid reply; check that it has the same version."
        raise Unavailable(ErrorCode.DRONE_OFFLINE, message) from None


def _joined(pieces: list[bytes]) -> tuple[str, bytes]:
    """Returns version and bytes of joined pieces."""
    data = b"".join(pieces)
    return hashlib.sha256(data).hexdigest(), data


def _as_rest_error(refused: Conflict) -> GadgetError:
    """Converts a drone's refusal to the error that REST would raise."""
    match refused.code:
        case ErrorCode.NOT_FOUND:
            return NotFound("file", message=refused.message)
        case ErrorCode.NOT_ALLOWED:
            return NotAllowed(refused.message)
        case ErrorCode.INVALID_REQUEST:
            return InvalidInput(refused.message)
        case ErrorCode.TOO_LARGE:
            return TooLarge(refused.message)
    return refused
