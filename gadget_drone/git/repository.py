"""Git in a repository whose own configuration nobody vouches for: it may name programs to run.

Git runs where commands run: in the sandbox, where there is one. Besides, no hook, pager, editor, fsmonitor, signature
program, external diff, textconv, credential helper or network runs, and the work tree is the directory itself, whatever
`core.worktree` says. Filters (`filter.<name>.clean` ...) of the user's own configuration do run, as git-lfs must; those
that the repository brings along do not, and where leaving them out would change what is written, that is refused.

Names in an index are those of files below the work tree: git reads an index that was made by hand as it is.

Without a sandbox the git directories and their objects have to be in the project, without symbolic links: git would
print another repository, and write through a link.
"""

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Protocol

from gadget_api.errors import ErrorCode, GadgetError
from gadget_drone.git.settings import HARMLESS, Settings, Stamp, git_environment, stamp, user_settings
from gadget_drone.processes.pipes import CHUNK_BYTES, open_pipe
from gadget_drone.processes.programs import find_program
from gadget_drone.processes.supervised import NotStarted, Supervised

TIMEOUT_S = 120.0
MAX_PRINTED_BYTES = 16 * 2**20
"""Of one git; more is cut off."""
_MAX_INDEX_BYTES = 2**28
"""Of names, which are looked at and not kept: five million."""
FALLBACK_IDENTITY = ("Gadget", "gadget@localhost")
"""Who commits where the user has told git no name and address."""

_MAX_ERROR_BYTES = 4000
_PLAIN = (
    "-c",
    "color.ui=false",
    "-c",
    "column.ui=never",
    "-c",
    "core.quotePath=false",
    "-c",
    "advice.detachedHead=false",
)
_PATHSPECS = {
    "GIT_LITERAL_PATHSPECS": "0",
    "GIT_GLOB_PATHSPECS": "0",
    "GIT_NOGLOB_PATHSPECS": "0",
    "GIT_ICASE_PATHSPECS": "0",
}
_DRIVER = re.compile(r"(filter|hook)\.(.*)\.[a-z0-9-]+", re.I | re.S)
_ALTERNATE = "alternate: "
_MISLEADING = re.compile(r"(?:\A|[\0/])(?:\.{0,2}|\.git)(?=[\0/]|\Z)", re.I)
"""In names with NUL between them: a part that is empty (the first of an absolute path), `.`, `..` or `.git`."""
_listed_indexes: dict[Path, Stamp] = {}
"""Of each project: the index whose names lead nowhere else. Listing them again takes a git for each call."""
_UNFINISHED = {
    "MERGE_HEAD": "merge",
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
}


class GitRefused(GadgetError):
    """Git said no, or may not be asked."""

    title = "Git failed"

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.GIT_FAILED, message)


@dataclass(frozen=True)
class Ran:
    status: int
    errors: str
    """The end of what it said on its error output."""
    is_cut: bool = False
    """Whether it had more to print than is taken."""

    @property
    def last_words(self) -> str:
        lines = [line.strip() for line in self.errors.splitlines() if line.strip() and not line.startswith("hint:")]
        return " ".join(lines[-5:])[-800:] or "it said nothing"


class Start(Protocol):
    """Starts a command in the work tree. Raises NotStarted."""

    async def __call__(
        self, command: Sequence[str], *, output: int, errors: int, stdin: int | None, env: Mapping[str, str]
    ) -> Supervised: ...


