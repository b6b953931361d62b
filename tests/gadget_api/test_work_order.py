from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from gadget_api.providers import ApiType, ModelParams
from gadget_api.sessions import SessionMode
from gadget_api.work_order import (
    OrderProject,
    OrderProvider,
    OrderSession,
    OrderTurn,
    OrderUser,
    ResumePoint,
    WorkOrder,
)


def order(**changes: Any) -> WorkOrder:
    return WorkOrder(
        work_order_id="w",
        epoch=1,
        project=OrderProject(id="p", name="Parser", slug="parser", git_url="https://host/parser"),
        session=OrderSession(id="s", name="Mend it", mode=SessionMode.BUILD),
        provider=OrderProvider(
            id="v", name="V", sdk=ApiType.OPENAI, base_url="https://host/v1", api_key="sk-hunter2", model_id="m"
        ),
        turn=OrderTurn(
            id="t",
            created_at=datetime(2026, 11, 21, tzinfo=UTC),
            user=OrderUser(id="u", email="ada@example.org", display_name="Ada"),
        ),
        prompt="Mend the parser.",
    ).replace(**changes)


def test_an_order_has_the_shape_of_the_contract() -> None:
    wire = order(provider=order().provider.replace(params=ModelParams(temperature=0.5))).to_wire()
    assert wire.keys() >= {
        "workOrderId",
        "epoch",
        "project",
        "session",
        "provider",
        "turn",
        "prompt",
        "workspaceId",
        "afterTurn",
    }
    assert wire["project"] == {"_id": "p", "name": "Parser", "slug": "parser", "gitUrl": "https://host/parser"}
    session = {"_id": "s", "name": "Mend it", "mode": "build"}
    assert wire["session"] == {**session, "historyVersion": 0, "wantsTitle": False}
    assert wire["provider"].keys() >= {"_id", "name", "sdk", "baseUrl", "apiKey", "modelId", "params"}
    assert wire["provider"]["params"] == {"temperature": 0.5, "topP": None, "topK": None, "effort": None}
    assert wire["turn"] == {
        "_id": "t",
        "createdAt": "2026-11-21T00:00:00Z",
        "user": {"_id": "u", "email": "ada@example.org", "displayName": "Ada"},
    }


def test_an_order_is_the_same_after_the_wire() -> None:
    resumed = order(epoch=2, resume=ResumePoint(acked_seq=17), after_turn="t0", workspace_id="w-1")
    assert WorkOrder.model_validate(resumed.to_wire()) == resumed


def test_the_key_is_not_in_the_repr_of_a_work_order() -> None:
    assert "hunter2" not in repr(order())
    assert "hunter2" not in f"{order()}"


def test_a_work_order_without_an_epoch_is_refused() -> None:
    with pytest.raises(ValidationError):
        order(epoch=0)
