"""Providers, with their keys in a separate collection."""

import asyncio

from pydantic import SecretStr
from pymongo import IndexModel
from pymongo.asynchronous.collection import AsyncCollection

from gadget_api.errors import NotFound
from gadget_api.ids import new_id
from gadget_api.model import utc_now
from gadget_api.providers import NewProvider, Provider, ProviderChanges
from gadget_code.store.records import SCHEMA_VERSION, Document, Records, store_errors
from gadget_code.store.vault import Vault

INDEXES = [IndexModel([("user", 1), ("_id", -1)], name="newest")]


def _hint(key: str | None) -> str | None:
    # The end of a short key would be most of it.
    return key[-4:] if key and len(key) >= 12 else ("····" if key else None)


class ProviderStore(Records[Provider]):
    def __init__(self, collection: AsyncCollection[Document], keys: AsyncCollection[Document], vault: Vault) -> None:
        super().__init__(collection, Provider, "provider")
        self._keys = keys
        self._vault = vault

    async def create(self, user: str, new: NewProvider) -> Provider:
        key = _given(new.api_key)
        provider = Provider(
            id=new_id(),
            created_at=utc_now(),
            user=user,
            name=new.name,
            api_type=new.api_type,
            base_url=new.base_url,
            api_key_hint=_hint(key),
            models=new.models,
        )
        await self._keep_key(provider, key)
        return await self.insert(provider)

    async def edit(self, user: str, provider_id: str, changes: ProviderChanges) -> Provider:
        """Applies the given fields. A new base URL without a key deletes the stored key."""
        before = await self.owned(user, provider_id)
        given = self.given(changes)
        key_given = "api_key" in changes.model_fields_set
        moved = changes.base_url is not None and changes.base_url != before.base_url
        if key_given or moved:
            key = _given(changes.api_key)
            after = before.replace(base_url=changes.base_url or before.base_url)
            given["apiKeyHint"] = _hint(key)
            await self._keep_key(after, key)
        if not given:
            return before
        provider = await self.update({"_id": provider_id, "user": user}, given)
        if provider is None:
            raise NotFound(self.noun)
        return provider

    async def remove(self, user: str, provider_id: str) -> None:
        await self.delete(user, provider_id)
        with store_errors():
            await self._keys.delete_one({"_id": provider_id})

    async def with_key(self, user: str, provider_id: str) -> tuple[Provider, str | None]:
        """Returns the user's provider, and its decrypted key or None. Raises NotFound."""
        provider, sealed = await asyncio.gather(self.owned(user, provider_id), self._sealed(provider_id))
        return provider, self._open(sealed, provider)

    async def key_of(self, provider: Provider) -> str | None:
        """Returns the provider's decrypted key, or None."""
        return self._open(await self._sealed(provider.id), provider)

    async def _sealed(self, provider_id: str) -> bytes | None:
        with store_errors():
            document = await self._keys.find_one({"_id": provider_id})
        return None if document is None else document["sealed"]

    def _open(self, sealed: bytes | None, provider: Provider) -> str | None:
        return None if sealed is None else self._vault.unseal(sealed, provider)

    async def _keep_key(self, provider: Provider, key: str | None) -> None:
        with store_errors():
            if key is None:
                await self._keys.delete_one({"_id": provider.id})
                return
            sealed = {"sealed": self._vault.seal(key, provider), "schemaVersion": SCHEMA_VERSION}
            await self._keys.replace_one({"_id": provider.id}, sealed, upsert=True)


def _given(key: SecretStr | None) -> str | None:
    return (key.get_secret_value() or None) if key is not None else None
