"""Edits of the model that a run records, in so many steps of a loop; and rows of attention weights that a model of another library makes.

Rows are those that the recording shows: in `generate` {batch, beam, head, source} of the newest position, which the model has as rows of
(batch and beam) and targets.
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
from rfnb.core.dim import Dim
from rfnb.core.errors import value_error
from rfnb.trace.editing import ValueEdit, editing, edits_for
from rfnb.trace.match import is_end_of
from rfnb.trace.trace import Trace

_NAMES = ("batch", "head", "target")  # of weights that nothing was recorded of


class ModelEdits:
    """The edits of one run.

    Args:
        model: What it records: a model, or a dict of models; None: nothing is edited.
        steps: Those that it has begun.
        refuse: Told of rows that could not be put there after all.
        traces: Gives what it has recorded so far, and what the runs have that it was made of: of a ghost no attention is recorded.
    """

    def __init__(
        self, model: Any, steps: StepLog, refuse: Callable[[Exception], None], traces: Callable[[], list[Trace]]
    ):
        self._model, self._steps, self._refuse, self._traces = model, steps, refuse, traces
        self._made: list[ValueEdit] = []

    @property
    def has_model(self) -> bool:
        """Whether there is a model to edit."""
        return self._model is not None

    def add(self, edits: Mapping[str, Any], steps: int | None) -> str:
        """Put other values there in the next steps of the loop that stands, None: in all; says which. For the thread of the run.

        Raises:
            ValueError: If no model is recorded.
            Exception: What `rf.edit` raises.
        """
        if self._model is None:
            raise value_error(
                "edit: this run records no model.",
                [("places", ", ".join(edits))],
                "Places are paths of the model that is recorded:",
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
        """The same of rows of attention that another library makes, in words; None: no such attention is at this path.

        Args:
            seen: The paths of attention that is recorded, and of what may attend.
            known: Those where rf has attended.
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
        """The edits that nothing has come to, in words."""
        return [f'edit "{each.text}": nothing came to it in its steps.' for each in self._made if not each.done]

    def _is_in(self, path: str, tick: int, steps: int | None) -> bool:
        """Whether the step that runs is one of so many of a loop from a tick on."""
        return steps is None or sum(loop == path for loop, _ in self._steps[tick:]) <= steps

    def _dims(self, path: str) -> tuple[Dim, ...] | None:
        """The dims of recorded rows, without the one that is attended over."""
        trace = next((each for each in self._traces() if path in each.attention), None)
        if trace is None:
            return None
        values = trace.attention.events(path)[-1].values
        weights = values.get("weights")
        return None if weights is None else tuple(dim for dim in weights.dims if dim is not values.get("axis"))

    def _rows(self, edit: RowEdit, dims: Sequence[Dim] | None, raw: Any) -> Any:
        """Weights (..., target, source) with what an edit does; as they are where that cannot be."""
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
    """The edit with its `target` as the name that the last of the dims has."""
    if not isinstance(edit.entries, Mapping) or "target" not in edit.entries or "target" in [dim.name for dim in dims]:
        return edit
    return edit._replace(entries={dims[-1].name if key == "target" else key: at for key, at in edit.entries.items()})


def _lasting(steps: int | None) -> str:
    return "" if steps == 1 else " from here on" if steps is None else f" for {steps} steps"