class Repository:
    """The repository whose work tree is `directory`; git is started by `start`."""

    def __init__(self, directory: Path, start: Start, settings: Settings, own_filters: Sequence[str] = ()) -> None:
        self._directory = directory
        self._start = start
        self._settings = settings
        self.own_filters = own_filters
        """Names of the filters that the repository's own configuration brings along."""

    @classmethod
    async def open(cls, directory: Path, start: Start, *, places: Sequence[Path] | None = None) -> "Repository":
        """`places`: the directories that its git directories and objects have to be in; None where a sandbox holds
        git. Raises GitRefused."""
        users = await asyncio.to_thread(user_settings)
        plain = cls(directory, start, (*users, *HARMLESS))
        if not os.path.lexists(directory / ".git"):
            raise GitRefused("The project directory is no git repository.")
        if places is not None:
            found = await plain._git_directories()
            await asyncio.to_thread(_refuse_elsewhere, found, places)
        await plain._refuse_misleading_index()
        listed = await plain.ask("config", "--list", "-z", "--show-scope", "--name-only")
        words = listed.split("\0")
        own: list[str] = []
        off: list[tuple[str, str]] = []
        for scope, name in zip(words[::2], words[1::2], strict=False):
            if (driver := _DRIVER.fullmatch(name)) is None:
                continue
            kind, called = driver[1].lower(), driver[2]
            shown = called or "(empty name)"
            if kind == "hook":
                off.append((f"hook.{called}.enabled", "false"))
            elif scope not in ("system", "command") and shown not in own:
                # The user's own come by the command; the repository's of the same name are listed once more.
                own.append(shown)
                off += [(f"filter.{called}.{key}", "") for key in ("clean", "smudge", "process")]
                off.append((f"filter.{called}.required", "false"))
        return cls(directory, start, (*users, *HARMLESS, *off), own)

    async def _git_directories(self) -> list[Path]:
        """Where git keeps and finds everything. Raises GitRefused."""
        said = (await self.ask("rev-parse", "--absolute-git-dir", "--git-common-dir")).split("\n")
        if len(said) != 2:
            raise GitRefused("The path of the git directory has a line end in it.")
        found = [self._directory / path for path in said]
        if os.path.lexists(found[-1] / "objects/info/alternates"):
            lines = (await self.ask("count-objects", "-v")).split("\n")
            # A path with odd characters is quoted: no such directory is in the project.
            found += [self._directory / line.removeprefix(_ALTERNATE) for line in lines if line.startswith(_ALTERNATE)]
        return found

    async def _refuse_misleading_index(self) -> None:
        """Raises GitRefused for a name in the index that leads elsewhere: git would read and print what is there."""
        # A command that changes it meanwhile can read what git can: this is about repositories made by hand.
        index = stamp(self._directory / ".git/index")
        if index is not None and _listed_indexes.get(self._directory) == index:
            return
        rest = b""

        async def take(chunk: bytes) -> None:
            nonlocal rest
            *names, rest = (rest + chunk).split(b"\0")
            refuse_misleading(map(os.fsdecode, names))

        ran = await self.run(("ls-files", "-z"), take, max_bytes=_MAX_INDEX_BYTES)
        if ran.is_cut:
            raise GitRefused("The index has too many names.")
        if ran.status != 0:
            raise GitRefused(f"git ls-files failed: {ran.last_words}")
        _listed_indexes[self._directory] = index

    async def ask(self, *arguments: str, given: str = "") -> str:
        """What git prints, without the last newline. Raises GitRefused when it fails, or prints too much."""
        printed = bytearray()

        async def take(chunk: bytes) -> None:
            printed.extend(chunk)

        ran = await self.run(arguments, take, given=os.fsencode(given))
        if ran.is_cut:
            raise GitRefused(f"git {arguments[0]} has too much to say: name fewer paths.")
        if ran.status != 0:
            raise GitRefused(f"git {arguments[0]} failed: {ran.last_words}")
        return os.fsdecode(bytes(printed)).removesuffix("\n")

    async def run(
        self,
        arguments: Sequence[str],
        take: Callable[[bytes], Awaitable[None]],
        *,
        given: bytes = b"",
        identity: tuple[str, str] | None = None,
        max_bytes: int = MAX_PRINTED_BYTES,
    ) -> Ran:
        """Runs one git; `given` is its input. Raises GitRefused when it does not start or end."""
        env = git_environment(self._settings) | _PATHSPECS
        env["GIT_CONFIG_GLOBAL"] = os.devnull  # in the sandbox it would be what commands have written there
        env["GIT_WORK_TREE"] = str(self._directory)
        env["GIT_CEILING_DIRECTORIES"] = str(self._directory.parent)
        if identity is not None:
            for role in ("AUTHOR", "COMMITTER"):
                env[f"GIT_{role}_NAME"], env[f"GIT_{role}_EMAIL"] = identity
        if (git := find_program("git")) is None:
            raise GitRefused("git is not installed on the drone's machine: install it.")
        command = [git, "--no-pager", *_PLAIN, *arguments]
        with TemporaryFile() as stdin:
            stdin.write(given)
            stdin.seek(0)
            printed, printing, output = await open_pipe()
            with closing(printing), output:
                complained, complaining, errors = await open_pipe()
                with closing(complaining), errors:
                    streams = {"output": output.fileno(), "errors": errors.fileno(), "stdin": stdin.fileno()}
                    try:
                        running = await self._start(command, env=env, **streams)
                    except NotStarted as error:
                        raise GitRefused(f"git did not start: {error.strerror}.") from error
                    output.close()
                    errors.close()
                    tail = asyncio.create_task(_end_of(complained))
                    try:
                        return await _ended(running, arguments[0], _pump(printed, take, max_bytes), tail)
                    finally:
                        complaining.close()  # ends the task
                        await asyncio.wait({tail})

    async def commit_of(self, name: str) -> str:
        """The full hash of the commit that `name` stands for. Raises GitRefused."""
        if name.startswith("-") or not name.strip() or re.search(r"[\x00-\x20\x7f]", name) or len(name) > 250:
            raise GitRefused(f"{name!r:.100} is no name of a commit.")
        with suppress(GitRefused):
            return await self.ask("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        raise GitRefused(f"There is no commit {name!r:.100} here.")

    async def branch_name(self, name: str) -> str:
        """`name`, when a branch may be called so. Raises GitRefused."""
        if not name.startswith(("-", "@")):
            with suppress(GitRefused):
                return await self.ask("check-ref-format", "--branch", name)
        raise GitRefused(f"A branch cannot be called {name!r:.100}.")

    async def has_branch(self, name: str) -> bool:
        with suppress(GitRefused):
            await self.ask("rev-parse", "--verify", "--quiet", f"refs/heads/{name}")
            return True
        return False

    async def remote_branches(self, name: str) -> list[str]:
        """The full names of the branches of remotes that are called `name`, a name that `branch_name` has passed."""
        return (await self.ask("for-each-ref", "--format=%(refname)", f"refs/remotes/*/{name}")).split()

    async def stage(self, specs: Sequence[str], is_left_out: Callable[[str], bool]) -> None:
        """Puts the changes that fit these pathspecs into the index, as `git add --all` does, but for what is left out.
        Raises GitRefused.

        `git add` itself runs `git status` in each nested repository, with the configuration that it finds there.
        """
        listing = ("ls-files", "-z", "--modified", "--deleted", "--others", "--exclude-standard", "--", *specs)
        found = (await self.ask(*listing)).split("\0")
        files = (path for path in found if path and not path.endswith("/"))  # else a nested repository
        changed = dict.fromkeys(path for path in files if not is_left_out(path))
        replaced = [path for path in changed if _is_plain_directory(self._directory / path)]
        for path in replaced:
            del changed[path]
        if replaced:
            await self.ask("update-index", "--force-remove", "-z", "--stdin", given="\0".join(replaced))
        await self.ask("update-index", "--add", "--remove", "--replace", "-z", "--stdin", given="\0".join(changed))

    async def unfinished(self) -> str | None:
        """What is in progress: merge, rebase, cherry-pick, revert; None: nothing."""
        paths = [argument for name in _UNFINISHED for argument in ("--git-path", name)]
        found = (await self.ask("rev-parse", *paths)).split("\n")
        at = zip(found, _UNFINISHED.values(), strict=True)
        return next((what for path, what in at if os.path.lexists(self._directory / path)), None)

    async def identity(self) -> tuple[str, str] | None:
        """Who commits, where git itself does not know: None means that it does."""
        known = await asyncio.gather(*map(self._is_set, ("name", "email")))
        return None if all(known) else FALLBACK_IDENTITY

    async def _is_set(self, what: str) -> bool:
        variables = (f"GIT_AUTHOR_{what.upper()}", f"GIT_COMMITTER_{what.upper()}")
        if all(os.environ.get(name) for name in variables):
            return True
        with suppress(GitRefused):
            return bool(await self.ask("config", "--get", f"user.{what}"))
        return False


async def _ended(
    running: Supervised, command: str, printing: Coroutine[None, None, bool], tail: asyncio.Task[str]
) -> Ran:
    """Waits for git's end, and ends it in time, with all that it started. Raises GitRefused."""
    try:
        async with asyncio.timeout(TIMEOUT_S):
            if await printing:
                return Ran(0, "", is_cut=True)
            ended = await running.ended()
            return Ran(ended.status, await tail)
    except TimeoutError as error:
        raise GitRefused(f"git {command} did not end within {TIMEOUT_S:g} s: ask for less.") from error
    except NotStarted as error:
        raise GitRefused(f"git did not start: {error.strerror}.") from error
    except ChildProcessError as error:
        raise GitRefused(f"git {command} was killed from outside: its outcome is unknown.") from error
    finally:
        await running.kill()


async def _pump(stream: asyncio.StreamReader, take: Callable[[bytes], Awaitable[None]], left: int) -> bool:
    """Whether there was more than may be taken: `left` bytes."""
    while chunk := await stream.read(CHUNK_BYTES):
        await take(chunk[:left])
        left -= len(chunk)
        if left <= 0:
            return True
    return False


async def _end_of(stream: asyncio.StreamReader) -> str:
    kept = b""
    while chunk := await stream.read(CHUNK_BYTES):
        kept = (kept + chunk)[-_MAX_ERROR_BYTES:]
    return kept.decode("utf-8", "replace")


def _is_plain_directory(path: Path) -> bool:
    """Whether files are in it, and it is no submodule."""
    return path.is_dir() and not path.is_symlink() and not os.path.lexists(path / ".git")


def refuse_misleading(names: Iterable[str]) -> None:
    """Raises GitRefused for a file's name that git never makes: it may lead out of the project, or past a rule."""
    listed = list(names)
    if listed and _MISLEADING.search("\0".join(listed)):
        name = next(filter(_MISLEADING.search, listed))
        raise GitRefused(f"The repository lists a file {name!r:.100}, which git never does: somebody made it by hand.")


def _refuse_elsewhere(directories: Sequence[Path], places: Sequence[Path]) -> None:
    """Raises GitRefused for a directory outside of `places`, and for a symbolic link in one. Blocks."""
    inside = [Path(os.path.realpath(place)) for place in places]
    for real in dict.fromkeys(Path(os.path.realpath(directory)) for directory in directories):
        if not any(real.is_relative_to(place) for place in inside):
            raise GitRefused(
                f"This repository takes what it has from {real}, outside of the project: use the shell, or install "
                "bubblewrap, in whose sandbox git finds no more than it may."
            )
        _refuse_links(real)


def _refuse_links(directory: Path) -> None:
    """Raises GitRefused for a symbolic link: git would read through it, and write. Blocks."""
    waiting = [str(directory)]
    while waiting:
        with suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_symlink():
                    raise GitRefused(
                        f"{entry.path} is a symbolic link, and git would write through it: remove it, or install "
                        "bubblewrap, in whose sandbox git may follow it."
                    )
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
