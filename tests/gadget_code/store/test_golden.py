"""Documents as they were written once, which every later version has to read."""

from pathlib import Path
from typing import Any

import pytest
from bson import json_util

from gadget_api.errors import GadgetError
from gadget_api.events import turn_event
from gadget_api.tokens import TokenKind
from gadget_code.store.database import INDEXES, MongoStore
from gadget_code.store.records import SCHEMA_VERSION

GOLDEN = Path(__file__).with_name("golden")
RECORDS = ("users", "projects", "providers", "drones", "sessions", "turns", "inquiries")


def restricted(document: Any, to: Any) -> Any:
    """`document` without the fields that came after `to` was written; a list of documents likewise."""
    if isinstance(to, dict):
        return {key: restricted(document[key], value) for key, value in to.items()}
    if isinstance(to, list):
        return [restricted(one, other) for one, other in zip(document, to, strict=True)]
    return document


def golden(name: str, version: str = "v1") -> dict[str, Any]:
    document: dict[str, Any] = json_util.loads((GOLDEN / version / f"{name}.json").read_text())
    return document


def test_every_collection_and_version_has_its_golden_document() -> None:
    for version in range(1, SCHEMA_VERSION + 1):
        assert {path.stem for path in (GOLDEN / f"v{version}").iterdir()} == set(INDEXES)


@pytest.mark.parametrize("name", RECORDS)
async def test_a_record_keeps_loading_and_is_written_as_it_was(store: MongoStore, name: str) -> None:
    document = golden(name)
    records: Any = getattr(store, name)
    await records.collection.insert_one(dict(document))
    record = await records.find({"_id": document["_id"]})
    if name == "drones":
        assert record.status == "offline"  # its presence has run out long ago
        record = record.replace(status="busy")
    kept = {key: value for key, value in document.items() if key not in ("schemaVersion", "store")}
    # `models` and `projects` are tuples here and lists there.
    written = restricted(record.model_dump(mode="python"), kept)
    assert json_util.dumps(written) == json_util.dumps(kept)


async def test_a_session_without_a_level_gets_the_level_of_its_mode(store: MongoStore) -> None:
    for mode, level in (("plan", "plan"), ("build", "full")):
        await store.sessions.collection.insert_one({**golden("sessions"), "_id": mode, "mode": mode})
        session = await store.sessions.find({"_id": mode})
        assert session is not None
        assert (session.mode, session.level) == (mode, level)


async def test_an_image_and_the_rules_of_the_install_keep_loading(store: MongoStore) -> None:
    for name in ("images", "install"):
        await store.database[name].insert_one(golden(name))
    image, data = await store.images.read("01a1fd5a2ee94b074c08ac01", "01a1fd5a2ee94b074c08ac08")
    assert (image.media_type, image.width, image.height, data) == ("image/png", 2, 1, b"hello")
    [rule] = (await store.install.rules()).rules
    assert (rule.decision, rule.capability, rule.pattern) == ("deny", "read", ".env*")


async def test_an_event_a_blob_and_a_token_keep_loading(store: MongoStore) -> None:
    for name in ("events", "blobs", "tokens"):
        await store.database[name].insert_one(golden(name))
    event = golden("events")
    [stored] = await store.events.after(event["turn"], 0, up_to=event["seq"], limit=10)
    assert (stored.seq, stored.epoch, stored.type, stored.body) == (7, 2, "toolCall", event["body"])
    assert turn_event.validate_json(stored.body).seq == 7
    assert [part async for part in store.blobs.read(event["turn"], "b1")] == [b"hello"]
    identity = await store.tokens.identify("test")
    assert identity is not None
    assert (identity.kind, identity.drone) == (TokenKind.DRONE, "01a1fd5a2ee94b074c08ac04")


@pytest.mark.parametrize("name", RECORDS)
async def test_a_document_of_a_newer_version_is_refused(store: MongoStore, name: str) -> None:
    records: Any = getattr(store, name)
    await records.collection.insert_one({**golden(name), "schemaVersion": SCHEMA_VERSION + 1, "extra": 1})
    with pytest.raises(GadgetError, match=r"newer Gadget Code; update this one") as refused:
        await records.find({})
    assert refused.value.code == "internal"
