"""Which drone has a session's terminals, and their end with the session. What they say only passes through here."""

from gadget_api.drones import DroneRegistration, DroneStatus
from gadget_api.errors import Conflict, ErrorCode
from gadget_api.sessions import ChatSession
from gadget_api.terminals import CloseTerminals
from gadget_code.sockets.rooms import Rooms
from gadget_code.store.database import Store


async def terminal_host(store: Store, session: ChatSession) -> DroneRegistration:
    """The drone in the session's workspace, connected; where it has none yet the one that was chosen, or the only one
    that is connected. Raises Conflict."""
    drones = await store.drones.all({"user": session.user})
    chosen = session.lock.drone_id if session.lock is not None else session.drone
    found = next((drone for drone in drones if drone.workspace_id == session.workspace_id), None)
    found = found or next((drone for drone in drones if drone.id == chosen), None)
    if found is None:
        here = [drone for drone in drones if drone.status is not DroneStatus.OFFLINE]
        if not here:
            raise Conflict(
                ErrorCode.DRONE_OFFLINE,
                "No drone is connected; start one with `gadget-drone` in a workspace directory.",
                retryable=True,
            )
        if len(here) > 1:
            raise Conflict(
                ErrorCode.DRONE_OFFLINE,
                "This session has no workspace yet; choose a drone for it, or send its first prompt.",
            )
        found = here[0]
    if found.status is DroneStatus.OFFLINE:
        raise Conflict(
            ErrorCode.DRONE_OFFLINE,
            f"{found.name} is offline; start it with `gadget-drone` in {found.workspace_dir}.",
            retryable=True,
        )
    return found


async def close_terminals(store: Store, rooms: Rooms, user: str, session: str) -> None:
    """The session is gone: its terminals end. A drone that is away asks when it is back."""
    for drone in await store.drones.all({"user": user}):
        if drone.status is not DroneStatus.OFFLINE:
            await rooms.tell_drone(drone.id, "closeTerminals", CloseTerminals(chat_session_id=session))
