import asyncio
import json
import os
import shutil
import stat
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest

from gadget_api.drones import LoopLag
from gadget_api.errors import ErrorCode, GadgetError
from gadget_api.ids import new_id
from gadget_api.model import utc_now
from gadget_api.workspace_files import LockedSession, WorkOrderFile
from gadget_drone.status import inspect_workspace, status
from gadget_drone.workspace.workspace import Workspace
from tests.gadget_drone.conftest import git, project_at

HOLD = """
import pathlib, sys
from gadget_drone.workspace.workspace import Workspace
workspace = Workspace.open(pathlib.Path(sys.argv[1]), hostname="h")
print("open", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    place = tmp_path / "workspace"
    place.mkdir()
    return place


def on_disk(place: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((place / ".gadget/workspace.json").read_text())
    return document


def work_order() -> WorkOrderFile:
    return WorkOrderFile(
        turn_id=new_id(),
        chat_session_id=new_id(),
        project_id=new_id(),
        work_order_id=new_id(),
        received_at=utc_now(),
        prompt="Do it: ü",
        status="processing",
    )


def test_a_new_workspace_is_private_and_named(place: Path) -> None:
    with Workspace.open(place, hostname="box") as workspace:
        assert workspace.warnings == []
        assert uuid.UUID(workspace.file.workspace_id).version == 4
        assert on_disk(place)["workspaceDir"] == str(place)
        assert on_disk(place)["hostname"] == "box"
        assert (place / ".gadget/.gitignore").read_text() == "*\n"
        for path in (workspace.gadget_dir, workspace.journal_dir, workspace.logs_dir, workspace.blobs_dir):
            assert stat.S_IMODE(path.stat().st_mode) == 0o700
        for name in ("workspace.json", "lock", ".gitignore"):
            assert stat.S_IMODE((place / ".gadget" / name).stat().st_mode) == 0o600


def test_an_identity_stays_and_changes_are_kept(place: Path) -> None:
    with Workspace.open(place, hostname="box") as workspace:
        identity = workspace.file.workspace_id
        session = LockedSession(id=new_id(), name="Chat", locked_at=utc_now())
        workspace.update(chat_session=session)
    with Workspace.open(place, hostname="box") as workspace:
        assert workspace.file.workspace_id == identity
        assert workspace.file.chat_session == session
        assert workspace.warnings == []


def test_a_missing_directory_is_made_if_its_parent_is_there(place: Path) -> None:
    with Workspace.open(place / "new", hostname="box") as workspace:
        assert workspace.dir == place / "new"


@pytest.mark.parametrize("kind", ["file", "no_parent", "home", "root", "gadget_file", "gadget_link", "dangling"])
def test_what_cannot_be_a_workspace_is_refused_in_plain_words(kind: str, place: Path, home: Path) -> None:
    (place / "file").touch()
    (place / "dangling").symlink_to("nowhere")
    if kind == "gadget_file":
        (place / ".gadget").touch()
    if kind == "gadget_link":
        (place / ".gadget").symlink_to(home)
    where = {"no_parent": place / "a/b", "home": home, "root": Path("/")}.get(kind, place / kind)
    where = place if kind.startswith("gadget") else where
    with pytest.raises(GadgetError) as refused:
        Workspace.open(where, hostname="box")
    assert refused.value.code is ErrorCode.WORKSPACE_REFUSED
    assert ": " in refused.value.message
    assert not (home / ".gadget").exists()
    assert list(home.iterdir()) == []


def test_a_directory_that_cannot_be_written_is_refused(place: Path) -> None:
    place.chmod(0o500)
    # Modes do not keep root out; a file system that takes no files does.
    for where in [Path("/proc/self"), *([place] if os.geteuid() else [])]:
        with pytest.raises(GadgetError, match="make it writable") as refused:
            Workspace.open(where, hostname="box")
        assert refused.value.code is ErrorCode.WORKSPACE_REFUSED


async def test_a_second_daemon_is_refused_until_the_first_is_killed(place: Path) -> None:
    first = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOLD, str(place), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert first.stdout is not None
    assert await asyncio.wait_for(first.stdout.readline(), 20) == b"open\n"
    before = on_disk(place)
    with pytest.raises(GadgetError, match=f"process {first.pid}, since 20") as refused:
        Workspace.open(place, hostname="other")
    assert refused.value.code is ErrorCode.WORKSPACE_IN_USE
    assert on_disk(place) == before
    holder = inspect_workspace(place).holder
    assert holder is not None
    assert (holder.pid, holder.since is not None, holder.connection_since) == (first.pid, True, None)
    first.kill()
    await first.communicate()
    assert inspect_workspace(place).holder is None
    Workspace.open(place, hostname="h").close()


def test_the_holder_says_whether_it_is_connected(place: Path) -> None:
    with Workspace.open(place, hostname="box") as workspace:
        for is_connected in (True, False, True):
            workspace.note_connection(is_connected=is_connected)
            holder = inspect_workspace(place).holder
            assert holder is not None
            assert (holder.pid, holder.is_connected) == (os.getpid(), is_connected)
            assert holder.connection_since is not None


def test_the_holder_says_how_late_its_event_loop_was_and_who_it_is_stays(place: Path) -> None:
    lag = LoopLag(max_ms=123456, blocked_ms=77, over_50_ms=12, over_250_ms=3)
    with Workspace.open(place, hostname="box") as workspace:
        workspace.note_lag(lag)
        holder = inspect_workspace(place).holder
        assert holder is not None
        assert (holder.pid, holder.loop_lag, holder.connection_since) == (os.getpid(), lag, None)
        workspace.note_connection(is_connected=True)
        holder = inspect_workspace(place).holder
        assert holder is not None
        assert (holder.loop_lag, holder.is_connected) == (lag, True)
        assert status(place)["loopLag"] == {"maxMs": 123456, "blockedMs": 77, "over50Ms": 12, "over250Ms": 3}


def test_a_child_that_outlives_the_daemon_does_not_keep_the_lock(place: Path) -> None:
    workspace = Workspace.open(place, hostname="box")
    child = subprocess.Popen(["sleep", "60"], close_fds=False)
    workspace.close()
    workspace.close()
    Workspace.open(place, hostname="box").close()
    child.kill()
    child.wait()


@pytest.mark.parametrize(
    "damage", [b"", b"{", b"[]", b"\xff\0", b'{"workspaceId": "x"}', b'{"version": "9"}', b"null", b"1"]
)
def test_a_damaged_identity_is_set_aside_and_made_anew(damage: bytes, place: Path) -> None:
    with Workspace.open(place, hostname="box") as workspace:
        old = workspace.file.workspace_id
    (place / ".gadget/workspace.json").write_bytes(damage)
    with Workspace.open(place, hostname="box") as workspace:
        assert workspace.file.workspace_id != old
        assert len(workspace.warnings) == 1
    (aside,) = (place / ".gadget").glob("corrupt-*/workspace.json")
    assert aside.read_bytes() == damage
    with Workspace.open(place, hostname="box") as workspace:
        assert workspace.warnings == []


def test_an_identity_that_is_no_uuid_is_damaged(place: Path) -> None:
    Workspace.open(place, hostname="box").close()
    (place / ".gadget/workspace.json").write_text(json.dumps(on_disk(place) | {"workspaceId": "../../x"}))
    with Workspace.open(place, hostname="box") as workspace:
        assert len(workspace.warnings) == 1


def test_a_newer_workspace_is_left_as_it_is(place: Path) -> None:
    Workspace.open(place, hostname="box").close()
    newer = json.dumps(on_disk(place) | {"version": 2, "somethingNew": True})
    (place / ".gadget/workspace.json").write_text(newer)
    with pytest.raises(GadgetError, match="update gadget-drone") as refused:
        Workspace.open(place, hostname="box")
    assert refused.value.code is ErrorCode.WORKSPACE_TOO_NEW
    assert (place / ".gadget/workspace.json").read_text() == newer


def test_a_moved_workspace_knows_where_it_is(place: Path, tmp_path: Path) -> None:
    with Workspace.open(place, hostname="box") as workspace:
        identity = workspace.file.workspace_id
    shutil.move(place, tmp_path / "moved")
    with Workspace.open(tmp_path / "moved", hostname="other") as workspace:
        assert workspace.file.workspace_id == identity
        assert len(workspace.warnings) == 1
        assert on_disk(tmp_path / "moved")["workspaceDir"] == str(tmp_path / "moved")
        assert on_disk(tmp_path / "moved")["hostname"] == "other"


def test_a_work_order_is_kept_until_removed(place: Path) -> None:
    with Workspace.open(place, hostname="box") as workspace:
        assert workspace.load_work_order() is None
        order = work_order()
        workspace.save_work_order(order)
        assert workspace.load_work_order() == order
        assert inspect_workspace(place).work_order == order
        workspace.remove_work_order()
        workspace.remove_work_order()
        assert workspace.load_work_order() is None


def test_a_damaged_work_order_is_set_aside(place: Path) -> None:
    with Workspace.open(place, hostname="box") as workspace:
        (place / ".gadget/work-order.json").write_text('{"turnId": ')
        assert inspect_workspace(place).damaged == ("work-order.json",)
        assert workspace.load_work_order() is None
        assert len(workspace.warnings) == 1
        assert len(list((place / ".gadget").glob("corrupt-*/work-order.json"))) == 1


def test_a_full_disk_leaves_the_old_file(place: Path) -> None:
    script = """
