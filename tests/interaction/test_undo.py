"""Checkpoints in whole turns: diffs, reverting files, conversation or both, and bringing them back."""

from pathlib import Path
from typing import Any

from gadget_ai.testing.script import Call, Reply, Script, Text


def script() -> Script:
    return Script(
        [
            Reply(Call("write", {"path": "one.txt", "content": "one\n"})),
            Reply(Text("One.")),
            Reply(Call("shell", {"command": "echo two > two.txt; rm README.md; printf x >> app.py"})),
            Reply(Text("Two.")),
            Reply(Text("Three.")),
            Reply(Text("Four.")),
        ]
    )


def tree(directory: Path) -> dict[str, str]:
    files = (path for path in directory.rglob("*") if path.is_file() and ".git" not in path.parts)
    return {str(path.relative_to(directory)): path.read_text() for path in files}


async def turn(stage: Any, prompt: str) -> dict[str, Any]:
    submitted = await stage.ide.submit(stage.session["_id"], prompt)
    over: dict[str, Any] = await stage.user.until_over(submitted["_id"])
    assert over["status"] == "finished", over
    return over


async def test_a_turn_says_what_it_changed_shell_changes_included(stage_for: Any) -> None:
    stage = await stage_for(script())
    first = await turn(stage, "One!")
    second = await turn(stage, "Two!")
    diff = await stage.user.get(f"/turns/{second['_id']}/diff")
    assert {file["path"]: file["status"] for file in diff["files"]} == {
        "README.md": "deleted",
        "app.py": "modified",
        "two.txt": "added",
    }
    whole = await stage.user.get(f"/sessions/{stage.session['_id']}/diff")
    assert "one.txt" in {file["path"] for file in whole["files"]}
    checkpoints = [e for e in await stage.user.events(first["_id"]) if e["type"] == "checkpoint"]
    assert [change["path"] for change in checkpoints[-1]["checkpoint"]["files"]] == ["one.txt"]
    # The user's own git knows nothing of it.
    assert not (stage.checkout / ".git" / "refs" / "gadget").exists()


async def test_revert_of_both_with_preview_and_redo(stage_for: Any) -> None:
    stage = await stage_for(script())
    await turn(stage, "One!")
    after_one = tree(stage.checkout)
    second = await turn(stage, "Two!")
    after_two = tree(stage.checkout)
    assert after_one != after_two
    wanted = {"turn": second["_id"], "scope": "both"}
    preview = await stage.user.post(f"/sessions/{stage.session['_id']}/revert", {**wanted, "preview": True})
    assert (preview["turns"], preview["fileCount"]) == ([second["_id"]], 3)
    assert tree(stage.checkout) == after_two
    await stage.user.post(f"/sessions/{stage.session['_id']}/revert", wanted)
    assert tree(stage.checkout) == after_one
    assert (await stage.user.get(f"/turns/{second['_id']}"))["reverted"] is True
    await stage.user.post(f"/sessions/{stage.session['_id']}/redo", {})
    assert tree(stage.checkout) == after_two
    await stage.user.post(f"/sessions/{stage.session['_id']}/revert", wanted)
    await turn(stage, "Three!")
    said = [m["content"] for m in stage.model.requests[-1].messages if m["role"] == "user"]
    assert said == ["One!", "Three!"]
    gone = await stage.user.http.post(f"/sessions/{stage.session['_id']}/redo", json={})
    assert gone.json()["code"] == "nothingToRedo"


async def test_revert_of_the_files_or_of_the_conversation_alone(stage_for: Any) -> None:
    stage = await stage_for(script())
    first = await turn(stage, "One!")
    second = await turn(stage, "Two!")
    after_two = tree(stage.checkout)
    path = f"/sessions/{stage.session['_id']}/revert"
    await stage.user.post(path, {"turn": second["_id"], "scope": "conversation"})
    assert tree(stage.checkout) == after_two
    await turn(stage, "Three!")
    said = [m["content"] for m in stage.model.requests[-1].messages if m["role"] == "user"]
    assert said == ["One!", "Three!"]
    await stage.user.post(path, {"turn": first["_id"], "scope": "files"})
    assert "one.txt" not in tree(stage.checkout)
    await turn(stage, "Four!")
    said = [m["content"] for m in stage.model.requests[-1].messages if m["role"] == "user"]
    assert said == ["One!", "Three!", "Four!"]


async def test_a_fork_goes_on_from_a_turn_and_leaves_the_other_as_it_is(stage_for: Any) -> None:
    stage = await stage_for(script())
    first = await turn(stage, "One!")
    await turn(stage, "Two!")
    fork = await stage.user.post(f"/sessions/{stage.session['_id']}/fork", {"turn": first["_id"]})
    assert fork["forkedFrom"] == {"session": stage.session["_id"], "turn": first["_id"]}
    submitted = await stage.ide.submit(fork["_id"], "Three!")
    assert (await stage.user.until_over(submitted["_id"]))["response"] == "Three."
    said = [m["content"] for m in stage.model.requests[-1].messages if m["role"] == "user"]
    assert said == ["One!", "Three!"]
    turns = (await stage.user.get(f"/sessions/{stage.session['_id']}/turns"))["items"]
    assert len(turns) == 2
