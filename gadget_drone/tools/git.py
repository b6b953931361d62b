"""The tool `git`."""

import asyncio
import os
import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

from pydantic import Field

from gadget_api.permissions import Access, Capability
from gadget_drone.errors import ToolError
from gadget_drone.git.repository import MAX_PRINTED_BYTES, GitRefused, Repository, refuse_misleading
from gadget_drone.permissions.covered import MAX_PLACES, Covered
from gadget_drone.permissions.patterns import CHANGED_BY_GIT, normal_path, path_fits
from gadget_drone.sandbox.repositories import linked
from gadget_drone.tools.output import SpooledOutput
from gadget_drone.tools.tool import SideEffect, ToolContext, ToolResult, tool

Action = Literal["status", "diff", "log", "show", "blame", "commit", "branch", "switch"]
Paths = tuple[Annotated[str, Field(min_length=1, max_length=4096)], ...]

_PLAIN_DIFF = (
    *("--no-ext-diff", "--no-textconv", "--no-color", "--submodule=short", "--ignore-submodules=dirty"),
    *("--src-prefix=a/", "--dst-prefix=b/"),
)
_NAMES = ("--name-only", "--no-renames", "-z")
_CHANGED = (
    *("status", "--porcelain=v1", "-z", "--no-renames", "--untracked-files=all", "--ignore-submodules=dirty"),
    "--",
)
"""Lists each name behind three characters."""
_RANGE = re.compile(r"(?P<one>.*?)(?P<dots>\.{2,3})(?P<other>.*)")


def _effect(action: Action, name: str | None, **_: object) -> SideEffect:
    match action:
        case "commit":
            return SideEffect.OTHER
        case "switch":
            return SideEffect.IDEMPOTENT
        case "branch" if name is not None:
            return SideEffect.OTHER
        case _:
            return SideEffect.READ_ONLY


def _accesses(action: Action, paths: Paths, ref: str | None, name: str | None, **_: object) -> list[Access]:
    match action:
        case "commit":
            return [Access(capability=Capability.GIT, target="commit")]
        case "switch":
            return [
                Access(capability=Capability.GIT, target=f"switch {name or ''}".strip()),
                Access(capability=Capability.WRITE, target=CHANGED_BY_GIT),
            ]
        case "branch" if name is not None:
            return [Access(capability=Capability.GIT, target=f"branch {name}")]
        case _:
            read = list(paths)
            if action == "show" and ref is not None and ":" in ref:
                read.append(ref.partition(":")[2])
            looks = Access(capability=Capability.GIT, target=action, only_reads=True)
            return [looks, *(Access(capability=Capability.READ, target=path or ".") for path in read or ["."])]


@tool(effect=_effect, access=_accesses)
async def git(
    context: ToolContext,
    action: Action,
    paths: Annotated[Paths, Field(max_length=200, description="Only these files or directories.")] = (),
    ref: Annotated[
        str | None,
        Field(description="Commit, branch or tag; for diff and log a range a..b too; for show commit:path too."),
    ] = None,
    name: Annotated[
        str | None, Field(description="branch: make this one, at ref (without: list them). switch: go to this one.")
    ] = None,
    message: Annotated[str | None, Field(max_length=50_000, description="For commit.")] = None,
    staged: Annotated[bool, Field(description="diff: what is staged.")] = False,
    all: Annotated[bool, Field(description="commit: every change, new files too.")] = False,
    max_count: Annotated[int, Field(ge=1, le=1000, description="For log.")] = 20,
) -> ToolResult:
    """Look at the repository, and commit. commit takes paths, all, or what is staged; hooks do not run. For anything
    else, such as push or merge, use the shell."""
    try:
        places = None if context.sandboxed is not None else await asyncio.to_thread(_places, context.project_dir)
        repository = await Repository.open(context.project_dir, context.start, places=places)
        specs = [f":(literal){path}" for path in paths]
        hidden = _unasked(context.hidden, paths)
        match action:
            case "status":
                return await _status(context, repository, specs)
            case "diff":
                commits = [] if ref is None else await _range(repository, ref)
                arguments = [*_PLAIN_DIFF, *(["--cached"] if staged else []), *commits, "--", *specs]
                arguments += await _excluded(repository, hidden, "diff", *_NAMES, *arguments)
                return await _printed(context, repository, "diff", arguments, nothing="No differences.")
            case "log":
                commits = ["HEAD"] if ref is None else await _range(repository, ref)
                form = ["--format=%h %ad %an%d %s", "--date=iso-strict", "--no-color", f"--max-count={max_count}"]
                arguments = [*form, *commits, "--", *specs]
                return await _printed(context, repository, "log", arguments, nothing="No commits.")
            case "show":
                return await _show(context, repository, "HEAD" if ref is None else ref, specs, hidden)
            case "blame":
                if len(paths) != 1:
                    raise ToolError("blame needs one path.")
                commits = [] if ref is None else [await repository.commit_of(ref)]
                arguments = ["--no-textconv", "--date=short", *commits, "--", paths[0]]
                return await _printed(context, repository, "blame", arguments, nothing="(the file is empty)")
            case "commit":
                return await _commit(context, repository, message, specs, all)
            case "branch":
                return await _branch(context, repository, name, ref)
            case "switch":
                return await _switch(repository, name)
    except GitRefused as error:
        raise ToolError(error.message) from error