import pathlib, resource, signal, sys
from gadget_drone.workspace.workspace import Workspace
workspace = Workspace.open(pathlib.Path(sys.argv[1]), hostname="h")
before = workspace.file
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20, 20))
try:
    workspace.update(hostname="changed")
except OSError:
    assert workspace.file == before
    sys.exit(7)
"""
    assert subprocess.run([sys.executable, "-c", script, str(place)], timeout=20).returncode == 7
    assert on_disk(place)["hostname"] == "h"
    assert not list((place / ".gadget").glob("*.tmp"))
    assert not list((place / ".gadget").glob(".*.tmp"))


@pytest.mark.parametrize("kind", ["root", "below", "worktree", "submodule"])
def test_git_never_sees_the_gadget_directory(kind: str, place: Path, origin: Path) -> None:
    git(place, "clone", "-q", str(origin), "main")
    where = place / "main"
    if kind == "below":
        where = where / "sub"
        where.mkdir()
    elif kind == "worktree":
        git(where, "worktree", "add", "-q", "../tree")
        where = place / "tree"
    elif kind == "submodule":
        git(where, "submodule", "--quiet", "add", str(origin), "module")
        git(where, "commit", "-q", "-m", "Module")
        where = where / "module"
    for _ in range(2):
        Workspace.open(where, hostname="box").close()
    exclude = Path(where, git(where, "rev-parse", "--git-path", "info/exclude"))
    assert exclude.read_text().splitlines().count(".gadget/") == 1
    (where / ".gadget/.gitignore").unlink()
    assert git(where, "status", "--porcelain", "--untracked-files=all") == ""


def test_a_project_has_its_directory_below_the_workspace(place: Path, tmp_path: Path) -> None:
    with Workspace.open(place, hostname="box") as workspace:
        assert workspace.project_dir(project_at("https://example.org/x", "x.y-1")) == place / "x.y-1"
        for slug in ("..", ".gadget", "a/b", "", "/etc", "A", "a\n"):
            with pytest.raises(GadgetError):
                workspace.project_dir(project_at("https://example.org/x", slug))
        (place / "link").symlink_to(tmp_path)
        with pytest.raises(GadgetError, match="symlink"):
            workspace.project_dir(project_at("https://example.org/x", "link"))


def test_a_workspace_that_is_the_projects_checkout_is_its_directory(place: Path, origin: Path) -> None:
    git(place, "clone", "-q", str(origin), ".")
    with Workspace.open(place, hostname="box") as workspace:
        for url in (str(origin), f"file://{origin}", str(place), f"file://{place}"):
            assert workspace.project_dir(project_at(url)) == place
        assert workspace.project_dir(project_at("https://example.org/hello")) == place / "hello"
        git(place, "remote", "set-url", "origin", "https://example.org/hello.git")
        assert workspace.project_dir(project_at("https://example.org/hello")) == place


def test_a_directory_that_was_never_a_workspace_can_be_inspected(place: Path) -> None:
    view = inspect_workspace(place)
    assert (view.file, view.holder, view.work_order) == (None, None, None)
    assert not view.journals
    assert not view.damaged
    assert list(place.iterdir()) == []


def test_opening_asks_git_one_thing_that_is_quick(
    place: Path, origin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(place, "clone", "-q", str(origin), ".")
    noting = tmp_path / "bin" / "git"
    noting.parent.mkdir()
    noting.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\nexec {shutil.which("git")} "$@"\n')
    noting.chmod(0o755)
    monkeypatch.setenv("PATH", str(noting.parent), prepend=os.pathsep)
    Workspace.open(place, hostname="box").close()
    [asked] = (tmp_path / "asked").read_text().splitlines()
    assert " rev-parse " in asked  # it looks at no file of the project
