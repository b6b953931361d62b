"""Git as the drone itself runs it: never a prompt, a hook, or a protocol that runs commands."""

import asyncio
import os
import re
import secrets
import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gadget_api.errors import ErrorCode, GadgetError
from gadget_api.projects import is_local_git_url, is_remote_git_url
from gadget_api.work_order import OrderProject
from gadget_drone.git_settings import ON_CLONE, Stamp, git_environment, stamp
from gadget_drone.process_group import kill_group
from gadget_drone.programs import find_program, program

OnProgress = Callable[[int | None, str], None]
"""Takes percent (None: unknown) and what git does now; called on the event loop."""

CLONE_TIMEOUT_S = 30 * 60.0
CLONE_SILENCE_S = 5 * 60.0
"""Without any progress; large repositories are counted on the server for minutes."""
_ASK_TIMEOUT_S = 10.0

_CREDENTIALS = re.compile(r"(https?://)[^/@\s]+@")
_CHATTER = re.compile(r"(Cloning into|warning:|Please make sure|and the repository exists|\s*$)")


def ask_git(directory: Path, *arguments: str, feed: bytes = b"") -> str | None:
    """What `git` says about `directory`, without the last newline; None when it fails or is missing. Blocks. `feed` is
    its input.

    Raises GadgetError when it does not end: that says nothing about the directory.
    """
    for _ in range(2):  # who was stopped meanwhile, as in a suspended machine, finds the time over at once
        try:
            ran = subprocess.run(
                [program("git"), "-C", str(directory), *arguments],
                env=git_environment(),
                input=feed,
                capture_output=True,
                timeout=_ASK_TIMEOUT_S,
                check=False,
            )
        except OSError:
            return None
        except subprocess.TimeoutExpired:
            continue
        return os.fsdecode(ran.stdout).removesuffix("\n") if ran.returncode == 0 else None
    raise GadgetError(ErrorCode.GIT_FAILED, f"git does not answer in {directory}; see what holds it up, and try again.")


def is_checkout_of(directory: Path, url: str) -> bool:
    """Whether `directory` is the root of a work tree that came from `url`, or that `url` itself names. Blocks.

    Git is asked once, and again when what it reads of the repository for that is another file than it was.
    """
    if not os.path.lexists(directory / ".git"):
        return False  # what is around it does not count
    config, common = (stamp(directory / ".git" / name) for name in ("config", "commondir"))
    known, answer = _checkouts.get((directory, url), (None, False))
    if config is None or known != (config, common):
        answer = _ask_whether_checkout(directory, url)
        if config is not None:
            _checkouts[directory, url] = (config, common), answer
    return answer


_checkouts: dict[tuple[Path, str], tuple[tuple[Stamp, Stamp], bool]] = {}
"""What git has said, with the stamps of the files that it read. As many as a workspace has projects."""


def _ask_whether_checkout(directory: Path, url: str) -> bool:
    root = ask_git(directory, "rev-parse", "--show-toplevel")
    if root is None or Path(root) != directory.resolve():
        return False
    origin = ask_git(directory, "config", "--get", "remote.origin.url")
    return _same(str(directory), url) or (origin is not None and _same(origin, url))


def _same(one: str, other: str) -> bool:
    return _plain(one) == _plain(other)


def _plain(url: str) -> str:
    path = url.removeprefix("file://")
    if path.startswith("/"):
        return os.path.realpath(path)
    return url.rstrip("/").removesuffix(".git")


def redacted(text: str) -> str:
    """`text` without the user names and passwords of its URLs."""
    return _CREDENTIALS.sub(r"\1", text)


async def ensure_cloned(
    project: OrderProject,
    target: Path,
    *,
    allow_local: bool,
    on_progress: OnProgress,
    silence_s: float = CLONE_SILENCE_S,
) -> bool:
    """Makes `target` a checkout of the project; whether it had to be cloned. `silence_s` bounds a lack of progress.

    An unfinished clone is in the workspace's `.gadget/`, which commands do not see. The workspace may itself be a
    checkout, whose commands could otherwise write a filter into the clone's configuration while git checks it out.

    Raises GadgetError: `gitUrlNotAllowed`, or `gitFailed` with what git said. Cancelled or failed, it leaves nothing.
    """
    url = project.git_url
    if not (is_remote_git_url(url) or (allow_local and is_local_git_url(url))):
        way_out = "local repositories need GADGET_ALLOW_LOCAL_GIT=1" if is_local_git_url(url) else "use https or ssh"
        raise GadgetError(ErrorCode.GIT_URL_NOT_ALLOWED, f"This drone does not clone {redacted(url)!r}: {way_out}.")
    if find_program("git") is None:
        raise GadgetError(ErrorCode.GIT_FAILED, "git is not installed on the drone's machine: install it.")
    hidden = target.parent / ".gadget"
    unfinished = f"{target.name}.cloning-"
    place = hidden / f"{unfinished}{secrets.token_hex(4)}"
    try:
        if await asyncio.to_thread(_is_there, target, url):
            return False
        hidden.mkdir(mode=0o700, exist_ok=True)
        await asyncio.to_thread(_remove_all, hidden, unfinished)
        await _clone(url, place, allow_local, silence_s, on_progress)
        os.rename(place, target)
    except OSError as error:
        raise GadgetError(ErrorCode.GIT_FAILED, f"{target} cannot be used: {error.strerror}.") from error
    finally:
        await asyncio.to_thread(shutil.rmtree, place, ignore_errors=True)
    return True


