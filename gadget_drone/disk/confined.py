"""Files inside the project, and nothing else.

A program of the agent may exchange a directory for a symlink at any time. So `relative_target` resolves a path once;
rules judge the target, and what opens a target follows no symlink: it opens what was judged, or nothing.
`open_beneath` follows those that stay inside. On Linux the kernel resolves the path below the project's directory
(openat2, RESOLVE_BENEATH); elsewhere the resolved path is checked first, which leaves a race open.
All functions block, and raise `ToolError` in words for the model.
"""

import ctypes
import errno
import functools
import os
import secrets
import stat
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from gadget_api.errors import ErrorCode
from gadget_drone.clip import quoted
from gadget_drone.disk.links import is_git_directory, open_without_links
from gadget_drone.errors import ToolError

MAX_WHOLE_FILE_BYTES = 32 * 1024 * 1024
"""The largest file that is read or replaced in one piece."""
PROTECTED = frozenset({".git", ".gadget"})
"""No tool writes below these, or below another git directory: a changed `.git/config` or hook runs commands later,
outside of the tools."""

_MAX_PARTS = 100
_SYS_OPENAT2 = 437  # the same number on x86-64 and arm64: linux/include/uapi/asm-generic/unistd.h
_RESOLVE_NO_MAGICLINKS = 0x02  # linux/include/uapi/linux/openat2.h
_RESOLVE_BENEATH = 0x08
_O_PATH = getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK)
_CODES = {
    **dict.fromkeys((errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.EINVAL), ErrorCode.INVALID_REQUEST),
    errno.ENXIO: ErrorCode.INVALID_REQUEST,  # a socket is not opened
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), ErrorCode.NOT_ALLOWED),
    errno.EEXIST: ErrorCode.ALREADY_EXISTS,
}
"""What else the system refuses, for people who ask: the model is told the words alone."""
_SAID = {
    errno.ELOOP: " is a symlink, which is not followed",
    errno.ENOTDIR: ": one of its directories is a file, or has just become a symlink",
}
_RENAME_NOREPLACE = 1  # linux/include/uapi/linux/fs.h
_RETRIES = 10  # openat2 answers EAGAIN when a rename elsewhere raced with it


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def relative(root: Path, path: str) -> PurePosixPath:
    """`path` relative to `root`, by its text alone; an absolute path that lies inside is taken."""
    if "\0" in path:
        raise ToolError("A path cannot contain a NUL character.", ErrorCode.INVALID_REQUEST)
    given = PurePosixPath(path or ".")
    if given.is_absolute():
        for base in (root, root.resolve()):
            if given.is_relative_to(base):
                given = given.relative_to(base)
                break
        else:
            raise _outside(path)
    if len(given.parts) > _MAX_PARTS:
        raise ToolError(f"The path {quoted(path)} is too deep.", ErrorCode.INVALID_REQUEST)
    return given


def real_path(root: Path, path: str) -> Path:
    """Where `path` really is, as an absolute path; it exists, and lies inside the project."""
    with errors_of(path), ExitStack() as stack:
        return open_beneath(root, relative(root, path), _O_PATH, stack)[1]


def relative_target(root: Path, path: str) -> str:
    """What `path`, as the model writes it, stands for: relative to the project, without symlinks; it need not exist.

    Two paths of one file give the same, and a link gives what it points at: that is what a rule has to judge.
    """
    given, base = root / relative(root, path), root.resolve()
    with errors_of(path):
        reals = [Path(os.path.realpath(given))]
        if not os.path.lexists(reals[0]):
            if path.endswith("/"):
                raise FileNotFoundError
            if given.is_symlink():  # writing replaces a link to nothing, by a file
                reals.append(Path(os.path.realpath(given.parent)) / given.name)
    if not all(real.is_relative_to(base) for real in reals):
        raise _outside(path)
    return str(reals[-1].relative_to(base))


@contextmanager
def open_file(root: Path, target: str) -> Iterator[BinaryIO]:
    """Opens a regular file for reading."""
    with ExitStack() as stack:
        with errors_of(target):
            # Without O_NONBLOCK, opening a FIFO waits for its other end.
            flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
            fd, _ = open_beneath(root, PurePosixPath(target), flags, stack, links=False)
            _check_regular(os.fstat(fd), target)
        yield stack.enter_context(open(fd, "rb", closefd=False))


def read_whole(root: Path, target: str) -> bytes:
    with open_file(root, target) as file:
        data = file.read(MAX_WHOLE_FILE_BYTES + 1)
    if len(data) > MAX_WHOLE_FILE_BYTES:
        message = f"{quoted(target)} is larger than {MAX_WHOLE_FILE_BYTES // 2**20} MiB: change it with the shell."
        raise ToolError(message)
    return data


