"""The models of a turn: the one that was chosen, and those to go on with when it does not answer."""

import logging
from collections.abc import Awaitable, Callable

from gadget_ai.client import ChatClient
from gadget_ai.errors import LLMError
from gadget_api.errors import ErrorCode
from gadget_api.events import Notice
from gadget_api.work_order import OrderProvider, WorkOrder
from gadget_drone.stream import EventStream

log = logging.getLogger(__name__)

_NOT_BY_ANOTHER = frozenset({ErrorCode.CONTEXT_TOO_LONG, ErrorCode.MODEL_REFUSED})
"""What another model would say too, or shall not be asked to get around."""


class Models:
    """`client` is that of the order's own provider; `connect` makes the others'."""

    def __init__(
        self, order: WorkOrder, client: ChatClient, connect: Callable[[OrderProvider], Awaitable[ChatClient]]
    ) -> None:
        self._connect = connect
        self._left = list(order.fallbacks)
        self.provider = order.provider
        self.client = client

    async def next(self, error: LLMError, events: EventStream) -> bool:
        """Goes on to the next model after `error`; False when there is none, or it would not help."""
        if error.code in _NOT_BY_ANOTHER:
            return False
        while self._left:
            provider = self._left.pop(0)
            try:
                client = await self._connect(provider)
            except LLMError as exc:
                log.warning("the model %s cannot be asked: %s", provider.model_id, exc.message)
                continue
            message = f"{error.message} Going on with {provider.model_id} of {provider.name}."
            events.emit(Notice, level="warning", code="fallback", message=message)
            self.provider, self.client = provider, client
            events.price = provider.price
            return True
        return False
