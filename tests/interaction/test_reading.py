"""What a model sees of files: images, and what their user changed meanwhile."""

import io
from pathlib import Path
from typing import Any

from PIL import Image

from gadget_ai.testing.script import Call, Reply, Script, Text
from tests.harness import git, until
from tests.interaction.test_permissions import results


def png(width: int = 40, height: int = 30) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (width, height), "teal").save(stream, "PNG")
    return stream.getvalue()


async def turn(stage: Any, prompt: str) -> dict[str, Any]:
    submitted = await stage.ide.submit(stage.session["_id"], prompt)
    over: dict[str, Any] = await stage.user.until_over(submitted["_id"])
    assert over["status"] == "finished", over
    return over


def image_urls(messages: list[dict[str, Any]]) -> list[str]:
    parts = [part for message in messages if isinstance(message["content"], list) for part in message["content"]]
    return [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]


async def test_an_image_that_is_read_is_seen_kept_by_reference_and_seen_again_later(stage_for: Any) -> None:
    script = Script([Reply(Call("read", {"path": "a.png"})), Reply(Text("Teal.")), Reply(Text("Still teal."))])
    stage = await stage_for(script, seesImages=True)
    await _commit(stage, "a.png", png())
    over = await turn(stage, "What colour is it?")
    [url] = image_urls(stage.model.requests[1].messages)
    assert url.startswith("data:image/png;base64,")
    [call] = [event for event in await stage.user.events(over["_id"]) if event["type"] == "toolCall"]
    [image] = call["images"]
    assert (image["width"], image["height"], image["mediaType"]) == (40, 30, "image/png")

    async def kept() -> bytes | None:
        answer = await stage.user.http.get(f"/images/{image['_id']}")
        return answer.content if answer.is_success else None

    assert Image.open(io.BytesIO(await until(kept))).size == (40, 30)
    # A drone that knows nothing any more fetches it with the history.
    stage.drone.stop()
    for path in (stage.drone.gadget / "images").iterdir():
        path.unlink()
    stage.drone.start()
    await stage.drone.until_available()
    await turn(stage, "And now?")
    assert image_urls(stage.model.requests[2].messages) == [url]


async def test_an_image_in_a_prompt_is_seen_and_a_model_that_does_not_see_is_told(stage_for: Any) -> None:
    stage = await stage_for(Script([Reply(Text("Teal.")), Reply(Text("I cannot see."))]), seesImages=True)
    sent = await stage.user.http.post("/images", content=png(), headers={"Content-Type": "image/png"})
    image = sent.json()["_id"]
    body = {"content": "What colour?", "promptId": "p", "images": [image]}
    submitted = await stage.user.post(f"/sessions/{stage.session['_id']}/turns", body)
    assert (await stage.user.until_over(submitted["_id"]))["status"] == "finished"
    assert len(image_urls(stage.model.requests[0].messages)) == 1
    provider = await stage.user.get(f"/providers/{stage.session['provider']}")
    models = [{**model, "seesImages": False} for model in provider["models"]]
    assert (await stage.user.http.patch(f"/providers/{provider['_id']}", json={"models": models})).is_success
    await turn(stage, "And now?")
    assert image_urls(stage.model.requests[1].messages) == []
    assert "40x30" in str(stage.model.requests[1].messages)


async def test_a_change_of_the_users_is_merged_or_told_and_never_written_over(stage_for: Any) -> None:
    text = "".join(f"line {n}\n" for n in range(1, 21))
    script = Script(
        [
            Reply(Call("read", {"path": "a.txt"})),
            Reply(Text("I have read it.")),
            Reply(Call("write", {"path": "a.txt", "content": text.replace("line 20\n", "line twenty\n")})),
            Reply(Text("Merged.")),
            Reply(Call("write", {"path": "a.txt", "content": text.replace("line 1\n", "line uno\n")})),
            Reply(Text("Refused.")),
        ]
    )
    stage = await stage_for(script, files={"a.txt": text})
    await turn(stage, "Read it.")
    path: Path = stage.checkout / "a.txt"
    path.write_text(text.replace("line 1\n", "line one\n"))
    await turn(stage, "Change the last line.")
    assert path.read_text() == text.replace("line 1\n", "line one\n").replace("line 20\n", "line twenty\n")
    assert "line one" in results(stage, 3)[-1]
    path.write_text(path.read_text().replace("line one\n", "line eins\n"))
    before = path.read_text()
    await turn(stage, "Change the first line.")
    assert path.read_text() == before
    assert "line eins" in results(stage, 5)[-1]


async def _commit(stage: Any, name: str, data: bytes) -> None:
    """Into the repository that the drone will clone."""
    (stage.origin / name).write_bytes(data)
    git(stage.origin, "add", name)
    git(stage.origin, "commit", "--quiet", "-m", "More")
