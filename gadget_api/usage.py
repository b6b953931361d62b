"""What a user's turns have used, added up."""

from enum import StrEnum

from gadget_api.model import UtcTime, WireModel


class UsageBy(StrEnum):
    DAY = "day"
    """In UTC."""
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
    """US dollars, of the models that somebody gave a price for."""
    duration_ms: int


class StorageUsage(WireModel):
    """What a user keeps of large outputs and images, and how much that may be."""

    blob_bytes: int
    """Of large tool outputs."""
    image_bytes: int
    max_bytes: int
    """Of both together."""

    @property
    def bytes(self) -> int:
        return self.blob_bytes + self.image_bytes


class UsageReport(WireModel):
    by: UsageBy
    since: UtcTime
    until: UtcTime
    items: tuple[UsageRow, ...]
    """Days oldest first; models and projects with the dearest first."""
