"""Drone registrations and their presence: a drone is online while a web process keeps saying so."""

from collections.abc import Sequence
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
]

_OFFER = timedelta(seconds=15)
"""What a drone says of itself may be older than an offer on its way: longer than one takes (10 s)."""
PRESENCE = timedelta(seconds=30)
"""How long a drone counts as online after the web process that holds its socket last said so."""


class DroneStore(Records[DroneRegistration]):
    def __init__(self, collection: AsyncCollection[Document]) -> None:
        super().__init__(collection, DroneRegistration, "drone")

    def read(self, document: Document) -> DroneRegistration:
        """With `offline` as the status of a drone whose presence has run out."""
        online_until = document.get("store", {}).get("onlineUntil")
        if document["status"] != DroneStatus.OFFLINE and (online_until is None or online_until < utc_now()):
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
                "store.onlineUntil": utc_now() + PRESENCE,
            },
        )

    async def disconnected(self, drone: str, socket: str) -> DroneRegistration | None:
        """Notes that `socket` is closed; None when the drone has connected anew meanwhile."""
        return await self.update(
            {"_id": drone, "store.socket": socket}, {"status": DroneStatus.OFFLINE, "lastSeenAt": utc_now()}
        )

    async def still_here(self, drones: Sequence[str]) -> None:
        with store_errors():
            await self.collection.update_many(
                {"_id": {"$in": list(drones)}},
                {"$set": {"lastSeenAt": utc_now(), "store.onlineUntil": utc_now() + PRESENCE}},
            )

    async def claim(self, drone: str, turn: str) -> DroneRegistration | None:
        """Takes an available drone for a turn; None when it is not available (any more)."""
        return await self.update(
            {"_id": drone, "status": DroneStatus.AVAILABLE, "store.onlineUntil": {"$gt": utc_now()}},
            {"status": DroneStatus.BUSY, "turn": turn, "store.claimedAt": utc_now()},
        )

    async def was_just_claimed(self, drone: str) -> str | None:
        """The turn that is being offered to the drone, or that it has just taken; None when there is none."""
        with store_errors():
            document = await self.collection.find_one(
                {"_id": drone, "status": DroneStatus.BUSY, "store.claimedAt": {"$gt": utc_now() - _OFFER}}, {"turn": 1}
            )
        return None if document is None else document["turn"]

    async def release(self, drone: str, turn: str) -> DroneRegistration | None:
        """Undoes a claim that came to nothing."""
        return await self.update(
            {"_id": drone, "turn": turn, "status": DroneStatus.BUSY}, {"status": DroneStatus.AVAILABLE, "turn": None}
        )

    async def report(self, drone: str, changes: dict[str, Any]) -> DroneRegistration | None:
        return await self.update({"_id": drone}, {**changes, "lastSeenAt": utc_now()})
