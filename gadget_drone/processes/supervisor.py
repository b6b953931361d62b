"""Runs commands, each under a process of its own that ends with everything the command has started, in whatever way.

    LINK_FD [NAMESPACE_FDS USER_FD]

One such program serves a drone for as long as LINK_FD, a Unix socket, is open: a fork of it is there in a millisecond,
where a fresh interpreter took 18. It is made before its command comes, while nobody waits. For each command one byte
comes, the number of descriptors with it: a socket that belongs to this command alone, what the command prints to, what
its errors go to, and, where it has an input, that. The fork takes them, closes the link, and takes the rest from its
own socket:

    four bytes, big-endian: the length of what follows
    the directory, the number of words of the command, the words, NAME=VALUE...; a NUL (none can have one) between them

The command's first word is the path of a program; from here come its resource limits and its user, and its input where
that is empty, nothing else. Back goes one line: when the command did not start, an errno; when it has ended, the id of
its process group, its status (minus the signal that killed it), and whether something that it started still runs (1 or
0). The socket closes when nothing does any more.

When the drone closes its end, or only the direction to here - it lets go of the command, or is dead - all is ended:
SIGTERM (in a terminal SIGHUP, as shells ignore the other), and SIGKILL after `GRACE_S`. The drone alone has that end:
this program never does, so no copy hides its death.
The forks are in sessions of their own and do not need this program any more.

On Linux orphans become children of the fork (it is their subreaper), so that neither a second fork nor setsid gets them
away. Elsewhere the command's process group is all that is known.

With the descriptors of a sandbox's namespaces (`sandbox/enter.py`; USER_FD is empty where the sandbox has no users of
its own) it enters that first, and each command runs there: the fork is the first of the command's own namespace of
processes, with no more rights than the command. The process group that it tells is then 0: nobody outside can name it.

It imports little, and of ours only what enters a sandbox: its memory is what a fork copies.
"""

import ctypes
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import suppress

from gadget_drone.processes.enter import Inside

GRACE_S = 2.0
"""Between being asked to end and SIGKILL; with the rest it keeps a cancel under the 5 s that are promised."""
_SETTLE_S = 0.05
"""How long what a command leaves may take to end with it, before it counts as left: a sandbox outlives it shortly."""
_GIVE_UP_S = 60.0
"""What does not die of SIGKILL hangs in the kernel."""
_LOOK_EVERY_S = 0.02
_LOOK_AT_GROUP_S = 1.0
_PR_SET_CHILD_SUBREAPER = 36
_ALL_SIGNALS = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
"""A command ignores none at first. What starts a drone in the background ignores SIGINT, and Ctrl+C would do nothing in
its terminals."""


def main() -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps the forks
    link_fd, *sandbox = sys.argv[1:]
    link = socket.socket(fileno=int(link_fd))
    try:
        inside = _enter(*sandbox) if sandbox else None
    except OSError as error:
        while _refuse(link, error):
            pass
        return
    while True:
        taken, takes = os.pipe()
        try:
            pid = os.fork() if inside is None else inside.fork()
        except OSError as error:
            os.close(taken)
            os.close(takes)
            if not _refuse(link, error):
                return
            continue
        if pid == 0:
            try:
                os.close(taken)
                _serve(link, takes, inside)
            finally:
                os._exit(0)
        os.close(takes)
        os.read(taken, 1)  # until it is closed there
        os.close(taken)
        if _is_closed(link):
            return


def _enter(namespaces: str, user: str) -> Inside:
    return Inside([int(fd) for fd in namespaces.split(",")], int(user) if user else None)


def _take(link: socket.socket) -> tuple[socket.socket, list[int]] | None:
    """The next command's socket and streams; None when the drone has closed the link, or no descriptor is to be had."""
    count, fds, _, _ = socket.recv_fds(link, 1, 4)
    if not count or len(fds) < count[0]:
        return None
    for fd in fds:
        os.set_inheritable(fd, False)
    return socket.socket(fileno=fds[0]), fds[1:]


def _refuse(link: socket.socket, error: OSError) -> bool:
    """Tells the next command that it cannot start; whether there was one."""
    command = _take(link)
    if command is None:
        return False
    drone, streams = command
    _say(drone, error.errno)
    drone.close()
    for stream in streams:
        os.close(stream)
    return True


def _is_closed(link: socket.socket) -> bool:
    try:
        return not link.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False


