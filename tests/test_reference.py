"""docs/reference/ is made from the code, so it must say what the code says."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def reference(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-B", "scripts/reference", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)


def test_the_committed_reference_is_current() -> None:
    ran = reference("--check")
    assert ran.returncode == 0, ran.stderr


@pytest.fixture
def written(tmp_path: Path) -> Path:
    assert reference("--into", str(tmp_path)).returncode == 0
    return tmp_path


def test_a_stale_page_and_a_missing_page_are_named_and_left_as_they_are(written: Path) -> None:
    (written / "errors.md").write_text("edited\n")
    (written / "rest.md").unlink()
    ran = reference("--check", "--into", str(written))
    assert ran.returncode == 1
    assert [line.split(";")[0] for line in ran.stderr.splitlines()] == [
        "stale: docs/reference/rest.md",
        "stale: docs/reference/errors.md",
    ]
    assert (written / "errors.md").read_text() == "edited\n"
    assert not (written / "rest.md").exists()


def test_every_link_within_the_reference_leads_somewhere(written: Path) -> None:
    headings = {
        page.name: {
            re.sub(r"[^a-z0-9_ -]", "", line.lstrip("# ").lower()).replace(" ", "-")
            for line in page.read_text().splitlines()
            if line.startswith("#")
        }
        for page in written.glob("*.md")
    }
    links = [
        (page.name, link) for page in written.glob("*.md") for link in re.findall(r"\]\(([^)]+)\)", page.read_text())
    ]
    assert len(links) > 100
    for page, link in links:
        target, _, anchor = link.partition("#")
        assert (written / (target or page)).exists(), (page, link)
        if anchor:
            assert anchor in headings[target or page], (page, link)
