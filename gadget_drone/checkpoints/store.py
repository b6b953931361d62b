"""The store of checkpoints: a bare git repository that is written with as few processes as possible.

    config, info/attributes, info/exclude   written by us, and again when they are not what they should be
    index                                   what the work tree was when it was last looked at, with its stat data
    HEAD                                    the commit whose tree the index has; often, not always, a checkpoint
    refs/checkpoints/<time>-<id>            a checkpoint each, a commit without parents: each may be pruned alone
    ../<name>.lock                          one piece of work at a time, in whatever process

A commit's message is its label, and a line of JSON: the checkpoint before it, and what was left out. All block.
"""

import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
import stat
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from gadget_api.checkpoints import CheckpointId
from gadget_api.errors import ErrorCode
from gadget_drone.checkpoints.limits import CheckpointError
from gadget_drone.checkpoints.store_git import GitFailed, StoreGit
from gadget_drone.disk.durable import replace_file

REFS = "refs/checkpoints"
SCRATCH = ".scratch-"
"""Begins, after the store's name, the rest of the name of what is there only during a restore."""
_UNBORN = b"ref: refs/heads/none\n"
_CONFIG = """\
[core]
\trepositoryformatversion = 1
\tbare = false
\tfilemode = true
\tsymlinks = true
\tignorecase = false
\tprecomposeunicode = false
\tprotecthfs = false
\tprotectntfs = false
\tautocrlf = false
\tattributesfile = /dev/null
\thookspath = /dev/null
\tfsmonitor = false
\tuntrackedcache = true
\tpreloadindex = true
\tcompression = 1
\tlogallrefupdates = false
[index]
\tversion = 4
[status]
\tshowuntrackedfiles = all
[gc]
\tauto = 0
[diff]
\trenamelimit = 400
[extensions]
\tobjectformat = {object_format}
"""
# It wins over every .gitattributes: bytes come back as they were. `-working-tree-encoding` would be an error.
_ATTRIBUTES = b"* -text -ident -filter !eol !crlf !working-tree-encoding !diff\n"
_EXCLUDE = b"/.gadget/\n"
_OBJECT_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_KEPT_COMMITS = 256
_PACKED_FROM = 500
"""So many new files go into one pack, which takes half the system time of files of their own."""
_MAX_EXCLUDE_BYTES = 2**20
_LOCK_LOOK_EVERY_S = 0.02


@dataclass(frozen=True)
class Commit:
    id: CheckpointId
    tree: str
    skipped: frozenset[str]
    """Paths that were there and were left out; one that ends in `/` is a whole directory."""


