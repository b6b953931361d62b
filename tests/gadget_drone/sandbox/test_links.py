"""What a command puts into the project so that the next sandbox is made of it."""

import asyncio
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from gadget_drone.processes.environment import child_environment
from gadget_drone.processes.supervised import NotStarted
from gadget_drone.sandbox.known import KnownRepositories
from gadget_drone.sandbox.nested import nested_repositories
from gadget_drone.sandbox.repositories import mend_common, remove_links
from gadget_drone.sandbox.standing import Standing
from tests.gadget_drone.sandbox.conftest import Place
from tests.gadget_drone.tools.test_shell import until

NAMES = ("branches", "config", "config.worktree", "commondir", "hooks", "info", "modules", "remotes", "worktrees")


def git(*words: object) -> str:
    return subprocess.run(["git", *map(str, words)], check=True, capture_output=True, text=True).stdout


def found_by_all_means(place: Place) -> str:
    """What commands see of the secrets outside, through every name that could lead there."""
    line = "find . -name 'file' -o -name .netrc -o -name workspace.json | xargs cat; grep -rs secret . | head -50; true"
    return place.run(line).stdout


@pytest.mark.parametrize("name", NAMES)
def test_a_command_cannot_put_a_link_at_a_protected_name(name: str, place: Place) -> None:
    place.run(f"rm -rf .git/{name}; ln -sfn {place.outside} .git/{name}; mv .git/{name} .git/x; ln -s / .git/{name}")
    assert not (place.project / ".git" / name).is_symlink()
    assert "secret" not in found_by_all_means(place)
    assert git("-C", place.project, "status", "--short") == "?? README\n"


@pytest.mark.parametrize("name", NAMES)
def test_a_link_that_was_there_before_is_not_followed(name: str, place: Place) -> None:
    path = place.project / ".git" / name
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.symlink_to(place.outside)
    if name == "commondir":
        assert "secret" not in found_by_all_means(place)
        return
    with pytest.raises(NotStarted, match=f"{name} is not a .*GADGET_SANDBOX=off"):
        place.run("true")


@pytest.mark.parametrize(
    "name", ["objects/info/alternates", "logs/HEAD", "COMMIT_EDITMSG", "index.lock", "refs/heads/x"]
)
def test_links_at_other_names_show_nothing(name: str, place: Place) -> None:
    place.run(f"mkdir -p $(dirname .git/{name}); ln -sfn {place.outside} .git/{name}; ln -s {place.home} home")
    assert "secret" not in found_by_all_means(place)
    assert (place.outside / "file").read_text() == "secret outside"


def test_a_git_directory_that_is_a_link_is_refused(place: Place) -> None:
    (place.project / ".git").rename(place.outside / "git")
    (place.project / ".git").symlink_to(place.outside / "git")
    with pytest.raises(NotStarted, match="is a symbolic link"):
        place.run("true")


def test_a_git_directory_made_by_a_command_is_protected_from_the_next(place: Place) -> None:
    shutil.rmtree(place.project / ".git")
    place.run("git init -q")
    place.run(
        "echo x > .git/commondir; echo x >> .git/config; echo x > .git/hooks/pre-commit; ln -s / .git/worktrees/x"
    )
    assert (place.project / ".git/commondir").read_text() == ".\n"
    assert not (place.project / ".git/hooks/pre-commit").exists()
    assert "x\n" not in (place.project / ".git/config").read_text()
    assert list((place.project / ".git/worktrees").iterdir()) == []


@pytest.mark.parametrize("nested", ["lib", "deep/er/lib", "bare.git", "with blank"])
def test_repositories_below_the_project_keep_what_git_runs(nested: str, place: Place) -> None:
    is_bare = nested == "bare.git"
    git("init", "-q", *(["--bare"] if is_bare else []), place.project / nested)
    git_dir = place.project / nested / ("" if is_bare else ".git")
    before = (git_dir / "config").read_text()
    at = git_dir.relative_to(place.project)
    repositories = asyncio.run(nested_repositories(place.project))
    assert repositories == [str(git_dir)]
    lines = (
        f"cd '{at}'; echo x >> config; echo x > commondir; echo x > hooks/post-checkout; echo x > config.worktree; "
        f"mv hooks h; rm -rf info modules worktrees; cd /; mv '{git_dir}' '{git_dir}2'; true"
    )
    place.run_with(lines, repositories=repositories)
    assert (git_dir / "config").read_text() == before
    assert not (git_dir / "hooks/post-checkout").exists()
    assert (git_dir / "info").is_dir()
    if is_bare:  # read-only as a whole
        assert not (git_dir / "commondir").exists()
        return
    assert (git_dir / "config.worktree").read_text() == ""
    assert (git_dir / "commondir").read_text() == ".\n"
    commit = f"cd '{nested}' && git -c user.name=n -c user.email=e commit -qm x --allow-empty; git log --oneline"
    assert " x" in place.run_with(commit, repositories=repositories).stdout


