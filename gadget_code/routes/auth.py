"""Signing in and out."""

from fastapi import APIRouter, Request, Response

from gadget_api.errors import ErrorCode, NotAllowed, NotAuthenticated
from gadget_api.tokens import TokenKind
from gadget_api.users import LinkLogin, Login, Registration, SignedIn, User
from gadget_code.auth.cookies import COOKIE
from gadget_code.routes.access import IdeCaller, WithService, client_address
from gadget_code.store.tokens import IDE_LIFE

router = APIRouter(prefix="/auth", tags=["auth"])


@router.post("/login")
async def login(credentials: Login, request: Request, response: Response, service: WithService) -> SignedIn:
    """Signs in with a password. After ten failures in 15 minutes an address has to wait with this account."""
    email = credentials.email.strip().lower()
    address = client_address(request)
    await service.login_limits.attempt(email, address)
    user = await service.store.users.by_email(email)
    hashed = await service.store.users.password_hash(user.id) if user is not None else None
    matches = await service.passwords.matches(credentials.password.get_secret_value(), hashed)
    if user is None or not matches:
        raise NotAuthenticated("The e-mail address or the password is wrong.", ErrorCode.BAD_CREDENTIALS)
    service.login_limits.succeeded(email, address)
    return await _signed_in(service, user, request, response)


@router.post("/link")
async def link(credentials: LinkLogin, request: Request, response: Response, service: WithService) -> SignedIn:
    """Signs in with the one-time token of a sign-in link."""
    user_id = await service.store.tokens.take_sign_in(credentials.token.get_secret_value())
    user = await service.store.users.find({"_id": user_id}) if user_id is not None else None
    if user is None:
        raise NotAuthenticated(
            "This link was used already or has expired; start `gadget-code up`, or ask an administrator, for a new one."
        )
    return await _signed_in(service, user, request, response)


@router.post("/logout", status_code=204)
async def logout(identity: IdeCaller, response: Response, service: WithService) -> None:
    """Ends this session; its sockets close within 5 s."""
    await service.store.tokens.revoke(_id=identity.token_hash)
    response.delete_cookie(COOKIE)


@router.post("/register", status_code=201)
async def register(new: Registration, request: Request, response: Response, service: WithService) -> SignedIn:
    """Creates an account, when the install allows that (`GADGET_OPEN_REGISTRATION`)."""
    if not service.settings.open_registration:
        raise NotAllowed(
            "Registration is closed on this install; ask its owner for an account.", ErrorCode.REGISTRATION_CLOSED
        )
    hashed = await service.passwords.hash(new.password.get_secret_value())
    name = new.display_name or new.email.partition("@")[0]
    user = await service.store.users.create(new.email, hashed, display_name=name)
    return await _signed_in(service, user, request, response)


async def _signed_in(service: WithService, user: User, request: Request, response: Response) -> SignedIn:
    client = request.headers.get("user-agent")
    token, _ = await service.store.tokens.issue(user.id, TokenKind.IDE, client=client)
    if await service.store.users.find({"_id": user.id}) is None:  # removed while the password was checked
        await service.store.tokens.revoke(user=user.id)
        raise NotAuthenticated("This account does not exist any more.")
    service.login_limits.signed_in(user.email, client_address(request))
    response.set_cookie(
        COOKIE,
        token.partition(".")[0],  # the page keeps the other half
        max_age=int(IDE_LIFE.total_seconds()),
        httponly=True,
        samesite="strict",
        secure=service.settings.is_https,
    )
    response.headers["Cache-Control"] = "no-store"
    return SignedIn(token=token, user=user)
