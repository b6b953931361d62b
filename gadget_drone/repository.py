"""Git in a repository whose own configuration nobody vouches for: it may name programs to run.

No hook, pager, editor, fsmonitor, signature program, external diff, textconv, credential helper or network runs; the
work tree is the directory itself, whatever `core.worktree` says. Filters (`filter.<name>.clean` ...) of the user's own
configuration do run, as git-lfs must; those that the repository brings along do not, and where leaving them out would
change what is written, that is refused. A repository's configuration can change between a look at it and git's: keep it
from being written by what you do not trust (the sandbox binds `.git` read-only).
"""

import asyncio
import os
import re
import signal
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gadget_api.errors import ErrorCode, GadgetError
from gadget_drone.git import SAFE_OPTIONS, git_environment
from gadget_drone.process_group import kill_group

TIMEOUT_S = 120.0
MAX_PRINTED_BYTES = 16 * 2**20
"""Of one git; more is cut off."""
FALLBACK_IDENTITY = ("Gadget", "gadget@localhost")
"""Who commits where the user has told git no name and address."""

_CHUNK_BYTES = 2**16
_MAX_ERROR_BYTES = 4000
_OPTIONS = (
    *SAFE_OPTIONS,
    *("-c", "core.pager=cat", "-c", "core.editor=false", "-c", "core.askPass=", "-c", "core.sshCommand=false"),
    *("-c", "core.alternateRefsCommand=", "-c", "credential.helper=", "-c", "diff.external="),
    *("-c", "commit.gpgSign=false", "-c", "log.showSignature=false", "-c", "gpg.program=false"),
    *("-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "submodule.recurse=false"),
    *("-c", "blame.ignoreRevsFile=", "-c", "safe.bareRepository=explicit", "-c", "advice.detachedHead=false"),
    *("-c", "color.ui=false", "-c", "column.ui=never", "-c", "core.quotePath=false"),
)
_ENVIRONMENT = {
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_EDITOR": "false",
    "GIT_SEQUENCE_EDITOR": "false",
    "GIT_PAGER": "cat",
    "GIT_SSH_COMMAND": "false",
    "GIT_LITERAL_PATHSPECS": "0",
    "GIT_GLOB_PATHSPECS": "0",
    "GIT_NOGLOB_PATHSPECS": "0",
    "GIT_ICASE_PATHSPECS": "0",
}
_MISLEADING = ("GIT_EXTERNAL_DIFF", "GIT_DIFF_OPTS", "GIT_PROXY_COMMAND")
_DRIVER = re.compile(r"(filter|hook)\.(.+)\.[a-z0-9-]+", re.I | re.S)
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


class Repository:
    def __init__(self, directory: Path, own_filters: Sequence[str], options: Sequence[str]) -> None:
        self._directory = directory
        self._options = options
        self.own_filters = own_filters
        """Names of the filters that the repository's own configuration brings along."""

    @classmethod
    async def open(cls, directory: Path) -> "Repository":
        """The repository whose work tree is `directory`. Raises GitRefused."""
        plain = cls(directory, (), ())
        if not os.path.lexists(directory / ".git"):
            raise GitRefused("The project directory is no git repository.")
        listed = await plain.ask("config", "--list", "-z", "--show-scope", "--name-only")
        words = listed.split("\0")
        own: list[str] = []
        options: list[str] = []
        for scope, name in zip(words[::2], words[1::2], strict=False):
            if (driver := _DRIVER.fullmatch(name)) is None:
                continue
            kind, called = driver[1].lower(), driver[2]
            if kind == "filter" and scope in ("system", "global"):
                continue  # the user's; where the repository has settings of the same name it is listed once more
            if "=" in called or "\n" in called:
                raise GitRefused(
                    f"The repository's configuration names a {kind} that cannot be turned off: {name!r:.100}."
                )
            if kind == "hook":
                options += ["-c", f"hook.{called}.enabled=false"]
            elif called not in own:
                own.append(called)
                for key, value in (("clean", ""), ("smudge", ""), ("process", ""), ("required", "false")):
                    options += ["-c", f"filter.{called}.{key}={value}"]
        return cls(directory, tuple(own), options)

    async def ask(self, *arguments: str) -> str:
        """What git prints, without the last newline. Raises GitRefused when it fails."""
        printed = bytearray()

        async def take(chunk: bytes) -> None:
            printed.extend(chunk)

        ran = await self.run(arguments, take)
        if ran.status != 0:
            raise GitRefused(f"git {arguments[0]} failed: {ran.last_words}")
        return printed.decode("utf-8", "replace").removesuffix("\n")

    async def run(
        self,
        arguments: Sequence[str],
        take: Callable[[bytes], Awaitable[None]],
        *,
        given: bytes = b"",
        identity: tuple[str, str] | None = None,
    ) -> Ran:
        """Runs one git; `given` is its input. Raises GitRefused when it does not start or end."""
        environment = git_environment(allow_local=False) | _ENVIRONMENT
        for name in _MISLEADING:
            environment.pop(name, None)
        environment["GIT_WORK_TREE"] = str(self._directory)
        environment["GIT_CEILING_DIRECTORIES"] = str(self._directory.parent)
        if identity is not None:
            for role in ("AUTHOR", "COMMITTER"):
                environment[f"GIT_{role}_NAME"], environment[f"GIT_{role}_EMAIL"] = identity
        command = ["git", "--no-pager", *_OPTIONS, *self._options, *arguments]
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                cwd=self._directory,
                env=environment,
                stdin=PIPE if given else DEVNULL,
                stdout=PIPE,
                stderr=PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise GitRefused(f"git did not start: {error.strerror}.") from error
        errors = asyncio.create_task(_end_of(process.stderr))
        try:
            async with asyncio.timeout(TIMEOUT_S):
                if process.stdin is not None:
                    process.stdin.write(given)
                    process.stdin.close()
                is_cut = await _pump(process.stdout, take)
                if is_cut:
                    process.send_signal(signal.SIGKILL)
                    assert process.stdout is not None
                    while await process.stdout.read(_CHUNK_BYTES):
                        pass
                status = await process.wait()
        except TimeoutError as error:
            raise GitRefused(f"git {arguments[0]} did not end within {TIMEOUT_S:g} s: ask for less.") from error
        finally:
            if process.returncode is None:
                await kill_group(process.pid)
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)  # what it started and left
            await asyncio.wait({errors})
        return Ran(0 if is_cut else status, errors.result(), is_cut)

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


async def _pump(stream: asyncio.StreamReader | None, take: Callable[[bytes], Awaitable[None]]) -> bool:
    """Whether there was more than may be taken."""
    assert stream is not None
    left = MAX_PRINTED_BYTES
    while chunk := await stream.read(_CHUNK_BYTES):
        await take(chunk[:left])
        left -= len(chunk)
        if left <= 0:
            return True
    return False


async def _end_of(stream: asyncio.StreamReader | None) -> str:
    assert stream is not None
    kept = b""
    while chunk := await stream.read(_CHUNK_BYTES):
        kept = (kept + chunk)[-_MAX_ERROR_BYTES:]
    return kept.decode("utf-8", "replace")
