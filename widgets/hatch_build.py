"""Packaging hook: puts the front-end bundle into wheels, source distributions and editable installs, and the course into wheels.

The bundle is committed, so this normally finds its stamp in order and Node.js is not needed. The course is `notebooks/` and the guides
of `docs/`: they become `rfnb/course` and `rfnb/docs`, where `rfnb/cli/course.py` looks for them. An editable install has the checkout.
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
        self.put_bundle(version)
        if self.target_name == "wheel" and version != "editable":
            build_data["force_include"].update(course(Path(self.root)))

    def put_bundle(self, version: str) -> None:
        """Build the bundle if it does not fit its sources; without Node.js it goes as it is, if it is there."""
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


def course(root: Path) -> dict[str, str]:
    """The files of the course, to their places in a wheel. One by one: a folder would bring what an editor or Python left in it."""
    notebooks, docs = root / "notebooks", root / "docs"
    left = {".ipynb_checkpoints", "__pycache__"}
    files = {path: f"rfnb/course/{path.relative_to(notebooks).as_posix()}" for path in notebooks.rglob("*")}
    files |= {path: f"rfnb/docs/{path.relative_to(docs).as_posix()}" for path in docs.rglob("*.md")}
    return {str(path): place for path, place in sorted(files.items()) if path.is_file() and not left & set(path.parts)}
