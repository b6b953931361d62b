"""The git directories of a project, and what in them no command may change.

A git directory names programs that git runs later, outside of the sandbox: for the user, for an editor, for the drone.
A name that is missing could be made by a command, so it is made here first, and then it can be mounted read-only.
"""

import errno
import os
import re
import secrets
import stat
from collections.abc import Callable
from contextlib import suppress

from gadget_drone.disk.links import GONE, give_back, open_without_links, walk

_DIRECTORIES = ("branches", "hooks", "info", "modules", "remotes", "worktrees")
_FILES = ("config", "config.worktree")
COMMON = "commondir"
"""Names the directory that git takes its configuration, hooks and objects from."""
_ITSELF = b".\n"
"""What is in our `commondir`: the git directory itself. Git ignores `core.bare` and `core.worktree` beside one."""
_HAS_WORK_TREE_OF_ITS_OWN = re.compile(rb"^\s*(worktree\s*=|bare\s*(=\s*(true|yes|on|1)\s*)?$)", re.I | re.M)
_MAX_READ_BYTES = 2**20
MAX_DETAILED = 30
"""Of more git directories than this, the others are read-only as a whole: each costs eight mounts."""


def protected(git: str) -> list[str]:
    """What in the git directory `git` no command may change; makes what is missing of it.

    Raises OSError where something cannot be protected; the message says what its user can do.
    """
    directory = open_without_links(git)
    try:
        give_back(directory)
        if not os.access(".", os.W_OK, dir_fd=directory):  # for commands neither: they are this account's
            every = (*_DIRECTORIES, *_FILES, COMMON)
            return [f"{git}/{name}" for name in every if _exists(name, directory)]
        for name in _DIRECTORIES:
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=directory)
            _refuse_other(git, name, directory, stat.S_ISDIR, "a directory")
        for name in _FILES:
            with suppress(FileExistsError):
                _make(name, b"", directory)
            _refuse_other(git, name, directory, stat.S_ISREG, "a file")
        names = [*_DIRECTORIES, *_FILES]
        _mend_common(directory)
        if not _exists(COMMON, directory) and not _HAS_WORK_TREE_OF_ITS_OWN.search(_content("config", directory)):
            new = f"{COMMON}.{secrets.token_hex(4)}"  # git fails for as long as the file is there and empty
            _make(new, _ITSELF, directory)
            os.rename(new, COMMON, src_dir_fd=directory, dst_dir_fd=directory)
        if _exists(COMMON, directory):
            _refuse_other(git, COMMON, directory, stat.S_ISREG, "a file")
            names.append(COMMON)
    finally:
        os.close(directory)
    return [f"{git}/{name}" for name in names]


def linked(git_file: str) -> tuple[str, str] | None:
    """The git directory of the linked work tree that has this `.git` file, and that of its repository.

    None where the repository does not name the work tree: then a command may have written the file, to be shown another
    repository. The first of the two is in the other's `worktrees`.
    """
    try:
        named = _text(git_file).removeprefix("gitdir: ")
        own = os.path.realpath(os.path.join(os.path.dirname(git_file), named))
        common = os.path.realpath(os.path.join(own, _text(f"{own}/{COMMON}")))
        is_known = os.path.realpath(_text(f"{own}/gitdir")) == git_file
    except OSError:
        return None
    return (own, common) if is_known and os.path.dirname(own) == f"{common}/worktrees" else None


def protected_of_linked(own: str) -> list[str]:
    """What in the git directory of a linked work tree no command may change. Raises OSError."""
    directory = open_without_links(own)
    try:
        with suppress(FileExistsError):
            os.mkdir("modules", dir_fd=directory)
        _refuse_other(own, "modules", directory, stat.S_ISDIR, "a directory")
        with suppress(FileExistsError):
            _make("config.worktree", b"", directory)
        files = ("commondir", "gitdir", "config.worktree")
        for name in files:
            _refuse_other(own, name, directory, stat.S_ISREG, "a file")
        return [f"{own}/{name}" for name in ("modules", *files)]
    finally:
        os.close(directory)


def _text(path: str) -> str:
    return os.fsdecode(_read(path)).strip()


