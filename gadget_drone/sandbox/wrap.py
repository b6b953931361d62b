"""The sandbox that bubblewrap makes, and commands run in (`standing.py`).

A command sees the programs of the system (`machine.py`), read-only, and nothing else of the machine. It may change its
project, and a home and a /tmp that only the commands of this project share. What is empty in it is read-only too, for
the sandbox stands for more than one command. In the git directories of the project, what git runs
later outside of the sandbox stays as it is (`repositories.py`).

Facts it rests on (bubblewrap 0.8): as root it is no sandbox unless all capabilities are dropped; a read-only
`.git/config` can be moved away with `.git` unless that is a mount itself; sockets with a path are reachable unless
their folder is hidden. bubblewrap follows symbolic links in what it mounts and in where it mounts it; so what it made
is compared with what was wanted, before a command is let in.
"""

import errno
import os
import secrets
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from urllib.parse import quote

from gadget_drone.disk.links import give_back, is_git_directory, let_in, open_without_links
from gadget_drone.sandbox.machine import SYSTEM, is_in, make_own, own_state, private_places, toolchains
from gadget_drone.sandbox.repositories import (
    COMMON,
    MAX_DETAILED,
    linked,
    protected,
    protected_of_linked,
)

_LEADS_OUT = frozenset({"DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "SSH_AGENT_PID", "SSH_AUTH_SOCK", "WAYLAND_DISPLAY",
                        "XAUTHORITY", "XDG_RUNTIME_DIR", "GNOME_KEYRING_CONTROL", "GPG_AGENT_INFO", "TMPDIR",
                        "DOCKER_HOST"})  # fmt: skip
_WHERE = "/usr/bin:/bin:/usr/local/bin:/run/wrappers/bin:/run/current-system/sw/bin"
HOME = "home"
TEMPORARY = "tmp"
"""In the workspace's `.gadget/`: for each project a directory that is the home, or /tmp, for its commands. With one for
all, a command of a project could write what the commands of another one run, such as `~/.gitconfig`."""
_NOTHING = "/dev/null"
_MAX_ARGUMENTS = 2_000
"""A mount is three or four. For each mount bubblewrap reads all of them: on a busy machine 600 took 1.7 s, 1,000 3.4 s
and 1,500 9 s, which is longer than `MAKE_S`. It refuses more than 9,000 arguments."""
_DEPTHS = (None, 8, 4, 2, 1)
"""How deep in the project each place has a mount of its own, until there is room for all."""


def find_bubblewrap() -> str | None:
    """The system's own; never one that PATH leads to, which may be a project's."""
    return shutil.which("bwrap", path=_WHERE)


@dataclass(frozen=True)
class Mount:
    """A mount at a place that a command could have changed before."""

    place: str
    source: str | None
    """None: an empty directory."""
    is_read_only: bool


@dataclass(frozen=True)
class Wrapping:
    """A sandbox, as bubblewrap makes it around the program that is put after `command_line`."""

    command_line: tuple[str, ...]
    paths: tuple[str, ...]
    """What on the machine it depends on: all that is shown in it, and the places of its mounts."""
    mounts: tuple[Mount, ...]
    """Those in the project, and in a git directory of it that is elsewhere."""
    home: str

    def environment(self, env: Mapping[str, str]) -> dict[str, str]:
        """What a command gets, without variables that lead out."""
        return {name: value for name, value in env.items() if name not in _LEADS_OUT} | {"HOME": self.home}


