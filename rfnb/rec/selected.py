"""Reading a state after a choice in a recorded step: an op of its own, since the choice of each step is another."""

from __future__ import annotations

from typing import Any

from rfnb.rec.nested import map_nested
from rfnb.rec.recorder import decides
from rfnb.rec.selection import Selection


class Selected:
    """The selection of the step that a loop is in; None before its choice."""

    def __init__(self) -> None:
        self.selection: Selection | None = None


@decides
def bring(selected: Selected, value: Any) -> Any:
    """A nested value of this step for the hypotheses that were chosen so far."""
    selection = selected.selection
    return value if selection is None else map_nested(selection.bring, value)
