"""The container files, as far as they can be held without an engine: structure, settings, commands, versions."""

import json
import re
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import pytest
import yaml

from gadget_code import cli as web_cli
from gadget_code.settings import Settings
from gadget_drone import cli as drone_cli
from gadget_drone.settings import DroneSettings

ROOT = Path(__file__).parent.parent
DOCKERFILE = (ROOT / "Dockerfile").read_text()
COMPOSE = (ROOT / "docker-compose.yml").read_text()
SETTINGS = {
    "web": {f"GADGET_{name.upper()}" for name in Settings.model_fields},
    "drone": {f"GADGET_{name.upper()}" for name in DroneSettings.model_fields},
}
BUILD = {"GADGET_WEB"}
"""What the making of the package reads, and nothing that runs."""
PARSERS: dict[str, ArgumentParser] = {"gadget-code": web_cli._parser(), "gadget-drone": drone_cli._parser()}


@pytest.fixture
def compose() -> dict[str, Any]:
    parsed: dict[str, Any] = yaml.safe_load(COMPOSE)
    return parsed


def stages() -> dict[str, str]:
    """The Dockerfile's stages by name, with what the one they start from has."""
    parts = re.split(r"^FROM (\S+) AS (\S+)$", DOCKERFILE, flags=re.MULTILINE)[1:]
    found: dict[str, str] = {}
    for origin, name, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        found[name] = found.get(origin, "") + body
    return found


def exec_form(instruction: str, stage: str) -> list[str]:
    command: list[str] = json.loads(re.findall(rf"^{instruction}\b.*?(\[.*\])$", stage, re.MULTILINE)[-1])
    return command


def test_there_are_a_database_a_web_service_and_a_drone(compose: dict[str, Any]) -> None:
    assert compose["services"].keys() == {"mongodb", "web", "drone"}
    for name in ("web", "drone"):
        assert compose["services"][name]["build"] == {"context": ".", "target": name}
        assert name in stages()


def test_each_service_waits_for_a_healthy_one_before_it(compose: dict[str, Any]) -> None:
    services = compose["services"]
    assert services["web"]["depends_on"] == {"mongodb": {"condition": "service_healthy"}}
    assert services["drone"]["depends_on"] == {"web": {"condition": "service_healthy"}}
    for name in ("web", "drone"):
        assert "HEALTHCHECK" in stages()[name]


def test_the_database_is_a_replica_set_of_one_that_the_web_service_names(compose: dict[str, Any]) -> None:
    mongodb, web = compose["services"]["mongodb"], compose["services"]["web"]
    name = mongodb["command"][mongodb["command"].index("--replSet") + 1]
    check = mongodb["healthcheck"]["test"][-1]
    assert f'rs.initiate({{_id: "{name}"' in check
    assert "isWritablePrimary" in check
    assert f"replicaSet={name}" in web["environment"]["GADGET_MONGODB_URL"]


def test_every_image_is_pinned_to_a_major_version(compose: dict[str, Any]) -> None:
    images = [service["image"] for service in compose["services"].values() if "image" in service]
    images += [image for image in re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE) if image not in stages()]
    assert len(images) == 2
    for image in images:
        assert re.fullmatch(r"[a-z]+:\d[\w.-]*", image), image


@pytest.mark.parametrize("name", ["web", "drone"])
def test_every_setting_that_is_given_exists(compose: dict[str, Any], name: str) -> None:
    given = {key for key in compose["services"][name]["environment"] if key.startswith("GADGET_")}
    given |= set(re.findall(r"\b(GADGET_\w+)=", stages()[name]))
    assert given
    assert given <= SETTINGS[name] | BUILD


def test_every_variable_that_is_named_anywhere_exists() -> None:
    for text in (COMPOSE, DOCKERFILE):
        named = set(re.findall(r"GADGET_[A-Z_]+", text))
        assert named
        assert named <= SETTINGS["web"] | SETTINGS["drone"] | BUILD


@pytest.mark.parametrize("name", ["web", "drone"])
def test_the_commands_of_the_images_are_ours(name: str) -> None:
    commands = [exec_form(instruction, stages()[name]) for instruction in ("CMD", "HEALTHCHECK")]
    ours = [command for command in commands if command[0] in PARSERS]
    assert commands[0] in ours
    for program, *arguments in ours:
        PARSERS[program].parse_args(arguments)
    for program, flag, code in [command for command in commands if command[0] == "python"]:
        assert (program, flag) == ("python", "-c")
        compile(code, "healthcheck", "exec")


def test_the_settings_of_the_web_image_and_of_the_file_are_valid(
    compose: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each value, with the defaults of its `${NAME:-default}`; and the host names of both callers are answered."""
    for key, value in re.findall(r"(GADGET_\w+)=(\S+)", stages()["web"]):
        monkeypatch.setenv(key, value)
    for key, value in compose["services"]["web"]["environment"].items():
        monkeypatch.setenv(key, re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", value))
    settings = Settings()
    assert {"127.0.0.1", "web"} <= settings.host_names
    assert not settings.is_loopback


def test_ports_are_on_loopback_and_a_models_commands_far_from_the_database(compose: dict[str, Any]) -> None:
    services = compose["services"]
    ports = [port for service in services.values() for port in service.get("ports", ())]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)
    assert set(services["drone"]["networks"]).isdisjoint(services["mongodb"]["networks"])
    assert compose["networks"]["store"]["internal"] is True


def test_no_secret_is_written_in_the_files(compose: dict[str, Any]) -> None:
    secret = re.compile(r"TOKEN|PASSWORD|SECRET|API_KEY")
    for service in compose["services"].values():
        assert [key for key in service.get("environment", ()) if secret.search(key)] == []
    assert compose["services"]["drone"]["env_file"]


@pytest.mark.parametrize("name", ["web", "drone"])
def test_the_images_run_as_a_user_and_install_the_extra_they_need(name: str) -> None:
    stage = stages()[name]
    assert re.findall(r"^USER (\S+)$", stage, re.MULTILINE)[-1] == "gadget"
    assert f"pip install --require-hashes --requirement requirements/{name}.lock\n" in stage


def test_whatever_an_image_installs_has_a_hash_or_was_made_in_the_build() -> None:
    for line in re.findall(r"^.*\bpip (?:install|wheel)\b.*$", DOCKERFILE, re.MULTILINE):
        assert "--require-hashes" in line or "--no-deps" in line, line
        assert "--no-build-isolation" in line or not line.startswith("RUN pip wheel"), line


def test_the_drone_image_brings_git() -> None:
    assert re.search(r"apt-get install .*\bgit\b", stages()["drone"])


def test_the_build_gets_all_that_the_package_is_made_of() -> None:
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {
        word for line in re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.MULTILINE) for word in line.split()[:-1]
    }
    assert copied == allowed
    assert all((ROOT / name).exists() for name in copied)
    assert {"pyproject.toml", "README.md"} <= copied
