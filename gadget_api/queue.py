"""The queue of a session: its prompts that wait for their turn."""

from typing import Annotated

from pydantic import Field

from gadget_api.ids import Id
from gadget_api.model import WireModel
from gadget_api.turns import ChatTurn

MAX_QUEUED = 100
"""Prompts that wait in one session."""


class Queue(WireModel):
    items: tuple[ChatTurn, ...]
    """In the order in which they will run."""


class NewQueueOrder(WireModel):
    """The body of `PUT /sessions/{id}/queue`."""

    prompts: Annotated[tuple[Id, ...], Field(min_length=1, max_length=MAX_QUEUED)]
    """By `promptId`, which a prompt keeps, in the order in which they shall run. Those that wait and are not named come
    after them; those that are named and do not wait (any more) are passed over."""
