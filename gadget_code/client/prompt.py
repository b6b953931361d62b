"""`gadget-code prompt`: runs one turn and shows its stream."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pydantic.alias_generators import to_camel

from gadget_api.commands import AnswerInquiry, CancelTurn
from gadget_api.errors import ErrorCode, GadgetError
from gadget_api.events import EVENT_TYPES
from gadget_api.ids import new_id
from gadget_api.inquiries import Answer, Inquiry
from gadget_api.providers import Provider
from gadget_api.session_list import ListedSession
from gadget_api.sessions import ChatSession
from gadget_api.turns import MAX_PROMPT_BYTES, ChatTurn
from gadget_code.client.api import ApiClient
from gadget_code.client.render import Renderer
from gadget_code.client.watcher import Watcher, turn_of

_MOST_NAME = 60


@dataclass(frozen=True)
class PromptOptions:
    text: str
    project: str | None = None
    """A slug. Default: the newest project."""
    session: str | None = None
    """An id. Default: a new session."""
    continue_newest: bool = False
    """Use the project's newest session."""
    drone: str | None = None
    """A name. Default: any drone that is suitable."""
    model: str | None = None
    """A model's id or `provider/id`. Default: the model of the newest session."""
    level: str | None = None
    """The permission level. Default: the session's; for a new session the account's."""


Ask = Callable[[Inquiry], Awaitable[Answer]]


async def run_prompt(
    api: ApiClient,
    options: PromptOptions,
    renderer: Renderer,
    interrupts: asyncio.Event | None = None,
    ask: Ask | None = None,
) -> bool:
    """Submits the prompt and shows the turn until it ends. Returns whether it succeeded. Raises GadgetError.

    `ask` answers the turn's inquiries; without it the user answers from another client.

    `interrupts` is set at each Ctrl+C: the first cancels the turn, the second leaves it running (CancelledError).
    """
    if not options.text.strip():
        raise GadgetError(ErrorCode.INVALID_REQUEST, "The prompt is empty; write what to do.")
    size = len(options.text.encode(errors="replace"))
    if size > MAX_PROMPT_BYTES:
        raise GadgetError(
            ErrorCode.TOO_LARGE, f"The prompt has {size:,} bytes; {MAX_PROMPT_BYTES:,} are the most that one may have."
        )
    session = await _session(api, options)
    watcher = Watcher(api, session.id)
    await watcher.open()
    try:
        body = {"content": options.text, "promptId": new_id()}
        turn = ChatTurn.model_validate(await api.post(f"/sessions/{session.id}/turns", body))
        canceller = asyncio.create_task(
            _cancel_when(interrupts or asyncio.Event(), watcher, turn, asyncio.current_task()), name="canceller"
        )
        try:
            return await _follow(watcher, turn, renderer, ask)
        finally:
            canceller.cancel()
    finally:
        renderer.close()
        await watcher.close()


async def _follow(watcher: Watcher, turn: ChatTurn, renderer: Renderer, ask: Ask | None) -> bool:
    renderer.waiting("")
    asking: dict[str, asyncio.Task[None]] = {}
    try:
        return await _shown(watcher, turn, renderer, ask, asking)
    finally:
        for task in asking.values():
            task.cancel()


async def _shown(
    watcher: Watcher, turn: ChatTurn, renderer: Renderer, ask: Ask | None, asking: dict[str, asyncio.Task[None]]
) -> bool:
    was_lost = False
    async for name, payload in watcher.events():
        if name == "connection":
            if was_lost or not payload:
                renderer.waiting("Connected again." if payload else "The connection is lost; the turn continues.")
            was_lost = not payload
        elif name == "failed":
            raise payload
        elif name == "turnStatus":
            now = turn_of(payload)
            if turn.id in now.former_ids:  # it was moved in the queue
                turn = now
            if now.id == turn.id and now.status_reason is not None:
                renderer.waiting(now.status_reason)
        elif name in EVENT_TYPES and payload["turnId"] == turn.id:
            if name == "inquiryAnswered" and (task := asking.pop(payload["answer"]["inquiryId"], None)) is not None:
                task.cancel()  # it was answered, by this client or another
            if name == "inquiryAsked" and ask is not None:
                inquiry = Inquiry.model_validate(payload["inquiry"])
                asking[inquiry.id] = asyncio.create_task(_answer(watcher, ask, inquiry), name="asking")
                continue
            renderer.show(name, payload)
            if name == "workOrderComplete":
                return bool(payload["success"])
    raise AssertionError("the events of a watcher do not end")


