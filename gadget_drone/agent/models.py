"""The models of an agent: the one that was chosen, and those to go on with when it does not answer."""

import logging
from collections.abc import Awaitable, Callable, Iterable

from gadget_ai.client import ChatClient
from gadget_ai.errors import LLMError
from gadget_api.errors import ErrorCode
from gadget_api.events import Notice
from gadget_api.work_order import OrderProvider
from gadget_drone.agent.emitter import Emitter

log = logging.getLogger(__name__)

_NOT_BY_ANOTHER = frozenset({ErrorCode.CONTEXT_TOO_LONG, ErrorCode.MODEL_REFUSED})
"""What another model would say too, or shall not be asked to get around."""


class Models:
    """`client` is the provider's; `connect` makes those of the fallbacks."""

    def __init__(
        self,
        provider: OrderProvider,
        client: ChatClient,
        fallbacks: Iterable[OrderProvider] = (),
        connect: Callable[[OrderProvider], Awaitable[ChatClient]] | None = None,
    ) -> None:
        self.provider = provider
        self.client = client
        self._left = list(fallbacks)
        self._connect = connect

    async def next(self, error: LLMError, emit: Emitter) -> bool:
        """Goes on to the next model after `error`; False when there is none, or it would not help."""
        if error.code in _NOT_BY_ANOTHER:
            return False
        while self._left and self._connect is not None:
            provider = self._left.pop(0)
            try:
                client = await self._connect(provider)
            except LLMError as exc:
                log.warning("the model %s cannot be asked: %s", provider.model_id, exc.message)
                continue
            message = f"{error.message} Going on with {provider.model_id} of {provider.name}."
            emit(Notice, level="warning", code="fallback", message=message)
            self.provider, self.client = provider, client
            emit.price = provider.price
            return True
        return False
