"""The `gadget-code` commands for projects, providers, turns, inquiries, sessions and drones."""

import argparse
import json
import sys
from typing import Any

from gadget_api.errors import ErrorCode, GadgetError
from gadget_api.ids import new_id
from gadget_code.client.api import ApiClient
from gadget_code.client.render import clean, warning_of


async def project_add(api: ApiClient, arguments: argparse.Namespace) -> None:
    new = {"name": arguments.name or arguments.slug, "slug": arguments.slug, "gitUrl": arguments.git_url}
    project = await api.post("/projects", new)
    _say(arguments, project, f"Added the project {project['slug']}.")


async def project_list(api: ApiClient, arguments: argparse.Namespace) -> None:
    projects = [project async for project in api.items("/projects")]
    _say(arguments, projects, "\n".join(f"{p['slug']}  {p['gitUrl']}" for p in projects) or "There are none yet.")


async def provider_add(api: ApiClient, arguments: argparse.Namespace) -> None:
    """Without --model it adds all models that the provider lists."""
    new: dict[str, Any] = {"name": arguments.name, "apiType": arguments.type, "baseUrl": arguments.base_url}
    if arguments.key_stdin:
        new["apiKey"] = sys.stdin.readline().strip()
    provider = await api.post("/providers", new)
    models = [{"id": model} for model in arguments.model]
    if not models:
        try:
            models = (await api.get(f"/providers/{provider['_id']}/models"))["items"]
        except GadgetError:
            await api.delete(f"/providers/{provider['_id']}")  # leave no provider without models
            raise
    window = {"contextWindow": arguments.context_window} if arguments.context_window else {}
    entries = [{"name": model["id"], **model, **window} for model in models]
    provider = await api.patch(f"/providers/{provider['_id']}", {"models": entries})
    names = ", ".join(model["id"] for model in provider["models"][:10]) or "no model"
    _say(arguments, provider, f"Added the provider {provider['name']} with {names}.")


async def provider_list(api: ApiClient, arguments: argparse.Namespace) -> None:
    providers = [provider async for provider in api.items("/providers")]
    lines = [f"{p['name']}  {p['baseUrl']}  {', '.join(m['id'] for m in p['models'])}" for p in providers]
    _say(arguments, providers, "\n".join(lines) or "There are none yet.")


async def project_remove(api: ApiClient, arguments: argparse.Namespace) -> None:
    await _remove(api, "/projects", "slug", arguments)


async def provider_remove(api: ApiClient, arguments: argparse.Namespace) -> None:
    await _remove(api, "/providers", "name", arguments)


async def turn_show(api: ApiClient, arguments: argparse.Namespace) -> None:
    turn = await api.get(f"/turns/{arguments.which}")
    lines = [f"{turn['status']}: {turn['prompts']['user'][:60]}"]
    if turn["statusReason"] is not None:
        lines.append(turn["statusReason"])
    if turn["error"] is not None:
        lines.append(turn["error"]["message"])
    lines += [f"waits for the next step: {steer['content'][:60]}" for steer in turn["steers"]]
    _say(arguments, turn, "\n".join(lines))


async def turn_cancel(api: ApiClient, arguments: argparse.Namespace) -> None:
    await api.post(f"/turns/{arguments.which}/cancel", {})
    _say(arguments, {}, "Cancelled.")


async def turn_steer(api: ApiClient, arguments: argparse.Namespace) -> None:
    await api.post(f"/turns/{arguments.which}/steer", {"content": arguments.text, "steerId": new_id()})
    _say(arguments, {}, "The model gets it with its next step.")


async def turn_continue(api: ApiClient, arguments: argparse.Namespace) -> None:
    drone = None if arguments.drone is None else (await _the_one(api, "/drones", "name", arguments.drone))["_id"]
    await api.post(f"/turns/{arguments.which}/continue", {"droneId": drone})
    _say(arguments, {}, "The turn continues as soon as a drone takes it.")