def find_whole(root: Path, target: str) -> bytes | None:
    """As `read_whole`; None where there is nothing, or a link to nothing."""
    with errors_of(target), ExitStack() as stack:
        try:
            directory, name = _place(root, target, stack)
        except (FileNotFoundError, NotADirectoryError):
            return None
        found = find_stat(directory, name)
    return None if found is None or stat.S_ISLNK(found.st_mode) else read_whole(root, target)


def file_mode(root: Path, target: str) -> int:
    """The permission bits of a regular file."""
    with errors_of(target), ExitStack() as stack:
        directory, name = _place(root, target, stack)
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
        _check_regular(found, target)
        return stat.S_IMODE(found.st_mode)


def remove_file(root: Path, target: str) -> None:
    """Removes a regular file."""
    with errors_of(target), ExitStack() as stack:
        directory, name = _place(root, target, stack)
        _check_regular(os.stat(name, dir_fd=directory, follow_symlinks=False), target)
        check_writable(root, target)
        os.unlink(name, dir_fd=directory)


def is_symlink(root: Path, path: str) -> bool:
    """Whether `path` itself, not what is above it, is a symlink; False where nothing is."""
    given = relative(root, path)
    with errors_of(path), ExitStack() as stack:
        try:
            directory, _ = open_beneath(root, given.parent, _O_PATH | os.O_DIRECTORY, stack)
            found = os.stat(given.name or ".", dir_fd=directory, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return stat.S_ISLNK(found.st_mode)


@dataclass(frozen=True)
class Mode:
    """The permission bits that a file is to have."""

    bits: int | None = None
    """None: as they are, or as a new file's are."""
    executable: bool | None = None
    """Whether those who may read it may run it, as git has it; None: as it is."""

    def of(self, bits: int) -> int:
        """What becomes of permission bits."""
        bits = bits if self.bits is None else self.bits
        if self.executable is None:
            return bits
        return bits & ~0o111 | ((bits & 0o444) >> 2 if self.executable else 0)


AS_IT_IS = Mode()


def replace_file(root: Path, target: str, data: bytes, *, make_parents: bool = False, mode: Mode = AS_IT_IS) -> None:
    """Gives the file at `target` the content `data`, atomically. A link that is there is replaced by the file.

    A file that was there keeps its mode, unless another is given, and its owner.
    """
    with errors_of(target), ExitStack() as stack:
        directory, name = _place(root, target, stack, make=make_parents)
        old = find_stat(directory, name)
        if old is not None and stat.S_ISLNK(old.st_mode):
            old = None
        if old is not None:
            _check_regular(old, target)
        check_writable(root, target)
        _put(directory, name, data, old, mode)


def check_writable(root: Path, target: str) -> None:
    """Raises `ToolError` where tools may not change `target`."""
    check_unprotected(root, root.resolve() / target, target)


def _put(directory: int, name: str, data: bytes, old: os.stat_result | None, mode: Mode) -> None:
    with beside(directory, data, old, mode) as temporary:
        os.replace(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)


@contextmanager
def beside(
    directory: int, data: bytes, old: os.stat_result | None, mode: Mode = AS_IT_IS, *, sync: bool = True
) -> Iterator[str]:
    """The name of a new file with the content `data` in the open directory, for the context to rename; it is removed
    when that fails. It has the mode and the owner of `old`. `sync`: it outlives a power cut."""
    temporary = f".gadget-{secrets.token_hex(8)}.tmp"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666, dir_fd=directory)
    try:
        with open(fd, "wb") as file:
            if old is not None:
                with suppress(PermissionError):
                    os.fchown(fd, old.st_uid, old.st_gid)
            bits = stat.S_IMODE((old or os.fstat(fd)).st_mode)
            os.fchmod(fd, mode.of(bits))
            file.write(data)
            file.flush()
            if sync:
                os.fsync(fd)
        yield temporary
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=directory)
        raise


def open_directory(
    root: Path, given: PurePosixPath, stack: ExitStack, *, make: bool, links: bool = True
) -> tuple[int, Path]:
    """As `open_beneath` for a directory, made with those above it where `make` says so."""
    try:
        return open_beneath(root, given, _O_PATH | os.O_DIRECTORY, stack, links=links)
    except FileNotFoundError:
        if not make or given.name in ("", ".."):
            raise
    directory, parent = open_directory(root, given.parent, stack, make=True, links=links)
    check_unprotected(root, parent / given.name, str(given))
    with suppress(FileExistsError):
        os.mkdir(given.name, dir_fd=directory)
    return open_beneath(root, given, _O_PATH | os.O_DIRECTORY, stack, links=links)


def _place(root: Path, target: str, stack: ExitStack, *, make: bool = False) -> tuple[int, str]:
    """The open directory that `target` is in, and its name there."""
    given = PurePosixPath(target)
    if not given.name:
        raise ToolError(f"{quoted(target)} is a directory.")
    return open_directory(root, given.parent, stack, make=make, links=False)[0], given.name


