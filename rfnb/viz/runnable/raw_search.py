"""Searches with a step function on arrays of another library (`rf.beam_search(step, batch=1, ...)`), in the record of a call.

An array (n, ...) of such a function has one row per hypothesis: its first axis is the beam, and its state is a state of the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rfnb.backends import registry
from rfnb.core.beam_dim import is_beam
from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.core.tree import leaves
from rfnb.ops.expand import squeeze
from rfnb.search.raw_model import RawModel

if TYPE_CHECKING:
    from rfnb.viz.runnable.call_notes import Notes


class RawSearch:
    """The step functions of a search while it is recorded.

    Args:
        notes: The record.
        models: The functions by name; "" is the model itself. They are replaced by ones that are recorded.

    Attributes:
        label: The labels that the loop has read in this step.
        initial: Refs of the states before the first step, by path.
    """

    def __init__(self, notes: Notes, models: Mapping[str, RawModel]):
        self.label: Tensor | None = None
        self.initial: dict[str, Any] = {}
        self._notes = notes
        self._dims: dict[str, list[Dim]] = {}  # of each state, without the beam
        self._rows: set[str] = set()  # states with a row per hypothesis
        for key, model in models.items():
            if model.batch.extent != 1:
                raise notes.not_there("a search of several sequences")
            for name, leaf in self._arrays(key, model.state):
                self._begin(name, notes.counterpart(leaf))
            model.fn = self._recorded(key, model, model.fn)
            model.tensor = self._tensor(model, model.tensor)  # type: ignore[method-assign]
            # The page lets states follow the hypotheses by itself.
            model.follow = notes.unseen()(model.follow)  # type: ignore[method-assign]

    def _arrays(self, key: str, state: Any) -> Iterator[tuple[str, Any]]:
        for path, leaf in leaves(state):
            if hasattr(leaf, "reorder_cache"):
                raise self._notes.not_there(f"a search with a {type(leaf).__name__} as its state")
            if registry.is_raw_tensor_type(type(leaf)):
                yield ".".join(filter(None, ["model" + key, path])), leaf

    def _begin(self, name: str, value: Tensor) -> None:
        if value.dims and value.dims[0].extent == 1:
            value = squeeze(value, axis=value.dims[0])
            self._rows.add(name)
        self.initial[name] = self._notes.ref(value)
        self._dims[name] = list(value.dims)

    def _recorded(self, key: str, model: RawModel, fn: Callable[..., Any]) -> Callable[..., Any]:
        notes = self._notes

        def call(labels: Any, state: Any) -> Any:
            assert self.label is not None
            beam = next(filter(is_beam, self.label.dims), None) or Dim(1, name="beam", kind="beam")
            rows = new_tensor(labels, (beam,))
            notes.made("squeeze", {"source": notes.ref(self.label), "axis": model.batch}, rows)
            for name, leaf in self._arrays(key, state):
                dims = [*([beam] if name in self._rows else ()), *self._dims[name]]
                if tuple(dim.extent for dim in dims) != tuple(leaf.shape):
                    raise notes.not_there(f'a search whose state "{name}" has different axes in different steps')
                notes.put(new_tensor(leaf, tuple(dims)), ("state", name))
            result = fn(labels, state)
            if isinstance(result, (tuple, list)) and len(result) > 1:
                for name, leaf in self._arrays(key, result[1]):
                    self._next(name, beam, notes.counterpart(leaf))
            return result

        return call

    def _next(self, name: str, beam: Dim, value: Tensor) -> None:
        """The state after a step: an axis that is longer has grown, others stay."""
        notes = self._notes
        before = self._dims.get(name)
        own = list(value.dims)
        first = [own.pop(0)] if name in self._rows and own else []
        if before is None or len(own) != len(before) or not all(map(is_beam, first)):
            raise notes.not_there(f'a search whose state "{name}" changes its axes in a step')
        after = [old if old.extent == dim.extent else dim for old, dim in zip(before, own)]
        notes.next_state(name, notes.renamed(value, [*([beam] if first else ()), *after]), before, after)
        self._dims[name] = after

    def _tensor(self, model: RawModel, plain: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def tensor(raw: Any, rest: list[Dim], beams: list[Dim]) -> Tensor:
            notes, value = self._notes, self._notes.counterpart(raw)
            out = plain(raw, rest, beams)
            if not value.dims or not is_beam(value.dims[0]):
                raise notes.not_there("a search whose scores do not depend on the hypothesis")
            wide = new_tensor(out._raw, (model.batch, *value.dims))
            notes.made("expand_dim", {"source": notes.ref(value), "dim": model.batch}, wide)
            given = {"source": notes.ref(wide), "from": [*value.dims], "to": [*(beams or value.dims[:1]), *rest]}
            notes.made("named", given, out)
            return out

        return tensor
