"""The rules of the install. Those of a user, a project and a session are fields of theirs."""

from fastapi import APIRouter

from gadget_api.permissions import InstallRules
from gadget_code.routes.access import Admin, WithService

router = APIRouter(prefix="/permissions", tags=["permissions"])


@router.get("/install")
async def get_install_rules(_: Admin, service: WithService) -> InstallRules:
    return await service.store.install.rules()


@router.put("/install")
async def put_install_rules(rules: InstallRules, _: Admin, service: WithService) -> InstallRules:
    """Replaces them; counts at once, in turns that run too."""
    await service.store.install.put_rules(rules)
    await service.policies.changed({})
    return rules
