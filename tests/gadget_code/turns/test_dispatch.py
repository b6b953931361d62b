"""Which drones may take a turn, the best first, and what a person reads when none may."""

from typing import Any

import pytest

from gadget_api.drones import DroneRegistration, DroneStatus
from gadget_api.model import utc_now
from gadget_api.sessions import ChatSession, SessionLock
from gadget_api.turns import Waiting
from gadget_api.workspace import WorkspaceMode
from gadget_code.turns.dispatch import WaitReason, candidate_drones


def drone(id: str, **fields: Any) -> DroneRegistration:
    return DroneRegistration(
        **{
            "id": id,
            "created_at": utc_now(),
            "user": "u",
            "name": f"drone {id}",
            "hostname": "here",
            "workspace_dir": f"/{id}",
            "workspace_id": f"w-{id}",
            "status": DroneStatus.AVAILABLE,
            "workspace_mode": WorkspaceMode.IDLE,
            "last_seen_at": utc_now(),
            **fields,
        }
    )


def session(**fields: Any) -> ChatSession:
    base = {"id": "s", "created_at": utc_now(), "user": "u", "name": "n", "project": "p", "provider": "v"}
    return ChatSession(**{**base, "selected_model": "m", **fields})


def ids(found: tuple[list[DroneRegistration], WaitReason | None]) -> list[str]:
    assert found[1] is None
    return [d.id for d in found[0]]


def test_drones_are_ordered_by_workspace_then_by_project() -> None:
    drones = [drone("a"), drone("b", projects=("p",)), drone("c")]
    assert ids(candidate_drones(session(workspace_id="w-c"), drones, {})) == ["c", "b", "a"]


def test_a_chosen_drone_is_the_only_one() -> None:
    assert ids(candidate_drones(session(drone="a", workspace_id="w-b"), [drone("a"), drone("b")], {})) == ["a"]


def test_a_locked_drone_precedes_a_chosen_one() -> None:
    locked = session(drone="a", lock=SessionLock(drone_id="b", locked_at=utc_now()))
    assert ids(candidate_drones(locked, [drone("a"), drone("b")], {"b": "s"})) == ["b"]


def test_a_drone_locked_for_another_session_is_not_a_candidate() -> None:
    assert ids(candidate_drones(session(), [drone("a"), drone("b")], {"a": "other"})) == ["b"]


@pytest.mark.parametrize(
    ("fields", "drones", "locks", "waiting", "reason"),
    [
        ({}, [], {}, Waiting.DRONE, "start one with"),
        ({"drone": "x"}, [drone("a")], {}, Waiting.DRONE, "was removed"),
        ({}, [drone("a", status=DroneStatus.OFFLINE)], {}, Waiting.DRONE_OFFLINE, "drone a is offline"),
        (
            {"drone": "a"},
            [drone("a", status=DroneStatus.OFFLINE), drone("b")],
            {},
            Waiting.DRONE_OFFLINE,
            "drone a is offline",
        ),
        ({}, [drone("a")], {"a": "other"}, Waiting.DRONE_RESERVED, "another session"),
        ({}, [drone("a", workspace_mode=WorkspaceMode.USER)], {}, Waiting.WORKSPACE, "you are editing"),
        ({}, [drone("a", status=DroneStatus.BUSY)], {}, Waiting.DRONE_BUSY, "another turn"),
        ({}, [drone("a", status=DroneStatus.STARTING)], {}, Waiting.DRONE_BUSY, "another turn"),
    ],
)
def test_the_reason_of_a_waiting_turn_is_reported(
    fields: dict[str, Any], drones: list[DroneRegistration], locks: dict[str, str], waiting: Waiting, reason: str
) -> None:
    found, why = candidate_drones(session(**fields), drones, locks)
    assert found == []
    assert why is not None
    assert why.waiting is waiting
    assert reason in why.reason
    assert why.reason.endswith(".")
