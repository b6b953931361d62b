"""The base class of all models on the wire and on the disk."""

from datetime import UTC, datetime
from typing import Annotated, Any, Self

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


class WireModel(BaseModel):
    """A frozen model with camelCase in JSON. It refuses unknown fields, so that version skew fails loudly."""

    model_config = ConfigDict(
        frozen=True,
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        extra="forbid",
        hide_input_in_errors=True,  # an input may be a password or a key
    )

    def to_wire(self) -> dict[str, Any]:
        """Returns JSON types, with camelCase keys and ISO 8601 times."""
        return self.model_dump(mode="json")

    def replace(self, **changes: Any) -> Self:
        """Returns a validated copy with `changes` (Python names)."""
        return type(self).model_validate({**dict(self), **changes})


MAX_COUNT = 2**53 - 1
"""The largest integer that every JSON reader represents exactly (RFC 8259, section 6). MongoDB's limit is 64 bits."""
Count = Annotated[int, Field(ge=0, le=MAX_COUNT)]


def _to_utc(moment: datetime) -> datetime:
    try:
        moment = moment.astimezone(UTC)
    except OverflowError as exc:
        raise ValueError("is before the year 1 or after 9999 in UTC") from exc
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


UtcTime = Annotated[AwareDatetime, AfterValidator(_to_utc)]
"""A time in UTC, in whole milliseconds. MongoDB has that precision, so a time is equal on the wire and in the store."""


def utc_now() -> datetime:
    """Returns the current time as a `UtcTime`."""
    return _to_utc(datetime.now(UTC))


def iso(moment: datetime) -> str:
    """Formats a `UtcTime` as on the wire: `2026-11-21T08:00:00.123Z`."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
