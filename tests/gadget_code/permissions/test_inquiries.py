"""What a turn asks: kept, answered once, brought to the drone, and over with its turn."""

import asyncio
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gadget_api.events import turn_event
from gadget_api.ids import new_id
from gadget_api.inquiries import Answer, Inquiry
from gadget_api.model import iso, utc_now
from gadget_api.turns import ChatTurn, Prompts
from gadget_code.recording.projection import after_event
from gadget_code.recording.recorder import ASKED_S
from gadget_code.store.database import MongoStore
from gadget_code.store.events import StoredEvent
from tests.gadget_code.peers import Played, PlayedDrone, a_session, a_turn, a_web, an_inquiry, problem
from tests.harness import Ide, User, until


async def asked(drone: PlayedDrone, played: Played, turn: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """An inquiry that the drone has asked, and that counts."""
    inquiry = an_inquiry(turn, **fields)
    await drone.send(played.event("inquiryAsked", inquiry=inquiry))
    await drone.acked(turn["_id"], played.seq)
    return inquiry


def answered(inquiry: dict[str, Any], choice: str = "once", status: str = "answered") -> dict[str, Any]:
    return {"inquiryId": inquiry["_id"], "status": status, "answer": {"choice": choice, "text": None}}


async def reaches(user: User, inquiry: dict[str, Any], status: str, timeout: float = 15.0) -> dict[str, Any]:
    async def does() -> dict[str, Any] | None:
        document: dict[str, Any] = await user.get(f"/inquiries/{inquiry['_id']}")
        return document if document["status"] == status else None

    found: dict[str, Any] = await until(does, timeout)
    return found


async def test_any_client_can_answer_an_inquiry_and_the_drone_gets_the_answer(
    user: User, drone: PlayedDrone, turn: dict[str, Any]
) -> None:
    played = Played(turn)
    async with Ide(user) as watching, Ide(user) as elsewhere:
        await watching.select(turn["session"])
        inquiry = await asked(drone, played, turn)
        # Who watches the session has the event, every client of the user hears of the change.
        await watching.until(lambda name, _: name == "inquiryAsked")
        _, change = await elsewhere.until(lambda name, _: name == "inquiryChanged")
        assert change["inquiry"]["status"] == "pending"
        assert (await user.get(f"/turns/{turn['_id']}"))["inquiry"] == inquiry["_id"]
        kept = await user.get(f"/inquiries/{inquiry['_id']}")
        assert kept["detail"] == "npm run test -- --watch"
        for query in ({}, {"status": "pending"}, {"session": turn["session"]}):
            assert [i["_id"] for i in (await user.get("/inquiries", **query))["items"]] == [inquiry["_id"]]
        assert (await user.get("/inquiries", status="answered"))["items"] == []
        reply = await elsewhere.call(
            "answerInquiry", {"inquiryId": inquiry["_id"], "choice": "deny", "text": "Carefully."}
        )
        assert reply == {"ok": True}
        await watching.until(lambda name, p: name == "inquiryChanged" and p["inquiry"]["status"] == "answered")
    put = await drone.until("answerInquiry")
    answer = {"choice": "deny", "text": "Carefully."}
    assert put == {"turnId": turn["_id"], "inquiryId": inquiry["_id"], "status": "answered", "answer": answer}
    # The same again is no other; another is refused.
    again = await user.post(f"/inquiries/{inquiry['_id']}/answer", answer)
    assert (again["status"], again["answer"]) == ("answered", answer)
    other = await user.http.post(f"/inquiries/{inquiry['_id']}/answer", json={"choice": "once"})
    problem(other, 409, "inquiryClosed")
    await drone.send(played.event("inquiryAnswered", answer=answered(inquiry)))
    await drone.acked(turn["_id"], 2)
    assert (await user.get(f"/turns/{turn['_id']}"))["inquiry"] is None


async def test_an_invalid_answer_is_refused(user: User, drone: PlayedDrone, turn: dict[str, Any]) -> None:
    inquiry = await asked(drone, Played(turn), turn, takesText=False)
    for body in ({}, {"choice": "maybe"}, {"text": "Yes."}, {"choice": None, "text": "  "}, {"choice": 1}):
        problem(await user.http.post(f"/inquiries/{inquiry['_id']}/answer", json=body), 422, "invalidRequest")
    problem(await user.http.post(f"/inquiries/{new_id()}/answer", json={"choice": "once"}), 404, "notFound")
    assert (await user.get(f"/inquiries/{inquiry['_id']}"))["status"] == "pending"


@pytest.mark.parametrize("choice", ["once", "session", "project"])
async def test_an_answer_in_words_never_allows_a_call(
    user: User, drone: PlayedDrone, turn: dict[str, Any], choice: str
) -> None:
    inquiry = await asked(drone, Played(turn), turn)
    said = {"choice": choice, "text": "Use yarn."}
    refused = problem(await user.http.post(f"/inquiries/{inquiry['_id']}/answer", json=said), 422, "invalidRequest")
    assert "deny" in refused["detail"]
    async with Ide(user) as ide:
        reply = await ide.call("answerInquiry", {"inquiryId": inquiry["_id"], **said})
    assert reply["error"]["code"] == "invalidRequest"
    assert (await user.get(f"/inquiries/{inquiry['_id']}"))["status"] == "pending"
    assert drone.count("answerInquiry") == 0


async def test_an_answer_in_words_does_not_raise_a_budget(user: User, drone: PlayedDrone, turn: dict[str, Any]) -> None:
    choices = [{"id": name, "label": name} for name in ("goOn", "stop")]
    inquiry = await asked(
        drone, Played(turn), turn, kind="budget", choices=choices, takesText=False, default={"choice": "stop"}
    )
    said = {"choice": "goOn", "text": "But only three more steps."}
    problem(await user.http.post(f"/inquiries/{inquiry['_id']}/answer", json=said), 422, "invalidRequest")


async def test_one_of_many_concurrent_answers_through_two_processes_counts(mongodb_url: str, tmp_path: Path) -> None:
    settings = {"GADGET_DATABASE": f"t{new_id()}", "GADGET_SECRET_KEY_FILE": str(tmp_path / "secret.key")}
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    with (
        a_web(tmp_path / "one", mongodb_url, **settings) as one,
        a_web(tmp_path / "two", mongodb_url, **settings) as two,
    ):
        async with await one.user() as user, PlayedDrone(user) as drone:
            far = User(two.url, user.email, user.password, user.token, user.document)
            turn = await a_turn(user, await a_session(user))
            await drone.order(turn["_id"])
            inquiry = await asked(drone, Played(turn), turn)
            path = f"/inquiries/{inquiry['_id']}/answer"
            async with far:
                answers = await asyncio.gather(
                    *(
                        client.http.post(path, json={"choice": choice})
                        for _ in range(4)
                        for client, choice in ((user, "once"), (far, "deny"))
                    )
                )
                taken = {answer.json()["answer"]["choice"] for answer in answers if answer.status_code == 200}
                assert len(taken) == 1
                assert {answer.status_code for answer in answers} == {200, 409}
                assert sum(answer.status_code == 200 for answer in answers) == 4
                assert (await far.get(f"/inquiries/{inquiry['_id']}"))["answer"]["choice"] in taken
            # Whichever took it, the one that holds the drone's socket brings it there.
            put = await drone.until("answerInquiry")
            assert put["answer"]["choice"] in taken


async def test_an_answer_reaches_a_drone_that_reconnects_and_its_next_order(
    user: User, drone: PlayedDrone, turn: dict[str, Any]
) -> None:
    played = Played(turn)
    inquiry = await asked(drone, played, turn)
    await drone.disconnect()
    await user.post(f"/inquiries/{inquiry['_id']}/answer", {"choice": "deny", "text": "Use yarn."})
    assert drone.count("answerInquiry") == 0
    await drone.connect()
    await drone.report("busy")
    assert (await drone.until("answerInquiry"))["answer"] == {"choice": "deny", "text": "Use yarn."}
    ask = {"workspaceId": drone.workspace_id, "turnId": turn["_id"], "chatSessionId": turn["session"], "lastSeq": 1}
    await drone.call("requestCrashRecovery", ask)
    resume = (await drone.until("crashRecoveryResponse"))["workOrder"]["resume"]
    [known] = resume["inquiries"]
    assert (known["_id"], known["status"], known["answer"]["text"]) == (inquiry["_id"], "answered", "Use yarn.")
    # What it has taken it is not told again.
    played.epoch = 2
    await drone.send(played.event("inquiryAnswered", answer=answered(inquiry, "deny")))
    await drone.acked(turn["_id"], 2)
    await drone.call("requestCrashRecovery", {**ask, "lastSeq": 2})
    later = await drone.until("crashRecoveryResponse", lambda p: p["epoch"] == 3)
    # But whoever goes on with the turn has it: the call may not have run.
    assert [known["_id"] for known in later["workOrder"]["resume"]["inquiries"]] == [inquiry["_id"]]


async def test_an_approval_for_longer_becomes_a_rule_and_a_policy(
    user: User, drone: PlayedDrone, turn: dict[str, Any]
) -> None:
    played = Played(turn)
    rule = {"decision": "allow", "capability": "execute", "pattern": "npm run *", "reason": None}
    for choice, path in (("session", f"/sessions/{turn['session']}"), ("project", f"/projects/{turn['project']}")):
        for _ in range(2):
            inquiry = await asked(drone, played, turn)
            await user.post(f"/inquiries/{inquiry['_id']}/answer", {"choice": choice})
        assert (await user.get(path))["rules"] == [rule]
        pushed = await drone.until("setPolicy", partial(_has_rule, {**rule, "scope": choice}))
        assert pushed["turnId"] == turn["_id"]


def _has_rule(rule: dict[str, Any], push: dict[str, Any]) -> bool:
    return rule in push["policy"]["rules"]


async def test_a_drone_cannot_add_a_rule_that_is_not_an_approval(
    user: User, drone: PlayedDrone, turn: dict[str, Any]
) -> None:
    played = Played(turn)
    rule = {"decision": "deny", "capability": "read", "pattern": "*"}
    for fields in ({"kind": "question"}, {"rule": rule}, {"rule": None}):
        inquiry = await asked(drone, played, turn, **fields)
        await user.post(f"/inquiries/{inquiry['_id']}/answer", {"choice": "session"})
    assert (await user.get(f"/sessions/{turn['session']}"))["rules"] == []


async def test_an_unanswered_inquiry_expires_with_its_default(
    user: User, drone: PlayedDrone, turn: dict[str, Any]
) -> None:
    inquiry = await asked(drone, Played(turn), turn, expiresAt=iso(utc_now() - timedelta(seconds=1)))
    expired = await reaches(user, inquiry, "expired")
    assert expired["answer"] == {"choice": "deny", "text": None}
    put = await drone.until("answerInquiry")
    assert (put["status"], put["answer"]["choice"]) == ("expired", "deny")
    late = await user.http.post(f"/inquiries/{inquiry['_id']}/answer", json={"choice": "once"})
    assert "in time" in problem(late, 409, "inquiryClosed")["detail"]


async def test_the_end_of_a_turn_withdraws_its_inquiries(user: User, drone: PlayedDrone, turn: dict[str, Any]) -> None:
    played = Played(turn)
    inquiry = await asked(drone, played, turn)
    async with Ide(user) as ide:
        await drone.send(played.complete())
        await drone.acked(turn["_id"], 2)
        await ide.until(lambda name, p: name == "inquiryChanged" and p["inquiry"]["status"] == "withdrawn")
    assert (await user.get(f"/turns/{turn['_id']}"))["inquiry"] is None
    late = await user.http.post(f"/inquiries/{inquiry['_id']}/answer", json={"choice": "once"})
    assert "is over" in problem(late, 409, "inquiryClosed")["detail"]


async def test_cancelling_a_turn_withdraws_its_inquiries(user: User, drone: PlayedDrone, turn: dict[str, Any]) -> None:
    inquiry = await asked(drone, Played(turn), turn)
    await drone.disconnect()
    await user.post(f"/turns/{turn['_id']}/cancel", {})
    await reaches(user, inquiry, "withdrawn")


async def test_the_answer_that_a_drone_used_replaces_the_stored_one(
    user: User, drone: PlayedDrone, turn: dict[str, Any]
) -> None:
    played = Played(turn)
    inquiry = await asked(drone, played, turn)
    await drone.send(played.event("inquiryAnswered", answer=answered(inquiry, "deny", "expired")))
    await drone.acked(turn["_id"], 2)
    assert (await reaches(user, inquiry, "expired"))["answer"]["choice"] == "deny"


@pytest.mark.parametrize("kind", ["toolStarted", "toolCall"])
async def test_running_a_call_closes_its_open_approval(
    user: User, drone: PlayedDrone, turn: dict[str, Any], kind: str
) -> None:
    played = Played(turn)
    other = await asked(drone, played, turn, callId="c2")
    inquiry = await asked(drone, played, turn)
    async with Ide(user) as ide:
        work = played.tool_call() if kind == "toolCall" else played.event(kind, callId="c1", name="shell", params={})
        await drone.send(work)
        await ide.until(lambda name, p: name == "inquiryChanged" and p["inquiry"]["status"] == "withdrawn")
        await ide.until(lambda name, p: name == "turnStatus" and p["turn"]["inquiry"] is None)
    await drone.send(played.response())  # what is stored next does not bring it back
    await drone.acked(turn["_id"], played.seq)
    assert (await user.get(f"/turns/{turn['_id']}"))["inquiry"] is None
    late = await user.http.post(f"/inquiries/{inquiry['_id']}/answer", json={"choice": "once"})
    assert "has continued" in problem(late, 409, "inquiryClosed")["detail"]
    assert (await user.get(f"/inquiries/{other['_id']}"))["status"] == "pending"


async def test_an_answer_that_the_turn_did_not_wait_for_is_not_delivered_again(
    user: User, drone: PlayedDrone, turn: dict[str, Any]
) -> None:
    played = Played(turn)
    drone.answers["answerInquiry"] = {"ok": False, "error": {"code": "notFound", "message": "No.", "retryable": False}}
    first, second = [await asked(drone, played, turn, callId=call) for call in ("c1", "c2")]

    def told(inquiry: dict[str, Any]) -> int:
        return sum(p["inquiryId"] == inquiry["_id"] for name, p in drone.received if name == "answerInquiry")

    for inquiry in (first, second):
        await user.post(f"/inquiries/{inquiry['_id']}/answer", {"choice": "once"})
        await drone.until("answerInquiry", partial(_is_of, inquiry))
    await drone.send(played.tool_call("c1"))
    await drone.acked(turn["_id"], played.seq)

    async def second_is_told_again() -> None:
        before = told(second)
        await drone.report("busy")

        async def is_told() -> bool | None:
            return told(second) > before or None

        await until(is_told)

    await second_is_told_again()  # with it came what was on its way already
    before = told(first)
    await second_is_told_again()
    assert told(first) == before  # its turn would come first
    assert (await user.get(f"/inquiries/{first['_id']}"))["status"] == "answered"


def _is_of(inquiry: dict[str, Any], put: dict[str, Any]) -> bool:
    return bool(put["inquiryId"] == inquiry["_id"])


async def test_an_earlier_call_with_the_same_id_closes_no_inquiry(
    user: User, drone: PlayedDrone, turn: dict[str, Any]
) -> None:
    played = Played(turn)
    call = played.tool_call()
    inquiry = an_inquiry(turn)
    event = played.event("inquiryAsked", inquiry=inquiry)
    for one in (call, event):  # perhaps stored as one group
        await drone.send(one)
    await drone.acked(turn["_id"], played.seq)
    assert (await user.get(f"/inquiries/{inquiry['_id']}"))["status"] == "pending"
    assert (await user.get(f"/turns/{turn['_id']}"))["inquiry"] == inquiry["_id"]


@pytest.mark.parametrize("field", ["user", "session", "turn", "status", "answer"])
async def test_an_inquiry_of_another_turn_or_user_is_refused(
    user: User, drone: PlayedDrone, turn: dict[str, Any], field: str
) -> None:
    foreign = {"status": "answered", "answer": {"choice": "session"}}.get(field, new_id())
    inquiry = an_inquiry(turn, **{field: foreign})
    event = Played(turn).event("inquiryAsked", inquiry=inquiry)
    await drone.send(event)
    await drone.until("turnResend")
    await drone.send(event)  # the one that is missing, and no event a second time: nothing can follow it
    over = await user.until_over(turn["_id"])
    assert (over["status"], over["error"]["code"]) == ("error", "invalidRequest")
    assert (await user.http.get(f"/inquiries/{inquiry['_id']}")).status_code == 404


async def test_a_repeated_invalid_inquiry_ends_its_turn_on_a_slow_link_too(
    user: User, drone: PlayedDrone, turn: dict[str, Any]
) -> None:
    event = Played(turn).event("inquiryAsked", inquiry=an_inquiry(turn, user=new_id()))
    await drone.send(event)
    await drone.until("turnResend")
    await asyncio.sleep(ASKED_S + 0.5)  # the link: what was asked for comes when the stream is looked up anew
    await drone.send(event)
    over = await user.until_over(turn["_id"])
    assert (over["status"], over["error"]["code"]) == ("error", "invalidRequest")
    assert drone.count("turnResend") == 1


# the store's side


def _turn(**fields: Any) -> ChatTurn:
    base = {"id": new_id(), "created_at": utc_now(), "user": "u", "session": "s", "project": "p", "provider": "v"}
    more = {"llm": "m", "mode": "build", "prompt_id": new_id(), "prompts": Prompts(user="Go on.")}
    return ChatTurn.model_validate({**base, **more, "status": "processing", "epoch": 1, **fields})


def _asks(turn: ChatTurn, inquiry: dict[str, Any], seq: int = 1) -> tuple[Any, StoredEvent]:
    played = Played({"_id": turn.id, "session": turn.session}, epoch=turn.epoch, seq=seq - 1)
    event = turn_event.validate_python(played.event("inquiryAsked", inquiry=inquiry))
    return event, StoredEvent(seq, turn.epoch, event.type, event.model_dump_json())


async def test_an_inquiry_whose_event_never_counts_is_withdrawn(store: MongoStore) -> None:
    turn = await store.turns.insert(_turn())
    inquiry = an_inquiry({"_id": turn.id, "session": "s", "user": "u"})
    event, stored = _asks(turn, inquiry)
    late = turn.replace(epoch=0)
    assert not await store.record(late, [stored], after_event(late, event, None), [], [event])
    assert await store.inquiries.unconfirmed() == []  # not yet: its event may be on its way
    await store.inquiries.collection.update_one({}, {"$set": {"store.keptAt": utc_now() - timedelta(minutes=2)}})
    [(unconfirmed, seq)] = await store.inquiries.unconfirmed()
    assert (unconfirmed.id, seq) == (inquiry["_id"], 1)
    disowned = await store.inquiries.retract(unconfirmed)
    assert disowned is not None
    assert disowned.status == "withdrawn"
    assert await store.inquiries.undelivered_to(turn) == []


async def test_a_repeated_event_does_not_reopen_an_answered_inquiry(store: MongoStore) -> None:
    turn = await store.turns.insert(_turn())
    event, stored = _asks(turn, an_inquiry({"_id": turn.id, "session": "s", "user": "u"}))
    after = after_event(turn, event, None)
    assert await store.record(turn, [stored], after, [], [event])
    answer = Answer(choice="once")
    answered = await store.inquiries.answer(event.inquiry, answer)
    assert answered is not None
    assert not await store.record(turn, [stored], after, [], [event])
    kept: Inquiry = await store.inquiries.owned("u", event.inquiry.id)
    assert (kept.status, kept.answer) == ("answered", answer)


async def test_waiting_for_an_answer_does_not_count_as_work(store: MongoStore) -> None:
    first = await store.turns.insert(_turn(id="1" * 24, last_seq=5))
    await store.turns.collection.update_one(
        {"_id": first.id},
        {
            "$set": {
                "stats": {"stepCount": 3, "inputTokens": 10, "responseTokens": 5, "cost": 0.5, "durationMs": 120_000}
            }
        },
    )
    await store.turns.add_waited(first, 60_000)
    spent = await store.turns.spent_before(_turn(id="2" * 24))
    assert (spent.steps, spent.tokens, spent.usd, spent.minutes) == (3, 15, 0.5, 1.0)