def _serve(link: socket.socket, takes: int, inside: Inside | None) -> None:
    """The fork for the next command, and everything that need not wait for it; `takes` is closed when it has come."""
    os.setsid()
    is_subreaper = _become_subreaper()
    child_ended, wake = os.pipe()
    for fd in (child_ended, wake):
        os.set_blocking(fd, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    refusal = None
    try:
        if inside is not None:
            inside.confine()
    except OSError as error:
        refusal = error
    command = _take(link)
    os.close(takes)
    link.close()
    if command is None:
        return
    drone, streams = command
    with drone:  # closed before the memory is given back: the drone waits for that
        if refusal is not None:
            return _say(drone, refusal.errno)
        _supervise(drone, streams, is_subreaper, child_ended, is_inside=inside is not None)


def _supervise(
    drone: socket.socket,
    streams: Sequence[int],
    is_subreaper: bool,
    child_ended: int,
    *,
    is_inside: bool,
) -> None:
    """`streams` are the command's output, its errors and, where it has one, its input."""
    output, errors, *stdin = streams
    is_terminal = os.isatty(output)
    try:
        size = int.from_bytes(drone.recv(4, socket.MSG_WAITALL), "big")
        message = drone.recv(size, socket.MSG_WAITALL)
        if select.select([drone], [], [], 0)[0]:
            return  # let go of before it began
        directory, count, *rest = message.split(b"\0")
        words, variables = rest[: int(count)], rest[int(count) :]
        os.chdir(directory)
        command = os.posix_spawn(
            words[0],
            words,
            dict(variable.split(b"=", 1) for variable in variables),
            file_actions=_in_terminal(output) if is_terminal else _in_streams(output, errors, stdin),
            setsid=True,
            setsigdef=_ALL_SIGNALS,
        )
    except OSError as error:
        return _say(drone, error.errno)
    for stream in streams:
        os.close(stream)

    def is_anything_left() -> bool:
        """Whether something runs; reaps what has ended, and reports the command's end."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                left = not is_subreaper and _is_group_alive(command)
                break
            if pid == 0:
                left = True
                break
            if pid == command:
                ended.append((os.waitstatus_to_exitcode(status), time.monotonic()))
        if ended and not reported and (not left or time.monotonic() - ended[0][1] > _SETTLE_S):
            reported.append(True)
            _say(drone, 0 if is_inside else command, ended[0][0], int(left))
        return left

    ended: list[tuple[int, float]] = []
    reported: list[bool] = []
    wait_s = None if is_subreaper else _LOOK_AT_GROUP_S
    while is_anything_left():
        settles = ended and not reported
        ready, _, _ = select.select([drone.fileno(), child_ended], [], [], _LOOK_EVERY_S if settles else wait_s)
        if child_ended in ready:
            os.read(child_ended, 512)
        if drone.fileno() in ready:
            break
    asked = signal.SIGHUP if is_terminal else signal.SIGTERM
    for number, within_s in ((asked, GRACE_S), (signal.SIGKILL, _GIVE_UP_S)):
        deadline = time.monotonic() + within_s
        is_told = False
        while is_anything_left() and time.monotonic() < deadline:
            if number == signal.SIGKILL or not is_told:
                _signal_all(command, number)
                is_told = True
            if select.select([child_ended], [], [], _LOOK_EVERY_S)[0]:
                os.read(child_ended, 512)


def _in_streams(output: int, errors: int, stdin: Sequence[int]) -> list[tuple[int, ...]]:
    """The file actions of a command that prints to `output` and `errors`."""
    return [(os.POSIX_SPAWN_DUP2, fd, to) for to, fd in ((1, output), (2, errors), *((0, fd) for fd in stdin))]


def _in_terminal(terminal: int) -> list[tuple[int | str, ...]]:
    """Those of the leader of a new session: the terminal that it opens first becomes its controlling one."""
    opened = (os.POSIX_SPAWN_OPEN, 0, os.ttyname(terminal), os.O_RDWR, 0)
    return [opened, (os.POSIX_SPAWN_DUP2, 0, 1), (os.POSIX_SPAWN_DUP2, 0, 2)]


def _say(drone: socket.socket, *numbers: int | None) -> None:
    with suppress(ConnectionError):  # the drone is dead
        drone.sendall(" ".join(map(str, numbers)).encode() + b"\n")


def _become_subreaper() -> bool:
    if sys.platform != "linux":
        return False
    return bool(ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)


def _signal_all(command: int, number: signal.Signals) -> None:
    for pid in _descendants():
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
            if number == signal.SIGHUP:
                os.kill(pid, signal.SIGCONT)  # one that was stopped (Ctrl+Z) may end by itself, too
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(command, number)


def _descendants() -> list[int]:
    """By /proc; none where there is none."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as stat:
                    parent = int(stat.read().rpartition(b") ")[2].split()[1])
            except (OSError, IndexError):
                continue
            children.setdefault(parent, []).append(int(name))
    found = list(children.get(os.getpid(), ()))
    for pid in found:
        found.extend(children.get(pid, ()))
    return found


def _is_group_alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


if __name__ == "__main__":
    main()
