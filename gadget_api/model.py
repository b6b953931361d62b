"""The base of everything that crosses a wire or is written to a disk."""

from datetime import UTC, datetime
from typing import Annotated, Any, Self

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


class WireModel(BaseModel):
    """Frozen; camelCase in JSON; a field nobody knows is refused, so that version skew fails loudly."""

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
        """As JSON types: camelCase keys, ISO 8601 times."""
        return self.model_dump(mode="json")

    def replace(self, **changes: Any) -> Self:
        """A copy with `changes` (Python names), validated again."""
        return type(self).model_validate({**dict(self), **changes})


MAX_COUNT = 2**53 - 1
"""What every reader of JSON holds exactly (RFC 8259, section 6); MongoDB's integers end at 64 bits."""
Count = Annotated[int, Field(ge=0, le=MAX_COUNT)]


def _to_utc(moment: datetime) -> datetime:
    try:
        moment = moment.astimezone(UTC)
    except OverflowError as exc:
        raise ValueError("is before the year 1 or after 9999 in UTC") from exc
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


UtcTime = Annotated[AwareDatetime, AfterValidator(_to_utc)]
"""A moment in UTC, in whole milliseconds: what MongoDB keeps, so that a time is the same on wire and in store."""


def utc_now() -> datetime:
    """Now, as a `UtcTime`."""
    return _to_utc(datetime.now(UTC))


def iso(moment: datetime) -> str:
    """A `UtcTime` as it is on the wire: `2026-11-21T08:00:00.123Z`."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
