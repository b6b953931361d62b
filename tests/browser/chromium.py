"""Which Chromium the tests, the screenshots and `scripts/versions` use."""

import os
import shutil
from pathlib import Path

from playwright.sync_api import Playwright


def chromium_path(playwright: Playwright) -> Path | None:
    """Playwright's own, else the one named in GADGET_TEST_BROWSER, else the one on PATH; None where there is none."""
    own = Path(playwright.chromium.executable_path)
    if own.exists():
        return own
    found = os.environ.get("GADGET_TEST_BROWSER") or shutil.which("chromium")
    return Path(found) if found else None
