"""The composition root: from settings to an ASGI application."""

import asyncio
import importlib.metadata
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import APIRouter, FastAPI
from starlette.types import ASGIApp

from gadget_api.errors import ErrorCode, GadgetError, Problem
from gadget_api.protocol import API_PREFIX
from gadget_api.traces import create_tracer
from gadget_code.handlers.connections import Connections
from gadget_code.handlers.events import register
from gadget_code.handlers.terminals import report_attached_terminals
from gadget_code.http.gateway import Gateway
from gadget_code.http.ide_files import IdeFiles
from gadget_code.http.problems import handle_errors
from gadget_code.routes import (
    auth,
    branching,
    drones,
    files,
    health,
    images,
    inquiries,
    permissions,
    projects,
    providers,
    sessions,
    tokens,
    turns,
    usage,
    users,
    version,
)
from gadget_code.runtime.background import background_tasks
from gadget_code.service import Service
from gadget_code.sessions.deletion import delete_orphans_daily
from gadget_code.settings import Settings
from gadget_code.sockets.frames import LocalManager, SharedManager
from gadget_code.sockets.server import SocketServer
from gadget_code.store.database import MongoStore

log = logging.getLogger(__name__)

_RESOURCES = (
    auth,
    users,
    tokens,
    permissions,
    projects,
    providers,
    drones,
    branching,
    files,
    sessions,
    turns,
    inquiries,
    images,
    usage,
    version,
)


def create_app(settings: Settings, store: MongoStore) -> ASGIApp:
    """Builds the whole web service: REST, the socket, the browser IDE. Its background tasks live as long as its
    lifespan."""
    sockets = SocketServer(list(settings.origins), _manager(settings))
    api = create_api()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with background_tasks() as background:
            tracer = create_tracer("gadget-code", os.environ)
            if tracer.problem is not None:
                log.warning("%s", tracer.problem)
            service = Service(settings, store, background, sockets, tracer)
            app.state.service = service
            connections = Connections(service)
            register(service, connections)
            background.start(connections.watch(), "socket watch")
            background.start(report_attached_terminals(service, connections), "terminals")
            background.start(service.sweep.run(), "sweep")
            background.start(delete_orphans_daily(store), "orphans")
            background.start(service.metrics.lag.measure(), "event loop lag")
            yield
            await service.recorder.stop()
            await asyncio.to_thread(tracer.close)

    api.router.lifespan_context = lifespan
    return Gateway(sockets.asgi(api), settings)


def create_api() -> FastAPI:
    """Builds the REST API without a running service. `docs/reference/openapi.json` is generated from it."""
    api = FastAPI(
        title="Gadget Code",
        version=importlib.metadata.version("gadget-code"),
        openapi_url="/openapi.json",
        docs_url=None,  # the docs page loads scripts from another host
        redoc_url=None,
        responses={
            422: {"model": Problem, "description": "The request is invalid"},
            "default": {"model": Problem, "description": "Any other error"},
        },
    )
    handle_errors(api)
    resources = APIRouter(prefix=API_PREFIX)
    for module in _RESOURCES:
        resources.include_router(module.router)
    api.include_router(resources)
    api.include_router(health.router)

    api.mount("/", IdeFiles())
    return api


def _manager(settings: Settings) -> LocalManager:
    """Returns the Socket.IO manager. Several web processes share their rooms through Redis."""
    if settings.redis_url is None:
        return LocalManager()
    try:
        return SharedManager(settings.redis_url.get_secret_value(), channel="gadget")
    except RuntimeError as exc:
        raise GadgetError(
            ErrorCode.INTERNAL, "GADGET_REDIS_URL needs the redis package: pip install 'gadget-code[scale]'."
        ) from exc
