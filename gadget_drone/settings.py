"""Settings of the drone, from the environment (`GADGET_*`), built once at the entry and passed on."""

from typing import Literal

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from gadget_api.providers import BaseUrl
from gadget_drone.sandbox.probe import SandboxSetting


class DroneSettings(BaseSettings):
    """What whoever starts a drone may set. Each is the environment variable `GADGET_` + its name in capitals."""

    model_config = SettingsConfigDict(env_prefix="GADGET_", extra="ignore", frozen=True, hide_input_in_errors=True)

    server_url: BaseUrl = Field("http://127.0.0.1:4270", description="The web service.")
    email: str | None = Field(None, description="The account to sign in with, where there is no token.")
    password: SecretStr | None = Field(None, description="Its password.")
    drone_token: SecretStr | None = Field(None, description="The drone's own credential.")
    allow_local_git: bool = Field(False, description="Whether projects may be cloned from local paths and `file://`.")
    allow_private_urls: bool = Field(
        False, description="Whether the agent may fetch pages from loopback and private addresses."
    )
    sandbox: SandboxSetting = Field(
        "auto", description="Whether commands run in bubblewrap: where it works, never, or not without it."
    )
    sandbox_paths: str = Field(
        "",
        description="Directories outside of the system's own and the project that commands in the sandbox may read, "
        "separated by colons.",
    )
    terminals: Literal["on", "off"] = Field(
        "on", description="Whether the drone's user may open terminals here, from the browser."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="How much is logged.")
