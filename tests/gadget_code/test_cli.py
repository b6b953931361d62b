"""The commands as a person and as a program meets them: exit status, one sentence, no traceback."""

import asyncio
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.gadget_code.peers import Played, PlayedDrone, a_session
from tests.harness import User, Web, clean_environment

TIMEOUT_S = 40


def run(*arguments: str, input: str = "", **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gadget_code", *arguments],
        env=clean_environment(**settings),
        input=input,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def refused(done: subprocess.CompletedProcess[str], *words: str) -> str:
    """The one sentence that a command which could not do it says."""
    assert done.returncode == 1, done
    assert "Traceback" not in done.stderr
    [line] = done.stderr.splitlines()
    assert line.startswith("gadget-code: ")
    assert line.endswith((".", ")"))
    for word in words:
        assert word in line
    return line


@pytest.mark.parametrize(
    "command", ["", "up", "serve", "user", "user add", "login", "prompt", "project add", "provider add"]
)
def test_help_is_there(command: str) -> None:
    done = run(*command.split(), "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "usage: gadget-code" in done.stdout


@pytest.mark.parametrize("command", ["", "nonsense", "serve --port x", "prompt", "user add a@b", "user add"])
def test_wrong_usage_exits_with_2(command: str) -> None:
    done = run(*command.split())
    assert done.returncode == 2
    assert "usage: gadget-code" in done.stderr
    assert "Traceback" not in done.stderr


def test_accounts_are_made_while_the_service_runs_on_its_private_database(tmp_path: Path) -> None:
    web = Web.at(tmp_path)
    try:
        settings = {name: value for name, value in web.env.items() if name.startswith("GADGET_")}

        def add(email: str, password: str, *more: str) -> subprocess.CompletedProcess[str]:
            return run("user", "add", email, "--password-stdin", *more, input=password + "\n", **settings)

        assert add("ada@example.org", "correct horse", "--admin").stdout == "ada@example.org can sign in now.\n"
        refused(add("Ada@Example.org ", "correct horse"), "already an account for ada@example.org")
        refused(add("no address", "correct horse"), "e-mail address", "ada@example.org")
        short = refused(add("b@example.org", "hunter2"), "password", "8")
        assert "hunter2" not in short
        listed = json.loads(run("user", "list", "--json", **settings).stdout)
        assert [(user["email"], user["isAdmin"]) for user in listed] == [("ada@example.org", True)]
        assert run("user", "list", **settings).stdout == "ada@example.org  (admin)\n"
        answer = run(
            "project",
            "list",
            GADGET_SERVER_URL=web.url,
            GADGET_EMAIL="ada@example.org",
            GADGET_PASSWORD="correct horse",
        )
        assert answer.stdout == "There are none yet.\n"
        assert run("user", "remove", "ada@example.org", **settings).returncode == 0
        refused(run("user", "remove", "ada@example.org", **settings), "no such user")
        # A second service on the same data is refused, and takes nothing away from the first.
        refused(run("serve", "--port", "0", **settings), "already; stop it")
        assert run("user", "list", "--json", **settings).stdout == "[]\n"
    finally:
        assert web.stop() == 0
    assert "Traceback" not in web.output


def test_an_occupied_port_is_reported(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        refused(run("serve", "--port", port, GADGET_DATA_DIR=str(tmp_path)), port, "--port")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_a_network_address_needs_tls_or_insecure(tmp_path: Path, host: str) -> None:
    refused(run("serve", "--host", host, GADGET_DATA_DIR=str(tmp_path)), host, "--insecure", "GADGET_PUBLIC_URL")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"GADGET_PORT": "x"}, ("GADGET_PORT",)),
        ({"GADGET_PORT": "70000"}, ("GADGET_PORT",)),
        ({"GADGET_DATABASE": "a b"}, ("GADGET_DATABASE",)),
        ({"GADGET_PUBLIC_URL": "example.org"}, ("http",)),
        ({"GADGET_LOG_LEVEL": "loud"}, ("GADGET_LOG_LEVEL",)),
        ({"GADGET_MONGODB_URL": "hunter2://user:hunter2@x"}, ("GADGET_MONGODB_URL", "MongoDB URL")),
        ({"GADGET_MONGODB_URL": "mongodb://user:hunter2@127.0.0.1:1"}, ("GADGET_MONGODB_URL",)),
    ],
)
def test_an_invalid_setting_is_named(tmp_path: Path, settings: dict[str, str], words: tuple[str, ...]) -> None:
    port = () if "GADGET_PORT" in settings else ("--port", "0")
    line = refused(run("serve", *port, **{"GADGET_DATA_DIR": str(tmp_path), **settings}), *words)
    assert "hunter2" not in line


def test_the_environment_overrides_the_env_file(tmp_path: Path) -> None:
    (tmp_path / "settings").write_text("# ours\nGADGET_PORT=x\nGADGET_HOST='127.0.0.1'\n\nno equals sign\n")
    refused(run("--env-file", str(tmp_path / "settings"), "serve"), "GADGET_PORT")
    refused(run("--env-file", str(tmp_path / "none"), "serve"), "cannot be read")


