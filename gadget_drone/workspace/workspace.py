"""The workspace: the directory a drone works in, and its `.gadget/`.

Everything here blocks for as long as a small file takes to reach the disk; where a function starts git, it says so.
"""

import json
import os
import re
import stat
import threading
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self, TypeVar

import orjson
from pydantic import TypeAdapter, ValidationError

from gadget_api.drones import LoopLag
from gadget_api.errors import ErrorCode, GadgetError
from gadget_api.model import WireModel, utc_now
from gadget_api.projects import Slug
from gadget_api.work_order import OrderProject
from gadget_api.workspace_files import WORKSPACE_VERSION, WorkOrderFile, WorkspaceFile
from gadget_drone.disk.durable import read_regular, remove_file, replace_file
from gadget_drone.disk.links import let_in
from gadget_drone.git.clone import ask_git, is_checkout_of
from gadget_drone.processes.programs import keep_out_of
from gadget_drone.sandbox.repositories import mend_common, remove_links
from gadget_drone.workspace.lock import note_connection, note_lag, take_lock

GADGET_DIR = ".gadget"
REASON = "reason.txt"
"""In a `corrupt-<time>/`: why the other file is there."""
_FOLDERS = ("journal", "logs", "blobs", "images", "checkpoints", "home", "tmp")
_NOT_LOOKED_AT = re.compile(r"home|tmp|corrupt-.*|workspace\.json|work-order\.json")
"""What commands have made, and the drone does not read; what was set aside; what is set aside when it is read."""
_LEVELS = 3
_WORKSPACE_ID = re.compile(
    rb'"workspaceId"\s*:\s*"([0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12})"'
)
_slug = TypeAdapter[str](Slug)
Model = TypeVar("Model", bound=WireModel)


@dataclass
class Workspace:
    """An open workspace; its lock is held until `close`, or until this process dies."""

    dir: Path
    file: WorkspaceFile
    """`workspace.json`, as it is on the disk."""
    warnings: list[str]
    """What the user should be told about the opening, each a sentence."""
    has_lost_id: bool
    """Whether the id in `workspace.json` could not be read any more: this one is new."""
    _lock_fd: int = field(repr=False)
    _writing: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @classmethod
    def open(cls, directory: Path, *, hostname: str) -> Self:
        """Takes `directory` (made, where only its last part is missing) as this process's workspace. Starts git.

        Raises GadgetError: `workspaceRefused`, `workspaceInUse`, `workspaceTooNew`.
        """
        directory = _usable(directory)
        keep_out_of(directory)
        try:
            gadget_dir = _make_gadget_dir(directory)
            lock_fd = take_lock(gadget_dir / "lock")
            try:
                warnings: list[str] = []
                _set_odd_files_aside(gadget_dir, warnings)
                file, has_lost_id = _load_workspace_file(directory, hostname, warnings)
                _exclude_from_git(directory, warnings)
            except BaseException:
                os.close(lock_fd)
                raise
        except OSError as error:
            raise _refused(
                f"{directory} cannot be a workspace ({error.strerror}): make it writable for this user, or choose "
                "another directory with --workspace."
            ) from error
        return cls(directory, file, warnings, has_lost_id, lock_fd)

    def close(self) -> None:
        """Frees the lock; closing again does nothing."""
        fd, self._lock_fd = self._lock_fd, -1
        if fd >= 0:
            os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def gadget_dir(self) -> Path:
        return self.dir / GADGET_DIR

    @property
    def journal_dir(self) -> Path:
        return self.gadget_dir / "journal"

    @property
    def logs_dir(self) -> Path:
        return self.gadget_dir / "logs"

    @property
    def blobs_dir(self) -> Path:
        return self.gadget_dir / "blobs"

    @property
    def images_dir(self) -> Path:
        return self.gadget_dir / "images"

    @property
    def checkpoints_dir(self) -> Path:
        return self.gadget_dir / "checkpoints"

    def note_connection(self, *, is_connected: bool) -> None:
        """For `gadget-drone status`."""
        with suppress(OSError, ValueError):  # nothing depends on it
            note_connection(self._lock_fd, is_connected=is_connected)

    def note_lag(self, lag: LoopLag) -> None:
        """For `gadget-drone status`."""
        with suppress(OSError, ValueError):  # nothing depends on it
            note_lag(self._lock_fd, lag)

    def update(self, **changes: Any) -> WorkspaceFile:
        """Changes `workspace.json`, where this is news; `changes` by Python names. In any thread. Raises OSError, and
        then nothing has changed."""
        with self._writing:
            changed = self.file.replace(**changes)
            if changed != self.file:
                _save(self.gadget_dir / "workspace.json", changed)
                self.file = changed
            return changed

    def load_work_order(self) -> WorkOrderFile | None:
        """The accepted work order; None when there is none. A damaged one is moved aside, with a warning."""
        path = self.gadget_dir / "work-order.json"
        try:
            return WorkOrderFile.model_validate_json(read_regular(path))
        except FileNotFoundError:
            return None
        except ValueError:
            moved = self.move_aside(path, "This is no work order.")
            self.warnings.append(f"The work order of this workspace was damaged; it was moved to {moved}.")
            return None

    def save_work_order(self, order: WorkOrderFile) -> None:
        """Raises OSError; the work order is then as it was."""
        _save(self.gadget_dir / "work-order.json", order)

    def remove_work_order(self) -> None:
        remove_file(self.gadget_dir / "work-order.json")

    def move_aside(self, path: Path, reason: str) -> Path:
        """Moves a damaged file of `.gadget/` to a `corrupt-<time>/` there, with the reason; where it is now."""
        return _move_aside(self.gadget_dir, path, reason)

    def project_dir(self, project: OrderProject) -> Path:
        """Where the project's checkout is, or belongs. Starts git. Raises GadgetError `workspaceRefused`."""
        try:
            slug = _slug.validate_python(project.slug)
        except ValidationError as error:
            raise _refused("The project's slug cannot name a directory: change it in the project.") from error
        place = self.dir / slug
        for directory in (self.dir, place):
            git = f"{directory}/.git"
            with suppress(OSError):  # git says what it cannot read
                let_in(str(directory), git)
                mend_common(git)
                remove_links(git)  # what a command left after its turn
        if is_checkout_of(self.dir, project.git_url):
            return self.dir
        if place.is_symlink():
            raise _refused(f"{place} is a symlink: move it away, or start the drone where it leads.")
        return place