async def turn_diff(api: ApiClient, arguments: argparse.Namespace) -> None:
    _say_diff(arguments, await api.get(f"/turns/{arguments.which}/diff"))


async def inquiry_list(api: ApiClient, arguments: argparse.Namespace) -> None:
    inquiries = [inquiry async for inquiry in api.items("/inquiries", status="pending")]
    lines = [f"{i['_id']}  {i['kind']}  {clean(i['title'])}" for i in inquiries]
    _say(arguments, inquiries, "\n".join(lines) or "Nothing waits for an answer.")


async def inquiry_show(api: ApiClient, arguments: argparse.Namespace) -> None:
    inquiry = await api.get(f"/inquiries/{arguments.which}")
    lines = [f"{inquiry['status']}: {clean(inquiry['title'])}", clean(inquiry["detail"])]
    lines += [clean(verdict["because"]) for verdict in inquiry["verdicts"]]
    lines.append(warning_of(inquiry["title"], inquiry["detail"], *(choice["label"] for choice in inquiry["choices"])))
    lines += [f"  {choice['id']}  {clean(choice['label'])}" for choice in inquiry["choices"]]
    _say(arguments, inquiry, "\n".join(line for line in lines if line))


async def inquiry_answer(api: ApiClient, arguments: argparse.Namespace) -> None:
    answer = {"choice": arguments.choice, "text": arguments.text}
    inquiry = await api.post(f"/inquiries/{arguments.which}/answer", answer)
    _say(arguments, inquiry, "Answered.")


async def session_list(api: ApiClient, arguments: argparse.Namespace) -> None:
    """Lists pinned sessions first."""
    archived = "true" if arguments.archived else None
    sessions = [session async for session in api.items("/sessions", archived=archived)]
    sessions.sort(key=lambda session: session["pinnedAt"] is None)
    lines = [f"{s['_id']}  {s['createdAt'][:16]}  {s['name']}{_marks(s)}" for s in sessions]
    _say(arguments, sessions, "\n".join(lines) or "There are none yet.")


def _marks(session: dict[str, Any]) -> str:
    is_unusual = session["latestTurn"] is not None and session["latestTurn"]["unusualAt"] is not None
    pinned = "  (pinned)" if session["pinnedAt"] else ""
    return pinned + ("  (uses far more than other turns)" if is_unusual else "")


async def session_remove(api: ApiClient, arguments: argparse.Namespace) -> None:
    await api.delete(f"/sessions/{arguments.which}")
    _say(arguments, {}, "Removed, with all its turns.")


async def session_rename(api: ApiClient, arguments: argparse.Namespace) -> None:
    await _change_session(api, arguments, {"name": arguments.name}, f"Renamed to {arguments.name}.")


async def session_archive(api: ApiClient, arguments: argparse.Namespace) -> None:
    await _change_session(api, arguments, {"archived": True}, "Archived; `session list --archived` shows it.")


async def session_pin(api: ApiClient, arguments: argparse.Namespace) -> None:
    await _change_session(api, arguments, {"pinned": True}, "Pinned to the top of the list.")


async def session_unpin(api: ApiClient, arguments: argparse.Namespace) -> None:
    await _change_session(api, arguments, {"pinned": False}, "Unpinned.")


async def session_level(api: ApiClient, arguments: argparse.Namespace) -> None:
    text = f"The level is {arguments.level} now, also for a running turn."
    await _change_session(api, arguments, {"level": arguments.level}, text)


async def _change_session(api: ApiClient, arguments: argparse.Namespace, changes: dict[str, Any], text: str) -> None:
    _say(arguments, await api.patch(f"/sessions/{arguments.which}", changes), text)


async def session_fork(api: ApiClient, arguments: argparse.Namespace) -> None:
    session = await api.post(f"/sessions/{arguments.which}/fork", {"turn": arguments.turn})
    _say(arguments, session, f"{session['_id']}  {session['name']}")


