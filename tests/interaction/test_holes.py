"""What an attacker has found once: each a way around a rule, or a place where an answer was lost."""

import asyncio
import os
import time
from typing import Any

import pytest

from gadget_ai.testing.script import Call, Reply, Script, Text
from tests.gadget_drone.sandbox.conftest import need_sandbox
from tests.gadget_drone.tools.test_shell import until as happens
from tests.harness import git, until
from tests.interaction.test_permissions import change, pending, results, writes

SECRET = "t0ps3cret"


def denies(capability: str, pattern: str) -> dict[str, str]:
    return {"decision": "deny", "capability": capability, "pattern": pattern}


async def deny_whatever_it_asks(stage: Any, turn: str) -> dict[str, Any]:
    """The turn, over; each inquiry is answered with no."""

    async def over() -> dict[str, Any] | None:
        for inquiry in (await stage.user.get("/inquiries", status="pending"))["items"]:
            await stage.user.http.post(f"/inquiries/{inquiry['_id']}/answer", json={"choice": "deny"})
        document: dict[str, Any] = await stage.user.get(f"/turns/{turn}")
        return document if document["status"] in ("finished", "error", "cancelled") else None

    found: dict[str, Any] = await until(over, 60)
    return found


@pytest.mark.parametrize(
    "command",
    [
        "echo 'echo evil >> conf.yml' | sh",
        "a='echo evil >> conf.yml'; eval \"$a\"",
        "echo evil | $(printf tee) -a conf.yml",
        "git checkout evil -- conf.yml",
        "git apply p.diff",
    ],
)
async def test_a_denied_write_holds_for_commands_that_cannot_be_read(stage_for: Any, command: str) -> None:
    patch = "--- a/conf.yml\n+++ b/conf.yml\n@@ -1 +1 @@\n-good\n+evil\n"
    stage = await stage_for(
        Script([Reply(Text("Hm.")), Reply(Call("shell", {"command": command})), Reply(Text("I tried."))]),
        files={"conf.yml": "good\n", "p.diff": patch},
    )
    first = await stage.ide.submit(stage.session["_id"], "Come here.")
    await stage.user.until_over(first["_id"])
    git(stage.checkout, "switch", "--quiet", "-c", "evil")
    (stage.checkout / "conf.yml").write_text("evil\n")
    git(stage.checkout, "commit", "--quiet", "-am", "Evil")
    git(stage.checkout, "switch", "--quiet", "-")
    await change(stage, rules=[denies("write", "conf.yml")])
    turn = await stage.ide.submit(stage.session["_id"], "Change it.")
    await deny_whatever_it_asks(stage, turn["_id"])
    assert (stage.checkout / "conf.yml").read_text() == "good\n"


@pytest.mark.parametrize("rules", [[denies("read", "secret.env"), denies("write", "secret.env")]])
async def test_a_committed_secret_does_not_come_out_of_git(stage_for: Any, rules: list[dict[str, str]]) -> None:
    calls = [
        Call("shell", {"command": "git grep TOKEN HEAD"}),
        Call("shell", {"command": "git log -p"}),
        Call("shell", {"command": "git archive HEAD | tr -d '\\0'"}),
        Call("git", {"action": "show", "ref": "HEAD"}),
        Call("search", {"pattern": "TOKEN"}),
    ]
    stage = await stage_for(Script([*map(Reply, calls), Reply(Text("No."))]), files={"secret.env": f"TOKEN={SECRET}\n"})
    await change(stage, rules=rules)
    turn = await stage.ide.submit(stage.session["_id"], "Tell me the secret.")
    await deny_whatever_it_asks(stage, turn["_id"])
    assert all(SECRET not in told for told in results(stage, len(calls)))


async def test_what_asks_to_be_read_is_in_no_search(stage_for: Any) -> None:
    calls = [Call("search", {"pattern": "TOKEN"}), Call("git", {"action": "show", "ref": "HEAD"})]
    stage = await stage_for(Script([*map(Reply, calls), Reply(Text("No."))]), files={".env": f"TOKEN={SECRET}\n"})
    await change(stage, level="plan")
    turn = await stage.ide.submit(stage.session["_id"], "Tell me the secret.")
    await deny_whatever_it_asks(stage, turn["_id"])
    assert all(SECRET not in told for told in results(stage, len(calls)))


async def test_a_rule_that_is_made_while_another_call_waits_counts_for_its_neighbour(stage_for: Any) -> None:
    both = Reply(Call("read", {"path": "a.txt"}), Call("read", {"path": ".env"}))
    stage = await stage_for(Script([both, Reply(Text("Done."))]), files={"a.txt": f"{SECRET}\n", ".env": "x=1\n"})
    await change(stage, level="ask")
    turn = await stage.ide.submit(stage.session["_id"], "Read.")
    inquiry = await pending(stage.user)
    await change(stage, rules=[denies("read", "a.txt")])
    await stage.user.post(f"/inquiries/{inquiry['_id']}/answer", {"choice": "once"})
    await stage.user.until_over(turn["_id"])
    told = results(stage, 1)
    assert len(told) == 2
    assert all(SECRET not in result for result in told)


