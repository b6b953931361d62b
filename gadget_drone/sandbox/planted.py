"""A repository that a command has made: what in it could make a git outside run a program is set aside.

A git outside comes to it without anybody's asking: an entry of the index that names a commit makes `git status` in the
project look there, and editors look for repositories. What `git init` and `git clone` make stays as it is.
"""

import os
import re
import secrets
import stat
from collections.abc import Container

from gadget_drone.disk.links import GONE, let_in, open_directory, open_without_links
from gadget_drone.sandbox.machine import is_in
from gadget_drone.sandbox.repositories import COMMON, mend_common, named_by, read_small, remove_links

_CORE = (
    "repositoryformatversion filemode bare logallrefupdates ignorecase precomposeunicode symlinks autocrlf eol "
    "safecrlf quotepath abbrev compression bigfilethreshold sparsecheckout sparsecheckoutcone untrackedcache"
)
_HARMLESS = {
    section: frozenset(names.split())
    for section, names in {
        "core": _CORE,
        "remote": "url pushurl fetch push tagopt mirror prune promisor partialclonefilter",
        "branch": "remote merge rebase pushremote description",
        "user": "name email",
        "init": "defaultbranch",
        "pull": "rebase ff",
        "push": "default autosetupremote",
        "fetch": "prune",
        "merge": "ff conflictstyle",
        "advice": "detachedhead",
        "submodule": "url active branch path",
        "extensions": "worktreeconfig objectformat refstorage partialclone noop",
        "lfs": "repositoryformatversion",
    }.items()
}
"""What decides about data alone: not `include`, aliases, filters, drivers, helpers, or `submodule.<name>.update`."""
# Less than git takes, so that both read the same: no header with a setting behind it, no escape, no line that goes on.
_SECTION = re.compile(rb'[ \t]*\[([a-z]+)(?: "[^"\\\n]*")?\][ \t]*', re.I)
_SETTING = re.compile(rb"[ \t]*([a-z][a-z0-9-]*)[ \t]*(?:=[ \t]*([^\\\n]*?)[ \t]*)?", re.I)
_NO_SETTING = re.compile(rb"[ \t]*(?:[#;].*)?")
_MAX_CONFIG_BYTES = 2**20


def made_harmless(git: str, project: str, known: Container[str]) -> list[str]:
    """Sets aside what in the git directory `git`, or behind a `.git` file or link, could name a program, and removes
    links. Leaves what is `known`: no command can change it. Answers what it did, in sentences. Blocks. Raises OSError.
    """
    let_in(project, git)
    try:
        mode = os.lstat(git).st_mode
    except FileNotFoundError:
        return []
    if stat.S_ISDIR(mode):
        notes = [f"{git}/{COMMON} was removed: git does not make one there"] if mend_common(git) else []
        return notes + _harmless(git, None)
    named = named_by(git) if stat.S_ISREG(mode) else None
    if named is None or not is_in(named, project):
        return [set_aside(os.path.dirname(git), ".git", "it leads elsewhere, and a command has made it")]
    notes = [] if _is_kept(named, known) else _harmless(named, os.path.dirname(git))
    try:
        common = os.path.realpath(os.path.join(named, read_small(f"{named}/{COMMON}")))
    except FileNotFoundError:
        return notes
    except OSError:
        common = ""
    if not is_in(common, project):
        return [*notes, set_aside(named, COMMON, "it leads elsewhere, and a command has made it")]
    return notes if _is_kept(common, known) else notes + _harmless(common, None)


def _is_kept(git: str, known: Container[str]) -> bool:
    """Whether this is a known git directory, or that of its submodule or linked work tree."""
    above = (git[: found.start()] for found in re.finditer("/(modules|worktrees)/", git))
    return git in known or any(path in known for path in above)


def _harmless(git: str, work_tree: str | None) -> list[str]:
    notes = []
    for name in ("config", "config.worktree"):
        if not _is_harmless(git, name, work_tree):
            notes.append(set_aside(git, name, "it could name a program for git to run, and a command has made it"))
    if not _has_no_hooks(git):
        notes.append(set_aside(git, "hooks", "git would run what is in it, and a command has made it"))
    return [*notes, *(f"{path} was removed: git would write through it, or wait for it" for path in remove_links(git))]


def _is_harmless(git: str, name: str, work_tree: str | None) -> bool:
    try:
        content = _content(git, name)
    except OSError as error:
        return error.errno in GONE and not os.path.lexists(f"{git}/{name}")
    known: frozenset[str] = frozenset()
    is_core = False
    for line in content.replace(b"\r\n", b"\n").split(b"\n"):
        if header := _SECTION.fullmatch(line):
            section = header[1].decode().lower()
            known, is_core = _HARMLESS.get(section, frozenset()), section == "core"
        elif _NO_SETTING.fullmatch(line):
            continue
        elif (setting := _SETTING.fullmatch(line)) is None:
            return False
        elif is_core and work_tree is not None and setting[1].lower() == b"worktree":  # a submodule's
            value = os.fsdecode(setting[2] or b"")
            if set('"#;') & set(value) or os.path.realpath(os.path.join(git, value)) != work_tree:
                return False
        elif setting[1].decode().lower() not in known:
            return False
    return True


def _has_no_hooks(git: str) -> bool:
    above = open_without_links(git)
    try:
        hooks = open_directory("hooks", above)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    finally:
        os.close(above)
    try:
        return all(name.endswith(".sample") for name in os.listdir(hooks))
    finally:
        os.close(hooks)


def _content(directory: str, name: str) -> bytes:
    """Raises OSError, also for a link, and for what is no file or too large."""
    above = open_without_links(directory)
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=above)
    finally:
        os.close(above)
    with open(fd, "rb") as file:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_size > _MAX_CONFIG_BYTES:
            raise OSError(f"{name} is no small file")
        return file.read(_MAX_CONFIG_BYTES)


def set_aside(directory: str, name: str, why: str) -> str:
    """Renames a file, directory or link. Answers that, in a sentence. Raises OSError."""
    aside = f"{name}.removed-{secrets.token_hex(4)}"
    above = open_without_links(directory)
    try:
        os.rename(name, aside, src_dir_fd=above, dst_dir_fd=above)
    finally:
        os.close(above)
    return f"{directory}/{name} is {aside} now: {why}"
