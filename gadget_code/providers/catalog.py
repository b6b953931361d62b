"""Lists a provider's models: one small request per API. (The web service has no model SDK.)"""

import asyncio
import ipaddress
from typing import Any
from urllib.parse import urlsplit

import httpx

from gadget_api.errors import ErrorCode, InvalidInput, Unavailable
from gadget_api.providers import ApiType, ListedModel, ListedModels, Provider
from gadget_code.providers.addresses import check_address

_TIMEOUT = httpx.Timeout(10.0, connect=5.0)
_WHOLE_S = 20.0
_MAX_BYTES = 4 * 1024 * 1024


async def list_models(provider: Provider, key: str | None, *, allow_private: bool) -> ListedModels:
    """Requests the list. Raises InvalidInput for an address that is not allowed or a key that the provider refuses,
    Unavailable when the provider does not answer."""
    addresses = await check_address(provider.base_url, allow_private=allow_private)
    if not addresses:
        raise Unavailable(ErrorCode.MODEL_UNREACHABLE, f"{provider.name}: no such host; check its base URL.")
    path = "/models" if provider.api_type is ApiType.OPENAI else "/api/tags"
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        async with asyncio.timeout(_WHOLE_S):
            body = await _get(provider.base_url + path, addresses[0], headers)
    except httpx.HTTPStatusError as exc:
        status = exc.response.status_code
        if status in (401, 403):
            raise InvalidInput(f"{provider.name} refuses the key; enter a valid one.", ErrorCode.MODEL_AUTH) from exc
        raise Unavailable(
            ErrorCode.MODEL_BAD_RESPONSE, f"{provider.name} answered with status {status}; check its base URL."
        ) from exc
    except UnicodeEncodeError as exc:
        raise InvalidInput(f"{provider.name}: the key has invalid characters.", ErrorCode.MODEL_AUTH) from exc
    except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as exc:
        raise Unavailable(
            ErrorCode.MODEL_UNREACHABLE, f"{provider.name} does not answer; check that it runs and its base URL."
        ) from exc
    try:
        if provider.api_type is ApiType.OPENAI:
            return ListedModels(items=tuple(_openai_model(entry) for entry in body["data"]))
        return ListedModels(items=tuple(ListedModel(id=entry["name"]) for entry in body["models"]))
    except (KeyError, TypeError, AttributeError, ValueError) as exc:
        raise Unavailable(
            ErrorCode.MODEL_BAD_RESPONSE, f"{provider.name} did not answer with a list of models; check its base URL."
        ) from exc


def _openai_model(entry: dict[str, Any]) -> ListedModel:
    # vLLM names it max_model_len, OpenRouter context_length.
    window = entry.get("context_length") or entry.get("max_model_len")
    return ListedModel(id=entry["id"], context_window=window if isinstance(window, int) else None)


async def _get(url: str, address: str, headers: dict[str, str]) -> Any:
    """Fetches the JSON at `url` from the address that was checked, so that a second DNS answer cannot lead elsewhere.
    Follows no redirects."""
    parts = urlsplit(url)
    pinned = httpx.URL(url).copy_with(host=f"[{address}]" if ":" in address else address)
    headers = {**headers, "Host": parts.netloc}
    assert parts.hostname is not None
    extensions = {} if _is_ip(parts.hostname) else {"sni_hostname": parts.hostname}
    async with (
        httpx.AsyncClient(timeout=_TIMEOUT, trust_env=False, follow_redirects=False) as client,
        client.stream("GET", pinned, headers=headers, extensions=extensions) as response,
    ):
        response.raise_for_status()
        body = bytearray()
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > _MAX_BYTES:
                raise httpx.DecodingError("the list of models is too long")
    try:
        return httpx.Response(200, content=bytes(body)).json()
    except (ValueError, RecursionError):
        return None


def _is_ip(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
