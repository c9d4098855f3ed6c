"""The part of a notebook that a view may take.

rf.viz.options.budget = 1_000_000     # for all views
rf.show(trace, budget=2_000_000)      # for one
"""

from __future__ import annotations

from dataclasses import dataclass

from rfnb.core.errors import value_error
from rfnb.core.whole_number import whole

MOST = 2_000_000  # bytes of a view in a notebook, on request
USUAL = 250_000
EASY = 20_000  # bytes of a frame that are enough by default where they keep what is seen at one glance, whatever is beside them
SMALL = 32_000  # bytes of a frame that goes to a page as it is wherever it has room: then what a page says is exact
LIVE = 100_000  # bytes of a frame while more may come, ten times a second
WHOLE = 2_000_000  # bytes of a frame that a page of a kernel asks for; no notebook stores it
POINTS = 24_000_000  # of curves: they are sent as they are, nothing has to be tried


@dataclass(frozen=True)
class Room:
    """The bytes that a frame may have.

    Attributes:
        most: Never more.
        easy: As many are enough if then nothing is pooled to less than can be seen at one glance.
    """

    most: int
    easy: int

    @property
    def small(self) -> int:
        """The bytes that a frame may have to be sent as it is."""
        return max(self.easy, min(self.most, SMALL))

    def minus(self, size: int) -> Room:
        """The room that is left beside `size` bytes."""
        return Room(max(0, self.most - size), max(0, self.easy - size))

    def frame_beside(self, size: int) -> Room:
        """The room for a frame that is written as base64, beside `size` bytes of picture and script: these leave less, and what is
        enough stays enough.
        """
        most = max(0, self.most - size) * 3 // 4
        return Room(most, min(self.easy, most))


class ViewOptions:
    """The settings of all views, unless a view says otherwise."""

    def __init__(self) -> None:
        self._budget: int | None = None

    @property
    def budget(self) -> int | None:
        """The bytes that a view may take in a saved notebook with picture, data and script; None: 250 kB, 500 kB
        for several views in one, less if that is enough."""
        return self._budget

    @budget.setter
    def budget(self, budget: int | None) -> None:
        self._budget = checked(budget)


options = ViewOptions()


def checked(budget: int | None) -> int | None:
    """The budget.

    Raises:
        ValueError: If it is no number of bytes up to 2 MB.
    """
    if budget is not None and not 0 < (whole(budget) or 0) <= MOST:
        raise value_error(
            "viz: this is no budget of a view.",
            [("budget", budget), ("most", MOST)],
            "A budget is the number of bytes that a view may take in a saved notebook.",
            f"rf.viz.options.budget = {MOST:_}",
        )
    return budget


def room_of(budget: int | None, parts: int = 1) -> Room:
    """The room of a view with a budget of its own, or None, in a notebook.

    Args:
        parts: Of how many views it is made; several have twice the room of one.
    """
    given = budget if budget is not None else options.budget
    times = min(2, max(1, parts))
    return Room(given, given) if given is not None else Room(times * USUAL, times * EASY)


def whole_room(kind: str, *, live: bool) -> Room:
    """The room of a frame that a page asks its kernel for, where the one it has is thinned."""
    most = POINTS if kind == "curves" and not live else WHOLE
    return Room(most, most)


def live_room() -> Room:
    """The room of a frame while more may come."""
    return Room(LIVE, LIVE)
