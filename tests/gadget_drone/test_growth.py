"""What a step costs the drone does not grow with the turn: each message is encoded once, and the journal writes no more
than a few times what is said."""

import os
from collections.abc import Sequence
from pathlib import Path

import orjson
import pytest

from gadget_ai.client import CallOptions
from gadget_ai.openai import OpenAIClient
from gadget_api.messages import Message, ModelMessage, SystemMessage, ToolCallRequest, ToolMessage, UserMessage
from gadget_drone.agent.conversation import Conversation, Log
from gadget_drone.turn.journal import Journal

STEPS = 300


class _Counted(OpenAIClient):
    """Counts the messages it encodes."""

    count = 0

    def encode(self, message: Message) -> bytes:
        self.count += 1
        return super().encode(message)


async def test_a_message_is_encoded_once_however_long_the_turn() -> None:
    client = _Counted("http://127.0.0.1:9/v1", "m", None, CallOptions())
    conversation = Conversation(client, SystemMessage(content="You work."), Log(client), set())
    conversation.add(UserMessage(content="Go."))
    sent: Sequence[bytes] = conversation.encoded
    for n in range(STEPS):
        before = client.count
        call = ToolCallRequest(call_id=f"c{n}", name="shell", params={"command": "echo hi"})
        conversation.add(ModelMessage(content="", tool_calls=(call,)))
        conversation.add(ToolMessage(call_id=f"c{n}", name="shell", content="hi\n[exit status 0]"))
        request = conversation.encoded
        assert client.count - before <= 3, n
        assert list(request[: len(sent)]) == list(sent), "what was sent before is sent again as it was"
        sent = request
    assert client.count <= 2 + 3 * STEPS
    await client.close()


def test_the_journal_of_a_long_turn_writes_a_few_times_what_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = 0
    plain_write, plain_pwrite = os.write, os.pwrite

    def write(fd: int, data: bytes) -> int:
        nonlocal written
        written += len(data)
        return plain_write(fd, data)

    def pwrite(fd: int, data: bytes, offset: int) -> int:
        nonlocal written
        written += len(data)
        return plain_pwrite(fd, data, offset)

    journal = Journal.create(tmp_path / "t.ndjson", base_seq=0)
    monkeypatch.setattr(os, "write", write)
    monkeypatch.setattr(os, "pwrite", pwrite)
    said = 0
    costs: list[int] = []
    for n in range(1, 20_001):
        body = orjson.dumps({"type": "response", "seq": n, "content": "x" * 400})
        before = written
        journal.append(n, "response", body)
        journal.ack(n - 1)
        said += len(body)
        costs.append(written - before)
        assert journal.path.stat().st_size < 3 * 1024 * 1024, n
    assert written < 3 * said
    early, late = sum(costs[:5000]), sum(costs[-5000:])
    assert late < 1.3 * early, (early, late)
    journal.close()
