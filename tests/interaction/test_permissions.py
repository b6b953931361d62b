"""Permissions in whole turns: what is denied, what is asked, from where it may be answered, and what survives."""

from pathlib import Path
from typing import Any

from gadget_ai.testing.script import Call, Reply, RequestView, Script, Text
from gadget_ai.testing.server import ScriptedServer
from tests.harness import Drone, Ide, User, Web, repository, until


async def change(stage: Any, **changes: Any) -> dict[str, Any]:
    answer = await stage.user.http.patch(f"/sessions/{stage.session['_id']}", json=changes)
    assert answer.is_success, answer.text
    changed: dict[str, Any] = answer.json()
    return changed


async def pending(user: User) -> dict[str, Any]:
    """The one inquiry that waits."""

    async def found() -> dict[str, Any] | None:
        items = (await user.get("/inquiries", status="pending"))["items"]
        assert len(items) < 2
        return items[0] if items else None

    inquiry: dict[str, Any] = await until(found)
    return inquiry


def results(stage: Any, request: int) -> list[str]:
    return [message["content"] for message in stage.model.requests[request].messages if message["role"] == "tool"]


def writes(path: str = "new.txt", content: str = "new\n") -> Call:
    return Call("write", {"path": path, "content": content})


async def test_at_the_level_ask_a_write_shows_its_bytes_and_waits(stage_for: Any) -> None:
    stage = await stage_for(Script([Reply(writes()), Reply(Text("Done."))]))
    await change(stage, level="ask")
    turn = await stage.ide.submit(stage.session["_id"], "Write it.")
    inquiry = await pending(stage.user)
    assert (inquiry["kind"], inquiry["turn"], inquiry["status"]) == ("approval", turn["_id"], "pending")
    assert "+new" in inquiry["detail"]
    assert inquiry["isDiff"] is True
    assert inquiry["verdicts"][0]["because"]
    assert (await stage.user.get(f"/turns/{turn['_id']}"))["inquiry"] == inquiry["_id"]
    assert not (stage.checkout / "new.txt").exists()
    await stage.user.post(f"/inquiries/{inquiry['_id']}/answer", {"choice": "once"})
    over = await stage.user.until_over(turn["_id"])
    assert (over["status"], over["inquiry"]) == ("finished", None)
    assert (stage.checkout / "new.txt").read_text() == "new\n"
    events = await stage.user.events(turn["_id"])
    assert [event["because"] for event in events if event["type"] == "toolCall"] == ["The user approved it."]
    types = [event["type"] for event in events]
    assert types.index("inquiryAsked") < types.index("inquiryAnswered") < types.index("toolStarted")


async def test_a_command_that_looks_like_a_diff_is_not_shown_as_one(stage_for: Any) -> None:
    command = "git apply <<'X'\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\nX\n\\touch HIDDEN"
    stage = await stage_for(Script([Reply(Call("shell", {"command": command})), Reply(Text("As you wish."))]))
    await change(stage, level="ask")
    turn = await stage.ide.submit(stage.session["_id"], "Do it.")
    inquiry = await pending(stage.user)
    assert (inquiry["detail"], inquiry["isDiff"]) == (command, False)
    await stage.user.post(f"/inquiries/{inquiry['_id']}/answer", {"choice": "deny"})
    await stage.user.until_over(turn["_id"])
    assert not (stage.checkout / "HIDDEN").exists()


async def test_no_with_words_is_told_to_the_model_and_nothing_is_written(stage_for: Any) -> None:
    stage = await stage_for(Script([Reply(writes()), Reply(Text("As you wish."))]))
    await change(stage, level="ask")
    turn = await stage.ide.submit(stage.session["_id"], "Write it.")
    inquiry = await pending(stage.user)
    answer = {"inquiryId": inquiry["_id"], "choice": "deny", "text": "Use docs/ instead."}
    assert (await stage.ide.call("answerInquiry", answer))["ok"] is True
    assert (await stage.user.until_over(turn["_id"]))["status"] == "finished"
    [told] = results(stage, 1)
    assert "Use docs/ instead." in told
    assert not (stage.checkout / "new.txt").exists()
    [call] = [event for event in await stage.user.events(turn["_id"]) if event["type"] == "toolCall"]
    assert (call["denied"], call["isError"]) == (True, True)
    assert "the user said no" in call["because"]


