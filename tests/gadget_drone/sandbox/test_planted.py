"""Repositories that a command makes, for the user's own git to come to."""

import asyncio
import os
import subprocess

import pytest

from gadget_drone.sandbox.nested import nested_repositories
from tests.gadget_drone.sandbox.conftest import Place
from tests.gadget_drone.tools.test_shell import until

COMMIT = "git -c user.name=n -c user.email=e commit -q --allow-empty -m x"
SUB = f"git init -q sub && cd sub && touch f && git add f && {COMMIT} && cd .."
EVIL = "[core]\\n\\trepositoryformatversion = 1\\n\\tfsmonitor = touch $PWNED; false\\n"
PLANTED = {
    "a setting": f"printf '{EVIL}' >> sub/.git/config",
    "a setting behind a header": "printf '[core] fsmonitor = touch $PWNED; false\\n' >> sub/.git/config",
    "a setting of the work tree": f"printf '{EVIL}' > sub/.git/config.worktree; "
    "git -C sub config extensions.worktreeConfig true",
    "an included file": f"printf '{EVIL}' > evil; printf '[include]\\npath = ../../evil\\n' >> sub/.git/config",
    "a configuration by a link": f"printf '{EVIL}' > evil; ln -sf ../../evil sub/.git/config",
    "a hook": "printf '#!/bin/sh\\ntouch $PWNED\\n' > sub/.git/hooks/post-index-change; "
    "chmod +x sub/.git/hooks/post-index-change; touch -d yesterday sub/f",
    "a git directory elsewhere": f"printf '{EVIL}' >> sub/.git/config; mv sub/.git x; echo gitdir: ../x > sub/.git",
    "a name that ends in a blank": f"printf '{EVIL}' >> sub/.git/config; cp -r sub/.git x; mv sub/.git 'x '; "
    "rm x/config; echo 'gitdir: ../x ' > sub/.git",
    "a link": f"printf '{EVIL}' >> sub/.git/config; mv sub/.git x; ln -s ../x sub/.git; "
    "rm x/HEAD; ln -s refs/heads/master x/HEAD",
    "a directory in common": f"printf '{EVIL}' >> sub/.git/config; mv sub/.git x; mkdir sub/.git; "
    "cp x/HEAD x/index sub/.git; rm x/HEAD; echo ../../x > sub/.git/commondir",
}


def git(*words: object) -> str:
    return subprocess.run(["git", *map(str, words)], check=False, capture_output=True, text=True).stdout


def go_there(place: Place) -> None:
    """As the user, and an editor that looks for repositories."""
    git("-C", place.project, "status")
    for name in ("sub", "x"):
        if (place.project / name).is_dir():
            git("-C", place.project / name, "status")


async def run(place: Place, line: str) -> None:
    words = ["/bin/sh", "-c", line]
    running = await place.start(words, output=2, repositories=await nested_repositories(place.project))
    assert (await asyncio.wait_for(running.ended(), 20)).status == 0
    assert await running.kill()


@pytest.mark.parametrize("planted", PLANTED)
async def test_a_repository_that_a_command_made_runs_nothing(planted: str, place: Place) -> None:
    pwned = place.outside / "pwned"
    link = "git update-index --add --cacheinfo 160000,$(git -C sub rev-parse HEAD),sub"
    await run(place, f"{SUB}; {link}; {PLANTED[planted]}".replace("$PWNED", str(pwned)))
    assert await place.standing.mend(place.project, turn_ends=True)
    await asyncio.to_thread(go_there, place)
    assert not pwned.exists()


async def test_what_git_makes_stays_as_it_is(place: Place) -> None:
    (place.project / "lib").mkdir()
    git("init", "-q", place.project / "lib")
    await run(place, "true")
    line = (
        f"{SUB}; git init -q --bare bare.git; git clone -q sub copy; git -C copy config user.name n; "
        f"git -C sub worktree add -q ../tree; git clone -q sub big; cd big; "
        f"git -c protocol.file.allow=always submodule --quiet add ../sub; {COMMIT}; cd ..; "
        "git -c protocol.file.allow=always clone -q --recurse-submodules big big2"
    )
    await run(place, line)
    before = {path: path.read_bytes() for path in place.project.rglob("config")}
    assert await place.standing.mend(place.project, turn_ends=True) == []
    assert {path: path.read_bytes() for path in place.project.rglob("config")} == before
    for name in ("copy", "tree", "big2/sub"):
        assert await asyncio.to_thread(git, "-C", place.project / name, "log", "--format=%s")


async def test_the_users_own_repositories_stay_as_they_are(place: Place) -> None:
    """Those that were there before a command, or came when none ran."""
    for name in ("before", "between"):
        await asyncio.to_thread(git, "init", "-q", place.project / name)
        await asyncio.to_thread(git, "-C", place.project / name, "config", "core.fsmonitor", "true")
        await run(place, f"mkdir sub-{name}; echo gitdir: ../{name}/.git > sub-{name}/.git")
        assert await place.standing.mend(place.project, turn_ends=True) == []
        assert "fsmonitor" in (place.project / name / ".git/config").read_text()


async def test_what_a_job_makes_is_not_taken_for_the_users(place: Place) -> None:
    """After the turn, and by the first command of the next one."""
    await asyncio.to_thread(os.mkfifo, place.project / "go")
    line = f"cat go; {SUB}; {PLANTED['a hook']}; touch made; sleep 600"
    job = await place.start(["/bin/sh", "-c", line], output=2)
    await place.standing.mend(place.project, turn_ends=True)
    await asyncio.to_thread((place.project / "go").write_text, "")
    await until((place.project / "made").exists)
    await run(place, "true")
    assert not (place.project / "sub/.git/hooks/post-index-change").exists()
    assert any("/hooks is " in note for note in await place.standing.mend(place.project, turn_ends=True))
    assert await job.kill()


@pytest.mark.parametrize("made", ["mv HEAD objects refs ../", "mv HEAD ../; echo .git > ../commondir"])
async def test_the_project_itself_is_not_taken_for_a_git_directory(made: str, place: Place) -> None:
    pwned = place.outside / "pwned"
    line = f"cd .git; {made}; cd ..; printf '{EVIL}\\tworktree = .\\n' > config"
    await run(place, line.replace("$PWNED", str(pwned)))
    notes = await place.standing.mend(place.project)
    assert any("/HEAD is HEAD.removed-" in note for note in notes)
    assert any("/.git/HEAD is missing" in note for note in notes)
    await asyncio.to_thread(go_there, place)
    assert not pwned.exists()
