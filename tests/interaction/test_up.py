"""`gadget-code up`: everything on one machine, for one person."""

import asyncio
import os
import re
import signal
import sys
from pathlib import Path

import httpx
import pytest

from gadget_ai.testing.script import Call, Reply, Script, Text
from gadget_ai.testing.server import ScriptedServer
from tests.harness import Process, clean_environment, git, repository, until

COMMAND = [sys.executable, "-P", "-m", "gadget_code"]


class Up:
    """`gadget-code up` with data and configuration of its own."""

    def __init__(self, directory: Path, *arguments: str, workspace: Path | None = None) -> None:
        self.env = clean_environment(
            GADGET_DATA_DIR=str(directory / "data"),
            XDG_CONFIG_HOME=str(directory / "config"),
            GADGET_ALLOW_LOCAL_GIT="true",
        )
        self.workspace = workspace or directory / "workspace"
        self.workspace.mkdir(exist_ok=True)
        place = ("--workspace", str(self.workspace))
        command = [*COMMAND, "up", "--port", "0", "--no-browser", *place, *arguments]
        self.process = Process(command, self.env, directory / "up.log")

    async def until_ready(self) -> str:
        """Its URL."""
        begin = len(self.process.output) if self.process.log.exists() else 0
        self.process.start()

        async def ready() -> str | None:
            assert not self.process.has_ended, self.process.output
            said = self.process.output[begin:]
            found = re.search(r"is ready at (http://\S+)[\s\S]*Ctrl\+C stops everything", said)
            return found[1] if found is not None else None

        return str(await until(ready, 60))

    async def command(self, *arguments: str, stdin: str = "") -> tuple[int, str]:
        process = await asyncio.create_subprocess_exec(
            *COMMAND,
            *arguments,
            env=self.env,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await asyncio.wait_for(process.communicate(stdin.encode()), 60)
        assert process.returncode is not None
        return process.returncode, output.decode()

    def children(self) -> list[int]:
        """The processes it started, MongoDB and the drone among them."""
        found = []
        for status in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = status.read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(fields[1]) == self.process.pid:
                found.append(int(status.parent.name))
        return found


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def until_gone(pids: list[int]) -> None:
    async def gone() -> bool | None:
        return None if any(map(is_alive, pids)) else True

    await until(gone, 20)


@pytest.fixture
def own_repository(tmp_path: Path) -> Path:
    """A person's own checkout, with a remote."""
    place = repository(tmp_path / "my-tool", {"tool.py": "print('one')\n"})
    git(place, "remote", "add", "origin", "https://example.org/me/my-tool.git")
    return place


async def test_a_persons_own_repository_is_worked_on_where_it_is(own_repository: Path, tmp_path: Path) -> None:
    up = Up(tmp_path, workspace=own_repository)
    script = [
        Reply(Call("edit", {"path": "tool.py", "old_text": "one", "new_text": "two"})),
        Reply(Text("It says two.")),
    ]
    try:
        url = await up.until_ready()
        assert "No model yet" in up.process.output
        async with ScriptedServer(Script(script)) as model:
            assert (await up.command("provider", "add", "here", model.openai_url))[0] == 0
            status, output = await up.command("prompt", "Say two.")
        assert status == 0, output
        assert "It says two." in output
        assert (own_repository / "tool.py").read_text() == "print('two')\n"
        # Nothing of ours is in the way of the person's own git.
        assert git(own_repository, "status", "--porcelain") == " M tool.py\n"
        # The link signs in, once.
        token = re.search(r"#sign-in=(\S+)", up.process.output)
        assert token is not None
        async with httpx.AsyncClient(base_url=url) as browser:
            body = {"token": token[1]}
            signed_in = await browser.post("/api/v1/auth/link", json=body)
            assert signed_in.status_code == 200
            assert "HttpOnly" in signed_in.headers["set-cookie"]
            page_key = {"X-Gadget-Page": signed_in.json()["token"].split(".")[1]}
            assert (await browser.get("/api/v1/users/me", headers=page_key)).json()["isAdmin"] is True
            assert (await browser.post("/api/v1/auth/link", json=body)).status_code == 401
            page = await browser.get("/")
            assert page.status_code == 200
            assert "default-src 'self'" in page.headers["content-security-policy"]
    finally:
        children = up.children()
        assert up.process.stop() == 0, up.process.output
    assert len(children) >= 2
    await until_gone(children)
    assert "Traceback" not in up.process.output


async def test_what_was_made_is_there_after_a_restart_and_a_second_one_is_refused(tmp_path: Path) -> None:
    up = Up(tmp_path)
    try:
        await up.until_ready()
        assert (await up.command("project", "add", "kept", "https://example.org/kept.git"))[0] == 0
        second = Up(tmp_path)
        second.process.log = tmp_path / "second.log"
        second.process.start()
        assert await asyncio.to_thread(second.process.wait, 30) == 1
        assert "runs with the data directory" in second.process.output
        assert "Traceback" not in second.process.output
    finally:
        assert up.process.stop() == 0, up.process.output
    try:
        await up.until_ready()
        assert "kept" in (await up.command("project", "list"))[1]
    finally:
        assert up.process.stop() == 0, up.process.output


async def test_a_killed_up_leaves_no_process_and_starts_again(tmp_path: Path) -> None:
    up = Up(tmp_path)
    try:
        await up.until_ready()
        children = up.children()
        up.process.kill()
        await until_gone(children)
        await up.until_ready()
    finally:
        up.process.stop()


async def test_a_workspace_that_will_not_do_is_said_and_ends_it(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    up = Up(tmp_path, workspace=home)
    up.env["HOME"] = str(home)
    up.process.start()
    assert await asyncio.to_thread(up.process.wait, 60) == 1
    assert "home directory cannot be a workspace" in up.process.output
    assert "Traceback" not in up.process.output


async def test_ctrl_c_ends_everything_cleanly(tmp_path: Path) -> None:
    up = Up(tmp_path)
    try:
        await up.until_ready()
        children = up.children()
        os.kill(up.process.pid, signal.SIGINT)
        assert await asyncio.to_thread(up.process.wait, 30) == 0
        await until_gone(children)
    finally:
        up.process.stop()
