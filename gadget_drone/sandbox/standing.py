"""The sandbox that stands while commands come and go.

bubblewrap makes it once, around a program that waits; its namespaces are taken from there, and the supervisor of commands
lives in them (`enter.py`). Making it takes as long as ten commands.

It is used again only while it is what a fresh one would be. Three things could make it another: its command line (which
names the policy, the project, what is hidden); what the machine has mounted, or no longer has in the sandbox (the kernel
takes a mount away from everywhere when its place is removed or renamed over on the machine: git replaces `.git/config` so);
and another file or directory under the name of one that is shown in it. All three are compared before each command.
"""

import asyncio
import fcntl
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

from gadget_drone.environment import child_environment
from gadget_drone.sandbox.wrap import Wrapping, wrap
from gadget_drone.supervised import Namespaces, NotStarted, Supervised, Supervisor

MAKE_S = 5.0
_HOLDER = ("/bin/sh", "-c", "echo made; read -r end")
"""Is there until its input ends."""
_OUTER = ("cgroup", "uts", "net", "mnt")
_NS_GET_USERNS = 0xB701  # ioctl_ns(2)

Identity = tuple[int, int] | None
"""Device and inode; None for what does not exist."""


class NoNamespaces(NotStarted):
    """The sandbox cannot be made; `strerror` says why."""


@dataclass(frozen=True)
class _Made:
    command_line: tuple[str, ...]
    identities: tuple[Identity, ...]
    """Of what is shown in it, noted before it was made: a change while it was made counts as one after that."""
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
    """One at a time, for a drone: the last one that was wanted."""

    def __init__(self) -> None:
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
        stdin: int | None = None,
        workspace_dir: Path,
        network: bool,
        hidden: Sequence[Path] = (),
        read_only: Sequence[Path] = (),
    ) -> Supervised:
        """Runs a command in `project_dir` in the sandbox; see `wrap` for what it may, `Supervisor.start` for the rest.

        `env` must hold no secrets. Raises NotStarted; nothing runs outside of the sandbox then.
        """
        wanted = wrap(
            env,
            project_dir=project_dir,
            workspace_dir=workspace_dir,
            network=network,
            hidden=hidden,
            read_only=read_only,
        )
        async with self._making:
            if self._made is None or not self._made.is_as_fresh(wanted):
                made = await _make(wanted)
                self._supervisor.move_to(made.namespaces)
                if self._made is not None:
                    self._made.close()
                self._made = made
            # Nothing may be awaited between the comparison and this.
            environment = wanted.environment(env)
            return self._supervisor.start(command, cwd=project_dir, env=environment, output=output, stdin=stdin)

    def close(self) -> None:
        """Ends all that runs in it, and all that was left in those before it."""
        self._supervisor.close()
        if self._made is not None:
            self._made.close()
            self._made = None


async def _make(wanted: Wrapping) -> _Made:
    identities, outside = _identities(wanted), _mounts_of_the_machine()
    told, tells = os.pipe()
    with os.fdopen(told, "rb") as info:
        try:
            process = await asyncio.create_subprocess_exec(
                *(*wanted.command_line, "--info-fd", str(tells), "--", *_HOLDER),
                cwd="/",
                env=child_environment(),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                pass_fds=[tells],
            )
        except OSError as error:
            raise NoNamespaces(error.errno, f"bubblewrap does not start: {error.strerror}") from error
        finally:
            os.close(tells)
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        try:
            async with asyncio.timeout(MAKE_S):
                if not await process.stdout.readline():
                    said = (await process.stderr.read()).decode("utf-8", "replace").strip()
                    raise NoNamespaces(0, said or "bubblewrap gave no reason")
                holder = json.loads(info.read())["child-pid"]
                inside, namespaces = _taken_from(f"/proc/{holder}")
                process.stdin.close()
                await process.wait()
        except TimeoutError as error:
            raise NoNamespaces(0, f"bubblewrap did not make the sandbox within {MAKE_S:g} s") from error
        except OSError as error:
            if isinstance(error, NoNamespaces):
                raise
            raise NoNamespaces(error.errno, f"the sandbox cannot be entered: {error.strerror}") from error
        finally:
            with suppress(ProcessLookupError):
                process.kill()
    return _Made(wanted.command_line, identities, outside, inside, _read(inside), namespaces)


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
        inside = open(f"{holder}/mountinfo", "rb", buffering=0)
        undo.pop_all()
        for fd in {*outer, users, owner} - {*kept}:
            os.close(fd)
        return inside, Namespaces(tuple(entered), user)


def _mounts_of_the_machine() -> bytes:
    with open("/proc/self/mountinfo", "rb", buffering=0) as file:
        return _read(file)


def _read(mountinfo: IO[bytes]) -> bytes:
    mountinfo.seek(0)
    return b"".join(iter(partial(mountinfo.read, 2**16), b""))


def _identities(wrapping: Wrapping) -> tuple[Identity, ...]:
    return tuple(map(_identity, wrapping.sources))


def _identity(path: str) -> Identity:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
