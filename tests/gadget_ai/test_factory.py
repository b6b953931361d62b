"""Imports are lazy, and nothing of a client shows the key."""

import subprocess
import sys
import traceback

import pytest

from gadget_ai.client import ChatClient, Timeouts
from gadget_ai.errors import LLMError
from gadget_ai.factory import create_client
from gadget_ai.testing.client import ScriptedClient
from gadget_ai.testing.script import Reply, Script, Text
from gadget_api.errors import ErrorCode
from gadget_api.providers import ApiType
from tests.gadget_ai.conftest import KEY, provider

both = pytest.mark.parametrize("api", list(ApiType))


@pytest.mark.parametrize(
    "module", ["gadget_ai.factory", "gadget_ai.collect", "gadget_ai.testing.client", "gadget_ai.testing.server"]
)
def test_no_sdk_is_imported_before_there_is_a_client(module: str) -> None:
    code = f"import sys, {module}; print([m for m in ('openai', 'ollama', 'httpx', 'httpx2') if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert run.stdout.strip() == "[]"


@both
async def test_neither_work_order_nor_client_shows_the_key(api: ApiType) -> None:
    order = provider(api)
    client: ChatClient = create_client(order, Timeouts())
    assert KEY not in repr(order) + repr(client) + repr(vars(client).get("_refusals"))
    await client.close()


async def test_the_scripted_client_is_a_chat_client() -> None:
    client: ChatClient = ScriptedClient(Script([Reply(Text("ok"))]))
    assert [model.id for model in await client.list_models()] == ["scripted"]
    await client.close()


@both
@pytest.mark.parametrize("key", [f"{KEY}\n", f"{KEY}é", f"{KEY} x", f"\x00{KEY}"])
def test_an_invalid_key_is_refused_and_not_shown(api: ApiType, key: str) -> None:
    with pytest.raises(LLMError) as caught:
        create_client(provider(api, api_key=key))
    assert caught.value.code is ErrorCode.MODEL_AUTH
    assert KEY not in "".join(traceback.format_exception(caught.value))


@both
@pytest.mark.parametrize("url", ["http://x\x01y/v1", "http://xn--zzzzz-.invalid\u2028/v1"])
def test_an_invalid_url_is_unreachable(api: ApiType, url: str) -> None:
    unchecked = provider(api).model_copy(update={"base_url": url})
    with pytest.raises(LLMError) as caught:
        create_client(unchecked)
    assert caught.value.code is ErrorCode.MODEL_UNREACHABLE
