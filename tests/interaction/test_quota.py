"""A user's quota is used up while a turn runs: the turn goes on, says so, and loses nothing but the whole outputs."""

from collections.abc import Iterator
from typing import Any

import pytest

from gadget_ai.testing.script import Call, Reply, Script, Text
from tests.gadget_code.peers import a_web
from tests.harness import Web, until
from tests.interaction.conftest import HELD


@pytest.fixture(scope="module")
def web(mongodb_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    with a_web(tmp_path_factory.mktemp("web"), mongodb_url, GADGET_STORAGE_MB="1") as process:
        yield process


def printing(size: int) -> Reply:
    return Reply(Call("shell", {"command": f"head -c {size} /dev/zero | tr '\\0' x"}))


async def test_an_output_past_the_quota_is_cut_with_a_notice_and_the_turn_goes_on(stage_for: Any) -> None:
    stage = await stage_for(
        Script(
            [
                printing(2_000_000),
                Reply(Call("shell", {"command": HELD})),
                printing(300_000),
                Reply(Text("Done.")),
                printing(300_000),
                Reply(Text("Done.")),
            ]
        )
    )
    turn = await stage.ide.submit(stage.session["_id"], "Print a lot.")

    def is_notice(event: dict[str, Any]) -> bool:
        return (event["type"], event.get("code")) == ("notice", "storageFull")

    async def noticed() -> bool | None:
        return any(map(is_notice, stage.ide.events(turn["_id"]))) or None

    await until(noticed)
    await stage.let_go()
    assert (await stage.ide.until_complete(turn["_id"]))["success"] is True
    events = await stage.user.events(turn["_id"])
    [notice] = filter(is_notice, events)
    assert notice["level"] == "warning"
    assert "Delete sessions" in notice["message"]
    first, _, later = [event for event in events if event["type"] == "toolCall"]
    assert "2000000 bytes in all" in first["response"]
    assert later.get("blob") is None
    assert (await stage.user.http.get(f"/turns/{turn['_id']}/blobs/{first['blob']['blobId']}")).status_code == 404
    assert list((stage.drone.gadget / "blobs").iterdir()) == []
    # The next turn tries again, and there is room for this one.
    turn = await stage.ide.submit(stage.session["_id"], "Print less.")
    await stage.ide.until_complete(turn["_id"])
    [call] = [event for event in await stage.user.events(turn["_id"]) if event["type"] == "toolCall"]

    async def is_kept() -> bool | None:
        path = f"/turns/{turn['_id']}/blobs/{call['blob']['blobId']}"
        return len((await stage.user.http.get(path)).content) == 300_000 or None

    await until(is_kept)
    assert (await stage.user.get("/usage/storage"))["blobBytes"] == 300_000
