"""Explains a NameError from cells run out of order: which cell defines the name, and what to click.

It acts only after a cell has ended, so tracebacks, other exceptions and the debugger are unaffected.
"""

from __future__ import annotations

import traceback
from typing import Any

from rfnb.core.errors import message
from rfnb.teaching.card import Said
from rfnb.teaching.notebook import Cell, cells_of, notebook_file
from rfnb.viz import display

_ALL_ABOVE = "Run > Run All Above Selected Cell"
_RESTART = "Kernel > Restart Kernel"


class Order:
    """The cells that a shell has run, and whether they succeeded.

    Attributes:
        lesson: The lesson by whose name the notebook is found.
    """

    def __init__(self, shell: Any, lesson: str):
        self.shell, self.lesson = shell, lesson
        # cell id or text -> whether it ended without an error
        self.ended: dict[str, bool] = {text.strip(): True for text in self.shell.user_ns.get("In", [])}

    def see(self, result: Any) -> None:
        """Record a cell that has ended, and explain its NameError."""
        source = str(getattr(result.info, "raw_cell", "") or "").strip()
        cell_id = getattr(result.info, "cell_id", None)
        self.ended[source] = bool(result.success)
        name = _missing_name(result.error_in_exec, self.shell.user_ns)
        if name is None:
            return
        path = notebook_file(self.lesson)
        cells = cells_of(path) if path else []
        said = self.explained(name, cells, cell_id, source)
        if said:
            headline, _, body = said.partition("\n")
            data = {"kind": "order", "lesson": self.lesson, "name": name}
            display.publish(Said(headline, body, data, "open")._repr_mimebundle_())

    def explained(self, name: str, cells: list[Cell], cell_id: str | None, source: str) -> str:
        """The cell that defines a name, and what to do, as text; "" if no cell does, e.g. for a typo."""
        if not cells:
            return message(
                f'"{name}" is not there: perhaps the cell that makes it was not run.', [],
                f"Cells are run from top to bottom. All above this one: {_ALL_ABOVE}.",
            )  # fmt: skip
        here = _place(cells, cell_id, source)
        makers = [
            cell for cell in cells if cell.source.strip() != source and cell.assigns(name, self.shell.transform_cell)
        ]
        if not makers:
            return ""
        above = [cell for cell in makers if here is None or cell.number < here]
        maker = above[-1] if above else makers[0]
        rows = [("cell", _where(maker)), ("begins", maker.first_line)]
        if not above:
            return message(
                f'"{name}" is made by a cell further down.', rows,
                f"Cells are run from top to bottom. If this one was moved, move it back. To start again: {_RESTART}.",
            )  # fmt: skip
        how = self.ended.get(maker.source.strip())
        state = {
            None: "that was not run yet", False: "that ended with an error", True: "that was run, but the name is gone",
        }[how]  # fmt: skip
        rule = f"Fix and run it. Then all above this one: {_ALL_ABOVE}."
        if how is not False:
            rule = f"Run it, or all above this one: {_ALL_ABOVE}."
        return message(f'"{name}" is made by a cell {state}.', rows, rule)


def install(lesson: str) -> Order | None:
    """Make the running shell explain cells run out of order; installed once, however often it is called. None without IPython."""
    shell = display.shell()
    if shell is None or not hasattr(shell, "events"):
        return None
    order = getattr(shell, "_rfnb_order", None)
    if order is None:
        shell._rfnb_order = order = Order(shell, lesson)
        shell.events.register("post_run_cell", order.see)
    order.lesson = lesson
    return order


def _missing_name(error: BaseException | None, space: dict[str, Any]) -> str | None:
    """The name missing in the notebook's namespace; None for all other errors."""
    if type(error) is not NameError or not error.name:
        return None
    frames = list(traceback.walk_tb(error.__traceback__))
    own = bool(frames) and frames[-1][0].f_globals is space
    return error.name if own and error.name not in space else None


def _place(cells: list[Cell], cell_id: str | None, source: str) -> int | None:
    """The number of the cell that ran; None if it is not in the file."""
    by_id = [cell.number for cell in cells if cell_id and cell.id == cell_id]
    by_text = [cell.number for cell in cells if cell.source.strip() == source]
    return next(iter([*by_id, *(by_text if len(by_text) == 1 else [])]), None)


def _where(cell: Cell) -> str:
    under = f', under "{cell.heading}"' if cell.heading else ""
    return f"number {cell.number} of the cells of code{under}"
