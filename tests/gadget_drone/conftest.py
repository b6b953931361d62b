import subprocess
from pathlib import Path

import pytest

from gadget_api.ids import new_id
from gadget_api.work_order import OrderProject


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of the test's own, so that nobody's git configuration counts."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    return home


def git(directory: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "protocol.file.allow=always")
    ran = subprocess.run(["git", *identity, *arguments], cwd=directory, check=True, capture_output=True, text=True)
    return ran.stdout.strip()


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    """A bare repository with one commit."""
    work = tmp_path / "origin-work"
    work.mkdir()
    git(work, "init", "-q", "-b", "main")
    (work / "hello.txt").write_text("hello\n")
    git(work, "add", ".")
    git(work, "commit", "-q", "-m", "First")
    git(tmp_path, "clone", "-q", "--bare", str(work), "origin.git")
    return tmp_path / "origin.git"


def project_at(url: str, slug: str = "hello") -> OrderProject:
    return OrderProject(id=new_id(), name="Hello", slug=slug, git_url=url)
