"""Budgets: what a turn or a session may use before it pauses and asks."""

from pydantic import Field

from gadget_api.model import MAX_COUNT, WireModel


class Budget(WireModel):
    """Null is no limit. A budget that is used up pauses the turn and asks; it fails nothing."""

    steps: int | None = Field(default=None, ge=1, le=MAX_COUNT)
    tokens: int | None = Field(default=None, ge=1, le=MAX_COUNT)
    """Input and output together, cached input included."""
    usd: float | None = Field(default=None, gt=0)
    """Counts only where the provider's model entry has a price."""
    minutes: float | None = Field(default=None, gt=0)
    """Of work; waiting for an answer is none."""

    @property
    def is_unlimited(self) -> bool:
        return self == Budget()


class Spent(WireModel):
    """What was used of a budget."""

    steps: int = 0
    tokens: int = 0
    usd: float = 0.0
    minutes: float = 0.0