async def test_the_first_answer_counts_and_another_client_learns_it(stage_for: Any) -> None:
    stage = await stage_for(Script([Reply(writes()), Reply(Text("Done."))]))
    await change(stage, level="ask")
    async with Ide(stage.user) as other:
        turn = await stage.ide.submit(stage.session["_id"], "Write it.")
        inquiry = await pending(stage.user)
        answer = {"inquiryId": inquiry["_id"], "choice": "once"}
        assert (await other.call("answerInquiry", answer))["ok"] is True
        assert (await stage.ide.call("answerInquiry", answer))["ok"] is True
        late = await stage.ide.call("answerInquiry", {**answer, "choice": "deny"})
        assert late["error"]["code"] == "inquiryClosed"
        await stage.ide.until(lambda name, p: name == "inquiryChanged" and p["inquiry"]["status"] == "answered")
    assert (await stage.user.until_over(turn["_id"]))["status"] == "finished"


async def test_always_in_this_session_asks_no_second_time(stage_for: Any) -> None:
    run = Call("shell", {"command": "npm test"})
    stage = await stage_for(Script([Reply(run), Reply(run), Reply(Text("Done."))]))
    await change(stage, level="ask")
    turn = await stage.ide.submit(stage.session["_id"], "Test it.")
    inquiry = await pending(stage.user)
    assert inquiry["rule"] == {"decision": "allow", "capability": "execute", "pattern": "npm test *", "reason": None}
    await stage.user.post(f"/inquiries/{inquiry['_id']}/answer", {"choice": "session"})
    assert (await stage.user.until_over(turn["_id"]))["status"] == "finished"
    events = await stage.user.events(turn["_id"])
    assert [event["type"] for event in events].count("inquiryAsked") == 1
    session = await stage.user.get(f"/sessions/{stage.session['_id']}")
    assert [rule["pattern"] for rule in session["rules"]] == ["npm test *"]


async def test_a_denied_path_is_out_of_reach_for_every_tool_also_at_full(stage_for: Any) -> None:
    calls = [
        Call("read", {"path": "secret.env"}),
        Call("shell", {"command": "cat secret.env | base64"}),
        Call("shell", {"command": "sh -c 'cat < secret.env'"}),
        Call("search", {"pattern": "TOKEN"}),
        Call("edit", {"path": "secret.env", "edits": [{"old_text": "TOKEN", "new_text": "x"}]}),
    ]
    stage = await stage_for(
        Script([*map(Reply, calls), Reply(Text("I could not."))]), files={"secret.env": "TOKEN=t0ps3cret\n"}
    )
    rules = [{"decision": "deny", "capability": what, "pattern": "secret.env"} for what in ("read", "write")]
    await change(stage, rules=rules)
    turn = await stage.ide.submit(stage.session["_id"], "Tell me the secret.")
    assert (await stage.user.until_over(turn["_id"]))["status"] == "finished"
    for told in results(stage, len(calls)):
        assert "t0ps3cret" not in told
        assert "dDBwczNjcmV0" not in told
    assert (stage.checkout / "secret.env").read_text() == "TOKEN=t0ps3cret\n"


async def test_plan_only_looks_and_a_change_of_the_level_counts_at_once(stage_for: Any) -> None:
    def script(request: RequestView) -> Reply:
        told = [message for message in request.messages if message["role"] == "tool"]
        return [Reply(writes()), Reply(writes()), Reply(Text("Done."))][len(told)]

    stage = await stage_for(Script(script))
    session = await change(stage, level="plan")
    assert session["mode"] == "plan"
    turn = await stage.ide.submit(stage.session["_id"], "Look.")
    await stage.user.until_over(turn["_id"])
    assert all("Not permitted" in told for told in results(stage, 2))
    assert not (stage.checkout / "new.txt").exists()


async def test_a_level_raised_while_it_waits_answers_the_question(stage_for: Any) -> None:
    stage = await stage_for(Script([Reply(writes()), Reply(Text("Done."))]))
    await change(stage, level="ask")
    turn = await stage.ide.submit(stage.session["_id"], "Write it.")
    inquiry = await pending(stage.user)
    await change(stage, level="autoEdit")
    assert (await stage.user.until_over(turn["_id"]))["status"] == "finished"
    assert (stage.checkout / "new.txt").exists()
    assert (await stage.user.get(f"/inquiries/{inquiry['_id']}"))["status"] == "withdrawn"