def _places(project_dir: Path) -> list[Path]:
    """The project, and the git directories of a repository that names it as its linked work tree. Blocks."""
    real = Path(os.path.realpath(project_dir))
    return [real, *map(Path, linked(str(real / ".git")) or ())]


async def _status(context: ToolContext, repository: Repository, specs: Sequence[str]) -> ToolResult:
    form = ["--porcelain=v1", "--branch", "--untracked-files=normal", "--ignore-submodules=dirty"]
    arguments = [*form, "--", *specs, *await _excluded(repository, context.hidden, *_CHANGED, *specs)]
    result = await _printed(context, repository, "status", arguments, nothing="")
    notes = [] if "\n" in result.content.strip() else ["clean"]
    if (unfinished := await repository.unfinished()) is not None:
        notes.append(f"a {unfinished} is in progress")
    if repository.own_filters:
        names = ", ".join(repository.own_filters)
        notes.append(f"filters of the repository's own configuration did not run ({names}): files may look changed")
    return ToolResult("\n".join([result.content.rstrip(), *(f"[{note}]" for note in notes)]), whole=result.whole)


async def _show(
    context: ToolContext, repository: Repository, ref: str, specs: Sequence[str], hidden: Sequence[str]
) -> ToolResult:
    commit, colon, path = ref.partition(":")
    sha = await repository.commit_of(commit)
    if colon:
        if ".." in PurePosixPath(path).parts:
            raise ToolError("The path after the colon cannot have .. in it.")
        return await _printed(context, repository, "show", ["--no-textconv", f"{sha}:{path}"], nothing="(it is empty)")
    arguments = [*_PLAIN_DIFF, sha, "--", *specs]
    arguments += await _excluded(repository, hidden, "show", "--format=", "-m", *_NAMES, *arguments)
    arguments = ["--stat", "--patch", "--format=medium", *arguments]
    return await _printed(context, repository, "show", arguments, nothing="(nothing of it is in these paths)")


async def _commit(
    context: ToolContext, repository: Repository, message: str | None, specs: Sequence[str], everything: bool
) -> ToolResult:
    if not (message or "").strip():
        raise ToolError("A commit needs a message.")
    if specs and everything:
        raise ToolError("Give paths or all, not both.")
    if (unfinished := await repository.unfinished()) is not None:
        raise ToolError(f"A {unfinished} is in progress: finish it, or end it with `git {unfinished} --abort`, first.")
    _refuse_own_filters(repository, "commit")
    # In the sandbox, what may not be read is empty: a commit of it would be its deletion.
    covers = Covered(context.hidden).covers
    arguments = ["commit", "--no-verify", "--no-gpg-sign", "--cleanup=whitespace", "--file=-"]
    if specs:
        await repository.stage(specs, covers)
        arguments += ["--only", "--", *specs, *await _excluded(repository, context.hidden, *_CHANGED, *specs)]
    elif everything:
        await repository.stage([".", ":(exclude,top).gadget"], covers)
    printed = bytearray()

    async def take(chunk: bytes) -> None:
        printed.extend(chunk)

    assert message is not None
    ran = await repository.run(arguments, take, given=message.encode(), identity=await repository.identity())
    said = printed.decode("utf-8", "replace").strip()
    if ran.status != 0:
        why = f"{said}\n{ran.errors}".strip()[-2000:]
        hint = "" if specs or everything else " (give paths or all to commit what is not staged)"
        raise ToolError(f"Nothing was committed{hint}: {why}")
    return ToolResult(said)


async def _branch(context: ToolContext, repository: Repository, name: str | None, ref: str | None) -> ToolResult:
    if name is None:
        arguments = ["--list", "--all", "-vv", "--no-color", "--no-column"]
        return await _printed(context, repository, "branch", arguments, nothing="No branches.")
    made = await repository.branch_name(name)
    commit = await repository.commit_of("HEAD" if ref is None else ref)
    await repository.ask("branch", "--no-track", "--no-recurse-submodules", "--", made, commit)
    return ToolResult(f"Made the branch {made} at {commit[:12]}.")


