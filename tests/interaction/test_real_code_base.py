"""A turn on a repository made from a real code base of several hundred files."""

from importlib.metadata import files
from pathlib import Path
from typing import Any

from gadget_ai.testing.script import Call, Reply, Script, Text
from tests.harness import git, until

SOURCE = "openai"
"""An installed package that is written in Python, in well over five hundred files."""


def code_base() -> dict[str, str]:
    found = files(SOURCE) or []
    return {
        str(path): Path(str(path.locate())).read_text()
        for path in found
        if path.suffix == ".py" and ".." not in path.parts
    }


async def test_the_agent_finds_reads_changes_and_checks_in_several_hundred_files(stage_for: Any) -> None:
    source = code_base()
    assert len(source) > 500
    marker = "class APIConnectionError"
    home = "openai/_exceptions.py"
    stage = await stage_for(
        Script(
            [
                Reply(Call("list", {"path": ".", "depth": 2}), Call("search", {"pattern": marker})),
                Reply(Call("read", {"path": home})),
                Reply(
                    Call("edit", {"path": home, "old_text": marker, "new_text": f"# found by the agent\n{marker}"}),
                    Call("shell", {"command": "git diff --stat && python3 -m compileall -q openai/_exceptions.py"}),
                ),
                Reply(Text("Found, marked and checked.")),
            ]
        ),
        files=source,
    )
    turn = await stage.ide.submit(stage.session["_id"], "Mark where connection errors are declared.")
    assert (await stage.user.until_over(turn["_id"]))["status"] == "finished"
    results = [event for event in await stage.user.events(turn["_id"]) if event["type"] == "toolCall"]
    listed, found, read, edited, checked = results
    assert not any(result["isError"] for result in results), results
    assert "openai" in listed["response"]
    assert home in found["response"]
    assert marker in read["response"]
    assert home in edited["response"]
    assert "1 file changed" in checked["response"]
    cloned = git(stage.checkout, "ls-files").splitlines()
    assert sorted(cloned) == sorted(source)
    assert (stage.checkout / home).read_text() == source[home].replace(marker, f"# found by the agent\n{marker}", 1)
    # The clone was announced, and the drone remembers what it has.
    notices = [event for event in stage.ide.events(turn["_id"]) if event["type"] == "notice"]
    assert notices[0]["code"] == "cloning"

    async def known() -> list[str] | None:
        drone = await stage.drone.registration()
        return drone["projects"] or None if drone is not None else None

    assert await until(known) == [stage.session["project"]]