def test_a_nested_git_file_is_read_only(place: Place) -> None:
    (place.project / "sub").mkdir()
    git("init", "-q", "--bare", place.project / ".git/modules/sub")
    (place.project / "sub/.git").write_text("gitdir: ../.git/modules/sub\n")
    repositories = asyncio.run(nested_repositories(place.project))
    place.run_with("echo gitdir: /tmp/evil > sub/.git; rm sub/.git; mv sub/.git sub/x", repositories=repositories)
    assert (place.project / "sub/.git").read_text() == "gitdir: ../.git/modules/sub\n"


def test_a_nested_repository_with_links_in_it_is_read_only_as_a_whole(place: Place) -> None:
    git("init", "-q", place.project / "lib")
    repositories = asyncio.run(nested_repositories(place.project))
    hooks = place.project / "lib/.git/hooks"
    shutil.rmtree(hooks)
    hooks.symlink_to(place.outside)
    ran = place.run_with(
        "cat lib/.git/hooks/file; echo x >> lib/.git/config; touch lib/.git/x", repositories=repositories
    )
    assert "secret" not in ran.stdout
    assert not (place.project / "lib/.git/x").exists()


@pytest.mark.parametrize("named", [".git/worktrees/known", ".git"])
def test_a_git_file_shows_no_repository_that_does_not_know_the_work_tree(named: str, place: Place) -> None:
    """A command may have written it, to be shown another repository of the user's."""
    other = place.outside / "other"
    git("init", "-q", other)
    git("-C", other, "-c", "user.name=n", "-c", "user.email=e", "commit", "-q", "--allow-empty", "-m", "secret")
    git("-C", other, "worktree", "add", "-q", place.outside / "known")
    shutil.rmtree(place.project / ".git")
    (place.project / ".git").write_text(f"gitdir: {other / named}\n")
    ran = place.run(f"git log; ls {other}/.git")
    assert "secret" not in ran.stdout
    assert "not a git repository" in ran.stderr


WORST_MOMENT = {
    "a denied directory is moved away": "mv denied d2; mkdir decoy; ln -s decoy denied",
    "hooks become a link": "mv .git/hooks .git/h; ln -s {outside} .git/hooks",
    "the configuration becomes a link": "mv .git/config .git/c; ln -s {outside}/file .git/config",
    "a nested repository becomes a link": "mv lib lib2; ln -s {outside} lib",
    "a directory above a nested repository becomes a link": "mv deep deep2; ln -s {outside} deep",
}