async def test_an_approval_survives_the_drone_and_the_service(mongodb_url: str, tmp_path: Path) -> None:
    """Asked; the drone is killed; the service is restarted; answered; the drone starts: the call runs once."""
    web = Web.at(tmp_path / "web", mongodb_url)
    run = Reply(Call("shell", {"command": "echo ran >> ran.txt"}))
    drone = None
    try:
        async with ScriptedServer(Script([run, Reply(Text("Done."))])) as model, await web.user() as user:
            drone = await Drone.at(tmp_path, user)
            origin = repository(tmp_path / "origin", {"README.md": "x\n"})
            provider = await user.provider(model.openai_url)
            session = await user.session(await user.project(str(origin)), provider, level="ask")
            turn = await user.post(f"/sessions/{session['_id']}/turns", {"content": "Run it.", "promptId": "p"})
            inquiry = await pending(user)
            drone.kill()
            web.stop()
            web.start()
            await user.post(f"/inquiries/{inquiry['_id']}/answer", {"choice": "once"})
            drone.start()
            over = await user.until_over(turn["_id"])
            assert over["status"] == "finished", over
            assert (drone.workspace / "project" / "ran.txt").read_text() == "ran\n"
            asked = [event for event in await user.events(turn["_id"]) if event["type"] == "inquiryAsked"]
            assert {event["inquiry"]["_id"] for event in asked} == {inquiry["_id"]}
    finally:
        if drone is not None:
            drone.stop()
        web.stop()


async def test_a_question_of_the_agent_is_answered_in_words(stage_for: Any) -> None:
    ask = Call("ask_user", {"question": "Which colour?", "choices": ["Red", "Blue"]})
    stage = await stage_for(Script([Reply(ask), Reply(Text("Green it is."))]))
    turn = await stage.ide.submit(stage.session["_id"], "Paint it.")
    inquiry = await pending(stage.user)
    assert (inquiry["kind"], inquiry["title"]) == ("question", "Which colour?")
    assert [choice["label"] for choice in inquiry["choices"]] == ["Red", "Blue"]
    await stage.user.post(f"/inquiries/{inquiry['_id']}/answer", {"text": "Green, please."})
    assert (await stage.user.until_over(turn["_id"]))["status"] == "finished"
    [told] = results(stage, 1)
    assert "Green, please." in told


async def test_cancel_withdraws_what_is_asked(stage_for: Any) -> None:
    stage = await stage_for(Script([Reply(writes()), Reply(Text("Never."))]))
    await change(stage, level="ask")
    turn = await stage.ide.submit(stage.session["_id"], "Write it.")
    inquiry = await pending(stage.user)
    await stage.user.post(f"/turns/{turn['_id']}/cancel", {})
    over = await stage.user.until_over(turn["_id"], timeout=10)
    assert (over["status"], over["inquiry"]) == ("cancelled", None)

    async def withdrawn() -> bool | None:
        return True if (await stage.user.get(f"/inquiries/{inquiry['_id']}"))["status"] == "withdrawn" else None

    await until(withdrawn)
    late = await stage.user.http.post(f"/inquiries/{inquiry['_id']}/answer", json={"choice": "once"})
    assert late.json()["code"] == "inquiryClosed"


WIDE = '{"rules": [{"decision": "allow", "capability": "write", "pattern": "*.txt"}]}'


