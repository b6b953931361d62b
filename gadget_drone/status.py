"""`gadget-drone status`: what a workspace is and holds, whether or not a drone works in it."""

from pathlib import Path
from typing import Any

from gadget_api.errors import ErrorCode, GadgetError
from gadget_drone.workspace import inspect_workspace


def status(directory: Path) -> dict[str, Any]:
    """As JSON types. Raises GadgetError when there is no such directory."""
    if not directory.is_dir():
        raise GadgetError(ErrorCode.WORKSPACE_REFUSED, f"There is no directory {directory}.")
    view = inspect_workspace(directory.resolve())
    return {
        "workspaceDir": str(view.dir),
        "running": view.pid is not None,
        "pid": view.pid,
        "since": view.since,
        "workspace": view.file.to_wire() if view.file is not None else None,
        "workOrder": view.work_order.to_wire() if view.work_order is not None else None,
        "unacknowledgedTurns": list(view.journals),
        "damagedFiles": list(view.damaged),
    }


def describe(found: dict[str, Any]) -> str:
    """The same for a person."""
    workspace, order = found["workspace"], found["workOrder"]
    lines = [f"Workspace   {found['workspaceDir']}"]
    if workspace is None:
        lines.append("            no drone has worked here yet; start one with gadget-drone")
    else:
        lines.append(f"Id          {workspace['workspaceId']}")
    running = f"runs (process {found['pid']}, since {found['since']})" if found["running"] else "does not run"
    lines.append(f"Drone       {running}")
    if workspace is not None:
        session = workspace["chatSession"]
        lines.append(f"Session     {session['name'] if session else 'none'}")
        projects = ", ".join(project["slug"] for project in workspace["projects"])
        lines.append(f"Projects    {projects or 'none cloned yet'}")
    if order is not None:
        lines.append(f"Turn        {order['turnId']} ({order['status']}): {order['prompt'][:60]}")
    for name in found["damagedFiles"]:
        lines.append(f"Damaged     {name}; it is set aside when a drone starts here")
    return "\n".join(lines)
