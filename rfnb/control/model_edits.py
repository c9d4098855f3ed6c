"""Edits of the recorded model during a number of steps of a loop, and of attention rows that a model of another library computes.

Rows are as in the recording: in `generate`, {batch, beam, head, source} of the newest position, which the model holds as rows of (batch
and beam) and targets.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from rfnb.control.attention_rows import RowEdit, edited
from rfnb.control.changes import name_of, value_words
from rfnb.control.run_steps import StepLog
from rfnb.core.dim import Dim, Dims
from rfnb.core.errors import value_error
from rfnb.trace.editing import ValueEdit, editing, edits_for
from rfnb.trace.match import is_end_of
from rfnb.trace.trace import Trace

_NAMES = ("batch", "head", "target")  # of weights that nothing was recorded of


class ModelEdits:
    """The model edits of one run.

    Args:
        model: The recorded model, or a dict of models; None if nothing can be edited.
        steps: The steps begun so far.
        refuse: Called with the error of an edit that could not be applied.
        traces: Returns the recordings of the run and its ancestors, since a ghost records no attention.
    """

    def __init__(
        self, model: Any, steps: StepLog, refuse: Callable[[Exception], None], traces: Callable[[], list[Trace]]
    ):
        self._model, self._steps, self._refuse, self._traces = model, steps, refuse, traces
        self._made: list[ValueEdit] = []

    @property
    def has_model(self) -> bool:
        """True if there is a model to edit."""
        return self._model is not None

    def add(self, edits: Mapping[str, Any], steps: int | None) -> str:
        """Replace values in the next steps of the current loop, or in all for None; return a description. Called in the run's thread.

        Raises:
            ValueError: If no model is recorded.
            Exception: As for `rf.edit`.
        """
        if self._model is None:
            raise value_error(
                "edit: this run records no model.",
                {"places": ", ".join(edits)},
                "Places are paths of the recorded model:",
                'rf.run(lambda: model.generate(ids), record={"model": model}, paused=True)',
            )
        made = edits_for(self._model, edits)
        tick = len(self._steps) - 1
        for each in made:
            each.when = partial(self._is_in, self._steps[tick][0], tick, steps)
        editing.set((*editing.get(), *made))
        self._made += made
        words = (f"{text}: {name_of(v) if callable(v) else value_words(v)}" for text, v in edits.items())
        return f"edited {', '.join(words)}{_lasting(steps)}"

    def add_rows(self, edit: RowEdit, steps: int | None, seen: Iterable[str], known: Mapping[str, Any]) -> str | None:
        """The same for attention rows of another library, as text; None if there is no such attention at this path.

        Args:
            seen: The paths of recorded attention, and of modules that may attend.
            known: The paths where rf has attended.
        """
        found = [each for each in dict.fromkeys(seen) if is_end_of(edit.path, each) and each not in known]
        if self._model is None or not found:
            return None
        path = edit.path if edit.path in found else found[0]
        edit, place, dims = edit._replace(path=path), f"{path}.weights", self._dims(path)
        if (
            len(edits_for(self._model, {place: 0})) > 1
        ):  # a list of modules that are heads, each with weights of its own
            entries = dict(edit.entries) if isinstance(edit.entries, Mapping) else {}
            place = f"{place}[head={entries.pop('head')}]" if "head" in entries else place
            edit, dims = edit._replace(entries=entries), dims and tuple(dim for dim in dims if dim.name != "head")
        self.add({place: partial(self._rows, edit, dims)}, steps)
        return f"{edit.words}{_lasting(steps)}"

    def never_came(self) -> list[str]:
        """The edits that were never applied, as text."""
        return [
            f'edit "{each.text}": its place was not reached in these steps.' for each in self._made if not each.done
        ]

    def _is_in(self, path: str, tick: int, steps: int | None) -> bool:
        """True if the current step is among the `steps` steps of a loop from a tick on."""
        return steps is None or sum(loop == path for loop, _ in self._steps[tick:]) <= steps

    def _dims(self, path: str) -> Dims | None:
        """The dims of recorded rows except the one attended over."""
        trace = next((each for each in self._traces() if path in each.attention), None)
        if trace is None:
            return None
        values = trace.attention.events(path)[-1].values
        weights = values.get("weights")
        return None if weights is None else tuple(dim for dim in weights.dims if dim is not values.get("axis"))

    def _rows(self, edit: RowEdit, dims: Sequence[Dim] | None, raw: Any) -> Any:
        """Weights (..., target, source) with an edit applied; unchanged where that is impossible."""
        host = raw.detach().cpu().numpy().astype(np.float64)
        try:
            sizes = None if dims is None else [dim.extent for dim in dims]
            newest = (
                sizes != list(host.shape[:-1])
                and dims is not None
                and math.prod(sizes or []) == math.prod(host.shape[:-2])
            )
            if newest:  # of the position that was written last
                rows = host[..., -1, :].reshape([*(sizes or []), host.shape[-1]])
            else:
                rows = host
                if sizes != list(host.shape[:-1]):
                    same = dims is not None and len(dims) == host.ndim - 1
                    likely = _NAMES if dims is not None or host.ndim > 3 else ("batch", "target")
                    names = [dim.name for dim in dims or ()] if same else likely[-(host.ndim - 1) :]
                    dims = [Dim(size, name=name) for size, name in zip(host.shape[:-1], names)]
                edit = _of_target(edit, dims or ())
            made = edited(rows, edit, tuple(dims or ()), Dim(host.shape[-1], name="source"), rows > 0)
        except Exception as error:
            self._refuse(error)
            return raw
        if newest:
            host[..., -1, :] = made.reshape(host[..., -1, :].shape)
            return host
        return made


def _of_target(edit: RowEdit, dims: Sequence[Dim]) -> RowEdit:
    """The edit with `target` renamed to the last of the dims."""
    if not isinstance(edit.entries, Mapping) or "target" not in edit.entries or "target" in [dim.name for dim in dims]:
        return edit
    return edit._replace(entries={dims[-1].name if key == "target" else key: at for key, at in edit.entries.items()})


def _lasting(steps: int | None) -> str:
    return "" if steps == 1 else " from here on" if steps is None else f" for {steps} steps"
