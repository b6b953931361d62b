"""What must be true after every case, whatever was done to the system (O1 to O10 of the reliability promises)."""

import asyncio
import fcntl
import itertools
import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

from gadget_api.workspace_files import WorkOrderFile, WorkspaceFile
from tests.faults.stage import KEY, Stage
from tests.faults.watcher import Event, Watcher
from tests.harness import until

_SEEN_S = 15.0
_MAX_LOG_LINE = 400


async def check_all(stage: Stage, *, may_log_tracebacks: bool = False, asks_again: bool = False) -> None:
    """Every turn of the stage is over. Ends the drone. With a `asks_again` what only it knew is asked again."""
    for turn in list(stage.prompts):
        await check_turn(stage, turn)
    await check_views(stage)
    if not asks_again:
        check_requests(stage)
    await stage.next_prompt_works()  # O5: the scripted model refuses a history that is not in order
    await check_workspace(stage)
    await check_secrets(stage)
    if not may_log_tracebacks:
        check_logs(stage)


async def check_turn(stage: Stage, turn: str) -> None:
    stored = await stage.user.events(turn)
    document = await stage.turn(turn)
    check_order(stored)
    check_end(stored, document)
    check_tools(stored, document, stage.calls)


def check_order(stored: list[Event]) -> None:
    """O1."""
    seqs = [event["seq"] for event in stored]
    assert seqs == list(range(1, len(seqs) + 1)), f"O1: the stored events are not 1..n: {seqs}"
    epochs = [event["epoch"] for event in stored]
    assert epochs == sorted(epochs), f"O1: a stored event is of an older epoch than the one before: {epochs}"


def check_end(stored: list[Event], document: dict[str, Any]) -> None:
    """O2."""
    types = [event["type"] for event in stored]
    assert types.count("workOrderComplete") == 1, f"O2: not one end: {Counter(types)}, {document['status']}"
    assert types[-1] == "workOrderComplete", f"O2: something follows the end: {types}"
    end = stored[-1]
    assert end["status"] == document["status"], f"O2: {end['status']} was said, {document['status']} is stored"
    assert end["error"] == document["error"], f"O2: {end['error']} was said, {document['error']} is stored"
    assert document["lastSeq"] == len(stored), f"O2: lastSeq is {document['lastSeq']} of {len(stored)}"
    assert document["statusReason"] is None, f"O2: a turn that is over waits: {document['statusReason']}"


def check_tools(stored: list[Event], document: dict[str, Any], ran: list[str]) -> None:
    """O3."""
    doubles = [call for call, count in Counter(ran).items() if count > 1]
    assert not doubles, f"O3: tool calls ran more than once: {doubles}"
    asked = [call["callId"] for e in stored if e["type"] == "step" for call in e["message"]["toolCalls"]]
    results = Counter(event["callId"] for event in stored if event["type"] == "toolCall")
    assert all(count == 1 for count in results.values()), f"O3: more than one result: {results}"
    assert results.keys() <= set(asked), f"O3: results that nobody asked for: {results.keys() - set(asked)}"
    if document["status"] == "finished":
        assert results.keys() == set(asked), f"O3: tool calls without a result: {set(asked) - results.keys()}"


async def check_views(stage: Stage) -> None:
    """O4: who watched all the time has what somebody sees who comes now, and that is what is stored."""
    fresh = Watcher(stage.user, stage.web.url, stage.session["_id"])
    async with fresh:
        for turn in stage.prompts:
            stored = _plain(await stage.user.events(turn))
            for name, watcher in (("the replay", fresh), ("the live view", stage.watcher)):
                await _until_seen(watcher, turn, name)
                view = _plain(watcher.view(turn))
                assert view == stored, f"O4: {name} is not what is stored: {_first_difference(view, stored)}"
    assert not fresh.faults, f"O4: a replay is not in order: {fresh.faults[:5]}"
    assert not stage.watcher.faults, f"O4: the live stream was not in order: {stage.watcher.faults[:5]}"