def open_beneath(
    root: Path, given: PurePosixPath, flags: int, stack: ExitStack, *, links: bool = True
) -> tuple[int, Path]:
    """A descriptor, closed by `stack`, and the absolute path of what it is open on.

    `links`: whether symlinks are followed. Raises OSError: EXDEV for a path that leads out of `root`; without `links`
    ELOOP for one that ends in a symlink, and ENOTDIR for one through a symlink.
    """
    if not links:
        if given.is_absolute() or ".." in given.parts:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        directory = open_without_links(str(given.parent), str(root))
        stack.callback(os.close, directory)
        fd = os.open(given.name or ".", flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
        stack.callback(os.close, fd)
        return fd, root.resolve() / given
    flags |= os.O_CLOEXEC
    if not _has_openat2():
        real = (root / given).resolve()
        if not real.is_relative_to(root.resolve()):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        fd = os.open(real, flags | os.O_NOFOLLOW)
        stack.callback(os.close, fd)
        return fd, real
    base = os.open(root, _O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    stack.callback(os.close, base)
    for _ in range(_RETRIES):
        fd = _openat2(base, os.fsencode(given), flags)
        if fd >= 0 or ctypes.get_errno() != errno.EAGAIN:
            break
    if fd < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    stack.callback(os.close, fd)
    return fd, Path(os.readlink(f"/proc/self/fd/{fd}"))


def rename_new(directory: int, name: str, target_directory: int, target: str) -> None:
    """Renames between two open directories, and never onto something. Raises OSError, FileExistsError.

    Where the kernel or the file system has no such rename, it looks first, which leaves a race open.
    """
    renameat2 = getattr(_libc(), "renameat2", None) if sys.platform == "linux" else None
    if renameat2 is not None:
        if renameat2(directory, os.fsencode(name), target_directory, os.fsencode(target), _RENAME_NOREPLACE) == 0:
            return
        error = ctypes.get_errno()
        if error not in (errno.ENOSYS, errno.EINVAL):
            raise OSError(error, os.strerror(error))
    if find_stat(target_directory, target) is not None:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
    os.rename(name, target, src_dir_fd=directory, dst_dir_fd=target_directory)


def find_stat(directory: int, name: str) -> os.stat_result | None:
    """Of what is called `name` in an open directory, a symlink itself; None where there is nothing."""
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _openat2(directory: int, path: bytes, flags: int) -> int:
    how = _OpenHow(flags=flags, resolve=_RESOLVE_BENEATH | _RESOLVE_NO_MAGICLINKS)
    opened: int = _libc().syscall(_SYS_OPENAT2, directory, path, ctypes.byref(how), ctypes.sizeof(how))
    return opened


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


@functools.cache
def _has_openat2() -> bool:
    if sys.platform != "linux" or not os.path.exists("/proc/self/fd"):
        return False
    directory = os.open("/", _O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    fd = _openat2(directory, b".", _O_PATH)  # an old kernel answers ENOSYS, an old container's filter EPERM
    os.close(directory)
    if fd >= 0:
        os.close(fd)
    return fd >= 0


def _check_regular(found: os.stat_result, path: str) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise ToolError(f"{quoted(path)} is a directory: use the list tool.")
    if not stat.S_ISREG(found.st_mode):
        raise ToolError(f"{quoted(path)} is not a regular file.")


def check_unprotected(root: Path, real: Path, path: str) -> None:
    """Raises `ToolError` when the absolute path `real` is at or below what is protected."""
    place = root.resolve()
    for part in real.relative_to(place).parts:
        place /= part
        # Case folded, for file systems that do not tell .git from .GIT.
        if part.casefold() in PROTECTED or is_git_directory(str(place)):
            raise ToolError(f"{quoted(path)} is inside {part}, which tools may not change.", ErrorCode.NOT_ALLOWED)


def _outside(path: str) -> ToolError:
    message = f"{quoted(path)} leads out of the project: use a path inside the project directory."
    return ToolError(message, ErrorCode.NOT_ALLOWED)


@contextmanager
def errors_of(path: str) -> Iterator[None]:
    """`ToolError` in the place of an OSError."""
    try:
        yield
    except FileNotFoundError as error:
        raise ToolError(f"There is no {quoted(path)}.", ErrorCode.NOT_FOUND) from error
    except OSError as error:
        if error.errno == errno.EXDEV:
            raise _outside(path) from error
        said = _SAID.get(error.errno or 0, f": {error.strerror}")
        raise ToolError(f"{quoted(path)}{said}.", _CODES.get(error.errno or 0, ErrorCode.TOOL_FAILED)) from error
