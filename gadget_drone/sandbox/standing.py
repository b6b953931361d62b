"""The sandbox that stands while commands come and go.

bubblewrap makes it once, around a program that waits; its namespaces are taken from there, and the supervisor of
commands lives in them (`enter.py`). Once it is made it is compared with what was wanted: bubblewrap follows links, and
a command that runs may put one anywhere in the project meanwhile. It is used again only while it is what a fresh one
would be. Three things could make it another, and are compared before each command:

- its command line, which names the project, the policy, what is hidden;
- the mounts. The kernel takes one away from everywhere when its place is removed or renamed over on the machine, as git
  does with `.git/config`; and what the machine mounts may come in, or be missing;
- what is at the paths that are shown or hidden in it: another file or directory under the old name.
"""

import asyncio
import errno
import fcntl
import json
import os
import re
import signal
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

from gadget_drone.disk.links import Identity, identity_without_links, open_without_links
from gadget_drone.git.settings import Settings, below, user_files, user_settings
from gadget_drone.processes.environment import child_environment
from gadget_drone.processes.programs import find_ripgrep
from gadget_drone.processes.supervised import Namespaces, NotStarted, Supervised, Supervisor
from gadget_drone.sandbox.known import KnownRepositories
from gadget_drone.sandbox.wrap import Mount, Plan, Wrapping, look_at_machine, wrap

MAKE_S = 5.0
LOOK_AGAIN_S = 60.0
"""After this time, what the machine has is looked at again: somebody may have put a key into /etc."""
_HOLDER = ("/bin/sh", "-c", "echo made; read -r end")
"""Is there until its input ends."""
_OUTER = ("cgroup", "uts", "net", "mnt")
_ESCAPED = re.compile(rb"\\([0-7]{3})")
"""How `mountinfo` writes blanks in a path."""
_NS_GET_USERNS = 0xB701  # ioctl_ns(2)


@dataclass(frozen=True)
class _Made:
    command_line: tuple[str, ...]
    identities: tuple[Identity | None, ...]
    """Of what it depends on, noted before it was made: a change while it was made counts as one after that."""
    outside: bytes
    """The mounts of the machine, noted then, too."""
    inside: IO[bytes]
    """`mountinfo` as the sandbox's own processes would read it."""
    mounts: bytes
    namespaces: Namespaces

    def is_as_fresh(self, wanted: Wrapping) -> bool:
        return (
            self.command_line == wanted.command_line
            and self.mounts == _read(self.inside)
            and self.outside == _mounts_of_the_machine()
            and self.identities == _identities(wanted)
        )

    def close(self) -> None:
        self.inside.close()
        self.namespaces.close()


