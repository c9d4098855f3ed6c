"""The view of an atlas of what-ifs: the run, its attention, and on the same axes the effect of each change. It fills
during the computation.

Cells are computed only while a page shows it: a page reports when it opens and closes. A click on a cell does the same
as manual edits: the commands of the cell, at its step, as a branch.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from rfnb.interop.atlas import Atlas
from rfnb.viz import display
from rfnb.viz.control.run_view import RunView
from rfnb.viz.parts.matrix import number
from rfnb.viz.pump import pump
from rfnb.viz.spec import Spec
from rfnb.viz.view import View

_SAID = 2500  # cells up to which a page gets the labels of each


def spec(atlas: Atlas, *, title: str | None = None, live: bool | None = None) -> Spec:
    """The spec of the map alone: an `attention` view of effects, whose cells have labels.

    Args:
        title: Default: the kind of change.
        live: Whether more data may arrive. Default: while cells are computed.
    """
    live = atlas.going if live is None else live  # before its values are read: it may end meanwhile
    values = atlas.now.astype(np.float32)
    rows, cols = ([str(each) for each in axis[1]] for axis in (atlas.rows, atlas.columns))
    other = {} if atlas.companion is None else atlas.companion.head
    most = float(np.abs(values[np.isfinite(values)]).max(initial=0.0)) or 1.0
    entry: dict[str, Any] = {
        "label": "effects", "row_dim": {"name": "step", "size": len(rows)}, "block": "map0", "seqs": [0],
        "col_dim": {"name": atlas.columns[0], "size": len(cols)}, "at": [0, 0], "step": 0,
        "effects": [_effects(atlas)],
    }  # fmt: skip
    seq = {"label": " ".join(rows), "rows": rows, "cols": cols, "row_len": len(rows), "col_len": len(cols)}
    head: dict[str, Any] = {
        "title": title or f"What matters: {atlas.changes.said}", "live": live,
        "layers": [""], "heads": [""], "maps": [entry], "seqs": [seq], "range": [-most, most], "signed": True,
        "compact": True, "key": "atlas", "remark": _remark(atlas),
    }  # fmt: skip
    if atlas.is_whole:  # all steps: the rows are those of the run
        head["axis"] = other.get("axis", "step")
        if atlas.is_all_columns and "col_axis" in other:
            head["col_axis"] = other["col_axis"]
    return Spec("attention", head, {"map0": values[None]})


def whole(atlas: Atlas, **options: Any) -> Spec:
    """The spec with all cells, waiting for them: for paper, which does not fill later."""
    atlas.wait()
    return spec(atlas, **options)


def _effects(atlas: Atlas) -> dict[str, Any]:
    """The texts in the cells of a map, and the request of a page that makes a cell a branch."""
    if atlas.now.size > _SAID:
        return {"labels": [], "said": [], "held": None}
    labels = np.where(atlas._refused, "–", atlas._cells)
    at = atlas.place(0)
    return {
        "labels": labels.tolist(),
        "said": atlas._said.tolist(),
        "held": {
            "path": at.path, "nth": at.nth, "run": atlas.run.number,
            "steps": [atlas.place(row).step for row in range(atlas.shape[0])],
            "then": atlas.changes.commands, "words": atlas.changes.words, "by_row": atlas.changes.by_row or [{}] * atlas.shape[0],
        },
    }  # fmt: skip


def _remark(atlas: Atlas) -> str:
    found = f"{number(atlas.found.score)} of {' '.join(atlas.found_texts)} without"
    said = f"A cell is the score of the result with that change, minus {found}; its label is the first that is another one."
    if not atlas.num_left:
        return said
    return f"{said} {atlas.num_left} of {atlas.now.size} {'are still to come' if atlas.going else 'were not computed'}."


class AtlasView(RunView):
    """Shows an atlas below its run; cells are computed while a page shows it."""

    def __init__(self, atlas: Atlas, *, budget: int | None = None):
        self.atlas = atlas
        super().__init__(atlas.run, budget=budget, kinds=atlas.kind)
        own = weakref.ref(self)

        def tell() -> None:
            view = own()
            if view is not None:
                view._changed()

        atlas.on_change(tell)

    def _more(self) -> bool:
        return self.atlas.going

    def _parts(self, parts: Sequence[Spec], *, beside: bool) -> list[Spec]:
        key = None if self.atlas.companion is None else self.atlas.companion.head.get("key")
        same = [part for part in parts if beside or part.head.get("key") == key]
        return [*same, spec(self.atlas)]

    def _looked(self, page: str, there: bool) -> None:
        super()._looked(page, there)
        atlas = self.atlas
        (atlas.pages.add if there else atlas.pages.discard)(page)
        if not atlas.pages and atlas.going:
            atlas.closed = True
            atlas.stop()
        elif atlas.pages and atlas.closed:
            atlas.closed, self._ended = False, None
            atlas.go_on()

    def _holds_up_nothing(self) -> bool:
        return False


def view(atlas: Atlas, *, live: bool | None = None, budget: int | None = None, **options: Any) -> View:
    """The view of an atlas, updated while cells are computed."""
    if display.shell() is None:  # text does not fill later
        atlas.wait()
    made = AtlasView(atlas, budget=budget, **options)
    pump.put(made.view, made._draw)
    return made.view
