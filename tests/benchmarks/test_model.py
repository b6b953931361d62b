"""The model of the benches does what a prompt says, so that ours and the floor work on the same."""

import time

import httpx
import pytest

from benchmarks.floors.loop import answer, turn
from benchmarks.stage import Model, new_tag, plan
from tests.harness import WAIT_S


async def said(model: Model, content: str) -> str:
    async with httpx.AsyncClient(timeout=WAIT_S) as client:
        texts: list[str] = []

        async def take(text: str) -> None:
            texts.append(text)

        message = await answer(client, model.url, [{"role": "user", "content": content}], take)
        assert "".join(texts) == message["content"]
        return str(message["content"])


@pytest.mark.parametrize("deltas", [1, 99, 100, 101, 400, 20_000])
async def test_so_many_deltas_come_as_were_asked_for(deltas: int) -> None:
    async with Model() as model:
        assert await said(model, plan(new_tag(), deltas=deltas)) == "word " * deltas


async def test_so_many_steps_are_asked_for_and_each_is_noted() -> None:
    async with Model() as model, httpx.AsyncClient(timeout=WAIT_S) as client:
        messages = [{"role": "user", "content": "An earlier prompt."}]
        for steps in (3, 2):  # the second turn does not count the results of the first
            tag = new_tag()
            messages.append({"role": "user", "content": plan(tag, steps=steps)})
            await turn(client, model.url, messages)
            notes = await model.notes(tag)
            assert len(notes) == steps + 1
            assert [note["received"] for note in notes] == sorted(note["received"] for note in notes)
            assert messages[-2]["content"] == f"{tag}\n", "the tool has run"
        assert len({message["tool_call_id"] for message in messages if message["role"] == "tool"}) == 5


async def test_slow_deltas_say_when_they_were_sent() -> None:
    async with Model() as model:
        before = time.perf_counter_ns()
        text = await said(model, plan(new_tag(), deltas=5, rate=100))
        times = [int(part) for part in text[1:-1].split("><")]
    assert len(times) == 5
    assert before < times[0] < times[-1] < time.perf_counter_ns(), "processes share the clock"


async def test_an_answer_that_nobody_waits_for_is_noted_as_closed() -> None:
    async with Model() as model:
        tag = new_tag()
        async with httpx.AsyncClient(timeout=WAIT_S) as client:
            body = {"messages": [{"role": "user", "content": plan(tag, deltas=1000, rate=10)}]}
            async with client.stream("POST", f"{model.url}/v1/chat/completions", json=body) as response:
                await anext(response.aiter_bytes())
        [note] = await model.notes(tag, until=lambda notes: "closed" in notes[0])
        assert note["closed"] > note["first"]
        assert "last" not in note