def _refused(message: str) -> GadgetError:
    return GadgetError(ErrorCode.WORKSPACE_REFUSED, message)


def _usable(directory: Path) -> Path:
    directory = directory.expanduser().absolute()
    if not directory.exists() and directory.parent.is_dir() and not directory.is_symlink():
        try:
            directory.mkdir()
        except OSError as error:
            raise _refused(f"{directory} cannot be made ({error.strerror}): choose another directory.") from error
    if not directory.exists():
        raise _refused(f"There is no directory {directory}: make it first, or choose another with --workspace.")
    if not directory.is_dir():
        raise _refused(f"{directory} is not a directory: choose a directory with --workspace.")
    directory = directory.resolve()
    if directory == Path(directory.anchor):
        raise _refused("The root directory cannot be a workspace: choose a directory of its own with --workspace.")
    if directory == Path.home().resolve():
        raise _refused("Your home directory cannot be a workspace: choose a directory of its own with --workspace.")
    if not str(directory).isprintable():
        raise _refused(f"The name {str(directory)!r} is not printable text: choose a directory with --workspace.")
    if not os.access(directory, os.W_OK | os.X_OK):
        raise _refused(f"{directory} is read-only: make it writable for this user, or choose another directory.")
    return directory


def _make_gadget_dir(directory: Path) -> Path:
    gadget_dir = directory / GADGET_DIR
    for folder in (gadget_dir, *(gadget_dir / name for name in _FOLDERS)):
        if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
            raise _refused(f"{folder} is not a directory: move it away.")
        folder.mkdir(mode=0o700, exist_ok=True)
        if stat.S_IMODE(folder.stat().st_mode) != 0o700:
            folder.chmod(0o700)
    ignore = gadget_dir / ".gitignore"
    if not ignore.exists():
        replace_file(ignore, b"*\n")
    return gadget_dir


def _set_odd_files_aside(gadget_dir: Path, warnings: list[str]) -> None:
    """Moves links, pipes and the like away: a repository may bring a `.gadget/`, and a link in it may lead anywhere."""
    for path in list(_odd_files(gadget_dir, _LEVELS)):
        moved = _move_aside(gadget_dir, path, f"{path.relative_to(gadget_dir)} is no regular file.")
        warnings.append(f"{path} is no regular file; it was moved to {moved}.")


def _odd_files(directory: Path, levels: int) -> Iterator[Path]:
    with os.scandir(directory) as entries:
        for entry in entries:
            if levels == _LEVELS and _NOT_LOOKED_AT.fullmatch(entry.name):
                continue
            if entry.is_dir(follow_symlinks=False):
                if levels > 1:
                    yield from _odd_files(Path(entry.path), levels - 1)
            elif not entry.is_file(follow_symlinks=False):
                yield Path(entry.path)


