"""Hatchling's hook: builds the browser IDE before a package is made, an editable install included."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


def _ide() -> ModuleType:
    """`ide/build.py`, by its path: another `build` may well be installed."""
    spec = spec_from_file_location("gadget_ide_build", Path(__file__).resolve().parent / "ide" / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class IdeHook(BuildHookInterface):  # type: ignore[misc]  # hatchling is not looked into
    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """Asked for before the build: Node comes as a wheel where the system has none that will do."""
        ide = _ide()
        return [] if ide.is_fresh() or ide.system_node() else [ide.NODE_WHEEL]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        ide = _ide()
        try:
            ide.build()
        except ide.BuildFailed as failed:
            sys.exit(
                f"\n*** Could not build the browser IDE: {failed}\n"
                "*** Without it (REST, terminal client and drone only): set GADGET_WEB=skip"
            )
