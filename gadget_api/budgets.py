"""Budgets: how much a turn or a session may use before it pauses and asks its user."""

from pydantic import Field

from gadget_api.model import MAX_COUNT, WireModel


class BudgetUsage(WireModel):
    """How much of a budget is used."""

    steps: int = 0
    tokens: int = 0
    usd: float = 0.0
    minutes: float = 0.0

    def plus(self, other: "BudgetUsage") -> "BudgetUsage":
        return BudgetUsage(
            steps=self.steps + other.steps,
            tokens=self.tokens + other.tokens,
            usd=self.usd + other.usd,
            minutes=self.minutes + other.minutes,
        )


class Budget(WireModel):
    """Limits; null means no limit. A turn that reaches a limit pauses and asks its user; it does not fail."""

    steps: int | None = Field(default=None, ge=1, le=MAX_COUNT)
    tokens: int | None = Field(default=None, ge=1, le=MAX_COUNT)
    """Input and output tokens together, cached input included."""
    usd: float | None = Field(default=None, gt=0)
    """Applies only to models with a price in the provider's entry."""
    minutes: float | None = Field(default=None, gt=0)
    """Working time; the time in which the turn waits for an answer does not count."""

    @property
    def is_unlimited(self) -> bool:
        return self == Budget()

    def with_defaults(self, defaults: "Budget") -> "Budget":
        """Returns this budget, with the limits of `defaults` where it has none."""
        own = {name: value for name, value in self if value is not None}
        return Budget(**{**dict(defaults), **own})

    def used_up(self, spent: BudgetUsage, grants: int = 0) -> str | None:
        """Describes the limit that is reached, such as "20 model calls of 20"; None when no limit is reached. Each of
        `grants` adds the whole budget once more."""
        reached = self._reached(spent, grants + 1)
        return f"{reached[0]} of {reached[1]}" if reached is not None else None

    def exceeded(self, spent: BudgetUsage, times: int) -> str | None:
        """Describes the usage that has reached `times` its limit, such as "40 model calls"; None when none has."""
        reached = self._reached(spent, times)
        return reached[0] if reached is not None else None

    def _reached(self, spent: BudgetUsage, times: int) -> tuple[str, str] | None:
        """Returns the usage and `times` its limit as text, for the first limit that is reached."""
        if self.steps is not None and spent.steps >= self.steps * times:
            return f"{spent.steps:,} model calls", f"{self.steps * times:,}"
        if self.tokens is not None and spent.tokens >= self.tokens * times:
            return f"{spent.tokens:,} tokens", f"{self.tokens * times:,}"
        if self.usd is not None and spent.usd >= self.usd * times:
            return f"${spent.usd:.2f}", f"${self.usd * times:.2f}"
        if self.minutes is not None and spent.minutes >= self.minutes * times:
            return f"{spent.minutes:.0f} minutes", f"{self.minutes * times:.0f}"
        return None
