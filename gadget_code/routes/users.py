"""The caller's account; for administrators, all accounts."""

import asyncio
import logging

from fastapi import APIRouter, Request, Response

from gadget_api.errors import Conflict, ErrorCode, GadgetError, NotAuthenticated
from gadget_api.tokens import TokenKind
from gadget_api.turns import ChatTurn
from gadget_api.users import AccountChanges, MadeUser, NewPassword, NewUser, SignInLink, User, UserChanges
from gadget_code.auth.accounts import close_account
from gadget_code.routes.access import (
    DEFAULT_LIMIT,
    Admin,
    CurrentUser,
    IdeCaller,
    Limit,
    WithService,
    client_address,
)
from gadget_code.service import Service
from gadget_code.store.records import Page

log = logging.getLogger(__name__)

router = APIRouter(prefix="/users", tags=["users"])


@router.get("")
async def list_users(
    admin: Admin, service: WithService, limit: Limit = DEFAULT_LIMIT, cursor: str | None = None
) -> Page[User]:
    """Administrators only: lists every account, newest first."""
    return await service.store.users.page({}, limit=limit, cursor=cursor)


@router.post("", status_code=201)
async def make_user(new: NewUser, admin: Admin, response: Response, service: WithService) -> MadeUser:
    """Administrators only: creates an account, and a link that signs its user in once."""
    name = new.display_name or new.email.partition("@")[0]
    user = await service.store.users.create(new.email, None, display_name=name, is_admin=new.is_admin)
    log.info("%s made the account %s%s", admin.email, user.email, ", an administrator's" if user.is_admin else "")
    return MadeUser(user=user, link=await _link(service, admin, user, response))


@router.get("/me")
async def me(user: CurrentUser) -> User:
    return user


@router.patch("/me")
async def change_me(changes: UserChanges, user: CurrentUser, service: WithService) -> User:
    """Changes the account. New rules apply at once, also to running turns; a new level applies to new sessions."""
    changed = await service.store.users.change({"_id": user.id}, changes)
    if changes.rules is not None:
        await service.policies.changed({"user": user.id})
    return changed


@router.post("/me/password", status_code=204)
async def change_password(
    new: NewPassword, request: Request, user: CurrentUser, identity: IdeCaller, service: WithService
) -> None:
    """Changes the password, and ends every other session and drone of the account. Setting the first password of an
    account that was made with a sign-in link ends none."""
    await service.login_limits.attempt(user.email, client_address(request))
    hashed = await service.store.users.password_hash(user.id)
    # An account made with a sign-in link has no password yet: its session may set the first.
    if hashed is not None and not await service.passwords.matches(new.current_password.get_secret_value(), hashed):
        raise NotAuthenticated("The current password is wrong.", ErrorCode.BAD_CREDENTIALS)
    service.login_limits.succeeded(user.email, client_address(request))
    await service.store.users.set_password_hash(
        user.id, await service.passwords.hash(new.new_password.get_secret_value())
    )
    if hashed is not None:
        await service.store.tokens.revoke(user=user.id, keep=identity.token_hash)


@router.patch("/{user_id}")
async def change_account(user_id: str, changes: AccountChanges, admin: Admin, service: WithService) -> User:
    """Administrators only: grants or revokes administrator rights. The last administrator keeps them."""
    user = await service.store.users.set_admin(user_id, changes.is_admin)
    log.info("%s made %s %s", admin.email, user.email, "an administrator" if user.is_admin else "no administrator")
    return user


@router.delete("/{user_id}", status_code=204)
async def remove_user(user_id: str, admin: Admin, service: WithService) -> None:
    """Administrators only: removes an account. Its turns are cancelled; its drones and sign-ins end within 5 s. Its
    data stays in the database, and nobody can reach it."""
    user = await service.store.users.get(user_id)
    if user.id == admin.id:
        raise Conflict(ErrorCode.NOT_ALLOWED, "This is your own account; another administrator can remove it.")
    await close_account(service.store, user)
    log.info("%s removed the account %s", admin.email, user.email)
    try:
        unfinished = await service.store.turns.unfinished({"user": user.id})
        await asyncio.gather(*(_cancel(service, turn) for turn in unfinished))
    finally:
        # Last: a drone without a token does not receive the cancellation.
        await service.store.tokens.revoke(user=user.id)


@router.post("/{user_id}/sign-in-link", status_code=201)
async def make_sign_in_link(user_id: str, admin: Admin, response: Response, service: WithService) -> SignInLink:
    """Administrators only: creates a link that signs the account's user in once, for a new account or a lost
    password."""
    return await _link(service, admin, await service.store.users.get(user_id), response)


async def _cancel(service: Service, turn: ChatTurn) -> None:
    try:
        await service.turns.cancel(turn.user, turn.id)
    except GadgetError as exc:
        log.info("turn %s of a removed account was not cancelled: %s", turn.id, exc.message)


async def _link(service: Service, admin: User, user: User, response: Response) -> SignInLink:
    token, expires_at = await service.store.tokens.issue(user.id, TokenKind.SIGN_IN, client=f"made by {admin.email}")
    log.info("%s made a sign-in link for %s", admin.email, user.email)
    response.headers["Cache-Control"] = "no-store"
    return SignInLink(url=f"{service.settings.origin}/#sign-in={token}", expires_at=expires_at)