class Standing:
    """One at a time, for a drone: the last one that was wanted. `shown`: what of the machine commands may read, too;
    the files that the user's git configuration names are among it.

    Whenever a command is over, what it left in the repositories of its project is removed."""

    def __init__(self, workspace_dir: Path, shown: Sequence[str] = ()) -> None:
        self._workspace_dir = workspace_dir
        ripgrep = find_ripgrep()  # which the tools run in it
        self._shown = shown if ripgrep is None else (*shown, ripgrep)
        self._users_git: tuple[Settings, list[str]] | None = None
        """What a command's git is told, as the user's home is not there: settings, and the files that they name."""
        self._repositories = KnownRepositories(workspace_dir)
        self._running: dict[Supervised, Path] = {}
        """With their projects."""
        self._notes: dict[Path, list[str]] = {}
        self._over: set[Path] = set()
        """The projects whose last turn has ended: what a command leaves there is all looked for."""
        self._machine: Plan | None = None
        self._looked_at = 0.0
        self._made: _Made | None = None
        self._making = asyncio.Lock()
        self._supervisor = Supervisor()

    async def start(
        self,
        command: Sequence[str],
        env: Mapping[str, str],
        *,
        project_dir: Path,
        output: int,
        errors: int | None = None,
        stdin: int | None = None,
        network: bool,
        hidden: Sequence[Path] = (),
        read_only: Sequence[Path] = (),
        repositories: Sequence[str] = (),
    ) -> Supervised:
        """Runs a command in `project_dir` in the sandbox; see `wrap` for what it may, `Supervisor.start` for the rest.

        `env` must hold no secrets. Raises NotStarted; nothing runs outside of the sandbox then.
        """
        if self._users_git is None:
            self._users_git = await asyncio.to_thread(lambda: (user_settings(), user_files()))
        settings, files = self._users_git
        self._over.discard(project_dir)
        try:
            known = self._repositories.add(project_dir, repositories)
        except OSError as error:
            raise NotStarted(error.errno, f"the sandbox cannot be made: {error.strerror}") from error
        is_again = False
        while True:
            machine = await self._looked_at_machine(anew=is_again)
            try:
                wanted = wrap(
                    env,
                    project_dir=project_dir,
                    workspace_dir=self._workspace_dir,
                    network=network,
                    hidden=hidden,
                    read_only=read_only,
                    repositories=known,
                    shown=(*self._shown, *files),
                    machine=machine,
                )
            except OSError as error:
                raise NotStarted(error.errno, f"the sandbox cannot be made: {error.strerror or error}") from error
            async with self._making:
                try:
                    await self._make_where_needed(wanted)
                except NotStarted as error:
                    if is_again or error.errno == errno.ELOOP:
                        raise
                    is_again = True  # something of the machine may be gone since it was looked at
                    continue
                # Nothing may be awaited between the comparison and this.
                environment = below(wanted.environment(env), settings)
                running = self._supervisor.start(
                    command,
                    cwd=project_dir,
                    env=environment,
                    output=output,
                    errors=errors,
                    stdin=stdin,
                    clean_up=self._ended,
                )
                self._running[running] = project_dir
                return running

    async def mend(self, project_dir: Path, *, turn_ends: bool = False) -> list[str]:
        """Removes what the commands that run have left in the project's repositories so far. Answers what was removed
        since this was last asked, in sentences for the model."""
        if turn_ends:
            self._over.add(project_dir)
        if turn_ends or project_dir in self._running.values():
            await self._mend(project_dir)
        return self._notes.pop(project_dir, [])

    async def _ended(self, running: Supervised) -> None:
        await self._mend(self._running.pop(running))

    async def _mend(self, project_dir: Path) -> None:
        if project_dir in self._over:
            nothing_runs = project_dir not in self._running.values()
            notes = await asyncio.to_thread(self._repositories.look_back, project_dir, nothing_runs=nothing_runs)
        else:
            notes = await asyncio.to_thread(self._repositories.mend, project_dir)
        if notes:
            self._notes[project_dir] = [*self._notes.get(project_dir, ()), *notes]

    async def _looked_at_machine(self, *, anew: bool) -> Plan:
        if self._machine is None or anew or time.monotonic() - self._looked_at > LOOK_AGAIN_S:
            self._machine, self._looked_at = await asyncio.to_thread(look_at_machine), time.monotonic()
        return self._machine

    async def _make_where_needed(self, wanted: Wrapping) -> None:
        if self._made is None or not self._made.is_as_fresh(wanted):
            made = await _make(wanted)
            self._supervisor.move_to(made.namespaces)
            if self._made is not None:
                self._made.close()
            self._made = made

    async def close(self) -> None:
        """Ends all that runs in it, and in those before it. Takes 4 seconds at most."""
        await asyncio.gather(*(running.kill() for running in tuple(self._running)))
        self._supervisor.close()
        if self._made is not None:
            self._made.close()
            self._made = None


async def _make(wanted: Wrapping) -> _Made:
    identities, outside = _identities(wanted), _mounts_of_the_machine()
    for mount in wanted.mounts:  # bubblewrap would make what is missing where a link leads
        try:
            identity_without_links(mount.source or mount.place)
        except OSError as error:
            raise NotStarted(error.errno, f"the sandbox cannot be made: {mount.place}: {error.strerror}") from error
    try:
        async with asyncio.timeout(MAKE_S):
            with ExitStack() as undo:
                async with _holder(wanted.command_line) as pid:
                    inside, namespaces = _taken_from(f"/proc/{pid}")
                    undo.callback(inside.close)
                    undo.callback(namespaces.close)
                    _check(wanted, f"/proc/{pid}/root", _read(inside))
                undo.pop_all()
                return _Made(wanted.command_line, identities, outside, inside, _read(inside), namespaces)
    except TimeoutError as error:
        raise NotStarted(error.errno, f"bubblewrap did not make the sandbox within {MAKE_S:g} s") from error
    except NotStarted:
        raise
    except OSError as error:
        raise NotStarted(error.errno, f"the sandbox cannot be entered: {error.strerror}") from error


