"""Model providers."""

import asyncio
from collections.abc import Awaitable, Callable

from fastapi import APIRouter

from gadget_api.errors import Conflict, ErrorCode
from gadget_api.providers import ListedModels, NewProvider, Provider, ProviderChanges
from gadget_code.providers.addresses import check_address
from gadget_code.routes.access import DEFAULT_LIMIT, IdeCaller, Limit, WithService
from gadget_code.store.records import Page

ListModels = Callable[..., Awaitable[ListedModels]]

router = APIRouter(prefix="/providers", tags=["providers"])


@router.get("")
async def list_providers(
    caller: IdeCaller, service: WithService, limit: Limit = DEFAULT_LIMIT, cursor: str | None = None
) -> Page[Provider]:
    return await service.store.providers.page({"user": caller.user}, limit=limit, cursor=cursor, hint="newest")


@router.post("", status_code=201)
async def create_provider(new: NewProvider, caller: IdeCaller, service: WithService) -> Provider:
    await check_address(new.base_url, allow_private=service.settings.allow_private_urls)
    return await service.store.providers.create(caller.user, new)


@router.get("/{provider_id}")
async def get_provider(provider_id: str, caller: IdeCaller, service: WithService) -> Provider:
    return await service.store.providers.owned(caller.user, provider_id)


@router.patch("/{provider_id}")
async def change_provider(
    provider_id: str, changes: ProviderChanges, caller: IdeCaller, service: WithService
) -> Provider:
    """Changes a provider. A new base URL without a new key deletes the stored key: the key was entered for the old
    URL."""
    if changes.base_url is not None:
        await check_address(changes.base_url, allow_private=service.settings.allow_private_urls)
    return await service.store.providers.edit(caller.user, provider_id, changes)


@router.delete("/{provider_id}", status_code=204)
async def delete_provider(provider_id: str, caller: IdeCaller, service: WithService) -> None:
    """Deletes a provider. Refused while sessions use it."""
    await service.store.providers.owned(caller.user, provider_id)
    if await service.store.sessions.find({"user": caller.user, "provider": provider_id}) is not None:
        raise Conflict(ErrorCode.ALREADY_EXISTS, "Sessions use this provider; give them another first.")
    await service.store.providers.remove(caller.user, provider_id)


@router.get("/{provider_id}/models")
async def list_provider_models(provider_id: str, caller: IdeCaller, service: WithService) -> ListedModels:
    """Asks the provider for its models."""
    provider = await service.store.providers.owned(caller.user, provider_id)
    key = await service.store.providers.key_of(provider)
    list_models = await asyncio.to_thread(_list_models)
    return await list_models(provider, key, allow_private=service.settings.allow_private_urls)


def _list_models() -> ListModels:
    from gadget_code.providers.catalog import (
        list_models,  # with httpx: 9 MB and 0.1 s, for a rare request
    )

    return list_models
