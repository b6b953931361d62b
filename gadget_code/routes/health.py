"""Whether the service lives, whether it is ready, and how busy it is."""

from typing import Any

from fastapi import APIRouter, Response

from gadget_code.routes.access import Admin, WithService

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
    lines = ["# HELP gadget_turns Turns in the store.", "# TYPE gadget_turns gauge"]
    lines += [f'gadget_turns{{status="{status}"}} {count}' for status, count in sorted(turns.items())]
    lines += [
        "# HELP gadget_events_recorded_total Turn events taken by this process.",
        "# TYPE gadget_events_recorded_total counter",
        f"gadget_events_recorded_total {service.recorder.events_total}",
        "# HELP gadget_sockets Engine.IO connections of this process.",
        "# TYPE gadget_sockets gauge",
        f"gadget_sockets {len(service.sockets.eio.sockets)}",
    ]
    return Response("\n".join(lines) + "\n", media_type="text/plain; version=0.0.4")