def _read(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return os.read(fd, _MAX_READ_BYTES)
    finally:
        os.close(fd)


def mend_common(git: str) -> bool:
    """Takes away a `commondir` that is not ours from the git directory `git`; returns whether there was one.

    Git would take its configuration from elsewhere, or fail. A directory that is not empty stays beside it, renamed.
    Raises OSError.
    """
    try:
        # A command may have put a link to another git directory there: a linked work tree needs its `commondir`.
        directory = open_without_links(git)
    except OSError as error:
        if error.errno not in GONE:
            raise
        return False
    try:
        if not stat.S_ISDIR(os.fstat(directory).st_mode):
            return False
        give_back(directory)
        return _mend_common(directory)
    finally:
        os.close(directory)


def _mend_common(directory: int) -> bool:
    try:
        found = os.stat(COMMON, dir_fd=directory, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return False
    if stat.S_ISREG(found.st_mode) and _content(COMMON, directory) == _ITSELF:
        return False
    if not stat.S_ISDIR(found.st_mode):
        os.unlink(COMMON, dir_fd=directory)
        return True
    try:
        os.rmdir(COMMON, dir_fd=directory)
    except OSError:
        aside = f"{COMMON}.removed-{secrets.token_hex(4)}"
        os.rename(COMMON, aside, src_dir_fd=directory, dst_dir_fd=directory)
    return True


def _refuse_other(git: str, name: str, directory: int, is_kind: Callable[[int], bool], kind: str) -> None:
    if not is_kind(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
        raise OSError(
            errno.ENOTSUP,
            f"{git}/{name} is not {kind}, and a command could change what git runs. Replace it by {kind}, or start "
            "the drone with GADGET_SANDBOX=off",
        )


def _exists(name: str, directory: int) -> bool:
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _make(name: str, content: bytes, directory: int) -> None:
    fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644, dir_fd=directory)
    try:
        os.write(fd, content)
    finally:
        os.close(fd)


def _content(name: str, directory: int) -> bytes:
    """The beginning of a file. Raises OSError, also for a link."""
    fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    try:
        return os.read(fd, _MAX_READ_BYTES)
    finally:
        os.close(fd)


def is_git_file(path: str) -> bool:
    """Whether `path` is a file that names a git directory which is there, as a submodule has it."""
    named = named_by(path)
    return named is not None and os.path.lexists(f"{named}/HEAD")


def named_by(git_file: str) -> str | None:
    """The git directory that a `.git` file names, without links; read as git reads it."""
    try:
        content = read_small(git_file)
    except OSError:
        return None
    named = content.removeprefix("gitdir: ")
    return None if named == content else os.path.realpath(os.path.join(os.path.dirname(git_file), named))


def read_small(path: str) -> str:
    """The one line of a file, as git takes it. Raises OSError, also for a link."""
    return os.fsdecode(_read(path).partition(b"\0")[0].rstrip(b"\r\n"))


def remove_links(git: str, *, objects: bool = False) -> list[str]:
    """Removes from a git directory what a command may have left for a git outside to write to, or wait for.

    That is symbolic links, pipes and the like: git follows a link when it writes, and a shell may read what it wrote.
    `git`: a git directory, or the `.git` file of a linked work tree. `objects`: in the directories of objects, too;
    git writes none of them twice, but would wait for a pipe. Returns the paths. Blocks. Raises OSError.
    """
    if not os.path.isfile(git):
        return _remove_links(git, _NOT_GITS, objects)
    own, common = linked(git) or (None, None)
    removed = [] if own is None else _remove_links(own, _NOT_GITS_OF_LINKED, objects)
    return removed if common is None else removed + _remove_links(common, _NOT_GITS, objects)


def _remove_links(git: str, left_out: frozenset[str], objects: bool) -> list[str]:
    def enters(path: str) -> bool:
        return path not in left_out and (objects or not _OBJECTS.fullmatch(path))

    removed: list[str] = []
    for directory, inside, entries in walk(git, enters):
        give_back(directory)
        for entry in entries:
            is_git_s = entry.is_dir(follow_symlinks=False) or entry.is_file(follow_symlinks=False)
            if not is_git_s and not (inside == "" and _is_old_head(entry.name, directory)):
                with suppress(OSError):  # it is a directory by now: what is left comes with the next look
                    os.unlink(entry.name, dir_fd=directory)
                    removed.append(f"{git}/{inside}{entry.name}")
    return removed


_NOT_GITS = frozenset({*_DIRECTORIES, "annex"})
"""What no command can change, and what another program has there, with links of its own."""
_NOT_GITS_OF_LINKED = frozenset({"modules", "annex"})
"""Of a linked work tree."""
_OBJECTS = re.compile(r"objects/[0-9a-f]{2}")
"""Their names are made of hashes, and there are many."""


def _is_old_head(name: str, directory: int) -> bool:
    """Git once made HEAD as a link to a branch."""
    if name != "HEAD":
        return False
    try:
        first, *others = os.readlink(name, dir_fd=directory).split("/")
    except OSError:  # it is no link
        return False
    return first == "refs" and ".." not in others
