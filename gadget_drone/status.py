"""`gadget-drone status`: what a workspace is and holds, and what its drone waits for; also while none works in it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gadget_api.errors import ErrorCode, GadgetError
from gadget_api.workspace_files import WorkOrderFile, WorkspaceFile
from gadget_drone.disk.durable import read_regular
from gadget_drone.turn.journal import Summary, summarize
from gadget_drone.workspace.lock import Holder, holder_of
from gadget_drone.workspace.workspace import GADGET_DIR, REASON, Model


@dataclass(frozen=True)
class WorkspaceView:
    """A workspace as seen from outside, its lock untouched."""

    dir: Path
    file: WorkspaceFile | None
    """None: no drone has worked here, or `workspace.json` is damaged."""
    work_order: WorkOrderFile | None
    holder: Holder | None
    """The drone that works here now."""
    journals: Mapping[str, Summary]
    """Of the turns that are not acknowledged yet, by their ids."""
    waiting_outputs: tuple[int, ...]
    """The sizes, in bytes, of the large outputs that wait to be uploaded."""
    damaged: tuple[str, ...]
    """Names of files that do not parse."""
    set_aside: Mapping[str, str]
    """The `corrupt-<time>/` folders, and why each is there."""


def inspect_workspace(directory: Path) -> WorkspaceView:
    """What `directory` holds; writes nothing. Raises OSError when it cannot be read."""
    gadget_dir = directory / GADGET_DIR
    damaged: list[str] = []

    def load(name: str, model: type[Model]) -> Model | None:
        try:
            return model.model_validate_json(read_regular(gadget_dir / name))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except ValueError:
            damaged.append(name)
            return None

    journals = {path.stem: summarize(path) for path in sorted((gadget_dir / "journal").glob("*.ndjson"))}
    damaged += [f"journal/{turn}.ndjson" for turn, summary in journals.items() if summary.is_damaged]
    return WorkspaceView(
        dir=directory,
        file=load("workspace.json", WorkspaceFile),
        work_order=load("work-order.json", WorkOrderFile),
        holder=holder_of(gadget_dir / "lock"),
        journals=journals,
        waiting_outputs=tuple(path.stat().st_size for path in (gadget_dir / "blobs").glob("*.blob")),
        damaged=tuple(damaged),
        set_aside={folder.name: _reason_in(folder) for folder in sorted(gadget_dir.glob("corrupt-*"))},
    )


def _reason_in(folder: Path) -> str:
    try:
        return (folder / REASON).read_text().strip()
    except (FileNotFoundError, NotADirectoryError):
        return "nobody wrote down why"


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
