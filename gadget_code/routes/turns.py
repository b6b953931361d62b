"""Turns: status, content, raw stream, and a user's actions."""

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse

from gadget_api.commands import NewContinue, NewSteer, OkReply
from gadget_api.errors import NotFound
from gadget_api.events import AnyTurnEvent
from gadget_api.ids import new_id
from gadget_api.model import WireModel
from gadget_api.timeline import Timeline
from gadget_api.turns import ChatTurn
from gadget_code.routes.access import DEFAULT_LIMIT, DroneCaller, IdeCaller, Limit, WithService
from gadget_code.turns.timeline import timeline

router = APIRouter(prefix="/turns", tags=["turns"])

_MAX_EVENTS = 1000
_MAX_SEQ = 9_999_999_999  # the ten digits of an event's key


class EventPage(WireModel):
    """A page of a turn's events in the order of `seq`."""

    items: tuple[AnyTurnEvent, ...]
    next_cursor: str | None
    """The `afterSeq` of the next page; null when there are none yet."""


@router.get("/{turn_id}")
async def get_turn(turn_id: str, caller: IdeCaller, service: WithService) -> ChatTurn:
    return await service.store.turns.owned(caller.user, turn_id)


@router.get("/{turn_id}/steps", response_model=EventPage)
async def get_steps(
    turn_id: str,
    caller: IdeCaller,
    service: WithService,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Annotated[int, Query(ge=0, le=_MAX_SEQ)] = 0,
) -> Response:
    """Returns the content of the turn's own agent without deltas, oldest first: its `step`, `toolCall`, `steered`,
    `compacted`, `notice`, `inquiryAsked`, `inquiryAnswered` and `checkpoint` events."""
    turn = await service.store.turns.owned(caller.user, turn_id)
    bodies: list[str] = []
    last = None
    async for event in service.store.events.content(turn.id, after=cursor, up_to=turn.last_seq):
        if len(bodies) == limit:
            return _page(bodies, last)
        bodies.append(event.body)
        last = event.seq
    return _page(bodies, None)


@router.get("/{turn_id}/events", response_model=EventPage)
async def get_events(
    turn_id: str,
    caller: IdeCaller,
    service: WithService,
    afterSeq: Annotated[int, Query(ge=0, le=_MAX_SEQ)] = 0,
    limit: Annotated[int, Query(ge=1, le=_MAX_EVENTS)] = _MAX_EVENTS,
) -> Response:
    """Returns the turn's events after `afterSeq`, in order."""
    turn = await service.store.turns.owned(caller.user, turn_id)
    events = await service.store.events.after(turn.id, afterSeq, up_to=turn.last_seq, limit=limit + 1)
    more = len(events) > limit
    return _page([event.body for event in events[:limit]], events[limit - 1].seq if more else None)


@router.get("/{turn_id}/timeline")
async def get_timeline(
    turn_id: str,
    caller: IdeCaller,
    service: WithService,
    after: Annotated[int, Query(ge=0, le=_MAX_SEQ)] = 0,
    limit: Annotated[int, Query(ge=1, le=_MAX_EVENTS)] = _MAX_EVENTS,
) -> Timeline:
    """Returns what the turn spent its time on: model calls with their tokens and cost, tools, waits for its user."""
    turn = await service.store.turns.owned(caller.user, turn_id)
    return await timeline(service.store, turn, after=after, limit=limit)


def _page(bodies: list[str], next_cursor: int | None) -> Response:
    # The bodies are sent as they are stored, without parsing.
    cursor = "null" if next_cursor is None else f'"{next_cursor}"'
    return Response(f'{{"items":[{",".join(bodies)}],"nextCursor":{cursor}}}', media_type="application/json")


@router.post("/{turn_id}/cancel")
async def cancel_turn(turn_id: str, caller: IdeCaller, service: WithService) -> OkReply:
    await service.turns.cancel(caller.user, turn_id)
    return OkReply()


@router.post("/{turn_id}/seen")
async def see_turn(turn_id: str, caller: IdeCaller, service: WithService) -> OkReply:
    """Marks the turn as seen: its `unusualAt` becomes null, until the turn has used twice as much."""
    turn = await service.store.turns.owned(caller.user, turn_id)
    await service.rooms.emit_turn(await service.store.turns.mark_seen(turn))
    return OkReply()


@router.post("/{turn_id}/steer")
async def steer_turn(turn_id: str, new: NewSteer, caller: IdeCaller, service: WithService) -> OkReply:
    await service.turns.steer(caller.user, turn_id, new.content, new.steer_id or new_id())
    return OkReply()


@router.post("/{turn_id}/continue")
async def continue_turn(turn_id: str, new: NewContinue, caller: IdeCaller, service: WithService) -> OkReply:
    """Continues a turn whose drone is lost, from its last step, on another drone."""
    await service.turns.move(caller.user, turn_id, new.drone_id)
    return OkReply()


@router.put("/{turn_id}/blobs/{blob_id}", status_code=204)
async def put_blob(
    turn_id: str,
    blob_id: str,
    request: Request,
    caller: DroneCaller,
    service: WithService,
    offset: Annotated[int, Query(ge=0)] = 0,
) -> None:
    """Drone only: stores one part of a large tool output (8 MiB, the last one less) at its offset. 507 when the user's
    quota is used up."""
    assert caller.drone is not None
    turn = await service.turns.of_drone(caller.drone, turn_id)
    await service.store.blobs.put(turn.user, turn.id, blob_id, offset, await request.body())


@router.get("/{turn_id}/blobs/{blob_id}")
async def get_blob(turn_id: str, blob_id: str, caller: IdeCaller, service: WithService) -> StreamingResponse:
    """Returns a large tool output, whole. 404 when its drone has not sent it yet, or the user's quota was used up."""
    turn = await service.store.turns.owned(caller.user, turn_id)
    parts = service.store.blobs.read(turn.id, blob_id)
    try:
        first = await anext(parts)
    except (StopAsyncIteration, NotFound):
        raise NotFound(
            "blob",
            message="The whole output is not available: its drone has not sent it yet, or your storage was full.",
        ) from None

    async def content() -> AsyncIterator[bytes]:
        yield first
        async for part in parts:
            yield part

    return StreamingResponse(
        content(),
        media_type="application/octet-stream",
        headers={"Content-Disposition": f'attachment; filename="{turn.id}.txt"', "X-Content-Type-Options": "nosniff"},
    )