def wrap(
    env: Mapping[str, str],
    *,
    project_dir: Path,
    workspace_dir: Path,
    network: bool,
    hidden: Iterable[Path] = (),
    read_only: Iterable[Path] = (),
    repositories: Sequence[str] = (),
    shown: Iterable[str] = (),
    machine: "Plan",
) -> Wrapping:
    """The sandbox for commands in `project_dir` that have the environment `env`.

    `hidden` and `read_only`: files and directories in the project that a command may not read, or not change; what does
    not exist is left out. `repositories`: git directories, or `.git` files, in the project besides its
    own. `shown`: what else of the machine a command may read. `machine`: as `look_at_machine` gives it. Makes the
    folders that it needs; blocks shortly. Raises OSError where there is no bubblewrap, or a git directory cannot be
    protected.
    """
    binary = find_bubblewrap()
    if binary is None:
        raise FileNotFoundError("bubblewrap is not installed")
    # Text, not Path: this is done for each command, and Path takes a millisecond of it.
    project, workspace = os.path.realpath(project_dir), os.path.realpath(workspace_dir)
    home = os.path.realpath(env.get("HOME") or os.path.expanduser("~"))
    kept, gone = ([path for path in map(str, paths) if not _is_ours(path, project)] for paths in (read_only, hidden))
    # A drone that is installed in the project runs what is there, outside of the sandbox.
    kept += {path for path in (sys.prefix, os.path.dirname(sys.executable)) if is_in(path, project)}
    for path in (f"{project}/.git", *kept, *gone, *repositories):
        let_in(project, path)
    command = (binary, *_isolation(binary), *(() if network else ("--unshare-net",)))
    for depth in _DEPTHS:
        plan = machine.copy(project)
        _show_machine(plan, env, home, project, workspace, shown)
        _show_project(plan, project, workspace, _folded(project, depth, gone, kept, repositories))
        made = plan.wrapping(command, home)
        if len(made.command_line) <= _MAX_ARGUMENTS:
            return made
    raise OSError(
        errno.E2BIG,
        f"there are too many denied files and git repositories at the top of {project}: remove those that are not "
        "needed, or let the rule deny their directory. Tell the user",
    )


def _show_machine(
    plan: "Plan", env: Mapping[str, str], home: str, project: str, workspace: str, shown: Iterable[str]
) -> None:
    """The home and the /tmp of commands, programs, and what the drone's owner names."""
    own_home, own_tmp = (f"{workspace}/.gadget/{name}/{_named_after(project, workspace)}" for name in (HOME, TEMPORARY))
    for directory in (own_home, own_tmp):
        make_own(os.path.dirname(directory))
        make_own(directory)
    for place in ("/tmp", "/var/tmp"):
        plan.bind(own_tmp, place)
    elsewhere = _outermost([*shown, *(tool for tool in toolchains(env, home) if not _leads_into(tool, workspace))])
    if home != "/" and not is_in(project, f"{workspace}/.gadget"):
        plan.bind(own_home, home)
        plan.own_home = own_home, home
        plan.watch(home)
        _pin(plan, own_home, home, project, (*elsewhere, *map(os.path.realpath, elsewhere)))
    for place in elsewhere:
        plan.show_real(place)
    visible = (*SYSTEM, *map(os.path.realpath, elsewhere))
    for place in (*own_state(os.environ), workspace):
        if is_in(place, *visible):
            plan.hide(place)


def _named_after(project: str, workspace: str) -> str:
    """A directory's name that stands for the project's path below the workspace; no other path gives the same."""
    return "%workspace" if project == workspace else quote(os.fsencode(os.path.relpath(project, workspace)), safe="")


def _outermost(places: Iterable[str]) -> list[str]:
    """Without those that others show already: a mount below another one would be covered, or its way be pinned."""
    real = {place: os.path.realpath(place) for place in places}

    def is_shown(place: str) -> bool:
        others = {other for other in real.values() if other != real[place]}
        return is_in(place, *(real.keys() - {place})) and is_in(real[place], *others)

    return [place for place in real if not is_shown(place)]


def _pin(plan: "Plan", own_home: str, home: str, project: str, places: Iterable[str]) -> None:
    """Makes mounts of the directories between the home and what is mounted below it. A command that runs could put a
    link there, and bubblewrap would make directories where it leads: no sandbox lets a command rename a mount.

    On the way to the project the first one is empty and read-only, the others are the home's own.
    """
    way = f"{home}/{project.removeprefix(f'{home}/').partition('/')[0]}" if is_in(project, home) else project
    if is_in(way, home) and way not in (home, project):
        plan.empty(way)
    below = (place for place in places if is_in(place, home) and not is_in(place, way))
    for directory in _above(home, below):
        source = f"{own_home}{directory.removeprefix(home)}"
        plan.clear_way(directory)
        parent = open_without_links(os.path.dirname(source))
        try:
            with suppress(FileExistsError):
                os.mkdir(os.path.basename(source), dir_fd=parent)
        finally:
            os.close(parent)
        plan.bind(source, directory)


def _show_project(plan: "Plan", project: str, workspace: str, places: "_Places") -> None:
    """First what is above: a later mount covers what is below it."""
    plan.bind(project, project)
    for directory in _above(project, (*places.kept, *places.gone, *places.repositories)):
        plan.bind(directory, directory)
    for place in own_state(os.environ):
        if is_in(place, project):
            plan.hide(place)
    _protect(plan, f"{project}/.git", places.repositories)
    own = f"{project}/.gadget"
    if is_in(f"{workspace}/.gadget", project) or (os.path.isdir(own) and not os.path.islink(own)):
        plan.empty(own)
    for path in places.kept:
        plan.show(path)
    for path in places.gone:
        if os.path.islink(path):
            raise OSError(errno.ELOOP, f"{path} changed meanwhile. Try again")
        plan.hide(path)