@asynccontextmanager
async def _holder(command_line: Sequence[str]) -> AsyncIterator[int]:
    """The id of a process that is in the sandbox for as long as this lasts. Raises OSError."""
    told, tells = os.pipe()
    with os.fdopen(told, "rb") as info:
        starting = asyncio.ensure_future(
            asyncio.create_subprocess_exec(
                *(*command_line, "--info-fd", str(tells), "--", *_HOLDER),
                cwd="/",
                env=child_environment(),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                pass_fds=[tells],
                process_group=0,
            )
        )
        try:
            # Cancelled itself, it would end the one process that it knows.
            await asyncio.wait([starting])
        except asyncio.CancelledError:
            await _end(await starting)
            raise
        finally:
            os.close(tells)
        process = starting.result()
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            if not await process.stdout.readline():
                said = (await process.stderr.read()).decode("utf-8", "replace").strip()
                raise NotStarted(errno.EPERM, said or "bubblewrap gave no reason")
            yield json.loads(info.read())["child-pid"]
        finally:
            await _end(process)


async def _end(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        # All of them: a child that bubblewrap has just begun waits for it, and would for ever.
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


def _taken_from(holder: str) -> tuple[IO[bytes], Namespaces]:
    """`holder`: the directory of a process of the sandbox."""
    with ExitStack() as undo:

        def opened(path: str) -> int:
            fd = os.open(path, os.O_RDONLY)
            undo.callback(os.close, fd)
            return fd

        def identity(fd: int) -> tuple[int, int]:
            found = os.fstat(fd)
            return found.st_dev, found.st_ino

        def own(name: str) -> tuple[int, int]:
            found = os.stat(f"/proc/self/ns/{name}")
            return found.st_dev, found.st_ino

        outer = [opened(f"{holder}/ns/{name}") for name in _OUTER]
        users = opened(f"{holder}/ns/user")
        # As an ordinary user bubblewrap makes two namespaces of users: the mounts belong to the one without the other.
        owner = fcntl.ioctl(outer[-1], _NS_GET_USERNS)
        undo.callback(os.close, owner)
        entered = [fd for name, fd in zip(_OUTER, outer, strict=True) if identity(fd) != own(name)]
        if identity(owner) != own("user"):
            entered.insert(0, owner)
        user = users if identity(users) not in (identity(owner), own("user")) else None
        kept = (*entered, *(() if user is None else (user,)))
        inside = os.fdopen(os.open(f"{holder}/mountinfo", os.O_RDONLY), "rb", buffering=0)
        undo.pop_all()
        for fd in {*outer, users, owner} - {*kept}:
            os.close(fd)
        return inside, Namespaces(tuple(entered), user)


def _check(wanted: Wrapping, root: str, mountinfo: bytes) -> None:
    """Raises NotStarted where a mount in the project is not what was wanted: a command may have put a link there."""
    made: dict[int, tuple[str, bytes, list[bytes]]] = {}
    for line in mountinfo.split(b"\n"):
        before, _, after = line.partition(b" - ")
        if not after:
            continue
        number, _, _, _, place, flags, *_ = before.split(b" ")
        plain = _ESCAPED.sub(lambda found: bytes([int(found[1], 8)]), place)
        made[int(number)] = os.fsdecode(plain), after.split(b" ")[0], flags.split(b",")
    for mount in wanted.mounts:
        if not _is_right(mount, root, made):
            raise NotStarted(errno.ELOOP, f"the sandbox cannot be made: {mount.place} changed meanwhile. Try again")


def _is_right(mount: Mount, root: str, made: Mapping[int, tuple[str, bytes, list[bytes]]]) -> bool:
    """Whether the place itself is that mount: another one may have covered it."""
    try:
        fd = open_without_links(mount.place, root)
    except OSError:
        return False
    try:
        place, kind, flags = made.get(_mount_id(fd), ("", b"", []))
        if place != mount.place or (mount.is_read_only and b"ro" not in flags):
            return False
        if mount.source is None:
            return kind == b"tmpfs"
        found = os.fstat(fd)
        return identity_without_links(mount.source) == (found.st_dev, found.st_ino)
    except OSError:
        return False
    finally:
        os.close(fd)


def _mount_id(fd: int) -> int:
    with open(f"/proc/self/fdinfo/{fd}", "rb") as info:
        return next(int(line.split()[1]) for line in info if line.startswith(b"mnt_id:"))


def _mounts_of_the_machine() -> bytes:
    with open("/proc/self/mountinfo", "rb", buffering=0) as file:
        return _read(file)


def _read(mountinfo: IO[bytes]) -> bytes:
    mountinfo.seek(0)
    return b"".join(iter(partial(mountinfo.read, 2**16), b""))


def _identities(wrapping: Wrapping) -> tuple[Identity | None, ...]:
    return tuple(map(_identity, wrapping.paths))


def _identity(path: str) -> Identity | None:
    """None for what does not exist."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
