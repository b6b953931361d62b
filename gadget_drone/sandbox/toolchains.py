"""What of the real home a build needs: the tools that PATH leads to, without what lies beside them."""

import os
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

_PARTS: dict[str, tuple[str, ...]] = {
    ".cargo/bin": (".cargo/bin", ".cargo/env", ".rustup"),  # not credentials.toml
    ".local/bin": (".local/bin", ".local/lib", ".local/pipx", ".local/share/pipx", ".local/share/uv"),
    "bin": ("bin",),
    "go/bin": ("go/bin",),
}
_WHOLE = (
    ".pyenv", ".nvm", ".fnm", ".nodenv", ".volta", ".bun", ".deno", ".rbenv", ".rvm", ".asdf", ".sdkman", ".jenv",
    ".goenv", ".dotnet", ".ghcup", ".opam", ".juliaup", ".linuxbrew", ".swiftly", ".local/share/mise",
    ".local/share/fnm", ".local/share/pnpm", "miniconda3", "anaconda3", "miniforge3", "mambaforge",
)  # fmt: skip
"""Version managers: their programs need the rest of them, and they keep no secrets of their own."""


def toolchains(env: Mapping[str, str], home: str) -> list[str]:
    """What is to be seen, read-only, of `home` and other places that are hidden, as far as it exists."""
    return [path for path in _named(env.get("PATH", ""), home) if os.path.exists(path)]


@lru_cache(16)
def _named(path: str, home: str) -> tuple[str, ...]:
    directories = (Path(directory) for directory in path.split(os.pathsep) if directory)
    return tuple(dict.fromkeys(str(tool) for directory in directories for tool in _of(directory, Path(home))))


def _of(directory: Path, home: Path) -> Iterator[Path]:
    if not directory.is_absolute():
        return
    if not directory.is_relative_to(home):
        yield directory
        return
    inside = directory.relative_to(home)
    if str(inside) == ".":
        return
    for start in _WHOLE:
        if inside.is_relative_to(start):
            yield home / start
            return
    for part in _PARTS.get(str(inside), (str(inside),)):
        yield home / part
