"""What the tests of gadget_code have, too."""

from tests.gadget_code.conftest import settings_for, store

__all__ = ["settings_for", "store"]
