"""Which commands end when the rules change."""

import pytest

from gadget_drone.sandbox.bounds import Bounds


def bounds(*, network: bool = False, hidden: str = "", read_only: str = "") -> Bounds:
    return Bounds.of(network=network, hidden=hidden.split(), read_only=read_only.split())


@pytest.mark.parametrize(
    ("before", "now", "stays"),
    [
        (bounds(network=True), bounds(network=True), True),
        (bounds(network=True), bounds(), False),
        (bounds(), bounds(network=True), True),
        (bounds(), bounds(hidden=".env"), False),
        (bounds(hidden=".env"), bounds(), True),
        (bounds(), bounds(read_only="a"), False),
        (bounds(read_only="a"), bounds(hidden="a"), False),
        (bounds(hidden="a"), bounds(read_only="a"), True),
    ],
)
def test_only_what_may_do_more_than_the_rules_now_say_is_ended(before: Bounds, now: Bounds, stays: bool) -> None:
    assert before.hold(now) is stays
