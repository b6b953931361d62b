"""The account one is signed in to; for administrators, all accounts."""

from fastapi import APIRouter, Request

from gadget_api.errors import ErrorCode, NotAuthenticated
from gadget_api.users import NewPassword, User, UserChanges
from gadget_code.routes.access import (
    DEFAULT_LIMIT,
    Admin,
    CurrentUser,
    IdeCaller,
    Limit,
    WithService,
    client_address,
)
from gadget_code.store.records import Page

router = APIRouter(prefix="/users", tags=["users"])


@router.get("")
async def list_users(
    admin: Admin, service: WithService, limit: Limit = DEFAULT_LIMIT, cursor: str | None = None
) -> Page[User]:
    """Administrators only: every account, the newest first."""
    return await service.store.users.page({}, limit=limit, cursor=cursor)


@router.get("/me")
async def me(user: CurrentUser) -> User:
    return user


@router.patch("/me")
async def change_me(changes: UserChanges, user: CurrentUser, service: WithService) -> User:
    """New rules count at once, in turns that run too; a new level for sessions that are made from now on."""
    changed = await service.store.users.change({"_id": user.id}, changes)
    if changes.rules is not None:
        await service.policies.changed({"user": user.id})
    return changed


@router.post("/me/password", status_code=204)
async def change_password(
    new: NewPassword, request: Request, user: CurrentUser, identity: IdeCaller, service: WithService
) -> None:
    """Changes the password, and ends every other session and drone of the account. The first password of an account
    that was made by a sign-in link ends none."""
    service.login_limits.attempt(user.email, client_address(request))
    hashed = await service.store.users.password_hash(user.id)
    # An account made by a sign-in link has no password yet: whoever holds its session may set the first.
    if hashed is not None and not await service.passwords.matches(new.current_password.get_secret_value(), hashed):
        raise NotAuthenticated("The current password is wrong.", ErrorCode.BAD_CREDENTIALS)
    service.login_limits.succeeded(user.email, client_address(request))
    await service.store.users.set_password_hash(
        user.id, await service.passwords.hash(new.new_password.get_secret_value())
    )
    if hashed is not None:
        await service.store.tokens.revoke(user=user.id, keep=identity.token_hash)
