"""Loading the package without looking for garbage.

Nothing that an import makes is garbage, but it makes so many objects that Python would look through all there are for some. Where torch
is loaded before, this takes as long as everything else.
"""

from __future__ import annotations

import gc


class NoCollection:
    """From when it is made to its `end`, or until nobody holds it any more: then an import has failed."""

    def __init__(self) -> None:
        self._was_on = gc.isenabled()
        gc.disable()

    def end(self) -> None:
        """Collect garbage again, if that was done before."""
        if self._was_on:
            gc.enable()
        self._was_on = False

    __del__ = end