async def _switch(repository: Repository, name: str | None) -> ToolResult:
    if name is None:
        raise ToolError("switch needs the name of a branch.")
    _refuse_own_filters(repository, "switch")
    branch = await repository.branch_name(name)
    await _refuse_own_state(repository, "ls-files", "-z", "--", ":(top,icase).gadget")
    # Not as git guesses: it would write the configuration, and look into submodules with theirs.
    options = ("--quiet", "--no-guess", "--no-recurse-submodules", "--no-progress")
    if await repository.has_branch(branch):
        await _refuse_own_state(repository, "ls-tree", "-z", "--name-only", f"refs/heads/{branch}")
        await repository.ask("switch", *options, branch)
        return ToolResult(f"On the branch {branch}.")
    match await repository.remote_branches(branch):
        case [remote]:
            await _refuse_own_state(repository, "ls-tree", "-z", "--name-only", remote)
            await repository.ask("switch", *options, "--no-track", "--create", branch, remote)
            return ToolResult(f"On the new branch {branch}, made from {remote.removeprefix('refs/remotes/')}.")
        case []:
            raise ToolError(f"There is no branch {branch}: make it first.")
        case remotes:
            raise ToolError(f"{branch} is a branch of {len(remotes)} remotes: make one with branch, and a ref.")


def _refuse_own_filters(repository: Repository, action: str) -> None:
    if repository.own_filters:
        raise ToolError(
            f"The repository's own configuration has filters ({', '.join(repository.own_filters)}), programs that "
            f"{action} would run or leave out: use the shell for it."
        )


async def _refuse_own_state(repository: Repository, *listing: str) -> None:
    """Raises ToolError where what this git lists has a `.gadget` in it: git would write or delete the drone's state."""
    names = (await repository.ask(*listing)).split("\0")
    if any(name.partition("/")[0].casefold() == ".gadget" for name in names):
        raise ToolError("The branch has a .gadget of its own, and the drone's state is there: use the shell for it.")


async def _range(repository: Repository, ref: str) -> list[str]:
    """`ref` with every name in it replaced by a hash."""
    if (found := _RANGE.fullmatch(ref)) is None:
        return [await repository.commit_of(ref)]
    one, other = [await repository.commit_of(found[side] or "HEAD") for side in ("one", "other")]
    return [f"{one}{found['dots']}{other}"]


async def _excluded(repository: Repository, hidden: Sequence[str], *listing: str) -> list[str]:
    """Pathspecs that leave out what may not be read of what this git lists: their patterns would be git's own, which
    does not know our letter case and normal forms."""
    if not hidden:
        return []
    covered = Covered(hidden)
    listed = (await repository.ask(*listing)).split("\0")
    start = 3 if listing[0] == "status" else 0
    names = [entry[start:].rstrip("/") for entry in listed if entry]
    refuse_misleading(names)  # those of a tree may be made by hand, too
    tops = dict.fromkeys(map(covered.top, names))
    if len(tops) > MAX_PLACES:
        raise ToolError(f"More than {MAX_PLACES:,} of these files may not be read: name paths.")
    return [f":(top,exclude,literal){top}" for top in tops if top is not None]


def _unasked(hidden: Sequence[str], paths: Sequence[str]) -> Sequence[str]:
    """Without the patterns that fit all of `paths`: they were asked about by these names."""
    normal = [normal_path(path) for path in paths]
    return [p for p in hidden if not paths or not all(path_fits(p, path, wide=True) for path in normal)]


async def _printed(
    context: ToolContext, repository: Repository, command: str, arguments: Sequence[str], *, nothing: str
) -> ToolResult:
    printed = SpooledOutput(context.spool_dir)

    async def take(chunk: bytes) -> None:
        printed.feed(chunk)
        if printed.is_large:
            await asyncio.to_thread(printed.spool, chunk)

    try:
        ran = await repository.run([command, *arguments], take)
        if ran.status != 0:
            raise GitRefused(f"git {command} failed: {ran.last_words}")
        text, whole = await asyncio.to_thread(printed.finish)
    except BaseException:
        printed.discard()
        raise
    cut = f"\n[git was ended after {MAX_PRINTED_BYTES // 2**20} MiB: ask for less]" if ran.is_cut else ""
    return ToolResult((text or nothing) + cut, whole=whole)
