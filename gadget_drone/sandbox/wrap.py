"""How a command is put into bubblewrap.

It sees the machine read-only, without homes, sockets and other people's temporary files; it may change its project, a
home of its own and a /tmp of its own, which the commands of one workspace share. In the project's `.git`, what runs
later outside of the sandbox (config, hooks, info, modules) stays as it is.

Facts it rests on (bubblewrap 0.8): as root it is no sandbox unless all capabilities are dropped; what it is started
with can be read at /proc/1/environ, so it gets the command's own environment; a read-only `.git/config` can be moved
away with `.git` unless that is a mount itself; sockets with a path are reachable unless their folder is hidden.
"""

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from gadget_drone.sandbox.toolchains import toolchains

_HIDDEN = ("/home", "/root", "/run", "/tmp", "/var/tmp", "/var/run", "/var/spool", "/var/mail", "/var/backups")
_SECRET_FILES = ("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers")
"""Which root could read; without capabilities it still owns them."""
_SECRET_DIRECTORIES = ("/etc/ssh", "/etc/sudoers.d", "/etc/ssl/private", "/var/lib/docker", "/var/lib/containerd")
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


def wrap(
    argv: Sequence[str],
    env: Mapping[str, str],
    *,
    project_dir: Path,
    workspace_dir: Path,
    network: bool,
    keeps_background: bool = False,
    hidden: Iterable[Path] = (),
    read_only: Iterable[Path] = (),
) -> tuple[list[str], dict[str, str]]:
    """The command and its environment, to be started in `project_dir`, so that `argv` runs in the sandbox.

    `env` must hold no secrets. `hidden` and `read_only`: files and directories in the project that the command may not
    read, or not change; those that do not exist are left out. Makes the folders that it needs; blocks shortly. Raises
    FileNotFoundError where there is no bubblewrap.

    The status of a command that a signal has killed is 128 and the signal. What it leaves in the background ends with
    it, and all ends when bubblewrap is killed; with `keeps_background`, neither: only for a starter that ends all of
    its descendants itself, as the drone's supervisor does.
    """
    binary = find_bubblewrap()
    if binary is None:
        raise FileNotFoundError("bubblewrap is not installed")
    project, workspace = project_dir.resolve(), workspace_dir.resolve()
    home = Path(os.path.realpath(env.get("HOME") or os.path.expanduser("~")))
    own = workspace / ".gadget"
    for name in (HOME, TEMPORARY):
        (own / name).mkdir(mode=0o700, parents=True, exist_ok=True)
    options = [
        *(() if keeps_background else ("--die-with-parent",)),
        *("--new-session", "--unshare-pid", "--unshare-ipc", "--unshare-uts"),
        "--unshare-cgroup-try",
        *(() if network else ("--unshare-net",)),
        *("--cap-drop", "ALL", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
    ]  # fmt: skip
    covered: list[Path] = []
    for place in (*_HIDDEN, *_SECRET_DIRECTORIES):
        path = Path(place)
        if path.is_dir() and not path.is_symlink():
            options += ["--tmpfs", place]
            covered.append(path)
    for place in _SECRET_FILES:
        if os.path.exists(place):
            options += ["--ro-bind", "/dev/null", place]
    resolver = os.path.realpath("/etc/resolv.conf")
    if any(Path(resolver).is_relative_to(path) for path in covered):
        options += ["--ro-bind-try", resolver, resolver]
    for place in ("/tmp", "/var/tmp"):
        if Path(place) in covered:
            options += ["--bind", str(own / TEMPORARY), place]
    if len(home.parts) > 1 and not project.is_relative_to(own):
        options += ["--bind", str(own / HOME), str(home)]
        covered.append(home)
    if not any(workspace.is_relative_to(path) for path in covered):
        options += ["--tmpfs", str(workspace)]
    for tool in toolchains(env, home):
        if any(tool.is_relative_to(path) for path in (*covered, workspace)) and not tool.is_relative_to(own):
            options += ["--ro-bind", str(tool), str(tool)]
    options += ["--bind", str(project), str(project), *_repository(project)]
    if own.is_relative_to(project) or (project / ".gadget").is_dir():
        options += ["--tmpfs", str(project / ".gadget")]
    for path in read_only:
        options += ["--ro-bind-try", str(path), str(path)]
    for path in hidden:
        if path.is_dir():
            options += ["--tmpfs", str(path)]
        elif path.exists():
            options += ["--ro-bind", "/dev/null", str(path)]
    environment = {name: value for name, value in env.items() if name not in _LEADS_OUT} | {"HOME": str(home)}
    return [binary, *options, "--chdir", str(project), "--", *argv], environment


def _repository(project: Path) -> list[str]:
    git = project / ".git"
    if git.is_symlink() or not git.exists():
        return []
    if git.is_file():
        return ["--ro-bind", str(git), str(git)]
    for name in _GIT_READ_ONLY:
        (git / name).mkdir(exist_ok=True)  # what is not there could be made
    options = ["--bind", str(git), str(git)]
    for name in (*_GIT_FILES, *_GIT_READ_ONLY):
        options += ["--ro-bind-try", str(git / name), str(git / name)]
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