async def _until_seen(watcher: Watcher, turn: str, name: str) -> None:
    def ended() -> bool:
        return any(event["type"] == "workOrderComplete" for event in watcher.view(turn))

    try:
        await watcher.until(ended, _SEEN_S)
    except TimeoutError:
        last = watcher.view(turn)[-1:]
        raise AssertionError(f"O4: {name} never shows the end of {turn}; its last event is {last}") from None


def _plain(events: list[Event]) -> list[Event]:
    """Without what a repeat under a later epoch changes."""
    return [{key: value for key, value in event.items() if key != "epoch"} for event in events]


def _first_difference(view: list[Event], stored: list[Event]) -> str:
    for mine, theirs in zip(view, stored, strict=False):
        if mine != theirs:
            return f"{mine} and not {theirs}"
    return f"{len(view)} events and not {len(stored)}"


def check_requests(stage: Stage) -> None:
    """O10: a step is asked for again only when its answer was cut, or died with the drone."""
    for prompt in set(stage.prompts.values()):
        asked = stage.book.asked_for(prompt)
        steps = [request.step for request in asked]
        assert steps == sorted(steps), f"O10: a finished model call was paid again: steps {steps} of {prompt!r}"
        again = [one for one, two in itertools.pairwise(asked) if one.step == two.step and one.is_answered]
        assert len(again) <= stage.drone_deaths + stage.lost_answers, (
            f"O10: whole answers were asked for again: {again}"
        )


async def check_workspace(stage: Stage) -> None:
    """O8 and O9. Ends the drone, as its machine would."""
    await stage.drone.until_available()
    await asyncio.to_thread(stage.drone.stop)
    await stage.until_no_orphans()
    fd = os.open(stage.drone.gadget / "lock", os.O_RDWR)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise AssertionError("O8: the lock outlives the drone") from None
    finally:
        os.close(fd)
    check_files(stage.drone.gadget)


def check_files(gadget: Path) -> None:
    """O9."""
    WorkspaceFile.model_validate_json((gadget / "workspace.json").read_bytes())
    order = gadget / "work-order.json"
    if order.exists():
        WorkOrderFile.model_validate_json(order.read_bytes())
    for journal in (gadget / "journal").iterdir():
        for line in journal.read_bytes().splitlines():
            assert json.loads(line).keys() & {"seq", "acked"}, f"O9: {journal.name} has {line[:200]!r}"


async def check_secrets(stage: Stage) -> None:
    """O7."""
    data = Path(stage.web.env["GADGET_DATA_DIR"])
    files = [p for root in (stage.directory, data) for p in root.rglob("*") if p.is_file() and not p.is_symlink()]
    places = {str(path): path.read_bytes() for path in (*files, stage.web.log)}
    for turn in stage.prompts:
        places[f"the events of {turn}"] = json.dumps(await stage.user.events(turn)).encode()
        places[f"the turn {turn}"] = json.dumps(await stage.turn(turn)).encode()
    found = [place for place, content in places.items() if KEY.encode() in content]
    assert not found, f"O7: the API key is in {found}"


def check_logs(stage: Stage) -> None:
    """Nothing was raised that nobody had thought of."""
    for name, log in (("drone", stage.drone.output), ("web", stage.web_log())):
        begin = log.find("Traceback (most recent call last)")
        assert begin < 0, f"the {name} met something unforeseen: …{log[max(0, begin - _MAX_LOG_LINE) : begin + 3000]}"


async def check_said_in_time(stage: Stage, turn: str, within_s: float, since: int) -> None:
    """O6: the watcher is told within `within_s` why the turn waits. `since`: how many statuses it had before."""

    def told() -> list[str | None]:
        return [status["statusReason"] for _, status in stage.watcher.statuses[since:] if status["_id"] == turn]

    try:
        await stage.watcher.until(lambda: any(told()), within_s)
    except TimeoutError:
        raise AssertionError(f"O6: not told within {within_s:g} s why the turn waits; reasons: {told()}") from None


async def check_goes_on(stage: Stage, turn: str) -> None:
    """O6: a turn that works again does not say that it waits."""

    async def clear() -> bool | None:
        document = await stage.turn(turn)
        return True if document["statusReason"] is None else None

    await until(clear)
