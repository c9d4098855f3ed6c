"""Packaging hook: puts the front-end bundle into wheels, source distributions and editable installs.

The bundle is committed, so this normally finds its stamp in order and Node.js is not needed.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# Hatchling loads hooks by path, so a module beside this one is not found by itself.
sys.path.insert(0, str(Path(__file__).resolve().parent))
import bundle


class BundleHook(BuildHookInterface):
    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        found = bundle.problem()
        if found is None:
            return
        there = all((bundle.STATIC / name).is_file() for name in bundle.REQUIRED)
        if version == "editable" and there:
            # The tree is used as it is; building here would hide from the tests that a stale bundle was committed.
            self.app.display_warning(f"rfnb: {found} Build it with: python widgets/bundle.py")
            return
        try:
            bundle.build()
        except bundle.BundleError as e:
            if there:
                self.app.display_warning(f"rfnb: {found} Using it as it is: {e}")
                return
            raise RuntimeError(f"rfnb: {found} {e}") from e
