"""Drones as documents. Each is a lease as well: of the workspace, for the socket it is reached over; and of the turn it
names. It runs out unless the web process that holds the socket renews it, and then the drone counts as offline."""

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
"""What a drone says of itself may be older than an offer on its way: longer than one takes (10 s)."""
LEASE = timedelta(seconds=15)
"""From one renewal. A web process that dies has its drones offline after this; it renews every 4 s."""


class DroneStore(Records[DroneRegistration]):
    def __init__(self, collection: AsyncCollection[Document]) -> None:
        super().__init__(collection, DroneRegistration, "drone")

    def read(self, document: Document) -> DroneRegistration:
        """With `offline` as the status of a drone whose lease has run out."""
        until = document.get("store", {}).get("leaseUntil")
        if document["status"] != DroneStatus.OFFLINE and (until is None or until < utc_now()):
            document["status"] = DroneStatus.OFFLINE
        return super().read(document)

    async def connected(self, drone: str, socket: str) -> DroneRegistration | None:
        """Notes that the drone is reached over `socket` now (the latest connection counts)."""
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
        """Notes that `socket` is closed; None when the drone has connected anew meanwhile."""
        return await self.update(
            {"_id": drone, "store.socket": socket}, {"status": DroneStatus.OFFLINE, "lastSeenAt": utc_now()}
        )

    async def renew(self, sockets: Sequence[str]) -> None:
        """Renews the leases of the drones that are reached over these sockets."""
        with store_errors():
            await self.collection.update_many(
                {"store.socket": {"$in": list(sockets)}, "status": {"$ne": DroneStatus.OFFLINE}},
                {"$set": {"lastSeenAt": utc_now(), "store.leaseUntil": utc_now() + LEASE}},
            )

    async def by_id(self, drones: Collection[str]) -> dict[str, DroneRegistration]:
        return {drone.id: drone for drone in await self.all({"_id": {"$in": list(drones)}}, limit=len(drones) or 1)}

    async def claim(self, drone: str, turn: str) -> DroneRegistration | None:
        """Takes an available drone for a turn; None when it is not available (any more)."""
        return await self.update(
            {"_id": drone, "status": DroneStatus.AVAILABLE, "store.leaseUntil": {"$gt": utc_now()}},
            {"status": DroneStatus.BUSY, "turn": turn, "store.claimedAt": utc_now()},
        )

    async def recent_claim(self, drone: str) -> str | None:
        """The turn that is being offered to the drone, or that it has just taken; None when there is none. An offer
        that was made over a connection before this one reaches it no more."""
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
        """Undoes a claim that came to nothing."""
        return await self.update(
            {"_id": drone, "turn": turn, "status": DroneStatus.BUSY}, {"status": DroneStatus.AVAILABLE, "turn": None}
        )

    async def free(self, drone: DroneRegistration, changes: dict[str, Any]) -> DroneRegistration | None:
        """Notes that the drone works on nothing; None when it was claimed since it was read."""
        freed = {**changes, "status": DroneStatus.AVAILABLE, "turn": None, "lastSeenAt": utc_now()}
        return await self.update({"_id": drone.id, "turn": drone.turn}, freed)

    async def report(self, drone: str, changes: dict[str, Any]) -> DroneRegistration | None:
        return await self.update({"_id": drone}, {**changes, "lastSeenAt": utc_now()})
