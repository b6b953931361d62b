"""Images: sent once, named by prompts, read by their user and that user's drones."""

import asyncio
from datetime import timedelta
from typing import Any

import httpx

from gadget_api.ids import new_id
from gadget_api.images import MAX_IMAGE_BYTES, ImageRef
from gadget_api.model import utc_now
from gadget_code.store.database import MongoStore
from tests.gadget_code.http.test_image_types import GIF, PNG
from tests.gadget_code.peers import Played, PlayedDrone, a_session, problem
from tests.harness import User, Web


async def put(user: User, data: bytes, token: str | None = None, kind: str = "image/png") -> httpx.Response:
    headers = {"Content-Type": kind, **({"Authorization": f"Bearer {token}"} if token else {})}
    return await user.http.post("/images", content=data, headers=headers)


async def test_the_same_bytes_are_the_same_image_and_come_back_as_they_were(user: User) -> None:
    answers = await asyncio.gather(*(put(user, PNG) for _ in range(6)))
    assert {answer.status_code for answer in answers} == {201}
    [ref] = {tuple(answer.json().items()) for answer in answers}
    image = dict(ref)
    assert image == {**image, "mediaType": "image/png", "sizeBytes": len(PNG), "width": 640, "height": 480}
    back = await user.http.get(f"/images/{image['_id']}")
    assert back.content == PNG
    assert back.headers["content-type"] == "image/png"
    assert back.headers["x-content-type-options"] == "nosniff"
    assert back.headers["content-security-policy"] == "default-src 'none'; sandbox"


async def test_other_data_is_refused_as_an_image(user: User) -> None:
    for data, kind in (
        (b"<svg onload=alert(1)>", "image/svg+xml"),
        (b"<html>", "image/png"),
        (GIF, "image/png"),
        (b"", "image/png"),
    ):
        problem(await put(user, data, kind=kind), 422, "invalidRequest")
    assert (await put(user, PNG + bytes(MAX_IMAGE_BYTES - len(PNG)))).status_code == 201
    problem(await put(user, PNG + bytes(MAX_IMAGE_BYTES - len(PNG) + 1)), 413, "tooLarge")


async def test_a_prompt_names_its_images_and_the_model_gets_them(user: User, drone: PlayedDrone) -> None:
    session = await a_session(user)
    image = (await put(user, PNG)).json()
    body = {"content": "What is this?", "promptId": new_id(), "images": [image["_id"]]}
    turn = await user.post(f"/sessions/{session['_id']}/turns", body)
    assert turn["prompts"]["images"] == [image]
    order = await drone.order(turn["_id"])
    assert order["images"] == [image]
    headers = {"Authorization": f"Bearer {drone.token}"}
    assert (await user.http.get(f"/images/{image['_id']}", headers=headers)).content == PNG
    context = (await user.http.get(f"/sessions/{session['_id']}/context", headers=headers)).json()
    assert context["items"][0]["messages"][0]["images"] == [image]
    # A drone's own, named by a tool's result.
    drawn = (await put(user, GIF, drone.token, "image/gif")).json()
    call = {**Played(turn).tool_call(), "images": [drawn]}
    await drone.send(call)
    await drone.acked(turn["_id"], 1)
    for images in ([new_id()], [image["_id"], "x"]):
        wrong = {"content": "x", "promptId": new_id(), "images": images}
        problem(await user.http.post(f"/sessions/{session['_id']}/turns", json=wrong), 422, "invalidRequest")


async def test_another_users_image_is_not_found(user: User, web: Web, drone: PlayedDrone) -> None:
    image = (await put(user, PNG)).json()
    async with await web.user("eve") as eve, PlayedDrone(eve, "hers") as hers:
        problem(await eve.http.get(f"/images/{image['_id']}"), 404, "notFound")
        headers = {"Authorization": f"Bearer {hers.token}"}
        problem(await eve.http.get(f"/images/{image['_id']}", headers=headers), 404, "notFound")
        body = {"content": "x", "promptId": new_id(), "images": [image["_id"]]}
        session = await a_session(eve)
        problem(await eve.http.post(f"/sessions/{session['_id']}/turns", json=body), 422, "invalidRequest")
        assert (await put(eve, PNG)).json()["_id"] != image["_id"]


def _ref(data: bytes) -> ImageRef:
    return ImageRef(id=new_id(), media_type="image/png", size_bytes=len(data), width=1, height=1)


async def test_only_unused_images_expire(store: MongoStore) -> None:
    used, unused = (
        await store.images.put("u", "1", _ref(b"x"), b"x"),
        await store.images.put("u", "2", _ref(b"y"), b"y"),
    )
    assert await store.images.use("u", [used.id, "nothing"]) == [used]
    assert await store.images.use("v", [unused.id]) == []
    documents: dict[str, Any] = {d["_id"]: d async for d in store.images.collection.find({})}
    assert "expireAt" not in documents[used.id]
    assert documents[unused.id]["expireAt"] - utc_now() > timedelta(hours=23)
    await store.images.put("u", "1", _ref(b"x"), b"x")
    await store.images.release("u", [used.id])
    document = await store.images.collection.find_one({"_id": used.id})
    assert document is not None
    assert "expireAt" in document
