"""Finds the drone whose workspace has a session's files."""

from gadget_api.drones import DroneRegistration, DroneStatus
from gadget_api.errors import Conflict, ErrorCode
from gadget_api.sessions import ChatSession
from gadget_api.work_order import OrderProject
from gadget_code.store.database import MongoStore


async def holder_of(store: MongoStore, user: str, workspace: str | None) -> DroneRegistration:
    """Returns the user's connected drone of the workspace. Raises Conflict."""
    drone = None
    if workspace is not None:
        drone = await store.drones.find({"user": user, "workspaceId": workspace})
    if drone is None:
        raise Conflict(
            ErrorCode.DRONE_OFFLINE,
            "The drone that had these files was removed; only the conversation can be reverted.",
        )
    return connected(drone)


async def drone_of(store: MongoStore, session: ChatSession) -> DroneRegistration:
    """Returns the connected drone that has the session's files: of the last turn, else the locked or chosen one, else
    the only connected one. Raises Conflict."""
    if session.workspace_id is not None:
        worked = await store.drones.find({"user": session.user, "workspaceId": session.workspace_id})
        if worked is not None:
            return connected(worked)
    chosen = session.lock.drone_id if session.lock is not None else session.drone
    if chosen is not None:
        drone = await store.drones.find({"user": session.user, "_id": chosen})
        if drone is None:
            raise Conflict(ErrorCode.DRONE_OFFLINE, "The drone chosen for this session was removed; choose another.")
        return connected(drone)
    drones = await store.drones.all({"user": session.user})
    online = [drone for drone in drones if drone.status is not DroneStatus.OFFLINE]
    if len(online) == 1:
        return online[0]
    raise Conflict(
        ErrorCode.DRONE_OFFLINE,
        "This session has no workspace yet: choose a drone for it, or send a prompt."
        if online
        else "This session has no workspace yet, and no drone is connected: start one with `gadget-drone`.",
    )


def connected(drone: DroneRegistration) -> DroneRegistration:
    """Returns the drone. Raises Conflict when it is offline."""
    if drone.status is DroneStatus.OFFLINE:
        raise Conflict(
            ErrorCode.DRONE_OFFLINE,
            f"{drone.name} has these files and is offline; start it with `gadget-drone` in {drone.workspace_dir}.",
            retryable=True,
        )
    return drone


async def order_project(store: MongoStore, session: ChatSession) -> OrderProject:
    """Returns the session's project for a drone."""
    project = await store.projects.owned(session.user, session.project)
    return OrderProject(id=project.id, name=project.name, slug=project.slug, git_url=project.git_url)