async def session_search(api: ApiClient, arguments: argparse.Namespace) -> None:
    hits = (await api.get("/sessions/search", q=arguments.text))["items"]
    lines = [f"{hit['session']}  {hit['turn'] or '':24}  {clean(hit['snippet'])}" for hit in hits]
    _say(arguments, hits, "\n".join(lines) or "Nothing was found.")


async def session_export(api: ApiClient, arguments: argparse.Namespace) -> None:
    wanted = "json" if arguments.json else "markdown"
    async for piece in api.stream(f"/sessions/{arguments.which}/export", format=wanted):
        sys.stdout.write(piece)


async def session_diff(api: ApiClient, arguments: argparse.Namespace) -> None:
    _say_diff(arguments, await api.get(f"/sessions/{arguments.which}/diff"))


async def session_revert(api: ApiClient, arguments: argparse.Namespace) -> None:
    turn = arguments.turn
    if turn is None:
        newest = await api.get(f"/sessions/{arguments.which}/turns", limit=1)
        if not newest["items"]:
            raise GadgetError(ErrorCode.NOT_FOUND, "This session has no turn yet.")
        turn = newest["items"][0]["_id"]
    wanted = {"turn": turn, "scope": arguments.scope, "preview": arguments.preview}
    done = await api.post(f"/sessions/{arguments.which}/revert", wanted)
    lines = [f"{change['status']}  {clean(change['path'])}" for change in done["files"]]
    verb = "Would revert" if arguments.preview else "Reverted"
    lines.append(f"{verb} {len(done['turns'])} turns and {done['fileCount']} files.")
    _say(arguments, done, "\n".join(lines))


async def session_redo(api: ApiClient, arguments: argparse.Namespace) -> None:
    session = await api.post(f"/sessions/{arguments.which}/redo", {})
    _say(arguments, session, "Redone.")


async def drone_list(api: ApiClient, arguments: argparse.Namespace) -> None:
    drones = [drone async for drone in api.items("/drones")]
    lines = [f"{d['name']}  {d['status']}  {d['hostname']}:{d['workspaceDir']}" for d in drones]
    _say(arguments, drones, "\n".join(lines) or "There are none yet.")


async def drone_remove(api: ApiClient, arguments: argparse.Namespace) -> None:
    """Removes the drone and revokes its credential."""
    await _remove(api, "/drones", "name", arguments)


async def drone_token(api: ApiClient, arguments: argparse.Namespace) -> None:
    """Creates a credential for a new drone and shows it once."""
    credential = await api.post("/drones/tokens", {"name": arguments.name})
    _say(arguments, credential, f"GADGET_DRONE_TOKEN={credential['token']}")


async def _remove(api: ApiClient, path: str, key: str, arguments: argparse.Namespace) -> None:
    item = await _the_one(api, path, key, arguments.which)
    await api.delete(f"{path}/{item['_id']}")
    _say(arguments, item, f"Removed {item[key]}.")


async def _the_one(api: ApiClient, path: str, key: str, wanted: str) -> dict[str, Any]:
    """Returns the item with this name or id. Raises GadgetError."""
    items = [item async for item in api.items(path) if wanted in (item[key], item["_id"])]
    if len(items) != 1:
        many = "Several have" if items else "None has"
        raise GadgetError(ErrorCode.NOT_FOUND, f"{many} the name {wanted}; use an id.")
    return items[0]


def _say_diff(arguments: argparse.Namespace, diff: dict[str, Any]) -> None:
    parts = [file["diff"] or f"{file['status']}  {file['path']}\n" for file in diff["files"]]
    _say(arguments, diff, "".join(parts).rstrip() or "Nothing changed.")


def _say(arguments: argparse.Namespace, data: Any, text: str) -> None:
    print(json.dumps(data) if arguments.json else clean(text))
