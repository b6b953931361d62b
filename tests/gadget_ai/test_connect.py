"""Imports are lazy, and nothing of a client shows the key."""

import subprocess
import sys

import pytest

from gadget_ai.client import ChatClient, Timeouts
from gadget_ai.connect import connect
from gadget_ai.testing.client import ScriptedClient
from gadget_ai.testing.script import Reply, Script, Text
from gadget_api.providers import ApiType
from tests.gadget_ai.conftest import KEY, provider


@pytest.mark.parametrize(
    "module", ["gadget_ai.connect", "gadget_ai.collect", "gadget_ai.testing.client", "gadget_ai.testing.server"]
)
def test_no_sdk_is_imported_before_there_is_a_client(module: str) -> None:
    code = f"import sys, {module}; print([m for m in ('openai', 'ollama', 'httpx', 'httpx2') if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert run.stdout.strip() == "[]"


@pytest.mark.parametrize("api", list(ApiType))
async def test_neither_order_nor_client_shows_the_key(api: ApiType) -> None:
    order = provider(api)
    client: ChatClient = connect(order, Timeouts())
    assert KEY not in repr(order) + repr(client) + repr(vars(client).get("_refusals"))
    await client.close()


async def test_the_scripted_client_is_a_chat_client() -> None:
    client: ChatClient = ScriptedClient(Script([Reply(Text("ok"))]))
    assert [model.id for model in await client.list_models()] == ["scripted"]
    await client.close()
