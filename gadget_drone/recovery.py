"""What an earlier run of the drone left in `.gadget/`, and how a turn goes on from it.

Wherever one of these functions is cut off, the next start finds files from which it can begin again.
"""

import logging
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import orjson
from pydantic import ValidationError

from gadget_api.commands import CrashRecoveryResponse, RecoveryAction
from gadget_api.errors import Conflict, ErrorCode
from gadget_api.events import turn_event
from gadget_drone.agent.resumption import Resumption, rebuilt, resumed
from gadget_drone.journal import Journal, JournalDamaged
from gadget_drone.workspace import Workspace

log = logging.getLogger(__name__)

_SUFFIX = ".ndjson"


@dataclass(frozen=True)
class LeftTurn:
    """A turn whose end the server has not acknowledged."""

    turn_id: str
    chat_session_id: str


def journal_path(workspace: Workspace, turn: str) -> Path:
    """Raises Conflict."""
    if not turn.isalnum():
        raise Conflict(ErrorCode.INVALID_REQUEST, "This turn's id cannot name a file.")
    return workspace.journal_dir / f"{turn}{_SUFFIX}"


def find_left_turn(workspace: Workspace) -> LeftTurn | None:
    """The turn of `work-order.json`; where that is missing or damaged, the one of the newest journal with an event."""
    order = workspace.load_work_order()
    if order is not None:
        return LeftTurn(order.turn_id, order.chat_session_id)
    journals = [path for path in workspace.journal_dir.glob(f"*{_SUFFIX}") if path.is_file()]
    for path in sorted(journals, key=lambda path: path.stat().st_mtime_ns, reverse=True):
        with suppress(ValueError):
            if (session := _session_of(path)) is not None:
                return LeftTurn(path.stem, session)
    return None


def clear_up(workspace: Workspace) -> None:
    """At the start: removes half-written files, and sets aside journals of turns that nobody goes on with."""
    try:
        left = find_left_turn(workspace)
        for folder in (workspace.gadget_dir, workspace.journal_dir):
            for half_written in folder.glob(".*.tmp"):
                half_written.unlink()
        for path in workspace.journal_dir.iterdir():
            if left is not None and path.name == f"{left.turn_id}{_SUFFIX}" and path.is_file():
                continue
            if path.is_file() and _is_without_events(path):
                path.unlink()  # the drone died before it had said yes to the turn
                continue
            moved = workspace.move_aside(path, "No turn that this drone works on has this journal.")
            workspace.warnings.append(f"The journal of a turn that is not known here any more was moved to {moved}.")
    except OSError as exc:
        workspace.warnings.append(f"{workspace.gadget_dir} could not be cleared up: {exc}.")


def load_journal(workspace: Workspace, turn: str) -> Journal | None:
    """None when it is missing, or damaged (then it is set aside). Raises OSError."""
    path = journal_path(workspace, turn)
    try:
        journal = Journal.load(path)
        try:
            for event in journal.unacked():
                turn_event.validate_python(event)
        except ValidationError:
            journal.close()
            raise
        return journal
    except FileNotFoundError:
        return None
    except (JournalDamaged, ValidationError, IsADirectoryError) as exc:
        moved = workspace.move_aside(path, f"This journal cannot be read: {exc.__cause__ or exc}")
        log.warning("The journal of turn %s cannot be read; it was moved to %s.", turn, moved)
        return None


def go_on(workspace: Workspace, response: CrashRecoveryResponse, journal: Journal | None) -> tuple[Journal, Resumption]:
    """The journal to go on with as the server answered; `journal` is that one, or closed. Raises OSError: then what is
    on the disk can be gone on with as before."""
    if journal is not None and response.action is RecoveryAction.RESUME:
        journal.ack(response.acked_seq)
        journal.rewrite(epoch=response.epoch)
        return journal, resumed(journal.started_calls())
    if journal is not None:
        journal.close()
    return Journal.create(journal_path(workspace, response.turn_id), base_seq=response.acked_seq), rebuilt()


def forget(workspace: Workspace, turn: str) -> None:
    """Removes what there is of a turn that is over here. Raises OSError."""
    # In this order: a work order without its journal is asked about once more, a journal alone could be taken for a
    # turn that is left.
    journal_path(workspace, turn).unlink(missing_ok=True)
    workspace.remove_work_order()


def _session_of(path: Path) -> str | None:
    """The session in the first event of a journal; None when it has no event. Raises ValueError: it is damaged."""
    with path.open("rb") as lines:
        for line in lines:
            event = orjson.loads(line)
            if not isinstance(event, dict):
                raise ValueError("this is no event")
            if "acked" not in event:
                return str(event.get("chatSessionId"))
    return None


def _is_without_events(path: Path) -> bool:
    try:
        return _session_of(path) is None
    except ValueError:
        return False
