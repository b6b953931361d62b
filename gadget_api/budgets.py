"""Budgets: what a turn or a session may use before it pauses and asks."""

from pydantic import Field

from gadget_api.model import MAX_COUNT, WireModel


class Spent(WireModel):
    """What was used of a budget."""

    steps: int = 0
    tokens: int = 0
    usd: float = 0.0
    minutes: float = 0.0

    def plus(self, other: "Spent") -> "Spent":
        return Spent(
            steps=self.steps + other.steps,
            tokens=self.tokens + other.tokens,
            usd=self.usd + other.usd,
            minutes=self.minutes + other.minutes,
        )


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

    def or_else(self, wider: "Budget") -> "Budget":
        """This budget, with the limits of `wider` where it has none."""
        own = {name: value for name, value in self if value is not None}
        return Budget(**{**dict(wider), **own})

    def used_up(self, spent: Spent, grants: int = 0) -> str | None:
        """What is used up, in words; None when nothing is. Each of `grants` gave the same amount once more."""
        reached = self._reached(spent, grants + 1)
        return f"{reached[0]} of {reached[1]}" if reached is not None else None

    def exceeded(self, spent: Spent, times: int) -> str | None:
        """What has reached `times` its limit, in words; None when nothing has."""
        reached = self._reached(spent, times)
        return reached[0] if reached is not None else None

    def _reached(self, spent: Spent, times: int) -> tuple[str, str] | None:
        """What was used, and `times` its limit, in words."""
        if self.steps is not None and spent.steps >= self.steps * times:
            return f"{spent.steps:,} model calls", f"{self.steps * times:,}"
        if self.tokens is not None and spent.tokens >= self.tokens * times:
            return f"{spent.tokens:,} tokens", f"{self.tokens * times:,}"
        if self.usd is not None and spent.usd >= self.usd * times:
            return f"${spent.usd:.2f}", f"${self.usd * times:.2f}"
        if self.minutes is not None and spent.minutes >= self.minutes * times:
            return f"{spent.minutes:.0f} minutes", f"{self.minutes * times:.0f}"
        return None