def _is_there(target: Path, url: str) -> bool:
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise GadgetError(ErrorCode.GIT_FAILED, f"{target} is not a directory: move it away.")
    if not target.exists() or not any(target.iterdir()):
        return False
    if is_checkout_of(target, url):
        return True
    origin = ask_git(target, "config", "--get", "remote.origin.url")
    holds = f"holds {redacted(origin)}" if origin and (target / ".git").exists() else "is no clone"
    raise GadgetError(
        ErrorCode.GIT_FAILED,
        f"{target} {holds} and the project is {redacted(url)}: move the directory away, or mend the project's URL.",
    )


def _remove_all(directory: Path, prefix: str) -> None:
    for name in os.listdir(directory):
        if name.startswith(prefix):
            shutil.rmtree(directory / name, ignore_errors=True)


async def _clone(url: str, place: Path, allow_local: bool, silence_s: float, on_progress: OnProgress) -> None:
    loop = asyncio.get_running_loop()
    started = _Started()
    seen: list[str] = []

    def progressed(percent: int | None, what: str) -> None:
        if silence.expired():
            return
        silence.reschedule(loop.time() + silence_s)
        if what:
            on_progress(percent, what)

    def from_thread(percent: int | None, what: str) -> None:
        loop.call_soon_threadsafe(progressed, percent, what)

    try:
        async with asyncio.timeout(CLONE_TIMEOUT_S), asyncio.timeout(silence_s) as silence:
            work = asyncio.ensure_future(
                asyncio.to_thread(_clone_in_thread, url, place, allow_local, started, seen, from_thread)
            )
            # Whoever is cancelled a second time does not wait for it below, and asks no more how it ended.
            work.add_done_callback(lambda done: done.cancelled() or done.exception())
            try:
                # wait() leaves the thread's work alone when cancelled: git must be gone before its directory is.
                await asyncio.wait({work})
            finally:
                await started.stop()
                await asyncio.wait({work})
                failure = work.exception()
            if failure is not None:
                raise failure
    except TimeoutError as error:
        message = f"Cloning {redacted(url)} took too long: check the connection, or clone it by hand to the same place."
        raise GadgetError(ErrorCode.GIT_FAILED, message, retryable=True) from error


class _Started:
    """The one process of a clone, started in a thread and stopped from the event loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stopped = False
        self._process: subprocess.Popen[str] | None = None

    def start(self, command: list[str], environment: dict[str, str]) -> subprocess.Popen[str]:
        with self._lock:
            if self._stopped:
                raise InterruptedError("the clone was stopped")
            self._process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                encoding="utf-8",
                errors="replace",
                start_new_session=True,  # ssh and git's other helpers end with it
            )
            return self._process

    async def stop(self) -> None:
        with self._lock:
            self._stopped = True
        if self._process is not None and self._process.poll() is None:
            await kill_group(self._process.pid)


def _clone_in_thread(
    url: str,
    place: Path,
    allow_local: bool,
    started: _Started,
    seen: list[str],
    from_thread: OnProgress,
) -> None:
    # GitPython runs git when it is imported, and takes 0.1 s: not at the start of `gadget-drone --help`.
    os.environ["GIT_PYTHON_GIT_EXECUTABLE"] = program("git")
    from git.cmd import Git
    from git.exc import GitCommandError
    from git.repo import Repo
    from git.util import RemoteProgress

    class Progress(RemoteProgress):
        def update(
            self, op_code: int, cur_count: str | float, max_count: str | float | None = None, message: str = ""
        ) -> None:
            percent = int(100 * float(cur_count) / float(max_count)) if max_count else None
            from_thread(percent, (self._cur_line or "").partition(":")[0].removeprefix("remote: "))

        def line_dropped(self, line: str) -> None:
            seen.append(line)
            del seen[:-50]
            from_thread(None, "")

    class CloneGit(Git):
        def execute(self, command: Any, **options: Any) -> Any:  # type: ignore[override]
            if not options.get("as_process"):
                return super().execute(command, **options)
            protocols = "https:ssh:file" if allow_local else "https:ssh"
            process = started.start(command, git_environment(ON_CLONE, protocols=protocols))
            return self.AutoInterrupt(process, command)

    class CloneRepo(Repo):
        GitCommandWrapperType = CloneGit

    progress: Any = Progress()
    try:
        CloneRepo.clone_from(url, str(place), progress=progress, multi_options=["--no-recurse-submodules"]).close()
    except GitCommandError as error:
        said = _last_words([*seen, *progress.error_lines])
        raise GadgetError(
            ErrorCode.GIT_FAILED,
            f"Cloning {redacted(url)} failed ({redacted(said)}): check the project's URL and this machine's access.",
        ) from error


def _last_words(lines: list[str]) -> str:
    """The line that says most: with ssh, git's own last one says only that something was said before it."""
    telling = [line.strip() for line in lines if not _CHATTER.match(line)]
    better = [line for line in telling if "Could not read from remote repository" not in line]
    return (better or telling or ["git said nothing"])[-1][:500]
