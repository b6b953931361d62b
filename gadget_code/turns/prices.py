"""What the models of a turn cost."""

from gadget_api.providers import ModelPrice
from gadget_api.turns import ChatTurn
from gadget_code.store.database import Store


async def prices_of(store: Store, turn: ChatTurn) -> dict[str, ModelPrice | None]:
    """By the provider's name of each model: the turn's own, and those that its session falls back to. None: nobody said
    what it costs. Where two providers have a model of the same name, the one that is asked first counts."""
    session = await store.sessions.find({"_id": turn.session})
    choices = [(turn.provider, turn.llm), *((f.provider, f.model) for f in (session.fallbacks if session else ()))]
    prices: dict[str, ModelPrice | None] = {}
    for provider_id, name in choices:
        provider = await store.providers.find({"_id": provider_id, "user": turn.user})
        models = provider.models if provider is not None else ()
        prices.setdefault(name, next((model.price for model in models if model.id == name), None))
    return prices
