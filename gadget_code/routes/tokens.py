"""The sign-ins of an account, and how to end them."""

from fastapi import APIRouter

from gadget_api.errors import NotFound
from gadget_api.tokens import TokenChanges, TokenInfo, TokenList
from gadget_code.routes.access import IdeCaller, WithService

router = APIRouter(prefix="/tokens", tags=["tokens"])


@router.get("")
async def list_tokens(caller: IdeCaller, service: WithService) -> TokenList:
    """Lists the account's sign-ins: browsers and terminals, drones' credentials, unused sign-in links. Never shows a
    token."""
    return TokenList(items=tuple(await service.store.tokens.infos(caller)))


@router.patch("/{token_id}")
async def change_token(token_id: str, changes: TokenChanges, caller: IdeCaller, service: WithService) -> TokenInfo:
    """Names a sign-in."""
    if await service.store.tokens.rename(caller.user, token_id, changes.name):
        for info in await service.store.tokens.infos(caller):
            if info.id == token_id:
                return info
    raise NotFound("token")


@router.delete("/{token_id}", status_code=204)
async def revoke_token(token_id: str, caller: IdeCaller, service: WithService) -> None:
    """Ends it at once; its connections close within 5 s."""
    if not await service.store.tokens.revoke_one(caller.user, token_id):
        raise NotFound("token")


@router.delete("", status_code=204)
async def sign_out_elsewhere(caller: IdeCaller, service: WithService) -> None:
    """Ends every other sign-in of the account, and unused links. Drones stay."""
    await service.store.tokens.revoke_sign_ins(caller.user, keep=caller.token_hash)
