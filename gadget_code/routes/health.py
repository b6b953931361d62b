"""Whether the service is alive and ready, and its metrics."""

from typing import Any

from fastapi import APIRouter, Response

from gadget_api.turns import ChatTurnStatus
from gadget_code.routes.access import Admin, WithService
from gadget_code.runtime.metrics import counter, gauge

router = APIRouter(tags=["health"])


@router.get("/health/live")
async def live() -> dict[str, Any]:
    """The process answers."""
    return {"status": "ok"}


@router.get("/health/ready")
async def ready(service: WithService) -> dict[str, Any]:
    """The database takes writes, too; 503 otherwise."""
    await service.store.ping()
    return {"status": "ok"}


@router.get("/metrics")
async def metrics(_: Admin, service: WithService) -> Response:
    """Prometheus text, for an administrator's token."""
    turns = await service.store.turns.count_by_status()
    queued = {"": turns.get(ChatTurnStatus.QUEUED, 0)}
    pending = {"": await service.store.inquiries.count_pending()}
    recorded = {"": service.recorder.events_total}
    sockets = {"": len(service.sockets.eio.sockets)}
    lines = [
        *gauge("gadget_turns", "Turns in the store.", turns, "status"),
        *gauge("gadget_queued_turns", "Turns that wait for a drone.", queued),
        *gauge("gadget_pending_inquiries", "Inquiries that wait for a user.", pending),
        *counter("gadget_events_recorded_total", "Turn events accepted by this process.", recorded),
        *gauge("gadget_sockets", "Engine.IO connections of this process.", sockets),
        *service.metrics.lines(),
    ]
    return Response("\n".join(lines) + "\n", media_type="text/plain; version=0.0.4")
