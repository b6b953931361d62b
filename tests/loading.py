"""What a process must not have loaded: the one list. Each name costs time of a start, or memory of whoever waits."""

from gadget_api.loading import REDIS, UNUSED_BY_SOCKETIO

FOR_USAGE = frozenset(
    {
        *("asyncio", "pydantic", "gadget_api", "gadget_ai", "logging", "ssl", "email", "http", "importlib.metadata"),
        *("fastapi", "uvicorn", "pymongo", "socketio", "aiohttp", "openai", "ollama", "httpx", "rich", "git"),
    }
)
"""`--help` and wrong usage: argparse alone."""

IDLE_DRONE = frozenset(
    {
        *("socketio", "engineio", *UNUSED_BY_SOCKETIO, *REDIS),
        *("openai", "httpx2", "ollama", "httpx", "anyio", "gadget_ai.openai", "gadget_ai.ollama", "gadget_ai.testing"),
        *("PIL", "bs4", "markdownify", "git", "h11", "opentelemetry", "rich", "click", "pygments"),
        *("fastapi", "starlette", "uvicorn", "pymongo", "bson", "argon2", "gadget_code"),
    }
)
"""A drone that waits for work: no SDK of a model, nothing that single tools need."""

IDLE_WEB = frozenset(
    {
        *(*UNUSED_BY_SOCKETIO, *REDIS),
        *(
            "aiohttp",
            "httpx",
            "rich",
            "PIL",
            "opentelemetry.sdk",
            "gadget_code.client",
            "gadget_code.providers.catalog",
        ),
        *("openai", "ollama", "gadget_ai", "gadget_drone"),
    }
)
"""A service that nobody uses yet, and that has no Redis."""


def unwanted(loaded: set[str], unwelcome: frozenset[str]) -> set[str]:
    """Which of the names in `unwelcome` are loaded: by themselves, or with something that is in them."""
    return {name for name in unwelcome if any(f"{module}.".startswith(f"{name}.") for module in loaded)}
