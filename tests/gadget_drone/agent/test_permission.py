"""The door before each tool call."""

import asyncio
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gadget_ai.testing.script import Call, Reply, Script, Text
from gadget_api.inquiries import DENY, ONCE, Answer, InquiryAnswer, InquiryStatus
from gadget_api.permissions import PermissionLevel
from tests.gadget_drone.agent.bench import Bench
from tests.gadget_drone.permissions.conftest import policy, rule

_EDIT = ("edit", {"path": ".env", "edits": [{"old_text": "DB_PASSWORD=??", "new_text": "x"}]})
_PATCH = ("apply_patch", {"patch": "*** Begin Patch\n*** Update File: .env\n@@\n A=1\n-x\n+y\n*** End Patch"})


@pytest.mark.parametrize("call", [_EDIT, _PATCH])
@pytest.mark.parametrize("level", ["ask", "autoEdit", "full"])
@pytest.mark.parametrize("choice", [DENY, ONCE])
async def test_the_error_of_an_edit_quotes_no_secret_before_the_user_has_said_yes(
    call: tuple[str, dict[str, Any]], level: str, choice: str, tmp_path: Path
) -> None:
    rules = policy(level, *([rule("ask", "read", ".env")] if level == PermissionLevel.FULL else []))
    stage = Bench(tmp_path, Script([Reply(Call(*call)), Reply(Text("Done."))]), policy=rules)
    (stage.place / ".env").write_text("A=1\nDB_PASSWORD=hunter2\n")
    with closing(stage.journal):
        async with asyncio.timeout(20), asyncio.TaskGroup() as group:
            run = group.create_task(stage.run())
            while not stage.decisions.asked and not run.done():  # noqa: ASYNC110  (the loop asks)
                await asyncio.sleep(0.01)
            for inquiry in stage.decisions.asked:
                answer = Answer(choice=choice)
                stage.decisions.put(InquiryAnswer(inquiry_id=inquiry, status=InquiryStatus.ANSWERED, answer=answer))
        events = run.result()
    [asked] = [event["inquiry"] for event in events if event["type"] == "inquiryAsked"]
    assert "hunter2" not in asked["detail"]
    [response] = [event["response"] for event in events if event["type"] == "toolCall"]
    assert ("hunter2" in response) is (choice == ONCE)
