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
        try:
            bundle.build()
        except bundle.BundleError as e:
            # An editable install uses the tree as it is, also while the front end is being worked on.
            if version == "editable" or all((bundle.STATIC / name).is_file() for name in bundle.REQUIRED):
                self.app.display_warning(f"rfnb: {found} Going on without building it: {e}")
                return
            raise RuntimeError(f"rfnb: {found} {e}") from e
