"""A session's history as messages, in pages, for the drone that runs its turn."""

from collections.abc import Sequence

from gadget_api.events import TurnEvent, turn_event
from gadget_api.history import HistoryPage, TurnHistory, interrupted_results, prompt_messages, work_messages
from gadget_api.messages import Compaction, Message
from gadget_api.turns import ChatTurn
from gadget_code.store.database import MongoStore

_PAGE_TURNS = 50
_PAGE_BYTES = 8 * 1024 * 1024  # a page ends with the turn that exceeds this


async def history_page(store: MongoStore, session: str, *, after_turn: str | None, up_to: ChatTurn) -> HistoryPage:
    """Returns the session's turns after `after_turn` and up to the running turn `up_to` that are not reverted, oldest
    first.

    In finished turns each tool call has a result. Calls of the running turn may have none.
    """
    items: list[TurnHistory] = []
    size = 0
    turns = await store.turns.in_order(session, after=after_turn, up_to=up_to.id, limit=_PAGE_TURNS + 1)
    for turn in turns[:_PAGE_TURNS]:
        events: list[TurnEvent] = []
        async for stored in store.events.history(turn.id, up_to=turn.last_seq):
            size += len(stored.body)
            events.append(turn_event.validate_json(stored.body))
        size += len(turn.prompts.user)
        items.append(TurnHistory(turn_id=turn.id, messages=tuple(_messages(turn, events, turn.id != up_to.id))))
        if size > _PAGE_BYTES:
            break
    more = len(items) < len(turns)
    return HistoryPage(items=tuple(items), next_cursor=items[-1].turn_id if more else None)


def _messages(turn: ChatTurn, events: Sequence[TurnEvent], is_over: bool) -> list[Message | Compaction]:
    messages = prompt_messages(turn.prompts.user, turn.prompts.images)
    messages.extend(work_messages(events, is_over=is_over))
    if is_over:
        messages.extend(interrupted_results(messages))
    return messages
