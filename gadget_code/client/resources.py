"""`gadget-code project` and `provider`: what a prompt needs, without a browser."""

import argparse
import json
import sys
from typing import Any

from gadget_code.client.api import ApiClient


async def project_add(api: ApiClient, arguments: argparse.Namespace) -> None:
    new = {"name": arguments.name or arguments.slug, "slug": arguments.slug, "gitUrl": arguments.git_url}
    project = await api.post("/projects", new)
    _say(arguments, project, f"Added the project {project['slug']}.")


async def project_list(api: ApiClient, arguments: argparse.Namespace) -> None:
    projects = [project async for project in api.items("/projects")]
    _say(arguments, projects, "\n".join(f"{p['slug']}  {p['gitUrl']}" for p in projects) or "There is none yet.")


async def provider_add(api: ApiClient, arguments: argparse.Namespace) -> None:
    """Without --model the provider is asked for its models, and all are taken."""
    new: dict[str, Any] = {"name": arguments.name, "apiType": arguments.type, "baseUrl": arguments.base_url}
    if arguments.key_stdin:
        new["apiKey"] = sys.stdin.readline().strip()
    provider = await api.post("/providers", new)
    models = [{"id": model} for model in arguments.model]
    if not models:
        models = (await api.get(f"/providers/{provider['_id']}/models"))["items"]
    window = {"contextWindow": arguments.context_window} if arguments.context_window else {}
    entries = [{"name": model["id"], **model, **window} for model in models]
    provider = await api.patch(f"/providers/{provider['_id']}", {"models": entries})
    names = ", ".join(model["id"] for model in provider["models"][:10]) or "no model"
    _say(arguments, provider, f"Added the provider {provider['name']} with {names}.")


async def provider_list(api: ApiClient, arguments: argparse.Namespace) -> None:
    providers = [provider async for provider in api.items("/providers")]
    lines = [f"{p['name']}  {p['baseUrl']}  {', '.join(m['id'] for m in p['models'])}" for p in providers]
    _say(arguments, providers, "\n".join(lines) or "There is none yet.")


def _say(arguments: argparse.Namespace, data: Any, text: str) -> None:
    print(json.dumps(data) if arguments.json else text)
