"""The total usage of a user's turns, and of the user's storage."""

from enum import StrEnum

from gadget_api.model import UtcTime, WireModel


class UsageBy(StrEnum):
    DAY = "day"
    """UTC days."""
    MODEL = "model"
    PROJECT = "project"


class UsageRow(WireModel):
    key: str
    """A day such as `2026-11-21`, a model's name, or a project's id."""
    turns: int
    steps: int
    tool_calls: int
    input_tokens: int
    cached_input_tokens: int
    response_tokens: int
    thinking_tokens: int
    cost: float
    """US dollars, for the models with a price."""
    duration_ms: int


class StorageUsage(WireModel):
    """A user's stored tool outputs and images, and the quota for both."""

    blob_bytes: int
    """Large tool outputs."""
    image_bytes: int
    max_bytes: int
    """The quota for both together."""

    @property
    def bytes(self) -> int:
        return self.blob_bytes + self.image_bytes


class UsageReport(WireModel):
    by: UsageBy
    since: UtcTime
    until: UtcTime
    items: tuple[UsageRow, ...]
    """Days: oldest first. Models and projects: most expensive first."""
