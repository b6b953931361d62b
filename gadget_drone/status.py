"""`gadget-drone status`: what a workspace is and holds, and what its drone waits for; also while none works in it."""

from pathlib import Path
from typing import Any

from gadget_api.errors import ErrorCode, GadgetError
from gadget_drone.workspace import inspect_workspace
from gadget_drone.workspace_lock import Holder


def status(directory: Path) -> dict[str, Any]:
    """As JSON types. Raises GadgetError when there is no such directory."""
    if not directory.is_dir():
        raise GadgetError(ErrorCode.WORKSPACE_REFUSED, f"There is no directory {directory}.")
    view = inspect_workspace(directory.resolve())
    holder = view.holder or Holder()
    return {
        "workspaceDir": str(view.dir),
        "running": view.holder is not None,
        "pid": holder.pid,
        "since": holder.since,
        "connected": holder.is_connected,
        "connectionSince": holder.connection_since,
        "loopLag": holder.loop_lag.to_wire() if holder.loop_lag is not None else None,
        "workspace": view.file.to_wire() if view.file is not None else None,
        "workOrder": view.work_order.to_wire() if view.work_order is not None else None,
        "unacknowledgedTurns": [
            {
                "turnId": turn,
                "epoch": journal.epoch,
                "stepCount": journal.step_count,
                "eventCount": journal.event_count,
                "sizeBytes": journal.size_bytes,
            }
            for turn, journal in view.journals.items()
        ],
        "waitingOutputs": {"count": len(view.waiting_outputs), "sizeBytes": sum(view.waiting_outputs)},
        "damagedFiles": list(view.damaged),
        "setAside": [{"folder": folder, "reason": reason} for folder, reason in view.set_aside.items()],
    }


def describe(found: dict[str, Any]) -> str:
    """The same for a person."""
    workspace, order, outputs = found["workspace"], found["workOrder"], found["waitingOutputs"]
    lines = [f"Workspace   {found['workspaceDir']}"]
    if workspace is None:
        lines.append("            no drone has worked here yet; start one with gadget-drone")
    else:
        lines.append(f"Id          {workspace['workspaceId']}")
    running = f"runs (process {found['pid']}, since {found['since']})" if found["running"] else "does not run"
    lines.append(f"Drone       {running}")
    if found["running"]:
        lines.append(f"Server      {_connection(found)}")
        if (lag := found["loopLag"]) is not None:
            lines.append(
                f"Event loop  blocked for {lag['blockedMs']} ms at most (late, with others: {lag['maxMs']} ms)"
            )
    if workspace is not None:
        session = workspace["chatSession"]
        lines.append(f"Session     {session['name'] if session else 'none'}")
        projects = ", ".join(project["slug"] for project in workspace["projects"])
        lines.append(f"Projects    {projects or 'none cloned yet'}")
    if order is not None:
        lines.append(f"Turn        {order['turnId']} ({order['status']}): {order['prompt'][:60]}")
    for turn in found["unacknowledgedTurns"]:
        known = [f"epoch {turn['epoch']}"] if turn["epoch"] is not None else []
        known += [f"{turn['stepCount']} steps"] if turn["stepCount"] is not None else []
        known.append(f"{turn['eventCount']} events ({turn['sizeBytes']} bytes) that the server has to take")
        lines.append(f"Journal     {turn['turnId']}: {', '.join(known)}")
    if outputs["count"]:
        lines.append(f"Outputs     {outputs['count']} ({outputs['sizeBytes']} bytes) wait to be uploaded")
    for name in found["damagedFiles"]:
        lines.append(f"Damaged     {name}; it is set aside when a drone starts here")
    for aside in found["setAside"]:
        lines.append(f"Set aside   {aside['folder']}: {aside['reason']}")
    return "\n".join(lines)


def _connection(found: dict[str, Any]) -> str:
    if found["connectionSince"] is None:
        return "not connected yet"
    return f"{'connected' if found['connected'] else 'not connected'} since {found['connectionSince']}"