@dataclass(frozen=True)
class _Places:
    """In the project; none is below another one that covers it."""

    gone: Sequence[str]
    kept: Sequence[str]
    """Read-only."""
    repositories: Sequence[str]


def _folded(
    project: str, depth: int | None, gone: Iterable[str], kept: Iterable[str], repositories: Iterable[str]
) -> _Places:
    """What is more than `depth` levels deep is covered by the directory at that level, as a whole: it is hidden where
    something in it is, and else read-only."""

    def fold(path: str) -> str:
        return path if depth is None else "/".join(path.split("/")[: project.count("/") + 1 + depth])

    hidden = dict.fromkeys(map(fold, gone))
    read_only = dict.fromkeys(fold(path) for path in (*kept, *(path for path in repositories if fold(path) != path)))

    def is_covered(path: str, *by: Mapping[str, None]) -> bool:
        above = (path[:at] for at in range(len(project) + 1, len(path)) if path[at] == "/")
        return any(directory in covers for directory in above for covers in by)

    return _Places(
        [path for path in hidden if not is_covered(path, hidden)],
        [path for path in read_only if path not in hidden and not is_covered(path, hidden, read_only)],
        [path for path in repositories if path not in hidden and path not in read_only
         and not is_covered(path, hidden, read_only)],
    )  # fmt: skip


