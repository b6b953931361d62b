"""`gadget-code prompt` and its neighbours, as a person at a terminal uses them."""

import asyncio
import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from gadget_ai.testing.script import Call, HttpError, Pause, Reply, Script, Text, Think
from gadget_ai.testing.server import ScriptedServer
from tests.harness import Drone, Process, User, clean_environment, repository, until


class Terminal:
    """Runs commands of ours with a configuration directory of their own."""

    def __init__(self, directory: Path, user: User) -> None:
        self.user = user
        self.env = clean_environment(
            XDG_CONFIG_HOME=str(directory / "config"),
            GADGET_SERVER_URL=user.url,
            GADGET_EMAIL=user.email,
            GADGET_PASSWORD=user.password,
        )

    async def run(self, *arguments: str, stdin: str = "", **settings: str) -> tuple[int, str, str]:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "gadget_code", *arguments),
            env={**self.env, **settings},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        output, errors = await asyncio.wait_for(process.communicate(stdin.encode()), 60)
        assert process.returncode is not None
        return process.returncode, output.decode(), errors.decode()


@pytest.fixture
def terminal(user: User, tmp_path: Path) -> Terminal:
    return Terminal(tmp_path, user)


TALK = [
    Reply(Think("Let me think."), Text("I look."), Call("read", {"path": "nowhere.txt"})),
    Reply(Text("**Done.** \x1b[31mnot red\x1b[0m")),
]


async def test_prompt_streams_a_turn_and_its_exit_status_is_the_turns(stage_for: Any, terminal: Terminal) -> None:
    await stage_for(Script([*TALK, Reply(HttpError(401, {"error": {"message": "no"}}))]))
    status, output, errors = await terminal.run("prompt", "Look around.")
    assert (status, errors) == (0, "")
    assert "Let me think." in output
    assert '● read path="nowhere.txt"' in output
    assert "✗" in output
    assert "**Done.**" in output
    assert "finished in" in output
    assert "\x1b" not in output, "what a model says must not steer a terminal, and a pipe gets no colour"
    status, output, errors = await terminal.run("prompt", "Again.")
    assert status == 1
    assert "API key" in output
    assert "Traceback" not in errors


async def test_prompt_as_json_is_the_event_stream_line_by_line(stage_for: Any, terminal: Terminal) -> None:
    stage = await stage_for(Script(TALK))
    status, output, _ = await terminal.run("prompt", "-", "--json", "--project", "project", stdin="From stdin.")
    assert status == 0
    events = [json.loads(line) for line in output.splitlines()]
    stored = await stage.user.events(events[0]["turnId"])
    assert events == stored
    turn = await stage.user.get(f"/turns/{events[0]['turnId']}")
    assert turn["prompts"]["user"] == "From stdin."


async def test_prompt_goes_on_in_a_session_and_with_a_chosen_drone(stage_for: Any, terminal: Terminal) -> None:
    stage = await stage_for(Script([Reply(Text("One.")), Reply(Text("Two."))]))
    drone = await stage.drone.registration()
    session = stage.session["_id"]
    for number in ("One?", "Two?"):
        status, _, errors = await terminal.run("prompt", number, "--session", session, "--drone", drone["name"])
        assert status == 0, errors
    roles = [message["role"] for message in stage.model.requests[-1].messages]
    assert roles == ["system", "user", "assistant", "user"]
    assert (await stage.user.get(f"/sessions/{session}"))["drone"] == drone["_id"]


async def test_a_model_is_chosen_for_a_session_that_is_continued(stage_for: Any, terminal: Terminal) -> None:
    stage = await stage_for(Script([Reply(Text("One."))]))
    other = await stage.user.provider(stage.model.openai_url, model="another")
    status, _, errors = await terminal.run("prompt", "One?", "--continue", "--model", "another")
    assert status == 0, errors
    session = await stage.user.get(f"/sessions/{stage.session['_id']}")
    assert (session["provider"], session["selectedModel"]) == (other["_id"], "another")
    assert stage.model.requests[-1].model == "another"


async def test_ctrl_c_cancels_the_turn(stage_for: Any, terminal: Terminal, tmp_path: Path) -> None:
    stage = await stage_for(Script([Reply(Text("I begin "), Pause(600), Text("and never end."))]))
    command = [sys.executable, "-P", "-m", "gadget_code", "prompt", "Go."]
    process = Process(command, terminal.env, tmp_path / "prompt.log").start()

    async def begun() -> bool | None:
        return True if "I begin" in process.output else None

    await until(begun)
    process.signal(signal.SIGINT)
    status = await asyncio.to_thread(process.wait, 20)
    assert status == 1
    assert "cancelled" in process.output
    assert "Traceback" not in process.output
    turns = [
        turn
        for session in (await stage.user.get("/sessions"))["items"]
        for turn in (await stage.user.get(f"/sessions/{session['_id']}/turns"))["items"]
    ]
    assert [turn["status"] for turn in turns] == ["cancelled"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--project", "nothing"), "no project nothing"),
        (("--session", "0" * 24), "no such session"),
        (("--drone", "nobody"), "no drone nobody"),
        (("--model", "nothing"), "model nothing"),
    ],
)
async def test_prompt_says_what_it_does_not_know(
    stage_for: Any, terminal: Terminal, arguments: tuple[str, ...], says: str
) -> None:
    await stage_for(Script([]))
    status, output, errors = await terminal.run("prompt", "Go.", *arguments)
    assert (status, output) == (1, "")
    assert says in errors
    assert len(errors.strip().splitlines()) == 1


