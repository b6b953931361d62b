"""The usage of a user's turns."""

from datetime import UTC, datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import AfterValidator

from gadget_api.errors import InvalidInput
from gadget_api.model import UtcTime, utc_now
from gadget_api.usage import StorageUsage, UsageBy, UsageReport
from gadget_code.routes.access import IdeCaller, WithService
from gadget_code.store.usage import usage

router = APIRouter(prefix="/usage", tags=["usage"])

_DEFAULT = timedelta(days=30)
_LONGEST = timedelta(days=366)
_FIRST, _LAST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)


def _in_bounds(moment: datetime) -> datetime:
    if not _FIRST <= moment <= _LAST:
        raise ValueError("must be between the years 1970 and 9000")
    return moment


Moment = Annotated[UtcTime, AfterValidator(_in_bounds)]


@router.get("")
async def get_usage(
    caller: IdeCaller,
    service: WithService,
    by: UsageBy = UsageBy.DAY,
    since: Annotated[Moment | None, Query(alias="from")] = None,
    until: Annotated[Moment | None, Query(alias="to")] = None,
) -> UsageReport:
    """Returns tokens, cost and time of the turns created from `from` on and before `to`: by default the last 30 days,
    at most a year. A turn's usage counts for the model that it began with."""
    until = until or utc_now()
    since = since or until - _DEFAULT
    if not timedelta(0) < until - since <= _LONGEST:
        raise InvalidInput("`from` must come before `to`, by a year at most.")
    return await usage(service.store.turns, caller.user, by, since, until)


@router.get("/storage")
async def get_storage(caller: IdeCaller, service: WithService) -> StorageUsage:
    """Returns how much storage large tool outputs and images use, and the limit. Deleting a session frees its outputs
    at once and its images after a day."""
    return await service.store.quota.used(caller.user)