@pytest.mark.parametrize("change", WORST_MOMENT)
async def test_what_changes_while_bubblewrap_makes_a_sandbox_lets_no_command_in(
    change: str, place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A background job that always wins the race: it is played by a program that calls bubblewrap."""
    for repository in (place.project / "lib", place.project / "deep/lib", place.outside, place.outside / "lib"):
        git("init", "-q", repository)
    (place.outside / ".git/file").write_text("secret outside")
    (place.project / "denied").mkdir()
    (place.project / "denied/key").write_text("secret of the project")
    repositories = await nested_repositories(place.project)
    racing = tmp_path / "bin/bwrap"
    racing.parent.mkdir()
    line = WORST_MOMENT[change].format(outside=place.outside)
    racing.write_text(
        f'#!/bin/sh\n[ $1 = --help ] || (cd {place.project} && {line})\nexec {shutil.which("bwrap")} "$@"\n'
    )
    racing.chmod(0o755)
    monkeypatch.setattr("gadget_drone.sandbox.wrap._WHERE", str(racing.parent))
    with pytest.raises(NotStarted):
        await place.start(
            ["/bin/sh", "-c", "touch ran"], output=2, hidden=[place.project / "denied"], repositories=repositories
        )
    assert not (place.project / "ran").exists()
    assert (place.outside / "file").read_text() == "secret outside"


PLANTED = {
    "a file": "echo /tmp/evil > .git/commondir",
    "an empty file": ": > .git/commondir",
    "a directory": "mkdir .git/commondir",
    "a directory with files": "mkdir .git/commondir; touch .git/commondir/x",
    "a link": "ln -s / .git/commondir",
    "a pipe": "mkfifo .git/commondir",
}


@pytest.mark.parametrize("planted", PLANTED)
def test_a_planted_commondir_is_taken_away(planted: str, place: Place) -> None:
    """Without a sandbox a command can make one."""
    git_dir = place.project / ".git"
    assert not mend_common(str(git_dir))
    subprocess.run(["/bin/sh", "-c", PLANTED[planted]], cwd=place.project, check=True)
    assert mend_common(str(git_dir))
    assert git("-C", place.project, "status", "--short") == "?? README\n"
    place.run("true")
    assert not mend_common(str(git_dir)), "the sandbox's own"
    assert git("-C", place.project, "status", "--short") == "?? README\n"


def test_the_commondir_of_a_linked_work_tree_is_left(place: Place, tmp_path: Path) -> None:
    git("-C", place.project, "-c", "user.name=n", "-c", "user.email=e", "commit", "-q", "--allow-empty", "-m", "x")
    git("-C", place.project, "worktree", "add", "-q", tmp_path / "linked")
    real = place.project / ".git/worktrees/linked"
    link = tmp_path / "link"
    link.symlink_to(real)
    assert not mend_common(str(link))
    assert (real / "commondir").exists()


@pytest.mark.parametrize("line", ["worktree = ../elsewhere", "bare = true", "\tBARE"])
def test_a_repository_with_a_work_tree_elsewhere_keeps_it(line: str, place: Place) -> None:
    with (place.project / ".git/config").open("a") as config:
        config.write(f"[core]\n{line}\n")
    place.run("true")
    assert not (place.project / ".git/commondir").exists()


# Rules that deny, and what is protected without a rule


@pytest.mark.parametrize(
    "where", [".git/hooks/a.pem", ".git/b.pem", ".gadget/c.pem", "lib/.git/hooks/d.pem", "lib/e.pem"]
)
def test_a_denied_file_takes_no_protection_away(where: str, place: Place) -> None:
    """A mount above what is denied covers what is below it; the agent chooses the names that a pattern fits."""
    git("init", "-q", place.project / "lib")
    (place.project / ".gadget").mkdir()
    (place.project / ".gadget/workspace.json").write_text("secret of the project")
    denied = place.project / where
    denied.write_text("x")
    repositories = asyncio.run(nested_repositories(place.project))
    line = (
        "for g in .git lib/.git; do echo x > $g/hooks/pre-commit; echo x >> $g/config; echo x > $g/commondir; done; "
        "mv .gadget/tmp .gadget/t; cat .gadget/*; ls -A .gadget"
    )
    for options in ({"hidden": [denied]}, {"read_only": [denied]}):
        ran = place.run_with(line, repositories=repositories, **options)
        assert ran.stdout == ""
    for git_dir in (place.project / ".git", place.project / "lib/.git"):
        assert not (git_dir / "hooks/pre-commit").exists()
        assert "x\n" not in (git_dir / "config").read_text()
        assert (git_dir / "commondir").read_text() == ".\n"


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ("mv lib lib2", "mv lib2 lib"),
        ("mv deep deep2", "mv deep2 deep"),
        ("mv lib/.git/HEAD lib/.git/H", "mv lib/.git/H lib/.git/HEAD"),
        ("mv lib/.git/objects lib/.git/o", "mv lib/.git/o lib/.git/objects"),
    ],
)
def test_a_repository_that_hides_is_protected_all_the_same(first: str, then: str, place: Place) -> None:
    for name in ("lib", "deep/lib"):
        git("init", "-q", place.project / name)
    for line in (first, "for g in lib lib2 deep/lib deep2/lib; do echo x >> $g/.git/config; done", then):
        place.run_with(line, repositories=asyncio.run(nested_repositories(place.project)))
    for name in ("lib", "deep/lib"):
        assert "x\n" not in (place.project / name / ".git/config").read_text()


def test_a_repository_whose_name_is_no_text_is_protected(place: Place) -> None:
    odd = os.fsdecode(os.fsencode(place.project) + b"/\xff\rlib")
    subprocess.run(["git", "init", "-q", odd], check=True)
    repositories = asyncio.run(nested_repositories(place.project))
    assert repositories == [f"{odd}/.git"]
    place.run_with("for d in *; do echo x >> $d/.git/config; done; true", repositories=repositories)
    assert "x\n" not in Path(odd, ".git/config").read_text()


LEFT = (
    "rr-cache/id/thisimage",
    "lost-found/other/x",
    "logs/HEAD",
    "logs/refs/heads/x",
    "packed-refs",
    "index",
    "refs/heads/y",
    "COMMIT_EDITMSG",
    "HEAD",
)


@pytest.mark.parametrize("kind", ["link", "pipe"])
@pytest.mark.parametrize("name", LEFT)
def test_what_a_command_leaves_for_a_git_outside_is_removed(name: str, kind: str, place: Place) -> None:
    """Git writes through links, and waits for pipes."""
    victim = place.outside / "victim"
    make = f"ln -sf {victim}" if kind == "link" else "mkfifo"
    place.run(f"mkdir -p $(dirname .git/{name}); rm -f .git/{name}; {make} .git/{name}")
    (note,) = asyncio.run(place.standing.mend(place.project))
    assert note.startswith(f"{place.project}/.git/{name} was removed")
    assert not os.path.lexists(place.project / ".git" / name)


@pytest.mark.parametrize("when", ["it ends", "the turn ends", "the drone ends", "the drone was killed"])
async def test_what_a_job_leaves_for_a_git_outside_is_removed_when(when: str, place: Place) -> None:
    git("init", "-q", place.project / "lib")
    left = [place.project / directory / "COMMIT_EDITMSG" for directory in (".git", "lib/.git")]
    os.mkfifo(place.project / "go")
    line = f"cat go; for g in .git lib/.git; do ln -s {place.outside}/victim $g/COMMIT_EDITMSG; done; sleep 600"
    words = ["/bin/sh", "-c", line.removesuffix("; sleep 600") if when == "it ends" else line]
    job = await place.start(words, output=2, repositories=await nested_repositories(place.project))
    await asyncio.to_thread((place.project / "go").write_text, "")
    if when == "it ends":
        assert (await asyncio.wait_for(job.ended(), 20)).status == 0
    else:
        await until(left[1].is_symlink)
    match when:
        case "the turn ends":
            assert len(await place.standing.mend(place.project)) == len(left)
        case "the drone ends":
            await place.standing.close()
        case "the drone was killed":
            await asyncio.to_thread(KnownRepositories(place.workspace).mend_all)
    assert not any(map(os.path.lexists, left))
    assert await job.kill()


@pytest.mark.parametrize("made", ["mkfifo .git/objects/ab/x", "rm .git/HEAD; ln -s refs/../../README .git/HEAD"])
def test_no_name_of_gits_own_keeps_a_pipe_or_a_link_that_leads_out(made: str, place: Place) -> None:
    subprocess.run(["/bin/sh", "-c", f"mkdir .git/objects/ab; {made}"], cwd=place.project, check=True)
    assert len(remove_links(str(place.project / ".git"), objects=True)) == 1


def test_a_link_in_a_linked_work_trees_info_is_removed(place: Place, tmp_path: Path) -> None:
    """Of its directories `modules` alone is protected."""
    git("-C", place.project, "-c", "user.name=n", "-c", "user.email=e", "commit", "-q", "--allow-empty", "-m", "x")
    git("-C", place.project, "worktree", "add", "-q", tmp_path / "linked")
    link = place.project / ".git/worktrees/linked/info/sparse-checkout"
    link.parent.mkdir()
    link.symlink_to(place.outside / "file")
    assert remove_links(str(tmp_path / "linked/.git")) == [str(link)]


def test_an_old_head_and_links_of_other_programs_stay(place: Place) -> None:
    head, annex = place.project / ".git/HEAD", place.project / ".git/annex"
    head.unlink()
    head.symlink_to("refs/heads/main")
    annex.mkdir()
    (annex / "x").symlink_to("y")
    assert remove_links(str(place.project / ".git")) == []
    assert head.is_symlink()
    assert (annex / "x").is_symlink()


# What a command makes so that repositories are not found, or no command runs any more


async def test_decoys_hide_no_repository(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gadget_drone.sandbox.nested.MAX_FOUND", 3)
    git("init", "-q", place.project / "z/lib")
    for number in range(9):  # none of them is a repository
        (place.project / f"a{number}/.git").mkdir(parents=True)
        (place.project / f"a{number}/.git/config").touch()
        (place.project / f"b{number}").mkdir()
        (place.project / f"b{number}/.git").write_text("gitdir: /nowhere\n")
    assert await nested_repositories(place.project) == [f"{place.project}/z/lib/.git"]
    for number in range(3):
        git("init", "-q", place.project / f"c{number}")
    with pytest.raises(NotStarted, match=r"more than 3 git repositories .* remove those"):
        await nested_repositories(place.project)


def test_a_repository_that_hides_while_the_drone_changes_is_protected(place: Place) -> None:
    git("init", "-q", place.project / "lib")
    place.run_with("mv lib/.git/objects lib/.git/o", repositories=asyncio.run(nested_repositories(place.project)))
    asyncio.run(place.standing.close())
    after = Place(place.workspace, place.project, place.home, place.outside, Standing(place.workspace))
    found = asyncio.run(nested_repositories(place.project))
    after.run_with("echo x >> lib/.git/config; mv lib/.git/o lib/.git/objects", repositories=found)
    asyncio.run(after.standing.close())
    assert "x\n" not in (place.project / "lib/.git/config").read_text()


async def test_a_link_above_a_known_repository_stops_no_later_command(place: Place) -> None:
    git("init", "-q", place.project / "deep/lib")
    before = await nested_repositories(place.project)
    assert (await (await place.start(["/bin/true"], output=2, repositories=before)).ended()).status == 0
    (place.project / "deep").rename(place.project / "deep2")  # as a job does that has run since before
    (place.project / "deep").symlink_to(place.outside)
    found = await nested_repositories(place.project)
    words = ["/bin/sh", "-c", "echo x >> deep2/lib/.git/config"]
    assert (await (await place.start(words, output=2, repositories=found)).ended()).status != 0


@pytest.mark.parametrize("what", ["repositories", "denied files", "denied directories"])
def test_many_deep_places_to_protect_stop_no_command(what: str, place: Place) -> None:
    """bubblewrap takes 9,000 arguments, and a second for a thousand mounts."""
    deep = [place.project / f"many/d{number}/e/f/g/h/i/j/k/l" for number in range(450)]
    for directory in deep:
        directory.mkdir(parents=True)
        if what == "repositories":
            for name in ("objects", "refs"):
                (directory / ".git" / name).mkdir(parents=True)
            for name in ("HEAD", "config"):
                (directory / ".git" / name).touch()
        elif what == "denied files":
            (directory / "key").write_text("secret")
        else:
            (directory / "key").mkdir()
            (directory / "key/file").write_text("secret")
    hidden = [] if what == "repositories" else [directory / "key" for directory in deep]
    found = asyncio.run(nested_repositories(place.project))
    line = "grep -rs secret .; for d in many/*/e/f/g/h/i/j/k/l; do echo x >> $d/.git/config; done; echo runs > made"
    ran = place.run_with(line, hidden=hidden, repositories=found)
    assert ran.stdout == ""
    assert (place.project / "made").read_text() == "runs\n"
    if found:
        assert not any((directory / ".git/config").read_text() for directory in deep)


def test_a_repository_too_deep_for_a_mount_is_kept_by_a_directory_above(place: Place) -> None:
    directory = place.project
    while (room := 4095 - len(f"{directory}/.git/objects/")) > 0:
        directory /= "d" * min(room, 200)
    for name in ("objects", "refs"):
        (directory / ".git" / name).mkdir(parents=True)
    for name in ("HEAD", "config"):
        (directory / ".git" / name).touch()
    place.run_with(f"echo x >> {directory}/.git/config; echo x > made", repositories=[f"{directory}/.git"])
    assert (place.project / "made").exists()
    assert (directory / ".git/config").read_text() == ""


def test_more_places_than_can_be_protected_are_refused_in_words(place: Place) -> None:
    files = [place.project / f"{number}.pem" for number in range(1000)]
    for file in files:
        file.touch()
    with pytest.raises(NotStarted, match=r"too many .*: remove"):
        place.run_with("true", hidden=files)


def test_no_command_can_exchange_a_directory_of_the_home_that_something_is_mounted_in(place: Place) -> None:
    """bubblewrap would follow a link there, and make directories on the machine."""
    home = place.workspace.parent
    for name in (".cargo/bin", ".local/share/tool/bin"):
        (home / name).mkdir(parents=True)
    path = f"{home}/.cargo/bin:{home}/.local/share/tool/bin:/usr/bin:/bin"
    names = ("space", "space/project", ".cargo", ".cargo/bin", ".local", ".local/share", ".local/share/tool/bin")
    lines = "; ".join(f"mv ~/{name} ~/x && echo moved {name}; rmdir ~/{name}" for name in names)
    first = place.run(f"{lines}; touch ~/.cargo/registry ~/.local/share/kept", PATH=path, HOME=str(home))
    assert first.stdout == ""
    again = place.run("ls ~/.cargo ~/.local/share; touch ~/space/x || echo read-only", PATH=path, HOME=str(home))
    assert "registry" in again.stdout
    assert "kept" in again.stdout
    assert "read-only" in again.stdout


async def test_a_mount_of_the_home_that_is_misplaced_lets_no_command_in(
    place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (place.home / ".cargo/bin").mkdir(parents=True)
    racing = tmp_path / "bin/bwrap"
    racing.parent.mkdir()
    own_home = place.workspace / ".gadget/home/project"
    line = f"cd {own_home} && mkdir -p .cargo/other && rm -rf .cargo/bin && ln -s other .cargo/bin"
    racing.write_text(f'#!/bin/sh\n[ $1 = --help ] || ({line})\nexec {shutil.which("bwrap")} "$@"\n')
    racing.chmod(0o755)
    env = child_environment() | {"HOME": str(place.home), "PATH": f"{place.home}/.cargo/bin:/usr/bin:/bin"}
    assert (await (await place.start(["/bin/true"], output=2, env=env)).ended()).status == 0
    replaced = place.project / ".git/config"
    replaced.rename(replaced.with_name("c"))  # the next one is made anew
    monkeypatch.setattr("gadget_drone.sandbox.wrap._WHERE", str(racing.parent))
    with pytest.raises(NotStarted):
        await place.start(["/bin/sh", "-c", "touch ran"], output=2, env=env)
    assert not (place.project / "ran").exists()


def test_no_link_that_a_job_puts_into_its_home_meanwhile_moves_a_file_of_the_machine(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, tools = place.workspace / ".gadget/home/project", place.home / ".local/bin"
    tools.mkdir(parents=True)
    place.run("mkdir ~/.local; ln -s x ~/.local/bin")
    (place.outside / "bin").symlink_to("x")

    def exchange(_: int) -> str:
        """The name is asked for once it is known what has to be moved."""
        (own / ".local").rename(own / "was")
        (own / ".local").symlink_to(place.outside)
        monkeypatch.undo()
        return "aside"

    monkeypatch.setattr("gadget_drone.sandbox.wrap.secrets.token_hex", exchange)
    path = f"{tools}:/usr/bin:/bin"
    with pytest.raises(NotStarted, match="symbolic link"):
        place.run("true", PATH=path)
    assert sorted(os.listdir(place.outside)) == ["bin", "file"]
    assert place.run("echo works", PATH=path).stdout == "works\n"
    assert (own / "was/bin.moved-aside").is_symlink()


def test_a_list_of_git_directories_that_a_repository_brings_opens_nothing(place: Place) -> None:
    (place.outside / "deep").mkdir()
    for directory in (place.outside, place.outside / "deep"):
        (directory / "link").symlink_to("nowhere")
    listed = [str(place.outside), str(place.outside / "deep"), f"{place.project}/../outside", "/"]
    (place.workspace / ".gadget").mkdir(exist_ok=True)
    (place.workspace / ".gadget" / "git-directories.json").write_text(
        json.dumps({str(place.project): listed, str(place.workspace): listed, "/": listed})
    )
    KnownRepositories(place.workspace).mend_all()
    assert (place.outside / "link").is_symlink()
    assert (place.outside / "deep/link").is_symlink()
    assert KnownRepositories(place.workspace).add(place.project, ()) == []
    with pytest.raises(ValueError, match="is not in"):
        place.run_with("true", repositories=listed)


def test_a_link_whose_name_is_no_text_is_told_as_text(place: Place) -> None:
    os.symlink(b"nowhere", os.fsencode(place.project) + b"/.git/x\xff")
    [note] = KnownRepositories(place.workspace).mend(place.project)
    assert "x\ufffd was removed" in note
