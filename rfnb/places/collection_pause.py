"""Import the package without garbage collection.

An import creates no garbage, but so many objects that Python would scan all existing ones for it. If torch is already
loaded, the scan would take as long as the import itself.
"""

from __future__ import annotations

import gc


class CollectionPause:
    """Disables garbage collection from its creation to `end`, or until it is released because an import failed."""

    def __init__(self) -> None:
        self._was_on = gc.isenabled()
        gc.disable()

    def end(self) -> None:
        """Restore garbage collection if it was enabled."""
        if self._was_on:
            gc.enable()
        self._was_on = False

    __del__ = end
