"""What of the machine a command sees: the programs of the system and what they read, and no data of anybody."""

import os
import stat
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

SYSTEM = (
    "/bin", "/etc", "/gnu", "/lib", "/lib32", "/lib64", "/libx32", "/nix", "/opt", "/sbin", "/snap", "/sys", "/usr",
    "/run/current-system", "/var/cache/fontconfig", "/var/lib/dpkg", "/var/lib/gems", "/var/lib/ghc", "/var/lib/texmf",
)  # fmt: skip
"""Shown, read-only. Everything else is not there: homes, /srv, /mnt, /var with its databases, sockets in /run."""
_MAY_HOLD_SECRETS = (("/etc", 8), ("/opt", 6))
"""Where an administrator puts keys beside programs, and how many levels deep they are looked for."""


def own_state(env: Mapping[str, str]) -> list[str]:
    """Where Gadget Code itself keeps keys, data and tokens on this machine, as far as the drone's environment says."""
    home = env.get("HOME") or os.path.expanduser("~")
    config = env.get("XDG_CONFIG_HOME") or f"{home}/.config"
    data = env.get("GADGET_DATA_DIR") or f"{env.get('XDG_DATA_HOME') or f'{home}/.local/share'}/gadget-code"
    places = (f"{config}/gadget-code", data, env.get("GADGET_SECRET_KEY_FILE"))
    return [os.path.realpath(place) for place in places if place]


def private_places() -> list[str]:
    """What in `SYSTEM` this process may read and other accounts may not, such as keys of servers, and sockets."""
    return [place for root, depth in _MAY_HOLD_SECRETS for place in _private_below(root, depth)]


def _private_below(directory: str, depth: int) -> Iterator[str]:
    try:
        entries = list(os.scandir(directory))
    except OSError:
        return
    for entry in entries:
        if entry.is_symlink():
            continue
        mode = entry.stat(follow_symlinks=False).st_mode
        if stat.S_ISDIR(mode):
            if not mode & stat.S_IXOTH and os.access(entry.path, os.X_OK):
                yield entry.path
            elif depth > 1:
                yield from _private_below(entry.path, depth - 1)
        elif stat.S_ISSOCK(mode) or (not mode & stat.S_IROTH and os.access(entry.path, os.R_OK)):
            yield entry.path


def make_own(directory: str) -> None:
    """Makes a directory that commands write to, and may enter. Raises OSError where something else is there."""
    try:
        os.makedirs(directory, mode=0o700)
    except FileExistsError:
        mode = os.lstat(directory).st_mode
        if not stat.S_ISDIR(mode):
            raise
        if mode & 0o700 != 0o700:
            os.chmod(directory, 0o700)


_DOTNET = tuple(f".dotnet/{name}" for name in ("dotnet", "host", "packs", "sdk", "sdk-manifests", "shared", "tools"))
_PARTS: dict[str, tuple[str, ...]] = {
    ".cargo/bin": (".cargo/bin", ".cargo/env", ".rustup"),  # not credentials.toml
    ".local/bin": (
        ".local/bin", ".local/lib", ".local/pipx", ".local/share/pipx", ".local/share/uv/python",
        ".local/share/uv/tools",
    ),
    ".dotnet": _DOTNET,
    ".dotnet/tools": _DOTNET,
    "bin": ("bin",),
    "go/bin": ("go/bin",),
}  # fmt: skip
_WHOLE = (
    ".pyenv", ".nvm", ".fnm", ".nodenv", ".volta", ".bun", ".deno", ".rbenv", ".rvm", ".asdf", ".sdkman", ".jenv",
    ".goenv", ".ghcup", ".opam", ".juliaup", ".linuxbrew", ".swiftly", ".local/share/mise",
    ".local/share/fnm", ".local/share/pnpm", "miniconda3", "anaconda3", "miniforge3", "mambaforge",
)  # fmt: skip
"""Version managers: their programs need the rest of them, and they keep no secrets of their own."""
_PREFIX_HAS = ("pyvenv.cfg", "conda-meta")
"""Tells a directory of programs of which `bin` alone does not work."""


def toolchains(env: Mapping[str, str], home: str) -> list[str]:
    """The directories of programs that PATH names outside of `SYSTEM`, with what they need, as far as they exist."""
    return [path for path in _named(env.get("PATH", ""), home) if os.path.exists(path)]


@cache
def _named(path: str, home: str) -> tuple[str, ...]:
    directories = (Path(directory) for directory in path.split(os.pathsep) if directory)
    return tuple(dict.fromkeys(str(tool) for directory in directories for tool in _of(directory, Path(home))))


def _of(directory: Path, home: Path) -> Iterator[Path]:
    if not directory.is_absolute() or is_in(str(directory), *SYSTEM) or directory == home:
        return
    if any((directory.parent / name).exists() for name in _PREFIX_HAS):
        yield directory.parent
        return
    if not directory.is_relative_to(home):
        yield directory
        return
    inside = directory.relative_to(home)
    for start in _WHOLE:
        if inside.is_relative_to(start):
            yield home / start
            return
    for part in _PARTS.get(str(inside), (str(inside),)):
        yield home / part


def is_in(path: str, *places: str) -> bool:
    """Whether the absolute path is one of these places, or below one."""
    return any(path == place or path.startswith(place if place.endswith("/") else f"{place}/") for place in places)
