"""A file that a command names."""

from dataclasses import dataclass

from gadget_api.permissions import Capability
from gadget_drone.permissions.words import Word


@dataclass(frozen=True)
class Named:
    capability: Capability
    word: Word
    is_deep: bool = False
    """All that is below it, too."""
    is_sure: bool = True
    """Not sure: only if there is such a file."""
    only_names: bool = False
    """It prints what files are called, not what is in them."""
