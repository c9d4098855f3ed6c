"""The size of views in a notebook.

rf.viz.options.budget = 1_000_000     # for all views
rf.show(trace, budget=2_000_000)      # for one
"""

from __future__ import annotations

from dataclasses import dataclass

from rfnb.core.errors import value_error
from rfnb.core.whole_number import whole

MOST = 2_000_000  # bytes of a view in a notebook, on request
USUAL = 250_000
EASY = 20_000  # bytes of a frame that are enough by default if the pattern stays recognisable, whatever its total size
SMALL = 32_000  # bytes of a frame that is sent unchanged whenever it has room: its numbers are then exact
LIVE = 100_000  # bytes of a frame while more data may arrive, ten times a second
WHOLE = 2_000_000  # bytes of a frame that a page requests from a kernel; no notebook stores it
POINTS = 24_000_000  # of curves: they are sent unchanged, without trying to compress them


@dataclass(frozen=True)
class Room:
    """The size limits of a frame, in bytes.

    Attributes:
        most: The hard limit.
        easy: The preferred limit, if all patterns stay recognisable within it.
    """

    most: int
    easy: int

    @property
    def small(self) -> int:
        """The size up to which a frame is sent unchanged."""
        return max(self.easy, min(self.most, SMALL))

    def minus(self, size: int) -> Room:
        """The remaining room beside `size` bytes."""
        return Room(max(0, self.most - size), max(0, self.easy - size))

    def frame_beside(self, size: int) -> Room:
        """The room for a base64-encoded frame beside `size` bytes of picture and script, which reduce the hard limit but
        not the preferred one.
        """
        most = max(0, self.most - size) * 3 // 4
        return Room(most, min(self.easy, most))


class ViewOptions:
    """The settings of all views, unless a view overrides them."""

    def __init__(self) -> None:
        self._budget: int | None = None

    @property
    def budget(self) -> int | None:
        """The size limit in bytes of a view in a saved notebook, including picture, data and script; None: 250 kB, 500 kB
        for several views in one, less if that suffices.
        """
        return self._budget

    @budget.setter
    def budget(self, budget: int | None) -> None:
        self._budget = checked(budget)


options = ViewOptions()


def checked(budget: int | None) -> int | None:
    """A valid budget.

    Raises:
        ValueError: If it is not a number of bytes up to 2 MB.
    """
    if budget is not None and not 0 < (whole(budget) or 0) <= MOST:
        raise value_error(
            "viz: this is not a budget of a view.",
            {"budget": budget, "most": MOST},
            "A budget is the number of bytes that a view may take in a saved notebook.",
            f"rf.viz.options.budget = {MOST:_}",
        )
    return budget


def room_of(budget: int | None, parts: int = 1) -> Room:
    """The room of a view in a notebook, with its own budget or None.

    Args:
        parts: Number of views in it; several have twice the room of one.
    """
    given = budget if budget is not None else options.budget
    times = min(2, max(1, parts))
    return Room(given, given) if given is not None else Room(times * USUAL, times * EASY)


def whole_room(kind: str, *, live: bool) -> Room:
    """The room of a frame that a page requests from its kernel if its own is thinned."""
    most = POINTS if kind == "curves" and not live else WHOLE
    return Room(most, most)


def live_room() -> Room:
    """The room of a frame while more data may arrive."""
    return Room(LIVE, LIVE)
