"""What goes wrong with a turn ends it with one plain sentence and the right code, and the next turn works."""

from typing import Any

import pytest

from gadget_ai.testing.script import Call, Cut, HttpError, Reply, Script, Text
from gadget_ai.testing.server import ScriptedServer
from tests.harness import repository, until


async def _fails(stage: Any, session: dict[str, Any] | None = None) -> dict[str, Any]:
    """The error of a turn; everybody agrees that it is one."""
    turn = await stage.ide.submit((session or stage.session)["_id"], "Go.")
    document = await stage.user.until_over(turn["_id"])
    assert document["status"] == "error"
    error: dict[str, Any] = document["error"]
    stored = await stage.user.events(turn["_id"])
    assert stored[-1]["type"] == "workOrderComplete"
    assert stored[-1]["error"] == error
    assert sum(event["type"] == "workOrderComplete" for event in stored) == 1
    assert error["message"].endswith(".")
    assert "\n" not in error["message"]
    assert "sk-scripted" not in error["message"]
    return error


@pytest.mark.parametrize(
    ("failure", "code", "says"),
    [
        (HttpError(401, {"error": {"message": "bad key sk-scripted-0123456789"}}), "modelAuth", "key"),
        (HttpError(404, {"error": {"message": "no such model"}}), "modelNotFound", "scripted"),
        (HttpError(400, {"error": {"message": "temperature is wrong"}}), "modelRefused", "temperature"),
        (
            HttpError(400, {"error": {"code": "context_length_exceeded", "message": "too long"}}),
            "contextTooLong",
            "",
        ),
        (HttpError(200, b"<html>Welcome to nginx</html>", {"content-type": "text/html"}), "modelBadResponse", "URL"),
    ],
)
async def test_a_provider_that_says_no_ends_the_turn_and_the_next_one_works(
    stage_for: Any, failure: HttpError, code: str, says: str
) -> None:
    stage = await stage_for(Script([Reply(failure), Reply(Text("Well."))]))
    error = await _fails(stage)
    assert error["code"] == code
    assert says in error["message"]
    assert len(stage.model.requests) == 1
    turn = await stage.ide.submit(stage.session["_id"], "Again.")
    assert (await stage.user.until_over(turn["_id"]))["status"] == "finished"


async def test_a_cut_stream_is_tried_again_and_its_partial_tool_call_never_runs(stage_for: Any) -> None:
    stage = await stage_for(
        Script(
            [
                Reply(Text("I wri"), Call("write", arguments='{"path": "half.txt", "con'), Cut()),
                Reply(Text("Once more, whole.")),
            ]
        )
    )
    turn = await stage.ide.submit(stage.session["_id"], "Go.")
    assert (await stage.user.until_over(turn["_id"]))["status"] == "finished"
    stored = await stage.user.events(turn["_id"])
    assert [event["code"] for event in stored if event["type"] == "notice" and event["code"] == "retrying"] == [
        "retrying"
    ]
    assert [event["message"]["content"] for event in stored if event["type"] == "step"] == ["Once more, whole."]
    assert not (stage.checkout / "half.txt").exists()


async def test_a_provider_that_is_not_there_is_named(stage_for: Any) -> None:
    stage = await stage_for(Script([]))
    gone = await ScriptedServer(Script([])).__aenter__()
    await gone.__aexit__(None, None, None)
    provider = await stage.user.provider(gone.openai_url)
    project = (await stage.user.get("/projects"))["items"][0]
    error = await _fails(stage, await stage.user.session(project, provider))
    assert error["code"] == "modelUnreachable"


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("/nowhere/at/all", "gitFailed"),
        ("https://127.0.0.1:9/nothing.git", "gitFailed"),
    ],
)
async def test_a_repository_that_cannot_be_cloned_leaves_nothing(stage_for: Any, url: str, code: str) -> None:
    stage = await stage_for(Script([]))
    project = await stage.user.project(url, slug="broken")
    provider = (await stage.user.get("/providers"))["items"][0]
    error = await _fails(stage, await stage.user.session(project, provider))
    assert error["code"] == code
    assert [path.name for path in stage.drone.workspace.iterdir()] == [".gadget"]


async def test_a_local_repository_needs_the_permission_of_the_drones_owner(
    stage_for: Any, tmp_path: Any, user: Any
) -> None:
    stage = await stage_for(Script([]))
    stage.drone.stop()
    stage.drone.env["GADGET_ALLOW_LOCAL_GIT"] = "false"
    stage.drone.start()
    await stage.drone.until_available()
    error = await _fails(stage)
    assert error["code"] == "gitUrlNotAllowed"
    assert "GADGET_ALLOW_LOCAL_GIT" in error["message"]


async def test_a_folder_that_holds_another_repository_is_left_alone(stage_for: Any) -> None:
    stage = await stage_for(Script([]))
    other = repository(stage.checkout, {"mine.txt": "mine"})
    error = await _fails(stage)
    assert error["code"] == "gitFailed"
    assert (other / "mine.txt").read_text() == "mine"


async def test_a_prompt_without_a_drone_waits_with_a_reason_and_starts_by_itself(stage_for: Any) -> None:
    stage = await stage_for(Script([Reply(Text("At last."))]))
    stage.drone.stop()
    turn = await stage.ide.submit(stage.session["_id"], "Anybody there?")

    async def waits() -> str | None:
        document = await stage.user.get(f"/turns/{turn['_id']}")
        assert document["status"] == "queued"
        reason: str | None = document["statusReason"]
        return reason

    assert "offline" in str(await until(waits))
    stage.drone.start()
    assert (await stage.user.until_over(turn["_id"]))["status"] == "finished"


async def test_prompts_sent_while_a_turn_runs_wait_and_run_in_order(stage_for: Any) -> None:
    stage = await stage_for(
        Script([Reply(Call("shell", {"command": "sleep 1"})), Reply(Text("1")), Reply(Text("2")), Reply(Text("3"))])
    )
    turns = [await stage.ide.submit(stage.session["_id"], f"Number {n}.") for n in (1, 2, 3)]
    for number, turn in enumerate(turns, 1):
        assert (await stage.user.until_over(turn["_id"]))["response"] == str(number)


async def test_the_same_prompt_id_is_the_same_turn(stage_for: Any) -> None:
    stage = await stage_for(Script([Reply(Text("Once."))]))
    first = await stage.ide.submit(stage.session["_id"], "Go.", prompt_id="same")
    again = await stage.ide.submit(stage.session["_id"], "Go.", prompt_id="same")
    body = {"content": "Go.", "promptId": "same"}
    over_rest = await stage.user.post(f"/sessions/{stage.session['_id']}/turns", body)
    assert first["_id"] == again["_id"] == over_rest["_id"]
    await stage.user.until_over(first["_id"])
    assert len(stage.model.requests) == 1
