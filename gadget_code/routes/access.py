"""The dependencies that authorise a caller. Every route needs a token, unless a test lists it as public."""

from typing import Annotated, cast

from fastapi import Depends, Query, Request

from gadget_api.errors import NotAllowed, NotAuthenticated
from gadget_api.tokens import TokenKind
from gadget_api.users import User
from gadget_code.auth.cookies import COOKIE, PAGE_HEADER, page_token
from gadget_code.service import Service
from gadget_code.store.records import MAX_PAGE
from gadget_code.store.tokens import Caller


def get_service(request: Request) -> Service:
    return cast(Service, request.app.state.service)


def presented_token(request: Request) -> str | None:
    """Returns the bearer token, or the token of a page from its cookie and its header."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token:
        return token.strip()
    return page_token(request.cookies.get(COOKIE), request.headers.get(PAGE_HEADER))


async def get_identity(request: Request, service: Annotated[Service, Depends(get_service)]) -> Caller:
    token = presented_token(request)
    identity = await service.store.tokens.identify(token) if token else None
    if identity is None or identity.kind is TokenKind.SIGN_IN:
        raise NotAuthenticated("The token is missing, revoked or expired; sign in again.")
    return identity


async def ide_identity(identity: Annotated[Caller, Depends(get_identity)]) -> Caller:
    if identity.kind is not TokenKind.IDE:
        raise NotAllowed("A drone's token may not do this; sign in as a user.")
    return identity


async def drone_identity(identity: Annotated[Caller, Depends(get_identity)]) -> Caller:
    if identity.kind is not TokenKind.DRONE or identity.drone is None:
        raise NotAllowed("Only a registered drone may do this.")
    return identity


async def current_user(
    identity: Annotated[Caller, Depends(ide_identity)], service: Annotated[Service, Depends(get_service)]
) -> User:
    user = await service.store.users.find({"_id": identity.user})
    if user is None:
        raise NotAuthenticated("This account does not exist any more.")
    return user


async def admin(user: Annotated[User, Depends(current_user)]) -> User:
    if not user.is_admin:
        raise NotAllowed("Only an administrator of this install may do this.")
    return user


WithService = Annotated[Service, Depends(get_service)]
AnyCaller = Annotated[Caller, Depends(get_identity)]
IdeCaller = Annotated[Caller, Depends(ide_identity)]
DroneCaller = Annotated[Caller, Depends(drone_identity)]
CurrentUser = Annotated[User, Depends(current_user)]
Admin = Annotated[User, Depends(admin)]
Limit = Annotated[int, Query(ge=1, le=MAX_PAGE)]
DEFAULT_LIMIT = 50


def client_address(request: Request) -> str:
    return request.client.host if request.client else "unknown"
