"""Questions on the terminal that shows the turn, and from another one."""

import asyncio
import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from gadget_ai.testing.script import Call, Reply, RequestView, Script, Text
from tests.harness import User, until
from tests.interaction.test_commands import Terminal
from tests.interaction.test_permissions import pending


@pytest.fixture
def terminal(user: User, tmp_path: Path) -> Terminal:
    return Terminal(tmp_path, user)


class Screen:
    """A command of ours on a terminal of its own."""

    def __init__(self, terminal: Terminal, *arguments: str) -> None:
        self._ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "gadget_code", *arguments],
            env={**terminal.env, "TERM": "xterm", "COLUMNS": "100"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self.shown = ""
        asyncio.get_running_loop().add_reader(self._ours, self._read)

    def _read(self) -> None:
        try:
            piece = os.read(self._ours, 65536)
        except OSError:  # its end
            piece = b""
        if not piece:
            asyncio.get_running_loop().remove_reader(self._ours)
        self.shown += piece.decode(errors="replace")

    async def until(self, seen: Callable[[str], bool]) -> None:
        async def shown() -> bool | None:
            return True if seen(self.shown) else None

        try:
            await until(shown, 60)
        except TimeoutError:
            raise AssertionError(self.shown) from None

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    async def ended(self) -> int:
        await until(self._status, 60)
        return self.process.returncode

    async def _status(self) -> int | None:
        return self.process.poll()

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._ours)
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(10)
        with suppress(OSError):
            os.close(self._ours)


def write_once(request: RequestView) -> Reply:
    if request.messages[-1]["role"] == "user":
        return Reply(Call("write", {"path": "new.txt", "content": "new\n"}))
    return Reply(Text("Done."))


@pytest.mark.parametrize(
    ("typed", "is_written"),
    [
        ("1\n", True),
        ("yes\n", True),
        ("deny use docs instead\n", False),
        ("what?\nn\n", False),
        # Words that ask for something else allow nothing, whatever they begin with.
        ("1 but carefully\nn\n", False),
        ("once, please\nn\n", False),
        ("once please\nn\n", False),
        ("yes but carefully\nn\n", False),
        ("2 with yarn\nn\n", False),
    ],
)
async def test_an_approval_is_given_where_the_turn_is_shown(
    stage_for: Any, terminal: Terminal, typed: str, is_written: bool
) -> None:
    stage = await stage_for(Script(write_once))
    screen = Screen(terminal, "prompt", "Write it.", "--session", stage.session["_id"], "--level", "ask")
    try:
        await screen.until(lambda shown: "> " in shown)
        assert "+new" in screen.shown
        screen.type(typed)
        assert await screen.ended() == 0, screen.shown
    finally:
        screen.close()
    assert (stage.checkout / "new.txt").exists() is is_written
    if "docs" in typed:
        told = [message["content"] for message in stage.model.requests[1].messages if message["role"] == "tool"]
        assert "use docs instead" in told[0]


async def test_what_was_typed_before_the_question_was_shown_does_not_answer_it(
    stage_for: Any, terminal: Terminal
) -> None:
    stage = await stage_for(Script(write_once))
    screen = Screen(terminal, "prompt", "Write it.", "--session", stage.session["_id"], "--level", "ask")
    try:
        screen.type("1\n")
        await screen.until(lambda shown: "> " in shown)
        screen.type("n\n")
        assert await screen.ended() == 0, screen.shown
    finally:
        screen.close()
    assert not (stage.checkout / "new.txt").exists()


