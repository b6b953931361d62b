"""The table of a turn's states: every state can be reached and left, and an end is one."""

import itertools

from gadget_api.turn_states import INITIAL, TRANSITIONS, Cause
from gadget_api.turns import ChatTurnStatus

MOVES = {
    (source, target)
    for transition in TRANSITIONS
    for source, target in itertools.product(transition.sources, transition.targets)
}


def reachable(start: ChatTurnStatus) -> set[ChatTurnStatus]:
    found = {start}
    while more := {target for source, target in MOVES if source in found} - found:
        found |= more
    return found


def test_every_state_is_reached_from_the_first_and_nothing_follows_an_end() -> None:
    assert reachable(INITIAL) == set(ChatTurnStatus)
    for status in ChatTurnStatus:
        if status.is_over:
            assert reachable(status) == {status}
        else:
            assert any(found.is_over for found in reachable(status))


def test_the_user_can_end_or_move_a_turn_wherever_it_waits() -> None:
    by_user = [transition for transition in TRANSITIONS if Cause.USER in transition.causes]
    for status in (ChatTurnStatus.QUEUED, ChatTurnStatus.PROCESSING):
        assert any(transition.ends and status in transition.sources for transition in by_user)


def test_each_new_owner_of_a_turn_starts_an_epoch() -> None:
    """All that leaves `processing` but the drone's own word, or begins it anew, starts an epoch."""
    own_word = {"complete", "refuse"}
    for transition in TRANSITIONS:
        concerns_a_drone = ChatTurnStatus.PROCESSING in (*transition.sources, *transition.targets)
        assert transition.starts_epoch == (concerns_a_drone and transition.name not in own_word), transition


def test_each_transition_has_its_own_name_and_meaning() -> None:
    names = [transition.name for transition in TRANSITIONS]
    assert len(set(names)) == len(names)
    for transition in TRANSITIONS:
        assert transition.meaning.endswith(".")
        assert transition.sources
        assert transition.targets
        assert transition.causes
