"""The environment of commands: no secrets, and settings of git that a repository among the files cannot undo."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from gadget_drone.processes.environment import GIT_SETTINGS, child_environment


def git(directory: Path, *arguments: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command = ["git", "-c", "user.name=x", "-c", "user.email=x@y.test", *arguments]
    return subprocess.run(command, cwd=directory, env=env, capture_output=True, text=True, check=False)


@pytest.fixture
def evil(tmp_path: Path) -> Path:
    """A directory as a clone may bring it: a bare repository whose configuration names a program."""
    place = tmp_path / "project" / "evil"
    place.mkdir(parents=True)
    git(place, "init", "-q", "--bare", ".")
    settings = {"repositoryformatversion": 0, "bare": "false", "worktree": "../files"}
    settings["fsmonitor"] = f'"touch {tmp_path}/ran; false"'
    (place / "config").write_text("\n".join(["[core]", *(f"{key} = {value}" for key, value in settings.items())]))
    (tmp_path / "project/files").mkdir()
    return place


def test_a_bare_repository_among_the_files_runs_nothing(evil: Path, tmp_path: Path) -> None:
    own = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    git(evil, "status", env=own)
    assert (tmp_path / "ran").exists(), "without the settings its program runs: the test is about something"
    (tmp_path / "ran").unlink()
    for arguments in (["status"], ["diff"], ["log"], ["add", "."], ["ls-files"], ["grep", "x"], ["blame", "HEAD"]):
        git(evil, *arguments, env=child_environment(own))
        assert not (tmp_path / "ran").exists(), arguments


def test_no_watcher_no_editor_and_the_users_own_hooks(tmp_path: Path) -> None:
    env = child_environment({"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "EDITOR": f"touch {tmp_path}/edited"})
    place = tmp_path / "project"
    place.mkdir()
    git(place, "init", "-q")
    git(place, "config", "core.fsmonitor", f"touch {tmp_path}/watched #")
    hook = place / ".git/hooks/pre-commit"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/hooked\n")
    hook.chmod(0o755)
    (place / "a").write_text("x\n")
    assert git(place, "add", "a", env=env).returncode == 0
    assert git(place, "status", env=env).returncode == 0
    assert git(place, "commit", env=env).returncode != 0
    assert git(place, "commit", "-m", "x", env=env).returncode == 0
    (place / "a").write_text("y\n")
    assert "+y" in git(place, "diff", env=env).stdout
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["hooked"]


def test_a_bare_repository_that_is_named_works(tmp_path: Path) -> None:
    env = child_environment({"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)})
    git(tmp_path, "init", "-q", "--bare", "origin.git", env=env)
    assert git(tmp_path, "clone", "-q", "origin.git", "copy", env=env).returncode == 0
    (tmp_path / "copy/a").write_text("x\n")
    for arguments in (["add", "a"], ["commit", "-qm", "x"], ["push", "-q", "origin", "HEAD"], ["fetch", "-q"]):
        assert git(tmp_path / "copy", *arguments, env=env).returncode == 0, arguments
    assert git(tmp_path, "--git-dir=origin.git", "log", env=env).returncode == 0


def test_what_the_drone_was_given_stays_and_secrets_do_not() -> None:
    own = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "user.name", "GIT_CONFIG_VALUE_0": "x", "API_KEY": "s"}
    found = child_environment({**own, "POSIXLY_CORRECT": "1"})
    assert found["GIT_CONFIG_COUNT"] == str(1 + len(GIT_SETTINGS))
    assert (found["GIT_CONFIG_KEY_0"], found["GIT_CONFIG_VALUE_0"]) == ("user.name", "x")
    assert found["GIT_CONFIG_KEY_1"] == "safe.bareRepository"
    assert not {"API_KEY", "POSIXLY_CORRECT"} & found.keys()


SECRETS = [
    "GADGET_X",
    "OPENAI_BASE_URL",
    "TOKEN",
    "GITHUB_TOKEN",
    "AWS_SESSION_TOKEN",
    "NPM_TOKEN_2",
    "STRIPE_SECRET_KEY",
    "DJANGO_SECRET_KEY",
    "SECRET_KEY_BASE",
    "client_secret_json",
    "RAILS_MASTER_KEY",
    "SSH_PRIVATE_KEY",
    "PRIVATE_KEY_PEM",
    "GH_PAT",
    "PAT",
    "MYSQL_PWD",
    "PGPASSWORD",
    "REDIS_PASSWD",
    "KEY_PASSPHRASE",
    "SSHPASS",
    "DB_PASS",
    "GOOGLE_CREDENTIALS",
    "APIKEY",
    "SOME_API_KEY_2",
    "AWS_ACCESS_KEY_ID",
    "STRIPE_KEY",
    "DOCKER_AUTH_CONFIG",
    "NPM_CONFIG__AUTH",
    "SENTRY_DSN",
]
ADDRESSES = (
    "postgres://ada:hunter2@db/x",
    "redis://:hunter2@cache",
    "mysql://ada:hun/ter2@db",
    "https://hunter2@example.org/files",
    "a=1 amqp://ada:hunter2@queue",
)
HARMLESS = {
    "PWD": "/x",
    "OLDPWD": "/y",
    "TOKENIZERS_PARALLELISM": "false",
    "DATABASE_URL": "postgres://db:5432/x",
    "ORIGIN": "ssh://git@example.org/x",
    "MIRROR": "http://127.0.0.1:8080/a",
    "SSH_AUTH_SOCK": "/run/agent",
    "MONKEYS": "2",
    "PATH": "/usr/bin:/bin",
    "https_proxy": "http://ada:pw@proxy:3128",
}


def test_a_command_sees_no_secret_of_any_common_name_or_address() -> None:
    own = HARMLESS | dict.fromkeys(SECRETS, "hunter2") | {f"URL_{n}": text for n, text in enumerate(ADDRESSES)}
    printed = subprocess.run(["/usr/bin/env", "-0"], env=child_environment(own), capture_output=True, check=True).stdout
    found = dict(entry.partition("=")[::2] for entry in printed.decode().split("\0"))
    assert not {*SECRETS} & found.keys()
    assert b"hunter2" not in printed
    assert b"ter2" not in printed
    assert found.items() >= HARMLESS.items()


def test_settings_of_git_with_secrets_are_left_out_and_the_others_count(tmp_path: Path) -> None:
    pairs = {
        "http.https://example.org/.extraHeader": "Authorization: hunter2",
        "user.name": "Ada",
        "credential.helper": "!echo password=hunter2",
        "url.https://ada:hunter2@example.org/.insteadOf": "https://example.org/",
        "remote.x.url": "https://ada:hunter2@example.org/x",
        "user.email": "ada@example.org",
    }
    own = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1"}
    own["GIT_CONFIG_COUNT"] = str(len(pairs))
    for number, (key, value) in enumerate(pairs.items()):
        own |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    own["GIT_CONFIG_PARAMETERS"] = "'http.extraheader'='Authorization: hunter2'"
    env = child_environment(own)
    assert "hunter2" not in str(env)
    ran = subprocess.run(["git", "config", "--list"], cwd=tmp_path, env=env, capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[:2] == ["user.name=Ada", "user.email=ada@example.org"]
    assert [line.partition("=")[0] for line in ran.stdout.splitlines()[2:]] == [key.lower() for key in GIT_SETTINGS]
