"""The model clients of a drone: kept from turn to turn, for making one takes 30 ms of CPU, and the next turn finds its
connection open."""

import asyncio
from collections import OrderedDict

from gadget_ai.client import ChatClient
from gadget_ai.factory import create_client, load_sdk
from gadget_ai.images import LoadImage
from gadget_api.work_order import OrderProvider

_KEPT = 4


class Clients:
    def __init__(self, load_image: LoadImage) -> None:
        self._load_image = load_image
        self._clients: OrderedDict[OrderProvider, ChatClient] = OrderedDict()
        """By all that makes one: a changed key or setting is another client."""

    async def of(self, provider: OrderProvider) -> ChatClient:
        """Raises LLMError, as `create_client`."""
        client = self._clients.get(provider)
        if client is None:
            await asyncio.to_thread(load_sdk, provider.sdk)
            client = self._clients[provider] = create_client(provider, load_image=self._load_image)
        self._clients.move_to_end(provider)
        return client

    async def trim(self) -> None:
        """Between two turns: closes all but the newest."""
        while len(self._clients) > _KEPT:
            _, client = self._clients.popitem(last=False)
            await client.close()

    async def close(self) -> None:
        while self._clients:
            _, client = self._clients.popitem()
            await client.close()
