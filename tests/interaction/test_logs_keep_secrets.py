"""At `debug`, with every library asked to say more, no token, key, password or frame is in any log or other file."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from gadget_ai.testing.script import Call, HttpError, Reply, Script, Text
from gadget_ai.testing.server import ScriptedServer
from tests.gadget_code.peers import RawSocket
from tests.harness import Drone, Ide, User, Web, clean_environment, repository, until

LOUD = {
    "OPENAI_LOG": "debug",
    "PYTHONASYNCIODEBUG": "1",
    "GIT_TRACE": "1",
    "GIT_CURL_VERBOSE": "1",
}
PASSWORD = "canary-password-4711"
WRONG = "canary-wrong-password-0815"
KEY = "sk-canary-provider-key-1234567890"
SAID = "canary-words-of-the-user"
PRINTED = "canary-output-of-a-tool"


@pytest.fixture
def loud_web(tmp_path: Path) -> Iterator[Web]:
    """With a private MongoDB, whose log counts too."""
    web = Web.at(tmp_path / "web", GADGET_LOG_LEVEL="debug", **LOUD)
    yield web
    web.stop()


def add_admin(web: Web) -> None:
    subprocess.run(
        [sys.executable, "-m", "gadget_code", "user", "add", "root@example.org", "--admin", "--password-stdin"],
        input=f"{PASSWORD}\n",
        env=web.env,
        text=True,
        timeout=60,
        check=True,
        capture_output=True,
    )


async def log_in(http: httpx.AsyncClient, email: str, password: str) -> httpx.Response:
    return await http.post("/auth/login", json={"email": email, "password": password})


async def drone_with_password(directory: Path, user: User) -> Drone:
    """A drone that signs in as its user, and gets its token itself."""
    env = clean_environment(
        GADGET_SERVER_URL=user.url,
        GADGET_EMAIL=user.email,
        GADGET_PASSWORD=PASSWORD,
        GADGET_ALLOW_LOCAL_GIT="true",
        GADGET_LOG_LEVEL="debug",
        **LOUD,
    )
    workspace = directory / "signed-in"
    workspace.mkdir()
    drone = Drone([sys.executable, "-P", "-m", "gadget_drone"], env, directory / "signed-in.log", cwd=workspace)
    drone.workspace, drone.user = workspace, user
    drone.start()
    try:
        await drone.until_available()
    except BaseException:
        drone.stop()
        raise
    return drone


async def test_no_log_and_no_file_holds_a_secret(loud_web: Web, tmp_path: Path) -> None:
    secrets = {"password": PASSWORD, "wrong password": WRONG, "provider key": KEY}
    add_admin(loud_web)
    async with httpx.AsyncClient(base_url=f"{loud_web.url}/api/v1", timeout=60) as http:
        assert (await log_in(http, "root@example.org", WRONG)).status_code == 401
        signed_in = (await log_in(http, "root@example.org", PASSWORD)).json()
        secrets["token"] = signed_in["token"]
        http.cookies.clear()
        http.headers["Authorization"] = f"Bearer {signed_in['token']}"
        link = (await http.post(f"/users/{signed_in['user']['_id']}/sign-in-link")).json()
        secrets["link"] = link["token"] if "token" in link else link["url"].partition("sign-in=")[2]
        assert (await http.post("/auth/link", json={"token": secrets["link"]})).is_success

    user = User(loud_web.url, "root@example.org", PASSWORD, signed_in["token"], signed_in["user"])
    script = Script(
        [
            Reply(Call("shell", {"command": f"echo {PRINTED}"})),
            Reply(Text("Done.")),
            Reply(HttpError(401, {"error": {"message": f"Incorrect API key provided: {KEY}"}})),
        ]
    )
    running: list[Drone] = []
    async with user, ScriptedServer(script) as model:
        try:
            secrets["drone token"] = await user.drone_token()
            drone = await Drone.at(tmp_path, user, secrets["drone token"], **LOUD)
            running.append(drone)
            project = await user.project(str(repository(tmp_path / "origin", {"README.md": "# A project\n"})))
            session = await user.session(project, await user.provider(model.openai_url, key=KEY))
            async with Ide(user) as ide:
                await ide.select(session["_id"])
                assert not (await ide.call("nothing", {"content": SAID}))["ok"]
                first = await ide.submit(session["_id"], f"Please: {SAID}")
                assert (await ide.until_complete(first["_id"]))["success"]
                second = await ide.submit(session["_id"], f"Again: {SAID}")
                assert not (await ide.until_complete(second["_id"]))["success"]
                stored = [*await user.events(first["_id"]), *await user.events(second["_id"])]
            assert PRINTED in str(stored)
            assert KEY not in str(stored)
            # Frames that break: their sign-in, their shape, their place.
            for broken in (f'42["{SAID}", "{secrets["token"]}"]', f"42{SAID}{secrets['token']}", secrets["token"]):
                async with RawSocket(loud_web.url) as raw:
                    await raw.sign_in({"token": f"{secrets['token']}x"})
                    await raw.send(broken)
            running.append(await drone_with_password(tmp_path, user))

            async def release() -> bool | None:
                return None if list((drone.gadget / "journal").iterdir()) else True

            await until(release)
        finally:
            for each in running:
                each.stop()
    await asyncio.to_thread(loud_web.stop)

    logs = [path for path in tmp_path.rglob("*") if path.is_file() and ".log" in path.name]
    assert {"web.log", "drone.log", "signed-in.log", "mongod.log"} <= {path.name for path in logs}
    assert len([path for path in logs if path.parent.name == "logs"]) >= 2  # both drones' own
    assert "DEBUG   gadget_code.handlers.events: 'nothing': unknownEvent" in loud_web.output
    for path in tmp_path.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            for name, secret in secrets.items():
                assert secret.encode() not in content, f"{path} holds the {name}"
            if path in logs:
                for words in (SAID, PRINTED):
                    assert words.encode() not in content, f"{path} holds {words}"