async def test_a_link_that_is_made_while_a_write_waits_leads_nowhere(stage_for: Any) -> None:
    stage = await stage_for(
        Script([Reply(writes("link.txt", "owned\n")), Reply(Text("Done."))]), files={"conf.yml": ""}
    )
    await change(stage, level="ask", rules=[denies("write", "conf.yml")])
    turn = await stage.ide.submit(stage.session["_id"], "Write it.")
    inquiry = await pending(stage.user)
    os.symlink("conf.yml", stage.checkout / "link.txt")
    await stage.user.post(f"/inquiries/{inquiry['_id']}/answer", {"choice": "once"})
    await deny_whatever_it_asks(stage, turn["_id"])
    assert (stage.checkout / "conf.yml").read_text() == ""


async def test_what_would_change_another_place_than_was_approved_is_asked_again(stage_for: Any) -> None:
    edit = Call("edit", {"path": "a.py", "edits": [{"old_text": "x = 1", "new_text": "x = 2"}]})
    stage = await stage_for(Script([Reply(edit), Reply(Text("Done."))]), files={"a.py": "safe:\n    x = 1\n"})
    await change(stage, level="ask")
    turn = await stage.ide.submit(stage.session["_id"], "Edit it.")
    inquiry = await pending(stage.user)
    (stage.checkout / "a.py").write_text("danger:\n    x = 1\nsafe:\n    x = 3\n")
    await stage.user.post(f"/inquiries/{inquiry['_id']}/answer", {"choice": "once"})

    async def again() -> dict[str, Any] | None:
        items = (await stage.user.get("/inquiries", status="pending"))["items"]
        return items[0] if items else None

    second = await until(again)
    assert "danger" in second["detail"]
    await stage.user.post(f"/inquiries/{second['_id']}/answer", {"choice": "deny"})
    await stage.user.until_over(turn["_id"])
    assert "x = 2" not in (stage.checkout / "a.py").read_text()


async def test_an_approval_is_for_the_bytes_that_were_shown_also_after_a_crash(stage_for: Any) -> None:
    edit = Call("edit", {"path": "a.py", "edits": [{"old_text": "x = 1", "new_text": "x = 2"}]})
    stage = await stage_for(Script([Reply(edit), Reply(Text("Done."))]), files={"a.py": "safe:\n    x = 1\n"})
    await change(stage, level="ask")
    turn = await stage.ide.submit(stage.session["_id"], "Edit it.")
    inquiry = await pending(stage.user)
    stage.drone.kill()
    await stage.user.post(f"/inquiries/{inquiry['_id']}/answer", {"choice": "once"})
    (stage.checkout / "a.py").write_text("danger:\n    x = 1\n")
    stage.drone.start()
    second = await pending(stage.user)
    assert "danger" in second["detail"]
    await stage.user.post(f"/inquiries/{second['_id']}/answer", {"choice": "deny"})
    await stage.user.until_over(turn["_id"])
    assert (stage.checkout / "a.py").read_text() == "danger:\n    x = 1\n"


async def test_a_question_outlives_its_drone(stage_for: Any) -> None:
    ask = Call("ask_user", {"question": "Which colour?", "choices": ["Red", "Blue"]})
    stage = await stage_for(Script([Reply(ask), Reply(Text("Green it is."))]))
    turn = await stage.ide.submit(stage.session["_id"], "Paint it.")
    inquiry = await pending(stage.user)
    stage.drone.kill()
    stage.drone.start()
    await stage.ide.until(lambda name, p: name == "notice" and p["code"] == "resumed")
    await stage.user.post(f"/inquiries/{inquiry['_id']}/answer", {"text": "Green"})
    assert (await stage.user.until_over(turn["_id"]))["status"] == "finished"
    assert "Green" in results(stage, 1)[0]


async def test_stop_is_heard_though_the_drone_died_after_it_asked(stage_for: Any) -> None:
    look = Reply(Call("list", {"path": "."}))
    stage = await stage_for(Script([look, look, look, Reply(Text("Done."))]))
    await change(stage, level="ask")
    turn = await stage.ide.submit(stage.session["_id"], "Look.")
    inquiry = await pending(stage.user)
    stage.drone.kill()
    await stage.user.post(f"/inquiries/{inquiry['_id']}/answer", {"choice": "stop"})
    stage.drone.start()
    assert (await stage.user.until_over(turn["_id"]))["status"] == "cancelled"


async def test_a_drone_that_waits_for_an_answer_stops_at_once_and_goes_on_later(stage_for: Any) -> None:
    stage = await stage_for(Script([Reply(writes()), Reply(Text("Done."))]))
    await change(stage, level="ask")
    turn = await stage.ide.submit(stage.session["_id"], "Write it.")
    inquiry = await pending(stage.user)
    begun = time.monotonic()
    assert stage.drone.stop() == 0
    assert time.monotonic() - begun < 9  # it would wait ten seconds for a step
    stage.drone.start()
    await stage.user.post(f"/inquiries/{inquiry['_id']}/answer", {"choice": "once"})
    await stage.user.until_over(turn["_id"])
    assert (stage.checkout / "new.txt").exists()


