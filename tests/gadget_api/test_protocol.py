"""The table of socket events, held against the contract's lists as they are written there."""

import pytest

from gadget_api.events import EVENT_TYPES
from gadget_api.model import WireModel
from gadget_api.protocol import API_PREFIX, SOCKET_EVENTS, SOCKET_PATH, Peer, events_between

TURN_EVENTS = {
    "thinking",
    "response",
    "toolStarted",
    "toolOutput",
    "toolCall",
    "step",
    "steered",
    "notice",
    "workOrderComplete",
}
OUR_TURN_EVENTS = {"inquiryAsked", "inquiryAnswered", "compacted", "checkpoint", "titled"}
IDE_TO_WEB = {
    "selectSession",
    "requestSessionLock",
    "releaseSessionLock",
    "requestWorkspaceMode",
    "submitPrompt",
    "cancelTurn",
    "steerTurn",
}
OURS_FROM_IDE = {"continueTurn", "answerInquiry"}
TERMINAL_REQUESTS = {
    "listTerminals",
    "openTerminal",
    "attachTerminal",
    "writeTerminal",
    "resizeTerminal",
    "closeTerminal",
}
TERMINAL_NEWS = {"terminalOutput", "terminalChanged", "terminalClosed"}
"""A drone is answered, and sends the next then; an IDE does not answer."""
WEB_TO_DRONE = {
    "requestSessionLock",
    "releaseSessionLock",
    "requestWorkspaceMode",
    "processWorkOrder",
    "cancelTurn",
    "steerTurn",
    "turnAck",
    "crashRecoveryResponse",
}
FILES_AT_DRONE = {"listFiles", "findFiles", "readFile", "writeFile", "renameFile", "deleteFile"}
OURS_TO_DRONE = {"answerInquiry", "setPolicy", "readDiff", "restoreFiles"} | FILES_AT_DRONE
PUSHED_TO_DRONE = {"turnResend", "turnRevoked", "closeTerminals", "terminalsHeard"}
"""Beside the contract's."""
DRONE_TO_WEB = TURN_EVENTS | {"beginTurn", "requestWorkspaceMode", "requestCrashRecovery", "droneStatus"}
WEB_TO_IDE = TURN_EVENTS | {"turnStatus", "sessionUpdated", "droneStatus", "workspaceMode", "sessionLock"}
OURS_TO_IDE = {"inquiryChanged"} | TERMINAL_NEWS

EMITTED = WEB_TO_IDE | OUR_TURN_EVENTS | OURS_TO_IDE | PUSHED_TO_DRONE | {"turnAck", "crashRecoveryResponse"}
"""What nobody acknowledges, where it is not a request of the same name."""


@pytest.mark.parametrize(
    ("sender", "receiver", "names"),
    [
        (Peer.IDE, Peer.WEB, IDE_TO_WEB | OURS_FROM_IDE | TERMINAL_REQUESTS | {"detachTerminal"}),
        (Peer.WEB, Peer.IDE, WEB_TO_IDE | OUR_TURN_EVENTS | OURS_TO_IDE),
        (Peer.WEB, Peer.DRONE, WEB_TO_DRONE | OURS_TO_DRONE | PUSHED_TO_DRONE | TERMINAL_REQUESTS),
        (Peer.DRONE, Peer.WEB, DRONE_TO_WEB | OUR_TURN_EVENTS | TERMINAL_NEWS),
        (Peer.IDE, Peer.DRONE, set()),
        (Peer.DRONE, Peer.IDE, set()),
    ],
)
def test_each_direction_has_the_events_of_the_contract(sender: Peer, receiver: Peer, names: set[str]) -> None:
    assert events_between(sender, receiver).keys() == names


def test_each_direction_has_an_event_only_once() -> None:
    keys = [(event.sender, event.receiver, event.name) for event in SOCKET_EVENTS]
    assert len(keys) == len(set(keys))


def test_the_events_of_a_turn_are_the_same_in_both_directions() -> None:
    assert EVENT_TYPES.keys() == TURN_EVENTS | OUR_TURN_EVENTS
    for name, kind in EVENT_TYPES.items():
        assert events_between(Peer.DRONE, Peer.WEB)[name].payload is kind
        assert events_between(Peer.WEB, Peer.IDE)[name].payload is kind


def test_requests_have_a_reply_and_pushes_have_none() -> None:
    for event in SOCKET_EVENTS:
        of_drone = event.sender is Peer.DRONE and event.name in {"droneStatus", *TERMINAL_NEWS}
        is_request = event.name not in EMITTED or of_drone
        assert (event.reply is not None) == is_request, event


def test_a_reply_says_ok() -> None:
    for event in SOCKET_EVENTS:
        if event.reply is not None:
            assert event.reply.model_fields["ok"].default is True, event.reply


def test_every_event_has_a_summary_and_a_payload() -> None:
    for event in SOCKET_EVENTS:
        assert event.summary.endswith((".", "?", "...")), event.summary
        assert issubclass(event.payload, WireModel)


@pytest.mark.parametrize(
    ("sender", "receiver", "name", "fields"),
    [
        (Peer.IDE, Peer.WEB, "selectSession", {"chatSessionId", "after"}),
        (Peer.IDE, Peer.WEB, "requestSessionLock", {"chatSessionId", "droneId"}),
        (Peer.IDE, Peer.WEB, "releaseSessionLock", {"chatSessionId"}),
        (Peer.IDE, Peer.WEB, "requestWorkspaceMode", {"chatSessionId", "mode"}),
        (Peer.IDE, Peer.WEB, "submitPrompt", {"chatSessionId", "content", "promptId", "images"}),
        (Peer.IDE, Peer.WEB, "cancelTurn", {"turnId"}),
        (Peer.IDE, Peer.WEB, "steerTurn", {"turnId", "content", "steerId"}),
        (Peer.WEB, Peer.DRONE, "processWorkOrder", {"workOrder"}),
        (Peer.WEB, Peer.DRONE, "turnAck", {"turnId", "seq"}),
        (Peer.DRONE, Peer.WEB, "requestWorkspaceMode", {"mode"}),
        (Peer.DRONE, Peer.WEB, "beginTurn", {"turnId", "epoch"}),
        (
            Peer.DRONE,
            Peer.WEB,
            "requestCrashRecovery",
            {"workspaceId", "turnId", "chatSessionId", "lastSeq", "question"},
        ),
        (Peer.WEB, Peer.IDE, "turnStatus", {"turn"}),
    ],
)
def test_a_payload_has_the_fields_of_the_contract(sender: Peer, receiver: Peer, name: str, fields: set[str]) -> None:
    payload = events_between(sender, receiver)[name].payload
    assert {field.alias for field in payload.model_fields.values()} == fields


def test_the_crash_recovery_response_has_the_fields_of_the_contract() -> None:
    payload = events_between(Peer.WEB, Peer.DRONE)["crashRecoveryResponse"].payload
    fields = {field.alias for field in payload.model_fields.values()}
    assert fields >= {"turnId", "action", "retryDelay", "epoch", "ackedSeq"}


def test_the_addresses_are_those_of_the_contract() -> None:
    assert (SOCKET_PATH, API_PREFIX) == ("/socket.io", "/api/v1")