async def _answer(watcher: Watcher, ask: Ask, inquiry: Inquiry) -> None:
    with suppress(EOFError, GadgetError):  # the input has ended, or another client answered first
        answer = await ask(inquiry)
        await watcher.call("answerInquiry", AnswerInquiry(inquiry_id=inquiry.id, **dict(answer)))


async def _cancel_when(
    interrupts: asyncio.Event, watcher: Watcher, turn: ChatTurn, main: asyncio.Task[Any] | None
) -> None:
    await interrupts.wait()
    interrupts.clear()
    with suppress(GadgetError):  # the turn is over, or the server is unreachable: the next Ctrl+C exits
        await watcher.call("cancelTurn", CancelTurn(turn_id=turn.id))
    await interrupts.wait()
    assert main is not None
    main.cancel()


async def _session(api: ApiClient, options: PromptOptions) -> ChatSession:
    drone = await _id_of(api, "drone", "name", options.drone) if options.drone is not None else None
    if options.session is not None:
        session = ChatSession.model_validate(await api.get(f"/sessions/{options.session}"))
        return await _changed(api, session, drone, options)
    project = await _id_of(api, "project", "slug", options.project)
    if options.continue_newest:
        async for item in api.items("/sessions", project=project):
            return await _changed(api, ListedSession.model_validate(item), drone, options)
    provider, model = await _model(api, options.model)
    new = {
        "name": _name(options.text),
        "project": project,
        "provider": provider,
        "selectedModel": model,
        "drone": drone,
    }
    if options.level is not None:
        new["level"] = options.level
    return ChatSession.model_validate(await api.post("/sessions", new))


def _name(prompt: str) -> str:
    """Makes a session name of the prompt's first words."""
    words = " ".join(prompt.split())
    return words if len(words) <= _MOST_NAME else words[: _MOST_NAME - 1].rsplit(" ", 1)[0] + "…"


async def _changed(api: ApiClient, session: ChatSession, drone: str | None, options: PromptOptions) -> ChatSession:
    """Returns the session with the drone, level and model that the options name."""
    wanted: dict[str, str | None] = {"drone": drone, "level": options.level}
    if options.model is not None:
        wanted["provider"], wanted["selected_model"] = await _model(api, options.model)
    changes = {
        to_camel(name): value for name, value in wanted.items() if value is not None and getattr(session, name) != value
    }
    if not changes:
        return session
    return ChatSession.model_validate(await api.patch(f"/sessions/{session.id}", changes))


async def _id_of(api: ApiClient, noun: str, key: str, wanted: str | None) -> str:
    """Returns the id of the project or drone with this name or id; of the newest without one. Raises GadgetError."""
    names: list[str] = []
    async for item in api.items(f"/{noun}s"):
        if wanted in (None, item[key], item["_id"]):
            return str(item["_id"])
        names.append(item[key])
    if wanted is None:
        raise GadgetError(
            ErrorCode.NOT_FOUND, "There is no project yet; add one with `gadget-code project add SLUG GIT_URL`."
        )
    known = f"there are {', '.join(names[:10])}" if names else "there are none yet"
    raise GadgetError(ErrorCode.NOT_FOUND, f"There is no {noun} {wanted}; {known}.")


async def _model(api: ApiClient, wanted: str | None) -> tuple[str, str]:
    """Returns the ids of the wanted model's provider and of the model; without one, those of the newest session."""
    if wanted is None:
        async for session in api.items("/sessions"):
            return str(session["provider"]), str(session["selectedModel"])
    providers = [Provider.model_validate(item) async for item in api.items("/providers")]
    known = [
        (f"{provider.name}/{model.id}", provider.id, model.id) for provider in providers for model in provider.models
    ]
    fitting = [entry for entry in known if wanted in (None, entry[0], entry[2])]
    if len(fitting) == 1:
        return fitting[0][1:]
    names = ", ".join(name for name, _, _ in (fitting or known)[:20])
    if fitting:
        raise GadgetError(ErrorCode.INVALID_REQUEST, f"Choose a model with --model; there are: {names}.")
    if known:
        raise GadgetError(ErrorCode.NOT_FOUND, f"No provider has a model {wanted}; there are: {names}.")
    raise GadgetError(
        ErrorCode.NOT_FOUND,
        "There is no model yet; add a provider with `gadget-code provider add NAME BASE_URL --model MODEL`.",
    )
