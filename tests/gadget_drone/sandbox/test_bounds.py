"""Which commands end when the rules change."""

import os
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gadget_api.messages import ToolCallRequest
from gadget_api.permissions import Capability, Decision, Policy, RuleScope, ScopedRule
from gadget_drone.agent.decisions import Decisions
from gadget_drone.agent.place import Place as AgentPlace
from gadget_drone.agent.sessions import SessionStates
from gadget_drone.errors import ToolError
from gadget_drone.processes.environment import child_environment
from gadget_drone.processes.supervised import Supervised
from gadget_drone.sandbox.bounds import Bounds
from tests.gadget_drone.sandbox.conftest import Place
from tests.gadget_drone.tools.test_shell import until


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


STRICT = Policy(
    rules=(
        ScopedRule(decision=Decision.DENY, capability=Capability.READ, pattern="secrets", scope=RuleScope.SESSION),
        ScopedRule(decision=Decision.DENY, capability=Capability.NETWORK, pattern="*", scope=RuleScope.SESSION),
    )
)
LISTENS = """
import socket, time
listening = socket.socket(socket.AF_UNIX)
listening.bind("/tmp/s")
listening.listen()
_, fds, _, _ = socket.recv_fds(listening.accept()[0], 1, 1)
open("taken", "w").close()
time.sleep(600)
"""
HANDS_OVER = """
import os, socket
to = socket.socket(socket.AF_UNIX)
to.connect("/tmp/s")
socket.send_fds(to, [b"x"], [os.open("secrets", os.O_RDONLY)])
"""


async def begin(place: Place, sessions: SessionStates, session: str, policy: Policy) -> AgentPlace:
    """A turn of the session."""
    nothing = cast("Any", None)
    return AgentPlace(
        place.project, place.outside, nothing, place.standing, await sessions.of(session, place.project), False,
        nothing, nothing, nothing, nothing, nothing, nothing, Decisions(policy),
    )  # fmt: skip


async def start(place: Place, turn: AgentPlace, *words: str) -> Supervised:
    context = await turn.context(ToolCallRequest(call_id="c", name="shell", params={}))
    assert context.sandboxed is not None
    env = child_environment() | {"HOME": str(place.home)}
    return await context.sandboxed(words, env, project_dir=place.project, output=2, errors=2, stdin=None)


@pytest.mark.parametrize("other", ["the same session", "another session"])
async def test_what_ran_beside_a_command_that_was_allowed_more_ends_with_it(place: Place, other: str) -> None:
    (place.project / "secrets").mkdir()
    sessions = SessionStates()
    strict = await begin(place, sessions, "one", STRICT)
    strict_job = await start(place, strict, "/usr/bin/python3", "-c", LISTENS)
    await until(lambda: (place.workspace / ".gadget/tmp/project/s").exists())
    loose = await begin(place, sessions, "one" if other == "the same session" else "two", Policy())
    assert (await (await start(place, loose, "/usr/bin/python3", "-c", HANDS_OVER)).ended()).status == 0
    await until((place.project / "taken").exists)
    left = await start(place, loose, "/bin/sh", "-c", "trap '' TERM; echo >up; while :; do sleep 1; done")
    await until((place.project / "up").exists)
    assert not strict_job.is_over
    strict = await begin(place, sessions, "one", STRICT)
    assert strict_job.ended_because is not None
    after = await start(place, strict, "/bin/sh", "-c", "sleep 600")
    assert (strict_job.is_over, left.is_over, after.is_over) == (True, True, False)
    assert after.ended_because is None
    await after.kill()


async def test_a_directory_that_cannot_be_looked_into_refuses_commands_in_words(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: str) -> Any:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr("gadget_drone.permissions.covered.os", SimpleNamespace(**{**vars(os), "scandir": refused}))
    turn = await begin(place, SessionStates(), "one", STRICT)
    with pytest.raises(ToolError, match=r"cannot be looked for.*Permission denied"):
        await start(place, turn, "/bin/true")
