"""Loading the package without looking for garbage.

An import creates no garbage, but such numbers of objects that Python would search all existing ones for some. If torch is already loaded,
this takes as long as everything else.
"""

from __future__ import annotations

import gc


class NoCollection:
    """Active from its creation to its `end`, or until it is released because an import has failed."""

    def __init__(self) -> None:
        self._was_on = gc.isenabled()
        gc.disable()

    def end(self) -> None:
        """Collect garbage again, if that was done before."""
        if self._was_on:
            gc.enable()
        self._was_on = False

    __del__ = end
