"""`gadget-code up`: MongoDB, the web service and one drone on this machine, for one user."""

import asyncio
import json
import os
import shutil
import sys
import webbrowser
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from pydantic import SecretStr

from gadget_api.drones import DroneStatus
from gadget_api.errors import ErrorCode, GadgetError
from gadget_api.ids import new_id
from gadget_api.model import utc_now
from gadget_api.projects import Project, is_remote_git_url
from gadget_api.providers import ApiType, NewProvider, Provider, ProviderModel
from gadget_api.tokens import TokenKind
from gadget_api.users import User
from gadget_code.client.api import ApiClient
from gadget_code.client.login import save_login
from gadget_code.client.prompt import PromptOptions, run_prompt
from gadget_code.client.render import TerminalRenderer
from gadget_code.providers.catalog import list_models
from gadget_code.runtime.children import run_child, start_child, stop_child
from gadget_code.server.demo import DEMO_PROVIDER, DEMO_SLUG, DemoModel, demo_model, demo_project
from gadget_code.server.listening import bind, stop_signal
from gadget_code.server.web_server import web_server
from gadget_code.settings import Settings
from gadget_code.store.database import MongoStore, open_store
from gadget_code.store.users import OWNER_ID

_DRONE_READY_S = 60.0
_DRONE_STOP_S = 15.0
_OLLAMA = "http://127.0.0.1:11434"
_OPENAI = "https://api.openai.com/v1"


@dataclass(frozen=True)
class UpOptions:
    workspace: Path
    demo: bool
    open_browser: bool


async def up(settings: Settings, options: UpOptions) -> None:
    """Runs until Ctrl+C or SIGTERM, or until a part fails. Raises GadgetError."""
    listener, settings = bind(settings)
    with stop_signal() as stop:
        async with AsyncExitStack() as stack:
            _say("Starting MongoDB and the web service …")
            store = await stack.enter_async_context(open_store(settings))
            owner = await _owner(store)
            server = await stack.enter_async_context(web_server(settings, store, listener))
            token, _ = await store.tokens.issue(owner.id, TokenKind.IDE, client="gadget-code up")
            login_file = save_login(settings.origin, token)
            workspace, allow_local_git = options.workspace, False
            demo = None
            if options.demo:
                workspace = settings.data_dir / "demo" / "workspace"
                allow_local_git = True
                demo = await stack.enter_async_context(demo_model())
                scripted = ProviderModel(id=demo.model, name="Scripted demo model", context_window=32768)
                await _offer(store, owner, DEMO_PROVIDER, ApiType.OPENAI, demo.url, None, [scripted])
                origin = await demo_project(settings.data_dir / "demo" / "origin")
                await _project(store, owner, DEMO_SLUG, str(origin))
            else:
                await _offer_workspace(store, owner, workspace)
            await _offer_what_is_here(store, owner)
            drone = await stack.enter_async_context(_drone(settings, store, owner, workspace, allow_local_git))
            await _until_available(store, owner, drone, stop)
            await _welcome(settings, store, owner, options, workspace, login_file)
            parts = [server, drone, asyncio.create_task(stop.wait(), name="stop signal")]
            if demo is not None and not stop.is_set():
                parts.append(asyncio.create_task(_show_demo(settings, token, demo), name="demo"))
            await _until_one_ends(parts)


async def _until_one_ends(parts: Sequence[asyncio.Task[Any]]) -> None:
    """Waits until a part ends, except for the demo's turn, and raises its exception."""
    waiting = {part for part in parts if part.get_name() != "demo"}
    try:
        done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for part in done:
            part.result()
    finally:
        for part in parts:
            if part.get_name() in ("demo", "stop signal"):
                part.cancel()
                with suppress(asyncio.CancelledError, GadgetError):
                    await part


async def _owner(store: MongoStore) -> User:
    """Returns the operator's account; creates it at the first run."""
    existing = await store.users.find({"_id": OWNER_ID})
    if existing is not None:
        return existing
    admins = await store.users.all({"isAdmin": True}, limit=1)
    if admins:
        return admins[0]
    return await store.users.create("owner@localhost", None, display_name="Owner", is_admin=True, user_id=OWNER_ID)


async def _welcome(
    settings: Settings, store: MongoStore, owner: User, options: UpOptions, workspace: Path, login_file: Path
) -> None:
    token, _ = await store.tokens.issue(owner.id, TokenKind.SIGN_IN)
    link = f"{settings.origin}/#sign-in={token}"
    _say(f"Gadget Code is ready at {settings.origin}")
    _say(f"  Sign in (once, within 15 minutes): {link}")
    _say(f"  Workspace: {workspace}")
    if not await store.providers.all({"user": owner.id}, limit=1):
        _say(f"  No model yet: {_command()} provider add NAME BASE_URL --key-stdin (or start again with --demo)")
    project = f" --project {DEMO_SLUG}" if options.demo else ""
    _say(f'  Send a prompt from another terminal: {_command()} prompt "…"{project}   (signed in by {login_file})')
    _say("  Ctrl+C stops everything.")
    if options.open_browser and sys.stdout.isatty():
        await asyncio.to_thread(webbrowser.open, link)


def _command() -> str:
    """Returns how to call this install's `gadget-code`: by name when it is on PATH."""
    return "gadget-code" if shutil.which("gadget-code") else str(Path(sys.executable).with_name("gadget-code"))


