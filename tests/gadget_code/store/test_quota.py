"""What a user may keep of large outputs and images: the sum is right whatever comes at once, is deleted, or dies."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import Any

import pytest

from gadget_api.errors import StorageFull, Unavailable
from gadget_api.ids import new_id
from gadget_api.images import ImageRef
from gadget_code.sessions.deletion import delete_orphans
from gadget_code.store.blobs import PART_BYTES, BlobStore
from gadget_code.store.database import MongoStore, open_store
from gadget_code.store.images import ImageStore
from gadget_code.store.quota import MB, Quota
from tests.gadget_code.peers import PlayedDrone, a_finished_turn, a_session, a_web, problem
from tests.harness import User, Web


@pytest.fixture
async def small(settings_for: Any) -> AsyncIterator[MongoStore]:
    """A store in which each user may keep 1 MB."""
    async with open_store(settings_for(storage_mb=1)) as opened:
        yield opened
        await opened.database.client.drop_database(opened.database.name)


def image(data: bytes) -> ImageRef:
    return ImageRef(id=new_id(), media_type="image/png", size_bytes=len(data), width=1, height=1)


async def test_outputs_and_images_share_one_quota_per_user(small: MongoStore) -> None:
    await small.blobs.put("u", "t", "b", 0, bytes(MB - 10))
    await small.images.put("u", "1", image(b"12345678"), b"12345678")
    with pytest.raises(StorageFull, match="Delete sessions"):
        await small.images.put("u", "2", image(b"abc"), b"abc")
    with pytest.raises(StorageFull):
        await small.blobs.put("u", "t", "c", 0, b"abc")
    await small.images.put("v", "2", image(b"abc"), b"abc")
    await small.blobs.put("u", "t", "c", 0, b"ab")
    used = await small.quota.used("u")
    assert (used.blob_bytes, used.image_bytes, used.max_bytes) == (MB - 8, 8, MB)


async def test_repeated_uploads_succeed_when_the_quota_is_used_up(small: MongoStore) -> None:
    await small.blobs.put("u", "t", "b", 0, bytes(MB - 8))
    await small.images.put("u", "1", image(b"12345678"), b"12345678")
    await small.images.put("u", "1", image(b"12345678"), b"12345678")
    await small.blobs.put("u", "t", "b", 0, bytes(MB - 8))
    with pytest.raises(StorageFull):  # it grows
        await small.blobs.put("u", "t", "b", 0, bytes(MB - 7))


async def test_a_blob_that_does_not_fit_leaves_no_part(settings_for: Any) -> None:
    async with open_store(settings_for(storage_mb=12)) as store:
        await store.blobs.put("u", "t", "b", 0, bytes(PART_BYTES))
        with pytest.raises(StorageFull):
            await store.blobs.put("u", "t", "b", PART_BYTES, bytes(PART_BYTES))
        assert (await store.quota.used("u")).bytes == 0
        await store.database.client.drop_database(store.database.name)


async def test_concurrent_uploads_through_two_processes_respect_the_quota(small: MongoStore) -> None:
    other = Quota(small.database, MB)
    second = BlobStore(small.blobs.collection, other), ImageStore(small.images.collection, other)
    size = MB // 8

    async def put(n: int) -> bool:
        blobs, images = (small.blobs, small.images) if n % 2 else second
        for _ in range(100):
            try:
                if n % 3:
                    await blobs.put("u", "t", f"b{n}", 0, bytes(size))
                else:
                    await images.put("u", str(n), image(bytes(size)), bytes(size))
                return True
            except StorageFull:
                return False
            except Unavailable:  # the two processes were in each other's way too often
                continue
        raise AssertionError("the store never answered")

    kept = await asyncio.gather(*map(put, range(24)))
    assert sum(kept) == 8
    assert (await small.quota.used("u")).bytes == MB


async def test_a_process_that_dies_during_an_upload_leaves_nothing(small: MongoStore) -> None:
    class Died(BaseException):
        pass

    async def write(session: Any) -> int:
        await small.blobs.collection.insert_one({"_id": "x", "user": "u", "sizeBytes": MB}, session=session)
        raise Died

    with pytest.raises(Died):
        await small.quota.add("u", write)
    assert (await small.quota.used("u")).bytes == 0
    await small.blobs.put("u", "t", "b", 0, bytes(MB))


@pytest.fixture(scope="module")
def web(mongodb_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    with a_web(tmp_path_factory.mktemp("web"), mongodb_url, GADGET_STORAGE_MB="1") as process:
        yield process


async def put_blob(user: User, drone: PlayedDrone, turn: str, blob: str, size: int) -> Any:
    headers = {"Authorization": f"Bearer {drone.token}"}
    return await user.http.put(f"/turns/{turn}/blobs/{blob}", content=bytes(size), headers=headers)


async def test_a_full_quota_is_507_and_deleting_a_session_frees_space(user: User, drone: PlayedDrone) -> None:
    session = await a_session(user)
    turn = (await a_finished_turn(user, drone, session, "one"))["_id"]
    assert (await put_blob(user, drone, turn, "b", MB - 5)).status_code == 204
    refused = await put_blob(user, drone, turn, "c", 6)
    problem(refused, 507, "storageFull")
    assert "GADGET_STORAGE_MB" in refused.json()["detail"]
    assert await user.get("/usage/storage") == {"blobBytes": MB - 5, "imageBytes": 0, "maxBytes": MB}
    whole = await user.http.get(f"/turns/{turn}/blobs/c")
    problem(whole, 404, "notFound")
    assert "storage was full" in whole.json()["detail"]
    assert (await user.http.delete(f"/sessions/{session['_id']}")).status_code == 204
    assert (await user.get("/usage/storage"))["blobBytes"] == 0


async def test_a_fork_that_does_not_fit_is_refused_and_leaves_nothing(user: User, drone: PlayedDrone) -> None:
    session = await a_session(user)
    turn = (await a_finished_turn(user, drone, session, "one"))["_id"]
    assert (await put_blob(user, drone, turn, "b", MB - 5)).status_code == 204
    problem(await user.http.post(f"/sessions/{session['_id']}/fork", json={}), 507, "storageFull")
    assert (await user.get("/usage/storage"))["blobBytes"] == MB - 5
    assert len((await user.get("/sessions"))["items"]) == 1


async def test_the_remains_of_an_interrupted_deletion_are_deleted_later(
    user: User, drone: PlayedDrone, web: Web, settings_for: Any
) -> None:
    session = await a_session(user)
    turn = (await a_finished_turn(user, drone, session, "one"))["_id"]
    assert (await put_blob(user, drone, turn, "b", 1000)).status_code == 204
    async with open_store(settings_for(database=web.env["GADGET_DATABASE"])) as store:
        await store.sessions.delete(user.document["_id"], session["_id"])  # and no further
        await delete_orphans(store)
        assert (await user.get("/usage/storage"))["blobBytes"] == 1000  # it may be a fork that is made just now
        await delete_orphans(store, timedelta(0))
        assert (await user.get("/usage/storage"))["blobBytes"] == 0
        assert await store.turns.find({"_id": turn}) is None
        kept = await a_session(user)
        await a_finished_turn(user, drone, kept, "two")
        await delete_orphans(store, timedelta(0))
        assert len((await user.get(f"/sessions/{kept['_id']}/turns"))["items"]) == 1
