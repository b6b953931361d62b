"""Budgets that install and user set for every session: the narrower one counts."""

from collections.abc import Iterator
from typing import Any

import pytest

from gadget_ai.testing.script import Script
from tests.gadget_code.peers import a_web
from tests.harness import Web
from tests.interaction.test_limits import steps
from tests.interaction.test_permissions import change, pending


@pytest.fixture(scope="module")
def web(mongodb_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    budgets = {"GADGET_TURN_BUDGET": '{"steps": 3, "minutes": 600}', "GADGET_SESSION_BUDGET": '{"steps": 9}'}
    with a_web(tmp_path_factory.mktemp("web"), mongodb_url, **budgets) as process:
        yield process


async def asked_of(stage: Any) -> str:
    """What the turn that runs asks; it is told to stop."""
    inquiry = await pending(stage.user)
    assert inquiry["kind"] == "budget"
    await stage.user.post(f"/inquiries/{inquiry['_id']}/answer", {"choice": "stop"})
    return str(inquiry["title"])


async def test_the_installs_budget_counts_until_the_user_has_one_and_his_until_the_session_has_one(
    stage_for: Any,
) -> None:
    stage = await stage_for(Script(steps(9)))

    async def paused_after() -> str:
        turn = await stage.ide.submit(stage.session["_id"], "Count.")
        title = await asked_of(stage)
        await stage.user.until_over(turn["_id"])
        return title

    assert "This turn has used up its budget: 3 model calls of 3" in await paused_after()
    changed = await stage.user.http.patch("/users/me", json={"turnBudget": {"steps": 2}})
    assert changed.json()["turnBudget"]["steps"] == 2
    assert "2 model calls of 2" in await paused_after()
    await change(stage, turnBudget={"steps": 1})
    assert "1 model calls of 1" in await paused_after()
    await change(stage, turnBudget={"tokens": 1_000_000})
    assert "2 model calls of 2" in await paused_after()
    await stage.user.http.patch("/users/me", json={"turnBudget": {}, "sessionBudget": {"steps": 8}})
    assert "The session has used up its budget: 8 model calls of 8" in await paused_after()
