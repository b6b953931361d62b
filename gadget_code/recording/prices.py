"""The prices of a turn's models."""

import asyncio

from gadget_api.providers import ModelPrice
from gadget_api.turns import ChatTurn
from gadget_code.store.database import MongoStore


async def prices_of(store: MongoStore, turn: ChatTurn) -> dict[str, ModelPrice | None]:
    """Returns model name -> price, for the turn's model and its session's fallbacks; None when the price is unknown.
    When two providers have a model of the same name, the first one in that order counts."""
    session, price = await asyncio.gather(
        store.sessions.find({"_id": turn.session}), _price(store, turn.user, turn.provider, turn.llm)
    )
    prices = {turn.llm: price}
    for choice in session.fallbacks if session is not None else ():
        prices.setdefault(choice.model, await _price(store, turn.user, choice.provider, choice.model))
    return prices


async def _price(store: MongoStore, user: str, provider_id: str, name: str) -> ModelPrice | None:
    provider = await store.providers.find({"_id": provider_id, "user": user})
    models = provider.models if provider is not None else ()
    return next((model.price for model in models if model.id == name), None)
