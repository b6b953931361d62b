"""The accounts of this install, for its administrators."""

from fastapi import APIRouter

from gadget_api.users import User
from gadget_code.routes.access import DEFAULT_LIMIT, Admin, Limit, WithService
from gadget_code.store.records import Page

router = APIRouter(prefix="/users", tags=["users"])


@router.get("")
async def list_users(
    admin: Admin, service: WithService, limit: Limit = DEFAULT_LIMIT, cursor: str | None = None
) -> Page[User]:
    """Administrators only: every account, the newest first."""
    return await service.store.users.page({}, limit=limit, cursor=cursor)