def _load_workspace_file(directory: Path, hostname: str, warnings: list[str]) -> tuple[WorkspaceFile, bool]:
    """And whether the id that was there is lost."""
    gadget_dir = directory / GADGET_DIR
    path = gadget_dir / "workspace.json"
    has_lost_id = False
    try:
        file = _parse_workspace_file(read_regular(path))
    except FileNotFoundError:
        file = _fresh_workspace_file(directory, hostname, None)
    except ValueError:
        known = _workspace_id_in(path)
        has_lost_id = known is None
        moved = _move_aside(gadget_dir, path, "This does not describe a workspace.")
        now = "this is now a new workspace" if has_lost_id else "its id was still to be read"
        warnings.append(f"workspace.json was damaged and moved to {moved}; {now}.")
        file = _fresh_workspace_file(directory, hostname, known)
    else:
        if (file.hostname, file.workspace_dir) == (hostname, str(directory)):
            return file, False
        warnings.append(
            f"This workspace was at {file.workspace_dir} on {file.hostname} before; if that one is still in use, "
            f"remove {path} here."
        )
        file = file.replace(hostname=hostname, workspace_dir=str(directory))
    _save(path, file)
    return file, has_lost_id


def _fresh_workspace_file(directory: Path, hostname: str, workspace_id: str | None) -> WorkspaceFile:
    return WorkspaceFile(
        workspace_id=workspace_id or str(uuid.uuid4()),
        created_at=utc_now(),
        hostname=hostname,
        workspace_dir=str(directory),
    )


def _workspace_id_in(path: Path) -> str | None:
    """The id in a `workspace.json` that does not parse, where one can be made out: with it the server still knows the
    drone, and the turn it left."""
    try:
        found = _WORKSPACE_ID.search(read_regular(path))
    except ValueError:
        return None
    return found[1].decode() if found is not None else None


def _parse_workspace_file(data: bytes) -> WorkspaceFile:
    """Raises ValueError when it is damaged."""
    version = (document := orjson.loads(data)) and isinstance(document, dict) and document.get("version")
    if isinstance(version, int) and version > WORKSPACE_VERSION:
        raise GadgetError(ErrorCode.WORKSPACE_TOO_NEW, "A newer gadget-drone made this workspace: update gadget-drone.")
    file = WorkspaceFile.model_validate_json(data)
    if uuid.UUID(file.workspace_id).version != 4:
        raise ValueError("workspaceId is not a UUID v4")
    return file


def _save(path: Path, model: WireModel) -> None:
    replace_file(path, json.dumps(model.to_wire(), indent=2, ensure_ascii=False).encode() + b"\n")


def _move_aside(gadget_dir: Path, path: Path, reason: str) -> Path:
    corrupt = gadget_dir / f"corrupt-{datetime.now(UTC):%Y%m%dT%H%M%S%fZ}"
    corrupt.mkdir(mode=0o700)
    moved = path.rename(corrupt / path.name)
    with suppress(OSError):  # on a full disk it is set aside without a word
        (corrupt / REASON).write_text(f"{reason}\n")
    return moved


def _leads_elsewhere(exclude: Path) -> bool:
    """Whether writing to the exclude file `info/exclude` of a git directory would write to something else."""
    git_dir = exclude.parent.parent
    is_link = exclude.is_symlink() or exclude.parent.is_symlink() or git_dir.is_symlink()
    return is_link or (exclude.exists() and not exclude.is_file())


def _exclude_from_git(directory: Path, warnings: list[str]) -> None:
    """Names `.gadget/` in the exclude file of the repository that `directory` is in, if any: no `git add` takes it."""
    try:
        answer = ask_git(directory, "rev-parse", "--is-inside-work-tree", "--git-path", "info/exclude")
    except GadgetError as error:
        warnings.append(f"Whether {GADGET_DIR}/ is in a repository is not known: {error.message}")
        return
    if answer is None or not answer.startswith("true\n"):
        return
    exclude = directory / answer.removeprefix("true\n")
    if _leads_elsewhere(exclude):
        warnings.append(f"{GADGET_DIR}/ is not named in {exclude}: that is no file, or a link leads to it.")
        return
    try:
        text = exclude.read_text(errors="surrogateescape") if exclude.exists() else ""
        if f"{GADGET_DIR}/" in text.splitlines():
            return
        exclude.parent.mkdir(exist_ok=True)
        with exclude.open("a") as file:
            file.write(f"{GADGET_DIR}/\n" if not text or text.endswith("\n") else f"\n{GADGET_DIR}/\n")
    except OSError as error:
        warnings.append(f"{GADGET_DIR}/ could not be named in {exclude} ({error.strerror}).")