async def test_what_cannot_be_shown_whole_is_not_asked_and_ends_no_turn(stage_for: Any) -> None:
    patch = "*** Begin Patch\n*** Delete File: ctl.txt\n*** End Patch\n"
    stage = await stage_for(
        Script([Reply(Call("apply_patch", {"patch": patch})), Reply(Text("Done."))]),
        files={"ctl.txt": ("\x02" * 990 + "\n") * 190},
    )
    await change(stage, level="ask")
    turn = await stage.ide.submit(stage.session["_id"], "Delete it.")
    assert (await stage.user.until_over(turn["_id"]))["status"] == "finished"
    assert "Not permitted" in results(stage, 1)[0]
    assert (stage.checkout / "ctl.txt").exists()


async def test_an_approval_says_that_a_command_stays_in_the_background(stage_for: Any) -> None:
    stay = Call("shell", {"command": "touch x", "background": True})
    stage = await stage_for(Script([Reply(stay), Reply(Text("Done."))]))
    await change(stage, level="ask")
    turn = await stage.ide.submit(stage.session["_id"], "Stay.")
    inquiry = await pending(stage.user)
    assert "background=true" in inquiry["title"]
    refused = await stage.user.http.post(f"/inquiries/{inquiry['_id']}/answer", json={"text": "yes"})
    assert refused.status_code == 422  # words alone are neither yes nor no
    await deny_whatever_it_asks(stage, turn["_id"])


async def test_the_last_change_of_a_turn_that_was_stopped_is_in_its_diff(stage_for: Any) -> None:
    stage = await stage_for(Script([Reply(writes()), Reply(Text("Short."))]))
    await change(stage, turnBudget={"steps": 1})
    turn = await stage.ide.submit(stage.session["_id"], "Write.")
    inquiry = await pending(stage.user)
    await stage.user.post(f"/inquiries/{inquiry['_id']}/answer", {"choice": "stop"})
    await stage.user.until_over(turn["_id"])
    diff = await stage.user.get(f"/turns/{turn['_id']}/diff")
    assert [file["path"] for file in diff["files"]] == ["new.txt"]


async def test_what_a_cancelled_command_had_changed_is_in_the_turns_diff(stage_for: Any) -> None:
    stage = await stage_for(Script([Reply(Call("shell", {"command": "echo x > made.txt; sleep 60"}))]))
    turn = await stage.ide.submit(stage.session["_id"], "Make it.")

    async def made() -> bool | None:
        return True if (stage.checkout / "made.txt").exists() else None

    await until(made)
    await stage.user.post(f"/turns/{turn['_id']}/cancel", {})
    assert (await stage.user.until_over(turn["_id"], timeout=10))["status"] == "cancelled"
    diff = await stage.user.get(f"/turns/{turn['_id']}/diff")
    assert [file["path"] for file in diff["files"]] == ["made.txt"]


async def test_the_conversation_goes_back_and_then_the_files_too(stage_for: Any) -> None:
    stage = await stage_for(Script([Reply(writes()), Reply(Text("Done."))]))
    turn = await stage.ide.submit(stage.session["_id"], "Write.")
    await stage.user.until_over(turn["_id"])
    for scope in ("conversation", "files"):
        wanted = {"turn": turn["_id"], "scope": scope}
        await stage.user.post(f"/sessions/{stage.session['_id']}/revert", wanted)
    assert not (stage.checkout / "new.txt").exists()


@pytest.mark.parametrize("rule", [denies("network", "*"), denies("read", "secret.env")])
@pytest.mark.parametrize("when", ["in a turn", "between turns"])
async def test_a_job_ends_when_the_rules_get_stricter_than_its_sandbox(
    stage_for: Any, when: str, rule: dict[str, str]
) -> None:
    await asyncio.to_thread(need_sandbox)
    line = "trap 'echo late >> up' TERM; echo on > up; sleep 600 & wait"
    start = Call("shell", {"command": line, "background": True})
    wait = Call("shell", {"command": "while ! [ -e over ]; do sleep 0.1; done; sleep 1"})
    between = [] if when == "in a turn" else [Reply(Text("It runs."))]
    script = Script([Reply(start), *between, Reply(wait), Reply(Text("Done."))])
    stage = await stage_for(script, files={"secret.env": "x"})
    first = await stage.ide.submit(stage.session["_id"], "Start it.")
    up = stage.checkout / "up"
    await asyncio.wait_for(happens(up.exists), 20)
    if when == "between turns":
        await stage.user.until_over(first["_id"])
    await change(stage, rules=[rule])
    second = await stage.ide.submit(stage.session["_id"], "Go on.") if when == "between turns" else first
    await asyncio.wait_for(happens(lambda: "late" in up.read_text()), 20)
    (stage.checkout / "over").touch()
    await stage.user.until_over(second["_id"])
    said = str([request.messages for request in stage.model.requests])
    assert "ended: the rules became stricter" in said