class Store:
    """The store at `dir`; every method but the constructor needs `locked`."""

    def __init__(self, directory: Path, project_dir: Path) -> None:
        self.dir = directory
        self.project_dir = project_dir
        self.notices: list[str] = []
        """What the user should be told, each a sentence; whoever tells them empties it."""
        self.user_objects: str | None = None
        """The object directory of the user's own repository; None where there is none."""
        self._user_exclude: Path | None = None
        self._excludes_file = os.devnull
        self._object_format = "sha1"
        self._is_open = False
        self._commits: dict[CheckpointId, Commit] = {}

    @contextmanager
    def locked(self, git: StoreGit) -> Iterator[None]:
        """Holds the store for this piece of work, and makes it usable. Raises CheckpointError, Stopped."""
        self.dir.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Beside the directory, which may be moved aside.
        lock = os.open(self.dir.with_name(f"{self.dir.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            while not _took(lock):  # who has it may be a git whose drone was killed: nothing tells us of its end
                git.check()
                time.sleep(_LOCK_LOOK_EVERY_S)
            git.lock_fd = lock
            self._open(git)
            git.excludes_file = self._excludes_file
            yield
        finally:
            git.lock_fd = -1
            os.close(lock)

    def head(self, git: StoreGit) -> Commit | None:
        """What the index was when it was last written; None at the start."""
        said = self._head_line()
        if said is None:
            return None
        try:
            return self.commit(git, said)
        except CheckpointError:
            self.forget_index()
            return None

    def commit(self, git: StoreGit, checkpoint: CheckpointId) -> Commit:
        """Raises CheckpointError `checkpointGone`."""
        if checkpoint not in self._commits:
            try:
                raw = git.run("cat-file", "commit", checkpoint)
                commit = _parsed(checkpoint, raw)
            except (GitFailed, ValueError) as error:
                raise gone(checkpoint) from error
            self._keep(commit)
        return self._commits[checkpoint]

    def add_commit(
        self, tree: str, label: str, parent: CheckpointId | None, skipped: frozenset[str], *, is_checkpoint: bool
    ) -> Commit:
        """Writes a commit and makes it HEAD; one that is no checkpoint is gone with the next prune."""
        notes = json.dumps({"parent": parent, "skipped": sorted(skipped)})
        who = f"Gadget Code <checkpoints@localhost> {int(time.time())} +0000"
        subject = " ".join(label.split())[:200] or "checkpoint"
        text = f"tree {tree}\nauthor {who}\ncommitter {who}\n\n{subject}\n\n{notes}\n"
        content = text.encode("utf-8", "replace")
        commit = Commit(self.hash_of("commit", content), tree, skipped)
        self._write_object(commit.id, "commit", content, is_synced=True)
        if is_checkpoint:
            ref = self.dir / REFS / f"{time.time_ns():020d}-{commit.id}"  # by name is by time
            ref.parent.mkdir(mode=0o700, exist_ok=True)
            replace_file(ref, f"{commit.id}\n".encode())
        self.set_head(commit)
        self._keep(commit)
        return commit

    def set_head(self, commit: Commit) -> None:
        if self._head_line() != commit.id:
            self._put("HEAD", f"{commit.id}\n".encode())

    def remove_refs(self, git: StoreGit, refs: Sequence[str]) -> None:
        """Their objects go with the next packing."""
        if refs:
            git.run("update-ref", "--stdin", feed=(f"delete {ref}\n".encode() for ref in refs))
        self._commits.clear()

    def forget_index(self) -> None:
        """The next snapshot reads every file again, and writes every object that is missing."""
        with suppress(FileNotFoundError):
            (self.dir / "index").unlink()
        self._put("HEAD", _UNBORN)

    def move_aside(self, reason: str) -> None:
        """Puts the store into a `corrupt-<time>/` of `.gadget/`, with the reason, and begins an empty one."""
        gadget_dir = self.dir.parents[1]
        for earlier in gadget_dir.glob(f"corrupt-*/{self.dir.name}"):  # one is enough to look at
            shutil.rmtree(earlier, ignore_errors=True)
        corrupt = gadget_dir / f"corrupt-{datetime.now(UTC):%Y%m%dT%H%M%S%fZ}"
        corrupt.mkdir(mode=0o700)
        self.dir.rename(corrupt / self.dir.name)
        with suppress(OSError):  # on a full disk it is set aside without a word
            (corrupt / "reason.txt").write_text(f"{reason}\n")
        self._commits.clear()
        self.notices.append(
            f"The store of checkpoints was damaged ({reason}); it was moved to {corrupt}, and a new one has begun."
        )
        self._lay_out()

    def size_bytes(self, git: StoreGit) -> int:
        total = 0
        for folder, _, files in os.walk(self.dir):
            git.check()
            for name in files:
                with suppress(FileNotFoundError):
                    total += os.lstat(os.path.join(folder, name)).st_size
        return total

    def index_count(self) -> int:
        """How many files the index has; 0 when there is none."""
        with suppress(FileNotFoundError), open(self.dir / "index", "rb") as index:
            return int.from_bytes(index.read(12)[8:12], "big")
        return 0

    @property
    def empty_tree(self) -> str:
        return _hashed(self._object_format, b"tree 0\0")

    def hash_of(self, kind: str, content: bytes) -> str:
        """The id of an object, `kind` as git calls it."""
        return _hashed(self._object_format, f"{kind} {len(content)}\0".encode() + content)

    def add_blobs(self, git: StoreGit, blobs: dict[str, bytes]) -> None:
        """Writes contents, by their ids."""
        if len(blobs) < _PACKED_FROM:
            for name, content in blobs.items():
                self._write_object(name, "blob", content, is_synced=False)
            return
        feed = (b"blob\ndata %d\n%b\n" % (len(content), content) for content in blobs.values())
        git.run("fast-import", "--quiet", "--depth=0", feed=feed)

    def _open(self, git: StoreGit) -> None:
        if not self._is_open:
            self._learn_of_the_user(git)
        self._lay_out()
        for name in ("index.lock", "HEAD.lock", "config.lock", "packed-refs.lock"):  # of a git that was killed
            with suppress(FileNotFoundError):
                (self.dir / name).unlink()
        if not self._is_open:
            for left in self.dir.glob("*.tmp"):
                left.unlink()
            for left in self.dir.parent.glob(f"{self.dir.name}{SCRATCH}*"):
                shutil.rmtree(left, ignore_errors=True)
            self._check_head(git)
            self._is_open = True

    def _learn_of_the_user(self, git: StoreGit) -> None:
        said = git.ask_user(
            *("rev-parse", "--show-object-format", "--show-toplevel"),
            *("--git-path", "info/exclude", "--git-path", "objects"),
        )
        lines = said.split("\n") if said is not None else []
        if len(lines) == 4 and Path(lines[1]) == self.project_dir.resolve():
            self._object_format = lines[0]
            self._user_exclude = self.project_dir / lines[2]
            objects = self.project_dir.resolve() / lines[3]
            # A command may have put a link there, to have the objects of another repository shown.
            self.user_objects = str(objects) if objects.resolve() == objects else None
        named = git.ask_user("config", "--path", "--get", "core.excludesFile")
        base = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
        self._excludes_file = named or os.path.join(base, "git", "ignore")

    def _lay_out(self) -> None:
        """Makes what is missing, and mends what only we write."""
        config = _CONFIG.format(object_format=self._object_format).encode()
        if self._is_of_another_format():
            self.move_aside("the project's repository uses another object format now")
        exclude = _EXCLUDE
        if self._user_exclude is not None:
            exclude += _content_of_users(self._user_exclude)
        try:
            for folder in ("", "objects", "objects/info", "objects/pack", "refs", "info"):
                (self.dir / folder).mkdir(mode=0o700, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            return self.move_aside("it was no directory")
        for name, wanted in (("config", config), ("info/attributes", _ATTRIBUTES), ("info/exclude", exclude)):
            if _content(self.dir / name) != wanted:
                self._put(name, wanted)
        if self._head_line() is None and _content(self.dir / "HEAD") != _UNBORN:
            self._put("HEAD", _UNBORN)

    def _is_of_another_format(self) -> bool:
        config = _content(self.dir / "config") or b""
        found = re.search(rb"objectformat = (\w+)", config)
        return found is not None and found[1].decode() != self._object_format

    def _check_head(self, git: StoreGit) -> None:
        """Whether all of the newest commit is there; the index takes for granted what it names."""
        for written in (self.dir / "objects").glob("??/*"):
            # What a kill leaves, and what a power cut leaves of a file that was not synced.
            if written.suffix == ".tmp" or written.stat().st_size == 0:
                written.unlink()
        head = self._head_line()
        if head is None:
            return
        try:
            listed = git.run("rev-list", "--objects", "--missing=print", "--no-walk", head)
            is_whole = not re.search(rb"^\?", listed, re.MULTILINE)
        except GitFailed:
            is_whole = False
        if not is_whole:
            self.forget_index()
            self.notices.append("Objects were missing from the store of checkpoints; older ones may not come back.")

    def _head_line(self) -> CheckpointId | None:
        said = (_content(self.dir / "HEAD") or b"").decode("ascii", "replace").strip()
        return said if _OBJECT_ID.fullmatch(said) else None

    def _put(self, name: str, data: bytes) -> None:
        """Replaces a file that can be made again: whole after a kill, but not for sure after a power cut."""
        temporary = self.dir / f"{name}.{secrets.token_hex(4)}.tmp"
        with open(temporary, "xb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write(data)
        temporary.replace(self.dir / name)

    def _write_object(self, name: str, kind: str, content: bytes, *, is_synced: bool) -> None:
        path = self.dir / "objects" / name[:2] / name[2:]
        if not path.exists():
            path.parent.mkdir(mode=0o700, exist_ok=True)
            data = zlib.compress(f"{kind} {len(content)}\0".encode() + content, 1)
            replace_file(path, data, is_synced=is_synced)

    def _keep(self, commit: Commit) -> None:
        while len(self._commits) >= _KEPT_COMMITS:
            del self._commits[next(iter(self._commits))]
        self._commits[commit.id] = commit


def gone(checkpoint: CheckpointId) -> CheckpointError:
    return CheckpointError(
        ErrorCode.CHECKPOINT_GONE,
        f"The checkpoint {checkpoint[:12]} is not, or not whole, on this drone any more: choose another one.",
    )


def _parsed(checkpoint: CheckpointId, raw: bytes) -> Commit:
    headers, _, message = raw.decode().partition("\n\n")
    notes = json.loads(message.rpartition("\n\n")[2])
    tree = headers.split("\n")[0].removeprefix("tree ")
    if not _OBJECT_ID.fullmatch(tree):
        raise ValueError("no tree")
    return Commit(checkpoint, tree, frozenset(notes["skipped"]))


def _hashed(object_format: str, data: bytes) -> str:
    return hashlib.new(object_format, data).hexdigest()


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None


def _content_of_users(path: Path) -> bytes:
    """A regular file's, at most 1 MiB; nothing of what a command may have put in its place, such as a pipe."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(fd, _MAX_EXCLUDE_BYTES) if stat.S_ISREG(os.fstat(fd).st_mode) else b""
    finally:
        os.close(fd)


def _took(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
