"""The sandbox that bubblewrap makes, and commands run in (`standing.py`).

A command sees the machine read-only, without homes, sockets and other people's temporary files; it may change its
project, a home of its own and a /tmp of its own, which the commands of one workspace share. What is empty in it (hidden
directories, /run, /dev) is read-only too, for the sandbox stands for more than one command. In the project's `.git`,
what runs later outside of the sandbox (config, hooks, info, modules) stays as it is.

Facts it rests on (bubblewrap 0.8): as root it is no sandbox unless all capabilities are dropped; a read-only
`.git/config` can be moved away with `.git` unless that is a mount itself; sockets with a path are reachable unless
their folder is hidden.
"""

import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gadget_drone.sandbox.toolchains import toolchains

_HIDDEN = ("/home", "/root", "/run", "/tmp", "/var/tmp", "/var/run", "/var/spool", "/var/mail", "/var/backups")
_SECRET_FILES = ("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers")
"""Which root could read; without capabilities it still owns them."""
_SECRET_DIRECTORIES = ("/etc/ssh", "/etc/sudoers.d", "/etc/ssl/private", "/var/lib/docker", "/var/lib/containerd")
_BINDS = ("--bind", "--ro-bind", "--ro-bind-try")
_GIT_READ_ONLY = ("hooks", "info", "modules")
_GIT_FILES = ("config", "config.worktree")
_LEADS_OUT = frozenset({"DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "SSH_AGENT_PID", "SSH_AUTH_SOCK", "WAYLAND_DISPLAY",
                        "XAUTHORITY", "XDG_RUNTIME_DIR", "GNOME_KEYRING_CONTROL", "GPG_AGENT_INFO", "TMPDIR",
                        "DOCKER_HOST"})  # fmt: skip
_WHERE = "/usr/bin:/bin:/usr/local/bin:/run/wrappers/bin:/run/current-system/sw/bin"
HOME = "home"
TEMPORARY = "tmp"
"""In the workspace's `.gadget/`: what /tmp is for commands."""


def find_bubblewrap() -> str | None:
    """The system's own; never one that PATH leads to, which may be a project's."""
    return shutil.which("bwrap", path=_WHERE)


@dataclass(frozen=True)
class Wrapping:
    """A sandbox, as bubblewrap makes it around the program that is put after `command_line`."""

    command_line: tuple[str, ...]
    paths: tuple[str, ...]
    """What on the machine it depends on: all that is shown in it, and the places of its mounts."""
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
) -> Wrapping:
    """The sandbox for commands in `project_dir` that have the environment `env`.

    `hidden` and `read_only`: files and directories in the project that a command may not read, or not change; those
    that do not exist are left out. Makes the folders that it needs; blocks shortly. Raises FileNotFoundError where
    there is no bubblewrap.
    """
    binary = find_bubblewrap()
    if binary is None:
        raise FileNotFoundError("bubblewrap is not installed")
    # Text, not Path: this is done for each command, and Path takes a millisecond of it.
    project, workspace = os.path.realpath(project_dir), os.path.realpath(workspace_dir)
    home = os.path.realpath(env.get("HOME") or os.path.expanduser("~"))
    own = f"{workspace}/.gadget"
    for name in (HOME, TEMPORARY):
        os.makedirs(f"{own}/{name}", mode=0o700, exist_ok=True)
    options = [
        *("--die-with-parent", "--new-session", "--unshare-pid", "--as-pid-1", "--unshare-ipc", "--unshare-uts"),
        *("--unshare-cgroup-try", *(() if network else ("--unshare-net",)), "--cap-drop", "ALL"),
        *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
    ]
    empty = ["/dev"]
    covered: list[str] = []
    for place in (*_HIDDEN, *_SECRET_DIRECTORIES):
        if os.path.isdir(place) and not os.path.islink(place):
            options += ["--tmpfs", place]
            empty.append(place)
            covered.append(place)
    for place in _SECRET_FILES:
        if os.path.exists(place):
            options += ["--ro-bind", "/dev/null", place]
    resolver = os.path.realpath("/etc/resolv.conf")
    if _is_in(resolver, *covered):
        options += ["--ro-bind-try", resolver, resolver]
    for place in ("/tmp", "/var/tmp"):
        if place in covered:
            options += ["--bind", f"{own}/{TEMPORARY}", place]
    if home != "/" and not _is_in(project, own):
        options += ["--bind", f"{own}/{HOME}", home]
        covered.append(home)
    if not _is_in(workspace, *covered):
        options += ["--tmpfs", workspace]
        empty.append(workspace)
    for tool in toolchains(env, home):
        if _is_in(tool, *covered, workspace) and not _is_in(tool, own):
            options += ["--ro-bind", tool, tool]
    options += ["--bind", project, project, *_repository(project)]
    if _is_in(own, project) or os.path.isdir(f"{project}/.gadget"):
        options += ["--tmpfs", f"{project}/.gadget"]
        empty.append(f"{project}/.gadget")
    for path in map(str, read_only):
        options += ["--ro-bind-try", path, path]
    for path in map(str, hidden):
        if os.path.isdir(path):
            options += ["--tmpfs", path]
            empty.append(path)
        elif os.path.exists(path):
            options += ["--ro-bind", "/dev/null", path]
    binds = [(options[at + 1], options[at + 2]) for at, option in enumerate(options) if option in _BINDS]
    shown = {place for _, place in binds}
    paths = dict.fromkeys((*(path for bind in binds for path in bind), *empty))
    # What a command would leave there, the next one would find.
    for place in empty:
        if place not in shown:
            options += ["--remount-ro", place]
    return Wrapping((binary, *options), tuple(paths), home)


def _is_in(path: str, *places: str) -> bool:
    """Whether the absolute path is one of these places, or below one."""
    return any(path == place or path.startswith(place if place.endswith("/") else f"{place}/") for place in places)


def _repository(project: str) -> list[str]:
    git = f"{project}/.git"
    if os.path.islink(git) or not os.path.exists(git):
        return []
    if os.path.isfile(git):
        return ["--ro-bind", git, git]
    for name in _GIT_READ_ONLY:
        os.makedirs(f"{git}/{name}", exist_ok=True)  # what is not there could be made
    options = ["--bind", git, git]
    for name in (*_GIT_FILES, *_GIT_READ_ONLY):
        options += ["--ro-bind-try", f"{git}/{name}", f"{git}/{name}"]
    return options


def mend_repository(project_dir: Path) -> bool:
    """Takes away a `.git/commondir` that a command has left; whether there was one.

    It would have git take its configuration from elsewhere. It cannot be made read-only where it is not there, and an
    empty one breaks git: call this when a command has ended. (A `.git` file of a linked worktree is none of this.)
    """
    planted = project_dir / ".git" / "commondir"
    if not os.path.lexists(planted):
        return False
    planted.unlink()
    return True
