"""What a tool's command can do to a drone: bounded in output, in time and in what it leaves behind."""

import re
from pathlib import Path
from typing import Any

import pytest

from gadget_ai.testing.script import Call, Reply, Text
from gadget_api.ids import new_id
from tests.faults.oracles import check_all
from tests.faults.selection import full
from tests.faults.stage import Stage
from tests.faults.story import always
from tests.harness import until

_RESULT_BYTES = 70_000
"""A result is cut to 64 kB; this leaves room for what is said about the rest."""
_DRONE_RSS_MB = 400


async def _result(stage: Stage, command: str, timeout_s: int = 60) -> dict[str, Any]:
    """Of a turn that runs the command and then ends."""
    call = new_id()
    run = Call("shell", {"command": f"echo {call} >> calls.log; {command}", "timeout_s": timeout_s}, call_id=call)
    turn = await stage.prompt(f"Go. {call}", [always(lambda: Reply(run)), always(lambda: Reply(Text("Done.")))])
    document = await stage.until_over(turn)
    assert document["status"] == "finished", document
    result: dict[str, Any] = await stage.watcher.until_event(turn, "toolCall")
    assert len(result["response"].encode()) <= _RESULT_BYTES
    assert stage.calls == [call]
    return result


def _peak_mb(pid: int) -> int:
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) // 1024


@pytest.mark.timeout(240)
@pytest.mark.parametrize("megabytes", [100, pytest.param(1024, marks=full)])
@pytest.mark.parametrize("unit", ["one line and no end", "many lines"])
async def test_a_flood_of_output_keeps_its_head_and_tail_and_can_be_fetched(
    stage: Stage, megabytes: int, unit: str
) -> None:
    source = "tr '\\0' x < /dev/zero" if unit == "one line and no end" else "yes"
    result = await _result(stage, f"echo HEAD; {source} | head -c {megabytes}000000; echo; echo TAIL")
    assert "HEAD" in result["response"][:100]
    assert "TAIL" in result["response"][-200:]
    assert result["blob"] is not None
    assert _peak_mb(stage.drone.pid) < _DRONE_RSS_MB

    async def uploaded() -> bytes | None:
        answer = await stage.user.http.get(f"/turns/{result['turnId']}/blobs/{result['blob']['blobId']}")
        is_whole = answer.is_success and len(answer.content) == result["blob"]["sizeBytes"]
        return answer.content if is_whole else None

    whole = await until(uploaded, 60)
    assert whole.startswith(b"HEAD\n")
    assert len(whole) <= 300_000_000
    await check_all(stage)


async def test_output_that_is_no_text_is_shown_as_far_as_it_is(stage: Stage) -> None:
    result = await _result(stage, r"printf 'caf\351 \377\376 \000 ok\n'")
    assert "ok" in result["response"]
    await check_all(stage)


@pytest.mark.parametrize(
    "command",
    ["sleep 600", "trap '' TERM; while :; do sleep 0.1; done", "(trap '' TERM HUP; sleep 600) & sleep 600"],
    ids=["hangs", "ignores TERM", "hangs in the background too"],
)
async def test_a_command_that_does_not_end_is_ended_with_all_it_started(stage: Stage, command: str) -> None:
    result = await _result(stage, command, timeout_s=1)
    assert result["isError"]
    assert result["durationMs"] < 10_000
    await stage.until_no_orphans()
    await check_all(stage)


async def test_a_daemon_that_holds_the_output_open_holds_up_nothing(stage: Stage) -> None:
    result = await _result(stage, "sleep 60 & echo started")
    assert "started" in result["response"]
    assert result["durationMs"] < 30_000
    await check_all(stage)


async def test_a_command_that_reads_its_input_finds_none(stage: Stage) -> None:
    result = await _result(stage, "cat; read x; echo end of input")
    assert "end of input" in result["response"]
    await check_all(stage)


@pytest.mark.parametrize(
    "command",
    ["trap '' TERM HUP; while :; do sleep 0.1; done", "yes", "sleep 600 & sleep 600 & wait", "nohup sleep 600"],
    ids=["ignores signals", "floods", "forks", "nohup"],
)
async def test_what_a_tool_runs_dies_with_its_drone_and_is_not_run_again(stage: Stage, command: str) -> None:
    call = new_id()
    run = Call("shell", {"command": f"echo {call} >> calls.log; {command}"}, call_id=call)
    turn = await stage.prompt(f"Go. {call}", [always(lambda: Reply(run)), always(lambda: Reply(Text("Done.")))])

    async def runs() -> bool | None:
        return True if stage.calls else None

    await until(runs)
    await stage.kill_drone()
    await stage.heal()
    assert (await stage.until_over(turn))["status"] == "finished"
    result = await stage.watcher.until_event(turn, "toolCall")
    assert result["isError"]
    assert "outcome unknown" in result["response"]
    assert stage.calls == [call]
    await check_all(stage)