async def test_from_an_empty_account_to_a_turn_by_commands_alone(terminal: Terminal, tmp_path: Path) -> None:
    status, _, errors = await terminal.run("prompt", "Go.")
    assert status == 1
    assert "project add" in errors
    origin = repository(tmp_path / "origin", {"a.txt": "a\n"})
    assert (await terminal.run("project", "add", "mine", str(origin)))[0] == 0
    status, _, errors = await terminal.run("prompt", "Go.")
    assert status == 1
    assert "provider add" in errors
    async with ScriptedServer(Script([Reply(Text("Hello."))])) as model:
        added = await terminal.run(
            "provider", "add", "here", model.openai_url, "--key-stdin", stdin="sk-123456789012\n"
        )
        assert added[0] == 0, added
        assert "scripted" in added[1]
        assert "sk-123456789012" not in "".join(map(str, added))
        drone = await Drone.at(tmp_path, terminal.user)
        try:
            status, output, errors = await terminal.run("prompt", "Go.")
        finally:
            drone.stop()
    assert status == 0, errors
    assert "Hello." in output
    assert model.requests[0].headers["authorization"] == "Bearer sk-123456789012"
    listed = json.loads((await terminal.run("project", "list", "--json"))[1])
    assert [project["slug"] for project in listed] == ["mine"]
    assert "here" in (await terminal.run("provider", "list"))[1]


async def test_the_help_of_both_commands_is_quick(terminal: Terminal) -> None:
    """Against an empty Python, measured in the same run: what makes help slow is an import too many."""
    loop = asyncio.get_running_loop()

    async def seconds(*command: str) -> float:
        best = 9.0
        for _ in range(5):
            begun = loop.time()
            process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.DEVNULL)
            assert await process.wait() == 0
            best = min(best, loop.time() - begun)
        return best

    empty = await seconds(sys.executable, "-c", "pass")
    for module in ("gadget_code", "gadget_drone"):
        assert await seconds(sys.executable, "-P", "-m", module, "--help") < 20 * empty, module


async def test_the_web_service_is_not_there(terminal: Terminal) -> None:
    status, _, errors = await terminal.run("prompt", "Go.", "--server", "http://127.0.0.1:9")
    assert status == 1
    assert errors.startswith("gadget-code: No server answers at http://127.0.0.1:9")
    assert len(errors.strip().splitlines()) == 1


async def test_a_turn_is_looked_at_spoken_to_moved_and_withdrawn_from_a_terminal(
    stage_for: Any, terminal: Terminal, user: User, tmp_path: Path
) -> None:
    stage = await stage_for(
        Script([Reply(Call("shell", {"command": "sleep 600"})), Reply(Text("Here, in French."))]),
    )
    turn = (await stage.ide.submit(stage.session["_id"], "Go."))["_id"]
    await stage.ide.until(lambda name, p: name == "toolStarted")
    assert (await terminal.run("turn", "continue", turn))[0] == 1
    stage.drone.kill()
    await stage.ide.until(lambda name, p: name == "turnStatus" and p["turn"]["waiting"] == "droneLost")
    assert "continue on another drone" in (await terminal.run("turn", "show", turn))[1]
    assert (await terminal.run("turn", "steer", turn, "In French."))[0] == 0
    assert "waits for the next step: In French." in (await terminal.run("turn", "show", turn))[1]
    other = await Drone.at(tmp_path / "other", user)
    try:
        status, _, errors = await terminal.run("turn", "continue", turn, "--drone", "nobody")
        assert (status, "None has the name nobody" in errors) == (1, True)
        assert (await terminal.run("turn", "continue", turn))[0] == 0
        assert (await user.until_over(turn))["response"] == "Here, in French."
        said = [message["content"] for message in stage.model.requests[-1].messages if message["role"] == "user"]
        assert said[0] == "Go."
        assert said[1] == "In French."
        assert "another workspace" in said[2]
        assert "interrupted" in json.dumps(stage.model.requests[-1].messages)
    finally:
        other.stop()
    waiting = (await stage.ide.submit(stage.session["_id"], "Never."))["_id"]
    assert (await terminal.run("turn", "cancel", waiting))[0] == 0
    shown = json.loads((await terminal.run("turn", "show", waiting, "--json"))[1])
    assert shown["status"] == "cancelled"