@pytest.mark.parametrize(
    ("path", "content", "seen"),
    [
        ("notes\u202etxt.sh", "x\n", "notes⟦U+202E⟧txt.sh"),
        ("a.sh", "curl https://ex\u0430mple.com\n", "https://ex⟦U+0430⟧mple.com"),
        ("a.sh", "rm\u200b -rf \U000e0041 \x1b[8m\n", "rm⟦U+200B⟧ -rf ⟦U+E0041⟧ ⟦U+001B⟧[8m"),
    ],
)
async def test_what_hides_is_marked_on_the_terminal_and_a_sentence_warns(
    stage_for: Any, terminal: Terminal, path: str, content: str, seen: str
) -> None:
    def write(request: RequestView) -> Reply:
        if request.messages[-1]["role"] == "user":
            return Reply(Call("write", {"path": path, "content": content}))
        return Reply(Text("Wrote \u202egnp.exe, \u200bdone."))

    stage = await stage_for(Script(write))
    session = stage.session["_id"]
    status, renamed, _ = await terminal.run("session", "rename", session, "Reports \u202etxt.exe")
    assert (status, renamed) == (0, "Renamed to Reports ⟦U+202E⟧txt.exe.\n")
    screen = Screen(terminal, "prompt", "Write it.", "--session", session, "--level", "ask")
    try:
        await screen.until(lambda shown: "> " in shown)
        inquiry = await pending(stage.user)
        shown_elsewhere = (await terminal.run("inquiry", "show", inquiry["_id"]))[1]
        screen.type("n\n")
        assert await screen.ended() == 0, screen.shown
    finally:
        screen.close()
    for shown in (screen.shown, shown_elsewhere):
        assert seen in shown
        assert "characters that hide or look like others" in shown
        assert not re.search("[\u200b\u202a-\u202e\U000e0041\u0430]", shown)
    assert "Wrote ⟦U+202E⟧gnp.exe, ⟦U+200B⟧done." in screen.shown
    assert "⟦U+202E⟧txt.exe" in (await terminal.run("session", "list"))[1]


async def test_a_question_that_is_answered_elsewhere_waits_on_no_terminal(stage_for: Any, terminal: Terminal) -> None:
    stage = await stage_for(Script(write_once))
    screen = Screen(terminal, "prompt", "Write it.", "--session", stage.session["_id"], "--level", "ask")
    try:
        await screen.until(lambda shown: "> " in shown)
        inquiry = await pending(stage.user)
        status, listed, _ = await terminal.run("inquiry", "list")
        assert (status, listed.split()[0]) == (0, inquiry["_id"])
        assert "+new" in (await terminal.run("inquiry", "show", inquiry["_id"]))[1]
        assert (await terminal.run("inquiry", "answer", inquiry["_id"], "once"))[0] == 0
        assert await screen.ended() == 0, screen.shown
    finally:
        screen.close()
    assert (stage.checkout / "new.txt").exists()


async def test_a_session_is_looked_at_taken_back_and_put_away_from_a_terminal(
    stage_for: Any, terminal: Terminal
) -> None:
    stage = await stage_for(Script(write_once))
    session = stage.session["_id"]
    status, output, errors = await terminal.run("prompt", "Write it.", "--session", session)
    assert status == 0, output + errors
    assert "+new" in (await terminal.run("session", "diff", session))[1]
    preview = await terminal.run("session", "revert", session, "--preview")
    assert "Would revert 1 turns and 1 files." in preview[1]
    assert (stage.checkout / "new.txt").exists()
    assert (await terminal.run("session", "revert", session))[0] == 0
    assert not (stage.checkout / "new.txt").exists()
    assert (await terminal.run("session", "redo", session))[0] == 0
    assert (stage.checkout / "new.txt").exists()
    assert (await terminal.run("session", "rename", session, "A better name"))[0] == 0
    assert "A better name" in (await terminal.run("session", "export", session))[1]
    found = json.loads((await terminal.run("session", "search", "Write it", "--json"))[1])
    assert [hit["session"] for hit in found] == [session]
    fork = json.loads((await terminal.run("session", "fork", session, "--json"))[1])
    assert fork["forkedFrom"]["session"] == session
    assert (await terminal.run("session", "level", session, "plan"))[0] == 0
    assert (await terminal.run("session", "pin", session))[0] == 0
    assert (await terminal.run("session", "list"))[1].splitlines()[0].endswith("A better name  (pinned)")
    assert (await terminal.run("session", "unpin", session))[0] == 0
    assert "(pinned)" not in (await terminal.run("session", "list"))[1]
    assert (await terminal.run("session", "archive", session))[0] == 0
    listed = json.loads((await terminal.run("session", "list", "--json"))[1])
    assert [item["_id"] for item in listed] == [fork["_id"]]
