"""What git is told by its environment, so that every git which it starts is told, too.

A repository's own configuration may name programs to run. These settings win over it.
"""

import os
import re
import subprocess
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path

from gadget_drone.processes.environment import child_environment
from gadget_drone.processes.programs import program, search_path

Settings = tuple[tuple[str, str], ...]
Stamp = tuple[int, ...] | None
"""Of a file; None where there is none, as in a linked work tree."""

ON_CLONE: Settings = (("core.hooksPath", os.devnull), ("core.fsmonitor", "false"))
HARMLESS: Settings = (
    *ON_CLONE,
    ("core.pager", "cat"),
    ("core.editor", "false"),
    ("core.askPass", ""),
    ("core.sshCommand", "false"),
    ("core.gitProxy", "false"),
    ("core.alternateRefsCommand", ""),
    ("credential.helper", ""),
    ("diff.ignoreSubmodules", "dirty"),  # `git status` runs in what is not ignored, with its configuration
    ("commit.gpgSign", "false"),
    ("tag.gpgSign", "false"),
    ("log.showSignature", "false"),
    ("log.diffMerges", "separate"),  # `remerge` merges again, with the repository's merge drivers
    ("status.submoduleSummary", "false"),  # it starts git in submodules
    ("gpg.program", "false"),
    ("gpg.ssh.program", "false"),
    ("gpg.x509.program", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("submodule.recurse", "false"),
    ("blame.ignoreRevsFile", ""),
    ("safe.bareRepository", "explicit"),
)
"""For a repository that nobody vouches for: no hook, pager, editor, fsmonitor, signature program, credential helper."""

_OF_THE_USER = re.compile(
    r"user\.(name|email)|core\.(autocrlf|eol|safecrlf|excludesfile|attributesfile)|filter\..*\.(clean|smudge|process|required)",
    re.I | re.S,
)
"""What of the user's own configuration decides what a commit has in it. The rest may hold keys, or run programs."""
# What `git rev-parse --local-env-vars` lists, and what else would point git elsewhere or at a person.
_MISLEADING = re.compile(
    r"GIT_(DIR|WORK_TREE|INDEX_FILE|COMMON_DIR|PREFIX|OBJECT_DIRECTORY|ALTERNATE_OBJECT_DIRECTORIES|NAMESPACE"
    r"|GRAFT_FILE|SHALLOW_FILE|REPLACE_REF_BASE|CONFIG.*|ASKPASS|TRACE.*|EXTERNAL_DIFF|DIFF_OPTS|PROXY_COMMAND)"
    r"|SSH_ASKPASS"
)
_ASK_TIMEOUT_S = 10.0


def git_environment(settings: Settings = HARMLESS, *, protocols: str = "none") -> dict[str, str]:
    """The environment of a git that the drone runs. `protocols` are those it may fetch by, with colons between."""
    environment = {name: value for name, value in child_environment().items() if not _MISLEADING.fullmatch(name)}
    ssh = environment.get("GIT_SSH_COMMAND", "ssh") if protocols != "none" else "false"
    return environment | {
        "PATH": search_path(),  # for what git starts
        "LC_ALL": "C",
        "GIT_ALLOW_PROTOCOL": protocols,
        "GIT_EDITOR": "false",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_SEQUENCE_EDITOR": "false",
        "GIT_SSH_COMMAND": f"{ssh} -o BatchMode=yes",
        **as_environment(settings),
    }


def as_environment(settings: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Variables that set these for git; of two with the same name the later counts."""
    variables: dict[str, str] = {}
    count = 0
    for name, value in settings:
        variables[f"GIT_CONFIG_KEY_{count}"], variables[f"GIT_CONFIG_VALUE_{count}"] = name, value
        count += 1
    return {"GIT_CONFIG_COUNT": str(count), **variables}


def below(env: Mapping[str, str], settings: Settings) -> dict[str, str]:
    """`env` with these settings, too; those that it sets for git itself win over them."""
    count = env.get("GIT_CONFIG_COUNT", "")
    numbers = range(int(count) if count.isascii() and count.isdigit() else 0)
    own = [(env.get(f"GIT_CONFIG_KEY_{number}", ""), env.get(f"GIT_CONFIG_VALUE_{number}", "")) for number in numbers]
    return {**env, **as_environment((*settings, *own))}


def user_settings() -> Settings:
    """The user's own identity, line ends, ignored files and filters, such as git-lfs. Blocks for a few milliseconds
    when the user's configuration has changed."""
    home = os.path.expanduser("~")
    base = os.environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
    return _user_settings(tuple(map(stamp, (f"{home}/.gitconfig", f"{base}/git/config"))))


def user_files() -> list[str]:
    """The files that `user_settings` name, and git's default of ignored files, as far as they exist."""
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    named = [value for name, value in user_settings() if name in ("core.excludesfile", "core.attributesfile")]
    places = [*(os.path.expanduser(path) for path in named), f"{base}/git/ignore", f"{base}/git/attributes"]
    return [place for place in places if os.path.isabs(place) and os.path.isfile(place)]


def user_ignored() -> str | None:
    """The user's own file of what git ignores everywhere, whether it exists or not; None: an empty setting, none."""
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return os.path.expanduser(dict(user_settings()).get("core.excludesfile", f"{base}/git/ignore")) or None


@lru_cache(1)
def _user_settings(stamps: tuple[Stamp, ...]) -> Settings:
    """`stamps` change with the files that are read."""
    try:
        ran = subprocess.run(
            [program("git"), "config", "--global", "--includes", "--list", "-z"],
            cwd="/",
            env=git_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_ASK_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    found = (entry.partition("\n") for entry in os.fsdecode(ran.stdout).split("\0"))
    return tuple(
        (name, value if is_given else "true") for name, is_given, value in found if _OF_THE_USER.fullmatch(name)
    )


def stamp(path: str | Path) -> Stamp:
    """Changes with the file; None where there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
