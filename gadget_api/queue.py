"""The queue of a session: its prompts that wait to run."""

from typing import Annotated

from pydantic import Field

from gadget_api.ids import Id
from gadget_api.model import WireModel
from gadget_api.turns import ChatTurn

MAX_QUEUED = 100
"""The most waiting prompts in one session."""


class Queue(WireModel):
    items: tuple[ChatTurn, ...]
    """In the order in which they will run."""


class NewQueueOrder(WireModel):
    """The body of `PUT /sessions/{id}/queue`."""

    prompts: Annotated[tuple[Id, ...], Field(min_length=1, max_length=MAX_QUEUED)]
    """The `promptId`s in the new order. Waiting prompts that are not listed come after them; listed prompts that do not
    wait are ignored."""
