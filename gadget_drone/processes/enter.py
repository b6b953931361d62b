"""How a process enters a sandbox that stands (`standing.py`), and how each command gets what it shares with no other.

The supervisor's program imports it, so it imports little. Linux 5.3 and later (`clone3`).
"""

import ctypes
import errno
import os
from collections.abc import Sequence

_NEW_MOUNTS, _NEW_IPC, _NEW_PIDS = 0x20000, 0x8000000, 0x20000000
_CLONE3 = 435  # on every architecture
_SIGCHLD = 17
_READ_ONLY, _NO_SUID, _NO_DEV, _NO_EXEC, _REMOUNT, _BIND = 1, 2, 4, 8, 32, 4096
_SET_DUMPABLE, _DROP_FROM_BOUNDING, _NO_NEW_PRIVILEGES, _AMBIENT, _AMBIENT_CLEAR = 4, 24, 38, 47, 4
_CAPABILITIES_V3 = 0x20080522

_NOT_FOR_ROOT = ("sys", "sysrq-trigger", "irq", "bus", "fs", "acpi", "scsi")
"""What of /proc root could change without any capability. bubblewrap covers those alone that are writable themselves:
/proc/sys is not, the files in it are, and one of them names a program that the machine runs as root."""


class _CloneArguments(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_uint64)
        for name in ("flags", "pidfd", "child_tid", "parent_tid", "exit_signal", "stack", "stack_size", "tls")
    ]


class Inside:
    """Enters for good: what this process forks from then on runs in the sandbox.

    `namespaces` are descriptors, in the order to enter them; `user` is the namespace of users that commands are in, or
    None where that is this process's own. It keeps that one and closes the others. Raises OSError.
    """

    def __init__(self, namespaces: Sequence[int], user: int | None) -> None:
        # PyDLL and not CDLL: the copy that `fork` makes must find the interpreter's lock as it left it.
        self._libc = ctypes.PyDLL(None, use_errno=True)
        self._user = user
        self._do("prctl", _SET_DUMPABLE, 0, 0, 0, 0)
        for fd in namespaces:
            self._do("setns", fd, 0)
            os.close(fd)
        if user is not None:
            os.set_inheritable(user, False)

    def fork(self) -> int:
        """As os.fork, but the copy is the first process of namespaces of its own, of processes, IPC and mounts: when it
        ends, the kernel ends all that has come from it."""
        flags = _NEW_PIDS | _NEW_IPC | _NEW_MOUNTS
        arguments = _CloneArguments(flags=flags, exit_signal=_SIGCHLD)
        return self._do("syscall", _CLONE3, ctypes.byref(arguments), ctypes.sizeof(arguments))

    def confine(self) -> None:
        """In the copy, before the command: what no other command sees, and no rights. Raises OSError."""
        self._mount(b"proc", "/proc", _NO_SUID | _NO_DEV | _NO_EXEC)
        for name in _NOT_FOR_ROOT:
            path = f"/proc/{name}"
            if os.path.exists(path):
                self._do("mount", path.encode(), path.encode(), None, _BIND, None)
                flags = _REMOUNT | _BIND | _READ_ONLY | _NO_SUID | _NO_DEV | _NO_EXEC
                self._do("mount", None, path.encode(), None, flags, None)
        self._mount(b"tmpfs", "/dev/shm", _NO_SUID | _NO_DEV, b"mode=1777")
        self._mount(b"devpts", "/dev/pts", _NO_SUID | _NO_EXEC, b"newinstance,ptmxmode=0666,mode=620")
        if self._user is not None:
            self._do("setns", self._user, 0)
            os.close(self._user)
        self._renounce()

    def _mount(self, kind: bytes, path: str, flags: int, options: bytes | None = None) -> None:
        self._do("mount", kind, path.encode(), kind, flags, options)

    def _renounce(self) -> None:
        try:
            for capability in range(64):
                self._do("prctl", _DROP_FROM_BOUNDING, capability, 0, 0, 0)
        except OSError as error:
            if error.errno != errno.EINVAL:  # there are no more
                raise
        self._do("prctl", _AMBIENT, _AMBIENT_CLEAR, 0, 0, 0)
        header = (ctypes.c_uint32 * 2)(_CAPABILITIES_V3, 0)
        self._do("capset", header, (ctypes.c_uint32 * 6)())
        self._do("prctl", _NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        self._do("prctl", _SET_DUMPABLE, 0, 0, 0, 0)  # the kernel may have set it: commands would see /proc/1/fd

    def _do(self, function: str, *arguments: object) -> int:
        result: int = self._libc[function](*arguments)
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), function)
        return result
