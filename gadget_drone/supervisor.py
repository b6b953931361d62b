"""Runs one command, and ends with everything that the command has started, in whatever way.

    python -I -S supervisor.py STATUS_FD PROGRAM ARGUMENT...

The drone holds the other end of this program's standard input. When that closes - the drone lets go of it, or is dead -
all is ended: SIGTERM, and SIGKILL after `GRACE_S`. To STATUS_FD goes one line when the command has ended: the id of its
process group, its status (minus the signal that killed it), and whether something that it started still runs (1 or 0).
STATUS_FD closes when nothing does any more.

On Linux orphans become children of this program (it is their subreaper), so that neither a second fork nor setsid gets
them away. Elsewhere the command's process group is all that is known.

It imports nothing of ours: it has to start quickly (20 ms).
"""

import os
import select
import signal
import sys
import time
from contextlib import suppress

GRACE_S = 2.0
"""Between SIGTERM and SIGKILL; with the rest it keeps a cancel under the 5 s that are promised."""
_GIVE_UP_S = 60.0
"""What does not die of SIGKILL hangs in the kernel."""
_LOOK_EVERY_S = 0.02
_LOOK_AT_GROUP_S = 1.0
_PR_SET_CHILD_SUBREAPER = 36
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
_CONTROL = 0


def main() -> None:
    status_fd = int(sys.argv[1])
    os.set_inheritable(status_fd, False)
    is_subreaper = _become_subreaper()
    child_ended, wake = os.pipe()
    for fd in (child_ended, wake):
        os.set_blocking(fd, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    command = os.fork()
    if command == 0:
        _become(sys.argv[2:])
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDWR)
    for output in (1, 2):
        os.dup2(null, output)

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
                ended.append(os.waitstatus_to_exitcode(status))
        if ended and not reported:
            reported.append(True)
            with suppress(BrokenPipeError):  # the drone is dead
                os.write(status_fd, f"{command} {ended[0]} {int(left)}\n".encode())
        return left

    ended: list[int] = []
    reported: list[bool] = []
    wait_s = None if is_subreaper else _LOOK_AT_GROUP_S
    while is_anything_left():
        ready, _, _ = select.select([_CONTROL, child_ended], [], [], wait_s)
        if child_ended in ready:
            os.read(child_ended, 512)
        if _CONTROL in ready:
            break
    for number, within_s in ((signal.SIGTERM, GRACE_S), (signal.SIGKILL, _GIVE_UP_S)):
        deadline = time.monotonic() + within_s
        is_told = False
        while is_anything_left() and time.monotonic() < deadline:
            if number == signal.SIGKILL or not is_told:
                _signal_all(command, number)
                is_told = True
            time.sleep(_LOOK_EVERY_S)


def _become(command: list[str]) -> None:
    try:
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for number in _IGNORED_BY_PYTHON:
            signal.signal(number, signal.SIG_DFL)
        os.execvp(command[0], command)
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(127)


def _become_subreaper() -> bool:
    if sys.platform != "linux":
        return False
    import ctypes

    return bool(ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)


def _signal_all(command: int, number: signal.Signals) -> None:
    for pid in _descendants():
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
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
    os._exit(0)  # at once: the drone waits for it
