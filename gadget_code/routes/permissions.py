"""The rules of the install. Users, projects and sessions have their rules as a field."""

from fastapi import APIRouter

from gadget_api.permissions import InstallRules
from gadget_code.routes.access import Admin, WithService

router = APIRouter(prefix="/permissions", tags=["permissions"])


@router.get("/install")
async def get_install_rules(_: Admin, service: WithService) -> InstallRules:
    return await service.store.install.rules()


@router.put("/install")
async def put_install_rules(rules: InstallRules, _: Admin, service: WithService) -> InstallRules:
    """Replaces the install's rules. They apply at once, also to running turns."""
    await service.store.install.put_rules(rules)
    await service.policies.changed({})
    return rules
