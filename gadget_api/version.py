"""The version of the service."""

from gadget_api.model import WireModel


class ServiceVersion(WireModel):
    version: str
    protocol_version: int
