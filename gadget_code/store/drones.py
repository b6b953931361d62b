"""Drones as documents. A document is also a lease of the workspace, for the socket that reaches the drone, and of the
turn that it names. The web process that holds the socket renews it; when it expires the drone counts as offline."""

from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Any

from pymongo import IndexModel
from pymongo.asynchronous.collection import AsyncCollection

from gadget_api.drones import DroneRegistration, DroneStatus
from gadget_api.model import utc_now
from gadget_code.store.records import Document, Records, store_errors

INDEXES = [
    IndexModel([("user", 1), ("workspaceId", 1)], name="workspace", unique=True),
    IndexModel([("user", 1), ("_id", -1)], name="user"),
    IndexModel([("store.socket", 1)], name="socket", sparse=True),
]

_OFFER = timedelta(seconds=15)
"""A drone's report may be older than an offer that is on its way: longer than an offer takes (10 s)."""
LEASE = timedelta(seconds=15)
"""From a renewal. When a web process dies, its drones are offline after this; it renews every 4 s."""


class DroneStore(Records[DroneRegistration]):
    def __init__(self, collection: AsyncCollection[Document]) -> None:
        super().__init__(collection, DroneRegistration, "drone")

    def read(self, document: Document) -> DroneRegistration:
        """Reads a drone, with the status `offline` when its lease has expired."""
        until = document.get("store", {}).get("leaseUntil")
        if document["status"] != DroneStatus.OFFLINE and (until is None or until < utc_now()):
            document["status"] = DroneStatus.OFFLINE
        return super().read(document)

    async def connected(self, drone: str, socket: str) -> DroneRegistration | None:
        """Marks the drone as reachable over `socket`. The latest connection counts."""
        return await self.update(
            {"_id": drone},
            {
                "status": DroneStatus.STARTING,
                "lastSeenAt": utc_now(),
                "store.socket": socket,
                "store.connectedAt": utc_now(),
                "store.leaseUntil": utc_now() + LEASE,
            },
        )

    async def disconnected(self, drone: str, socket: str) -> DroneRegistration | None:
        """Marks the drone as offline. Returns None when it has connected again meanwhile."""
        return await self.update(
            {"_id": drone, "store.socket": socket}, {"status": DroneStatus.OFFLINE, "lastSeenAt": utc_now()}
        )

    async def renew(self, sockets: Sequence[str]) -> None:
        """Renews the leases of the drones on these sockets."""
        with store_errors():
            await self.collection.update_many(
                {"store.socket": {"$in": list(sockets)}, "status": {"$ne": DroneStatus.OFFLINE}},
                {"$set": {"lastSeenAt": utc_now(), "store.leaseUntil": utc_now() + LEASE}},
            )

    async def by_id(self, drones: Collection[str]) -> dict[str, DroneRegistration]:
        return {drone.id: drone for drone in await self.all({"_id": {"$in": list(drones)}}, limit=len(drones) or 1)}

    async def claim(self, drone: str, turn: str) -> DroneRegistration | None:
        """Claims an available drone for a turn. Returns None when it is not available."""
        return await self.update(
            {"_id": drone, "status": DroneStatus.AVAILABLE, "store.leaseUntil": {"$gt": utc_now()}},
            {"status": DroneStatus.BUSY, "turn": turn, "store.claimedAt": utc_now()},
        )

    async def recent_claim(self, drone: str) -> str | None:
        """Returns the turn that was offered to the drone a moment ago; None when there is none. Ignores an offer over
        an earlier connection, which cannot arrive any more."""
        query = {
            "_id": drone,
            "status": DroneStatus.BUSY,
            "store.claimedAt": {"$gt": utc_now() - _OFFER},
            "$expr": {"$gte": ["$store.claimedAt", "$store.connectedAt"]},
        }
        with store_errors():
            document = await self.collection.find_one(query, {"turn": 1})
        return None if document is None else document["turn"]

    async def release(self, drone: str, turn: str) -> DroneRegistration | None:
        """Undoes a claim that was not used."""
        return await self.update(
            {"_id": drone, "turn": turn, "status": DroneStatus.BUSY}, {"status": DroneStatus.AVAILABLE, "turn": None}
        )

    async def free(self, drone: DroneRegistration, changes: dict[str, Any]) -> DroneRegistration | None:
        """Marks the drone as available. Returns None when it was claimed after it was read."""
        freed = {**changes, "status": DroneStatus.AVAILABLE, "turn": None, "lastSeenAt": utc_now()}
        return await self.update({"_id": drone.id, "turn": drone.turn}, freed)

    async def report(self, drone: str, changes: dict[str, Any]) -> DroneRegistration | None:
        return await self.update({"_id": drone}, {**changes, "lastSeenAt": utc_now()})
