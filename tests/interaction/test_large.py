"""What is large: histories, turns, tool results, prompts."""

import hashlib
import random
from typing import Any

import pytest

from gadget_ai.testing.script import Call, Reply, RequestView, Script, Text
from gadget_api.turns import MAX_PROMPT_BYTES


@pytest.mark.timeout(300)
async def test_a_turn_of_2000_steps_ends_and_is_stored_whole(stage_for: Any) -> None:
    steps = 2000

    def answer(request: RequestView) -> Reply:
        rounds = sum(message["role"] == "tool" for message in request.messages)
        if rounds == steps - 1:
            return Reply(Text("Done at last."))
        return Reply(Text(f"Round {rounds}."), Call("read", {"path": "app.py"}))

    stage = await stage_for(Script(answer))
    turn = await stage.ide.submit(stage.session["_id"], "Go round and round.")
    end = await stage.ide.until_complete(turn["_id"], timeout=240)
    assert end["success"] is True
    assert end["stats"]["toolCallCount"] == steps - 1
    stored = await stage.user.events(turn["_id"])
    assert [event["seq"] for event in stored] == list(range(1, len(stored) + 1))
    assert stored == stage.ide.events(turn["_id"])
    assert sum(event["type"] == "step" for event in stored) == steps
    document = await stage.user.until_over(turn["_id"])
    assert document["stats"]["toolCallCount"] == steps - 1


@pytest.mark.timeout(300)
async def test_a_tool_result_of_100_mb_is_cut_for_the_model_and_kept_whole_to_fetch(stage_for: Any) -> None:
    size = 100_000_000
    command = f"head -c {size} /dev/zero | tr '\\0' x"
    stage = await stage_for(Script([Reply(Call("shell", {"command": command})), Reply(Text("That was much."))]))
    turn = await stage.ide.submit(stage.session["_id"], "Print a lot.")
    end = await stage.ide.until_complete(turn["_id"], timeout=120)
    assert end["success"] is True
    result = next(e for e in await stage.user.events(turn["_id"]) if e["type"] == "toolCall")
    assert len(result["response"]) < 70_000
    assert result["blob"]["sizeBytes"] == size
    assert len(stage.model.requests[-1].messages[-1]["content"]) < 70_000
    path = f"/turns/{turn['_id']}/blobs/{result['blob']['blobId']}"

    async def fetch() -> tuple[int, str] | None:
        digest, length = hashlib.sha256(), 0
        async with stage.user.http.stream("GET", path) as answer:
            if answer.status_code == 404:
                return None
            async for chunk in answer.aiter_bytes():
                digest.update(chunk)
                length += len(chunk)
        return (length, digest.hexdigest()) if length == size else None

    from tests.harness import until

    length, digest = await until(fetch, 60)
    assert length == size
    assert digest == hashlib.sha256(b"x" * size).hexdigest()
    assert list((stage.drone.gadget / "blobs").iterdir()) == []


@pytest.mark.timeout(300)
async def test_a_history_of_50_mb_reaches_the_model(stage_for: Any) -> None:
    turns, size = 100, MAX_PROMPT_BYTES // 2 + 60_000
    letters = random.Random(7).choices("abcdefghij \n", k=size)
    text = "".join(letters)
    stage = await stage_for(Script(lambda request: Reply(Text(f"{len(request.messages)} messages."))))
    for number in range(turns):
        turn = await stage.ide.submit(stage.session["_id"], f"{number} {text}")
        end = await stage.ide.until_complete(turn["_id"])
        assert end["success"] is True, end
        stage.ide.received.clear()
        stage.model.requests[:-1] = []
    await stage.drone.until_available()
    stage.drone.stop()
    stage.drone.start()  # a drone that knows nothing fetches it all
    await stage.drone.until_available()
    turn = await stage.ide.submit(stage.session["_id"], "How much was it?")
    end = await stage.ide.until_complete(turn["_id"], timeout=120)
    assert end["success"] is True, end
    last = stage.model.requests[-1]
    assert len(last.messages) == 2 * turns + 2
    assert len(last.body) > 50_000_000
    assert [m["content"].split(" ")[0] for m in last.messages[1:-1:2]] == [str(n) for n in range(turns)]


async def test_a_prompt_of_900_kb_works_on_the_socket_and_over_rest(stage_for: Any) -> None:
    stage = await stage_for(Script(lambda request: Reply(Text(str(len(request.messages[-1]["content"]))))))
    text = "é" * (MAX_PROMPT_BYTES // 2)
    by_socket = await stage.ide.submit(stage.session["_id"], text)
    await stage.ide.until_complete(by_socket["_id"])
    assert (await stage.user.until_over(by_socket["_id"]))["response"] == str(len(text))
    body = {"content": text, "promptId": "by-rest"}
    by_rest = await stage.user.post(f"/sessions/{stage.session['_id']}/turns", body)
    assert (await stage.user.until_over(by_rest["_id"]))["response"] == str(len(text))


async def test_a_prompt_of_5_mb_is_refused_with_a_clear_error_and_nothing_is_made(stage_for: Any) -> None:
    stage = await stage_for(Script([]))
    text = "x" * 5_000_000
    path = f"/sessions/{stage.session['_id']}/turns"
    answer = await stage.user.http.post(path, json={"content": text, "promptId": "p"})
    assert answer.status_code == 413
    assert answer.json()["code"] == "tooLarge"
    assert "900,000 bytes" in answer.json()["detail"]
    slightly = await stage.ide.call(
        "submitPrompt", {"chatSessionId": stage.session["_id"], "content": "x" * 900_001, "promptId": "q"}
    )
    assert slightly["error"]["code"] == "tooLarge"
    assert "900,001" in slightly["error"]["message"]
    assert (await stage.user.get(path))["items"] == []


async def test_an_event_stream_can_be_read_from_every_cursor(stage_for: Any) -> None:
    script = [
        Reply(Text("Some words to begin with.", deltas=10, pause_s=0.005), Call("list", {"path": "."})),
        Reply(Text("And some more of them to end with.", deltas=10, pause_s=0.005)),
    ]
    stage = await stage_for(Script(script))
    turn = await stage.ide.submit(stage.session["_id"], "Talk.")
    await stage.ide.until_complete(turn["_id"])
    await stage.user.until_over(turn["_id"])
    stored = await stage.user.events(turn["_id"])
    assert len(stored) > 15
    for seq in range(len(stored)):
        page = await stage.user.get(f"/turns/{turn['_id']}/events", afterSeq=seq, limit=7)
        assert page["items"] == stored[seq : seq + 7]
        stage.ide.received.clear()
        await stage.ide.select(stage.session["_id"], after=(turn["_id"], seq))
        await stage.ide.until_complete(turn["_id"])
        assert stage.ide.events(turn["_id"]) == stored[seq:]