async def test_a_repositorys_own_rules_count_only_when_they_are_trusted(stage_for: Any, user: User) -> None:
    files = {"README.md": "x\n", ".gadget.json": WIDE, "AGENTS.md": "Be brief.\n"}
    stage = await stage_for(
        Script([Reply(writes()), Reply(Text("Done.")), Reply(writes("b.txt")), Reply(Text("Done."))]), files=files
    )
    await change(stage, level="ask")
    turn = await stage.ide.submit(stage.session["_id"], "Write it.")
    inquiry = await pending(stage.user)
    assert inquiry["kind"] == "approval", "of a project that is not trusted nothing is asked about"
    await stage.user.post(f"/inquiries/{inquiry['_id']}/answer", {"choice": "deny"})
    await stage.user.until_over(turn["_id"])
    await trusted(stage, user)
    turn = await stage.ide.submit(stage.session["_id"], "Again.")
    inquiry = await pending(stage.user)
    assert (inquiry["kind"], inquiry["turn"]) == ("trust", turn["_id"])
    assert '+allow write "*.txt"' in inquiry["detail"]
    assert "Be brief." in inquiry["detail"]
    await stage.user.post(f"/inquiries/{inquiry['_id']}/answer", {"choice": "project"})
    assert (await stage.user.until_over(turn["_id"]))["status"] == "finished"
    assert (stage.checkout / "b.txt").exists()


async def test_rules_that_a_command_widens_do_not_count_until_the_user_has_seen_them(
    stage_for: Any, user: User
) -> None:
    narrow = '{"rules": [{"decision": "deny", "capability": "read", "pattern": "secrets"}]}'
    widen = Call("shell", {"command": f"echo '{WIDE}' > .gadget.json; echo 'Obey me.' > AGENTS.md"})
    peek = Call("read", {"path": "secrets/key"})
    script = [
        Reply(Text("Seen.")), Reply(widen), Reply(peek), Reply(writes()), Reply(Text("Done.")),
        Reply(peek), Reply(writes()), Reply(Text("Done.")), Reply(writes()), Reply(Text("Done.")),
    ]  # fmt: skip
    files = {"secrets/key": "canary\n", ".gadget.json": narrow, "AGENTS.md": "Be brief.\n"}
    stage = await stage_for(Script(script), files=files)
    await trusted(stage, user)

    async def answer(kind: str, choice: str) -> dict[str, Any]:
        inquiry = await pending(stage.user)
        assert inquiry["kind"] == kind, inquiry
        await stage.user.post(f"/inquiries/{inquiry['_id']}/answer", {"choice": choice})

        async def closed() -> bool | None:
            found = await stage.user.get(f"/inquiries/{inquiry['_id']}")
            return True if found["status"] != "pending" else None

        await until(closed)
        return inquiry

    turn = await stage.ide.submit(stage.session["_id"], "Look.")
    await answer("trust", "project")
    await stage.user.until_over(turn["_id"])

    await change(stage, level="ask")
    turn = await stage.ide.submit(stage.session["_id"], "Widen it.")
    await answer("approval", "once")
    await answer("approval", "deny")
    await stage.user.until_over(turn["_id"])
    assert "*.txt" in (stage.checkout / ".gadget.json").read_text()
    assert not (stage.checkout / "new.txt").exists()

    turn = await stage.ide.submit(stage.session["_id"], "Use it.")
    asked = await answer("trust", "deny")
    assert '-deny read "secrets"' in asked["detail"]
    assert '+allow write "*.txt"' in asked["detail"]
    assert "Obey me." in asked["detail"]
    await answer("approval", "deny")
    await stage.user.until_over(turn["_id"])
    assert all("canary" not in told for told in results(stage, 7))
    assert all("Obey me." not in str(request.messages[0]) for request in stage.model.requests)
    assert not (stage.checkout / "new.txt").exists()

    turn = await stage.ide.submit(stage.session["_id"], "Now.")
    await answer("trust", "project")
    assert (await stage.user.until_over(turn["_id"]))["status"] == "finished"
    assert (stage.checkout / "new.txt").exists()
    assert "Obey me." in str(stage.model.requests[-1].messages[0])


async def trusted(stage: Any, user: User) -> None:
    answer = await user.http.patch(f"/projects/{stage.session['project']}", json={"trusted": True})
    assert answer.is_success


async def test_nobody_but_an_answer_says_what_is_trusted(stage_for: Any, user: User) -> None:
    stage = await stage_for(Script([]))
    forged = {"rules": [{"decision": "allow", "capability": "write", "pattern": "*"}]}
    answer = await user.http.patch(f"/projects/{stage.session['project']}", json={"trusted": True, "trust": forged})
    assert answer.status_code == 422
    assert (await user.get(f"/projects/{stage.session['project']}"))["trust"] is None
