"""What the tests of gadget_code have, too."""

from tests.gadget_code.conftest import admin, settings_for, store

__all__ = ["admin", "settings_for", "store"]