async def _show_demo(settings: Settings, token: str, demo: DemoModel) -> None:
    """Runs a first turn, shown as by `gadget-code prompt`."""
    _say(f"\n$ gadget-code prompt --project {DEMO_SLUG} {json.dumps(demo.prompt)}")
    api = ApiClient(settings.origin, token)
    renderer = TerminalRenderer()
    try:
        model = f"{DEMO_PROVIDER}/{demo.model}"
        options = PromptOptions(text=demo.prompt, project=DEMO_SLUG, model=model)
        await run_prompt(api, options, renderer)
        _say("\nThat was the demo. It stays up: send it a prompt of your own, or stop it with Ctrl+C.")
    except GadgetError as exc:
        print(f"The demo's turn failed: {exc.message}", file=sys.stderr)
    finally:
        await api.close()


async def _offer_what_is_here(store: MongoStore, owner: User) -> None:
    """Adds providers for a key in OPENAI_API_KEY and for a running Ollama."""
    if key := os.environ.get("OPENAI_API_KEY"):
        base_url = os.environ.get("OPENAI_BASE_URL", _OPENAI)
        await _offer(store, owner, "OpenAI", ApiType.OPENAI, base_url, key, None)
    async with httpx.AsyncClient(timeout=1.0, trust_env=False) as http:
        with suppress(httpx.HTTPError):
            if (await http.get(f"{_OLLAMA}/api/version")).is_success:
                await _offer(store, owner, "Ollama", ApiType.OLLAMA, _OLLAMA, None, None)


async def _offer(
    store: MongoStore,
    owner: User,
    name: str,
    api: ApiType,
    base_url: str,
    key: str | None,
    models: list[ProviderModel] | None,
) -> None:
    """Creates or updates the owner's provider of that name. Without `models` it asks the provider for its models."""
    new = NewProvider(name=name, api_type=api, base_url=base_url, api_key=SecretStr(key) if key else None)
    existing = await store.providers.find({"user": owner.id, "name": name})
    if existing is None:
        existing = await store.providers.create(owner.id, new)
    elif models is None:
        return  # the user may have changed it
    if models is None:
        models = await _models_of(existing, key)
    if models is not None:
        await store.providers.update(
            {"_id": existing.id},
            {"baseUrl": new.base_url, "models": [model.model_dump() for model in models]},
        )


async def _models_of(provider: Provider, key: str | None) -> list[ProviderModel] | None:
    try:
        listed = await list_models(provider, key, allow_private=True)
    except GadgetError as exc:
        print(f"{provider.name} did not list its models: {exc.message}", file=sys.stderr)
        return None
    return [ProviderModel(id=m.id, name=m.id, context_window=m.context_window) for m in listed.items]


async def _offer_workspace(store: MongoStore, owner: User, workspace: Path) -> None:
    """Adds a project for a workspace that is a git work tree with a remote."""
    if not (workspace / ".git").exists():
        return
    url = (await run_child("git", "-C", str(workspace), "config", "--default", "", "remote.origin.url")).strip()
    slug = "".join(c if c.isalnum() and c.isascii() else "-" for c in workspace.name.lower()).strip("-")
    if slug and is_remote_git_url(url):
        await _project(store, owner, slug[:100], url)


async def _project(store: MongoStore, owner: User, slug: str, git_url: str) -> None:
    if await store.projects.find({"user": owner.id, "slug": slug}) is None:
        await store.projects.insert(
            Project(id=new_id(), created_at=utc_now(), user=owner.id, name=slug, slug=slug, git_url=git_url)
        )


@asynccontextmanager
async def _drone(
    settings: Settings, store: MongoStore, owner: User, workspace: Path, allow_local_git: bool
) -> AsyncIterator[asyncio.Task[None]]:
    """Runs one drone as a child process while the context is open. Gives the task that ends with it."""
    workspace.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "GADGET_SERVER_URL": settings.origin, "GADGET_DATA_DIR": str(settings.data_dir)}
    if allow_local_git:
        environment["GADGET_ALLOW_LOCAL_GIT"] = "true"
    child: list[asyncio.subprocess.Process] = []

    async def keep_running() -> None:
        clock = asyncio.get_running_loop().time
        while True:
            begun = clock()
            # A new token each time: the old one may have ended (a new password ends all).
            token, _ = await store.tokens.issue(owner.id, TokenKind.DRONE)
            process = await start_child(
                # -P: Python must not import from the current directory, which may be the workspace.
                *(sys.executable, "-P", "-m", "gadget_drone", "--quiet", "--workspace", str(workspace)),
                env={**environment, "GADGET_DRONE_TOKEN": token},
                stdout=asyncio.subprocess.DEVNULL,
            )
            child.append(process)
            status = await process.wait()
            message = f"The drone ended (status {status}); its log is in {workspace}/.gadget/logs/."
            if clock() - begun < _DRONE_READY_S / 10:
                raise GadgetError(ErrorCode.INTERNAL, message)
            _say(f"{message} It is started again.")

    task = asyncio.create_task(keep_running(), name="drone")
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError, GadgetError):
            await task
        for process in child[-1:]:
            await stop_child(process, within_s=_DRONE_STOP_S)


async def _until_available(store: MongoStore, owner: User, drone: asyncio.Task[None], stop: asyncio.Event) -> None:
    deadline = asyncio.get_running_loop().time() + _DRONE_READY_S
    while not stop.is_set():
        drones = await store.drones.all({"user": owner.id})
        if any(d.status in (DroneStatus.AVAILABLE, DroneStatus.BUSY) for d in drones):
            return
        if drone.done():
            drone.result()
        if asyncio.get_running_loop().time() > deadline:
            raise GadgetError(ErrorCode.DRONE_OFFLINE, "The drone did not connect; see its log in .gadget/logs/.")
        await asyncio.sleep(0.05)


def _say(line: str) -> None:
    print(line, flush=True)