@cache
def _isolation(binary: str) -> tuple[str, ...]:
    """In a namespace of users of its own a command would have rights again; bubblewrap before 0.8 cannot forbid it."""
    known = subprocess.run([binary, "--help"], capture_output=True, text=True, timeout=5, check=False).stdout
    users = ("--unshare-user", "--disable-userns") if "--disable-userns" in known else ()
    own = ("--unshare-pid", "--as-pid-1", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")
    return ("--die-with-parent", "--new-session", *own, *users, "--cap-drop", "ALL")


def _leads_into(path: str, workspace: str) -> bool:
    """Whether the path, or a link on its way, leads into the workspace, where a command may have made it."""
    parts = path.split("/")
    return any(is_in(os.path.realpath("/".join(parts[:end])), workspace) for end in range(2, len(parts) + 1))


def _is_ours(path: str, project: str) -> bool:
    """Whether no rule is needed, or may take something away: git directory and `.gadget/` of the project."""
    return is_in(path, f"{project}/.git", f"{project}/.gadget")


def _above(project: str, paths: Iterable[str]) -> list[str]:
    """The directories between the project and these paths, the outermost first.

    A directory that is a mount cannot be renamed. Under another name the next command would find what is hidden in it.
    """
    return sorted({path[:at] for path in paths for at in range(len(project) + 1, len(path)) if path[at] == "/"})


class Plan:
    """Mounts, in the order in which bubblewrap makes them; a later one covers an earlier one."""

    def __init__(self) -> None:
        self._watched: list[str] = []
        """Where commands may change something."""
        self._options: list[str] = []
        self._paths: dict[str, None] = {}
        self._empty = ["/dev", "/"]
        """What a command would leave there, the next one would find."""
        self._bound: set[str] = set()
        self._mounts: dict[str, Mount] = {}
        self.own_home: tuple[str, str] | None = None
        """The directory that is the home of commands, and where it is for them."""

    def copy(self, project: str) -> "Plan":
        """To go on from, for commands in `project`."""
        plan = Plan()
        plan._watched = [project]
        plan._options, plan._empty = [*self._options], [*self._empty]
        plan._paths, plan._bound = dict(self._paths), set(self._bound)
        return plan

    def watch(self, place: str) -> None:
        """From now on, mounts below `place` are among those that are compared."""
        self._watched.append(place)

    def show(self, place: str, source: str | None = None) -> None:
        """Read-only what is at `source` on the machine, by default at the same path; nothing where there is nothing.

        A link of the machine stays a link; one in the project is left out.
        """
        source = source or place
        try:
            found = os.lstat(source)
        except (FileNotFoundError, NotADirectoryError):
            return
        if not stat.S_ISLNK(found.st_mode):
            self._bind(source, place, is_read_only=True)
        elif not is_in(source, *self._watched):
            self._options += ["--symlink", os.readlink(source), place]

    def show_real(self, path: str) -> None:
        """As `show`, under the path's real name, and under this one by a link."""
        real = os.path.realpath(path)
        self.show(real)
        if os.path.exists(real) and not is_in(path, *self._bound):
            self._options += ["--symlink", real, path]

    def bind(self, source: str, place: str) -> None:
        self._bind(source, place, is_read_only=False)

    def hide(self, path: str) -> None:
        """An empty directory or file instead of what is there; nothing where nothing or a link is."""
        try:
            found = os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return
        if stat.S_ISDIR(found.st_mode):
            self.empty(path)
        elif not stat.S_ISLNK(found.st_mode):
            self._bind(_NOTHING, path, is_read_only=True)

    def empty(self, place: str) -> None:
        self.clear_way(place)
        self._options += ["--tmpfs", place]
        self._empty.append(place)
        self._note(Mount(place, None, is_read_only=True))

    def wrapping(self, command: tuple[str, ...], home: str) -> Wrapping:
        for place in self._empty:
            if place not in self._bound:
                self._options += ["--remount-ro", place]
        fresh = ("--dev", "/dev", "--proc", "/proc", "--dir", "/run", "--symlink", "/run", "/var/run")
        return Wrapping((*command, *fresh, *self._options), tuple(self._paths), tuple(self._mounts.values()), home)

    def _bind(self, source: str, place: str, *, is_read_only: bool) -> None:
        self.clear_way(place)
        self._options += ["--ro-bind" if is_read_only else "--bind", source, place]
        self._paths[source] = None
        self._bound.add(place)
        self._note(Mount(place, source, is_read_only))

    def clear_way(self, place: str) -> None:
        """Moves aside what a command has put into its home where a mount has to be: bubblewrap would fail or follow.
        Gives back the rights that it has taken from the directories on the way. By descriptors, for a command that runs
        may put a link in the place of any directory meanwhile."""
        if self.own_home is None or place == self.own_home[1] or not is_in(place, self.own_home[1]):
            return
        names = place.removeprefix(self.own_home[1]).strip("/").split("/")
        directory = open_without_links(self.own_home[0])
        try:
            for number, name in enumerate(names):
                give_back(directory)
                try:
                    below = os.open(name, os.O_PATH | os.O_NOFOLLOW, dir_fd=directory)
                except FileNotFoundError:
                    return
                above, directory = directory, below
                try:
                    mode = os.fstat(below).st_mode
                    is_last = number == len(names) - 1
                    if not (stat.S_ISDIR(mode) or (is_last and stat.S_ISREG(mode))):
                        aside = f"{name}.moved-{secrets.token_hex(4)}"
                        return os.rename(name, aside, src_dir_fd=above, dst_dir_fd=above)
                finally:
                    os.close(above)
        finally:
            os.close(directory)

    def _note(self, mount: Mount) -> None:
        self._paths[mount.place] = None
        if is_in(mount.place, *self._watched):
            self._mounts[mount.place] = mount


def look_at_machine() -> Plan:
    """What every sandbox has of the machine. Blocks for some 50 ms."""
    plan = Plan()
    for place in SYSTEM:
        plan.show(place)
    resolver = os.path.realpath("/etc/resolv.conf")
    if not is_in(resolver, *SYSTEM):
        plan.show(resolver)
    for place in private_places():
        plan.hide(place)
    return plan


def _protect(plan: Plan, git: str, others: Iterable[str]) -> None:
    """The project's own git directory, and the others in it as far as they are still there."""
    if os.path.islink(git):
        raise OSError(
            errno.ENOTSUP,
            f"{git} is a symbolic link, and a command could replace it. Replace it by the directory it leads to, or "
            "start the drone with GADGET_SANDBOX=off",
        )
    if os.path.isfile(git) and (found := linked(git)) is not None:
        own, common = found
        plan.watch(common)
        _show_parts(plan, common, protected(common))
        _show_parts(plan, own, protected_of_linked(own))
    _show_parts(plan, git, protected(git) if os.path.isdir(git) else None)
    for number, path in enumerate(others):
        parts = None
        if number < MAX_DETAILED and is_git_directory(path):
            with suppress(OSError):
                parts = protected(path)
        _show_parts(plan, path, parts if parts and f"{path}/{COMMON}" in parts else None)


def _show_parts(plan: Plan, git: str, parts: Sequence[str] | None) -> None:
    """A git directory with these parts of it read-only; None: all of it, or a `.git` file."""
    if parts is None:
        return plan.show(git)
    plan.bind(git, git)
    for part in parts:
        plan.show(part)