class TestPrompt:
    """Against a server, with a played drone."""

    @staticmethod
    def settings(user: User, tmp_path: Path) -> dict[str, str]:
        """Signed in as `gadget-code login` leaves it."""
        file = tmp_path / "gadget-code" / "login.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps({"server": user.url, "token": user.token}))
        return {"XDG_CONFIG_HOME": str(tmp_path)}

    def test_without_credentials_the_error_explains_how_to_sign_in(self, web: Web, tmp_path: Path) -> None:
        settings = {"GADGET_SERVER_URL": web.url, "XDG_CONFIG_HOME": str(tmp_path)}
        refused(run("prompt", "x", **settings), "gadget-code login")
        refused(run("login", **settings), "GADGET_EMAIL")
        wrong = {**settings, "GADGET_EMAIL": "nobody@example.org", "GADGET_PASSWORD": "wrong horse"}
        refused(run("prompt", "x", **wrong), "is wrong")
        stale = tmp_path / "gadget-code" / "login.json"
        stale.parent.mkdir()
        for content in (json.dumps({"server": web.url, "token": "x"}), "{", "[]", '{"server": 1}'):
            stale.write_text(content)
            refused(run("prompt", "x", **settings), "gadget-code login")

    def test_an_unreachable_server_is_reported(self, tmp_path: Path) -> None:
        no_host = "http://" + ".".join(["nowhere"] * 40)  # too long for a name: no resolver is waited for
        for url in ("http://127.0.0.1:1", no_host, "nonsense", "http://[::1"):
            account = {"GADGET_EMAIL": "ada@example.org", "GADGET_PASSWORD": "x"}
            refused(run("prompt", "x", "--server", url, **account, XDG_CONFIG_HOME=str(tmp_path)), url)

    async def test_unknown_projects_and_models_are_named(self, user: User, tmp_path: Path) -> None:
        settings = self.settings(user, tmp_path)
        refused(run("prompt", "x", **settings), "no project yet")
        await a_session(user)
        project = (await user.get("/projects"))["items"][0]["slug"]
        refused(run("prompt", "x", "--project", "none", **settings), "no project none", project)
        refused(run("prompt", "x", "--drone", "none", **settings), "no drone none")
        refused(run("prompt", "x", "--session", "none", **settings), "no such session")
        refused(run("prompt", "x", "--model", "none", **settings), "none")
        refused(run("prompt", " ", **settings), "prompt is empty")
        refused(run("prompt", "-", input="x" * 900_001, **settings), "900,001")

    @pytest.mark.parametrize("success", [True, False])
    async def test_json_lines_are_the_events_and_the_exit_status_is_the_turns(
        self, user: User, tmp_path: Path, success: bool
    ) -> None:
        end: dict[str, Any] = {} if success else {"success": False, "status": "error", "message": "No."}
        session = await a_session(user)
        done, events = await self._played(user, tmp_path, end, "--session", session["_id"], "--json")
        assert done.returncode == (0 if success else 1), done
        assert [json.loads(line) for line in done.stdout.splitlines()] == events

    async def test_piped_output_is_plain_and_model_text_cannot_control_the_terminal(
        self, user: User, tmp_path: Path
    ) -> None:
        session = await a_session(user)
        stats = {"durationMs": 125_000, "durationLabel": "2m 05s", "toolCallCount": 1, "inputTokens": 100}
        done, _ = await self._played(user, tmp_path, {"stats": stats}, "--session", session["_id"])
        assert done.returncode == 0
        assert "\x1b" not in done.stdout
        assert "Hello" in done.stdout
        assert "finished in 2m 05s: 1 tool call, 100 tokens in" in done.stdout

    async def _played(
        self, user: User, tmp_path: Path, end: dict[str, Any], *arguments: str
    ) -> tuple[subprocess.CompletedProcess[str], list[dict[str, Any]]]:
        """`prompt`, and the events that a drone played for it."""
        async with PlayedDrone(user) as drone:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "gadget_code", "prompt", "Go on.", *arguments),
                env=clean_environment(**self.settings(user, tmp_path)),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            talk = asyncio.create_task(process.communicate())
            order = (await drone.until("processWorkOrder"))["workOrder"]
            played = Played({"_id": order["turn"]["_id"], "session": order["session"]["_id"]})
            events = [
                played.response("\x1b]0;owned\x07Hello \x1b[31mred"),
                played.tool_call(),
                played.step(inputTokens=100, responseTokens=10),
                played.complete(**end),
            ]
            for event in events:
                await drone.send(event)
            output, errors = await asyncio.wait_for(talk, TIMEOUT_S)
        assert b"Traceback" not in errors, errors
        assert process.returncode is not None
        return subprocess.CompletedProcess([], process.returncode, output.decode(), errors.decode()), events

    def test_a_closed_pipe_causes_no_traceback(self, tmp_path: Path) -> None:
        reading, writing = os.pipe()
        os.close(reading)
        done = subprocess.run(
            [sys.executable, "-m", "gadget_code", "--help"],
            env=clean_environment(),
            stdout=writing,
            stderr=subprocess.PIPE,
            timeout=TIMEOUT_S,
            check=False,
        )
        os.close(writing)
        assert b"Traceback" not in done.stderr
