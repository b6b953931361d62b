"""Drones: registration, and the user's list of them."""

from typing import Any

from fastapi import APIRouter, Request

from gadget_api.drones import DroneChanges, DroneRegistration, DroneStatus, NewDroneToken, NewRegistration, Registered
from gadget_api.errors import Conflict, ErrorCode, NotAllowed
from gadget_api.ids import new_id
from gadget_api.model import utc_now
from gadget_api.protocol import PROTOCOL_VERSION
from gadget_api.tokens import DroneTokenName, TokenKind
from gadget_api.workspace import WorkspaceMode
from gadget_code.routes.access import (
    DEFAULT_LIMIT,
    AnyCaller,
    DroneCaller,
    IdeCaller,
    Limit,
    WithService,
    presented_token,
)
from gadget_code.service import Service
from gadget_code.store.drones import LEASE
from gadget_code.store.records import Page

router = APIRouter(prefix="/drones", tags=["drones"])

_NOT_YOURS = "This token belongs to another workspace; use a new one here."


@router.post("/registrations", status_code=201)
async def register_drone(new: NewRegistration, request: Request, caller: AnyCaller, service: WithService) -> Registered:
    """Registers a drone, with its own token or with a user's. With a user's token it gets one of its own.

    The same workspace is the same registration. A workspace that is online in another place is refused: its folder was
    copied.
    """
    if new.protocol_version not in (None, PROTOCOL_VERSION):
        behind = "the server" if (new.protocol_version or 0) > PROTOCOL_VERSION else "this drone"
        raise Conflict(
            ErrorCode.PROTOCOL_MISMATCH,
            f"The drone speaks protocol {new.protocol_version} and the server {PROTOCOL_VERSION}; update {behind}.",
        )
    drones = service.store.drones
    drone = await drones.find({"user": caller.user, "workspaceId": new.workspace_id})
    if caller.kind is TokenKind.DRONE and caller.drone is not None and (drone is None or drone.id != caller.drone):
        raise NotAllowed(_NOT_YOURS, ErrorCode.WORKSPACE_MISMATCH)
    place = {
        "hostname": new.hostname,
        "workspaceDir": new.workspace_dir,
        "version": new.version,
        "sandbox": new.sandbox and new.sandbox.model_dump(),
    }
    if drone is None:
        drone = await drones.insert(
            DroneRegistration(
                id=new_id(),
                created_at=utc_now(),
                user=caller.user,
                name=new.name or f"{new.hostname}:{new.workspace_dir.rstrip('/').rpartition('/')[2]}"[:200],
                hostname=new.hostname,
                workspace_dir=new.workspace_dir,
                workspace_id=new.workspace_id,
                status=DroneStatus.OFFLINE,
                workspace_mode=WorkspaceMode.IDLE,
                last_seen_at=utc_now(),
                version=new.version,
                sandbox=new.sandbox,
            )
        )
    else:
        if (drone.hostname, drone.workspace_dir) != (new.hostname, new.workspace_dir):
            await _refuse_a_copy(service, drone)
        changes: dict[str, Any] = {
            **place,
            **({"name": new.name} if new.name else {}),
        }
        drone = await drones.update({"_id": drone.id}, changes) or drone
    if caller.kind is TokenKind.DRONE:
        if not await service.store.tokens.bind_drone(caller.token_hash, drone.id):
            raise NotAllowed(_NOT_YOURS, ErrorCode.WORKSPACE_MISMATCH)
        # A workspace has one credential: the one it uses now.
        await service.store.tokens.revoke(drone=drone.id, keep=caller.token_hash)
        token = presented_token(request)
        assert token is not None
    else:
        await service.store.tokens.revoke(drone=drone.id)
        token, _ = await service.store.tokens.issue(caller.user, TokenKind.DRONE, drone=drone.id)
    return Registered(registration=drone, token=token)


async def _refuse_a_copy(service: Service, drone: DroneRegistration) -> None:
    """Raises Conflict when a drone may still be at work on this workspace in another place."""
    place = f"{drone.hostname}:{drone.workspace_dir}"
    if drone.status is not DroneStatus.OFFLINE:
        raise Conflict(
            ErrorCode.WORKSPACE_IN_USE,
            f"This workspace is in use at {place}; delete .gadget/workspace.json here if this folder is a copy of it.",
        )
    turns = await service.store.turns.running_on(drone)
    if turns:
        raise Conflict(
            ErrorCode.WORKSPACE_IN_USE,
            f"The turn {turns[0].id} is at work at {place}, whose connection is lost; if that machine is gone, cancel "
            "the turn first. If this folder is a copy, delete .gadget/workspace.json here.",
        )
    if utc_now() - drone.last_seen_at < LEASE:
        raise Conflict(
            ErrorCode.WORKSPACE_IN_USE, f"This workspace was in use at {place} a moment ago.", retryable=True
        )


@router.post("/tokens", status_code=201)
async def create_drone_token(
    caller: IdeCaller, service: WithService, new: DroneTokenName | None = None
) -> NewDroneToken:
    """Creates a credential for a new drone (GADGET_DRONE_TOKEN). The first workspace that uses it owns it."""
    name = None if new is None else new.name
    token, expires_at = await service.store.tokens.issue(caller.user, TokenKind.DRONE, name=name)
    return NewDroneToken(token=token, expires_at=expires_at)


@router.get("")
async def list_drones(
    caller: IdeCaller, service: WithService, limit: Limit = DEFAULT_LIMIT, cursor: str | None = None
) -> Page[DroneRegistration]:
    return await service.store.drones.page({"user": caller.user}, limit=limit, cursor=cursor, hint="user")


@router.get("/me")
async def get_own_drone(caller: DroneCaller, service: WithService) -> DroneRegistration:
    """Drone only: returns the registration that its token belongs to, for a workspace that has lost its identity."""
    assert caller.drone is not None
    return await service.store.drones.owned(caller.user, caller.drone)


@router.get("/{drone_id}")
async def get_drone(drone_id: str, caller: IdeCaller, service: WithService) -> DroneRegistration:
    return await service.store.drones.owned(caller.user, drone_id)


@router.patch("/{drone_id}")
async def change_drone(
    drone_id: str, changes: DroneChanges, caller: IdeCaller, service: WithService
) -> DroneRegistration:
    drone = await service.store.drones.change({"_id": drone_id, "user": caller.user}, changes)
    await service.rooms.emit_drone(drone)
    return drone


@router.delete("/{drone_id}", status_code=204)
async def revoke_drone(drone_id: str, caller: IdeCaller, service: WithService) -> None:
    """Revokes the drone's credential at once; its connection closes within 5 s."""
    drone = await service.store.drones.owned(caller.user, drone_id)
    await service.store.tokens.revoke(drone=drone.id)
    await service.store.drones.delete(caller.user, drone.id)
