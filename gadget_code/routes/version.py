"""The version of this service."""

from importlib.metadata import version

from fastapi import APIRouter

from gadget_api.protocol import PROTOCOL_VERSION
from gadget_api.version import ServiceVersion
from gadget_code.routes.access import AnyCaller

router = APIRouter(tags=["health"])


@router.get("/version")
async def get_version(_: AnyCaller) -> ServiceVersion:
    """Returns the version, to compare with the drones' versions."""
    return ServiceVersion(version=version("gadget-code"), protocol_version=PROTOCOL_VERSION)
