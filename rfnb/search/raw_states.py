"""The states of step functions on raw arrays, for a hold on the search: named, with the dims batch, beam, and the remaining axes of
each array.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rfnb.backends import registry
from rfnb.core.dim import Dim, Dims
from rfnb.core.errors import dim_error
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.core.tensor_text import shape_of
from rfnb.core.tree import leaves, map_nested, same_structure
from rfnb.rec.loop import Loop
from rfnb.rec.state_changes import changed_structure
from rfnb.search.raw_model import RawModel


class BorrowedTensor(Tensor):
    """A Tensor backed by the array of a user function, which may keep changing it: copy it to keep it."""


class RawStates:
    """The states of raw models between two steps of their search.

    The state of the model itself is "model", that of a fused one "model" plus its name. An array of n rows (batch times hypotheses) has
    the dims batch and beam; further axes have dims named after the array and the axis, such as "h:1" in `{"h": (n, 512)}`. An array
    without n rows has only such dims. Values that are not arrays, and objects with `reorder_cache`, are not shown.

    Args:
        models: The models by their name in the fusion; "" is the model itself.
        loop: The loop of the search.
    """

    def __init__(self, models: Mapping[str, RawModel], loop: Loop):
        self.models, self._loop = models, loop
        self._dims: dict[tuple[str, int, int], Dim] = {}
        self._seen: dict[str, tuple[Any, Tensor, Any]] = {}  # the same Tensors as long as the state is the same

    def now(self) -> dict[str, Any]:
        """The state of each model by name, with Tensors in place of arrays."""
        return {"model" + key: self._of(key) for key in self.models}

    def edit(self, name: str, value: Any) -> None:
        """Replace the state of a model; structure, dims and dtypes must be the same, and changed arrays are replaced by new ones.

        Raises:
            ValueError: If the structure differs.
            DimError: If the dims or dtype of an array differ.
        """
        model, before = self.models[name.removeprefix("model")], self._of(name.removeprefix("model"))
        if not same_structure(before, value):
            raise changed_structure(f'search: state "{name}"', name, before, value)
        for (path, old), (_, new) in zip(leaves(before, name), leaves(value, name)):
            if isinstance(old, BorrowedTensor) and (set(old.dims) != set(new.dims) or old.dtype != new.dtype):
                raise dim_error(
                    f'state "{path}": the value has the wrong dims or dtype.',
                    {"before": f"{shape_of(old)} {old.dtype}", "given": f"{shape_of(new)} {new.dtype}"},
                    "It is an array of the step function, which has always the same axes.",
                )
        model.state = map_nested(_raw_of, model.state, before, value)

    def _of(self, key: str) -> Any:
        state, label = self.models[key].state, self._loop.step.states.now["label"]
        seen = self._seen.get(key)
        if seen is not None and seen[0] is state and seen[1] is label:
            return seen[2]
        batch = self.models[key].batch
        rows = batch, *(dim for dim in label.dims if dim is not batch)
        paths = iter([path for path, _ in leaves(state)])
        value = map_nested(lambda leaf: self._tensor(leaf, next(paths) or "state", rows), state)
        self._seen[key] = state, label, value
        return value

    def _tensor(self, leaf: Any, path: str, rows: Dims) -> Any:
        """An array with its dims; anything else unchanged."""
        if hasattr(leaf, "reorder_cache") or not registry.is_raw_tensor_type(type(leaf)):
            return leaf
        backend = registry.get_backend_by_raw_tensor_type(type(leaf))
        shape, count = tuple(leaf.shape), 1
        for dim in rows:
            count *= dim.extent
        of_rows = bool(shape) and shape[0] == count
        dims = list(rows) if of_rows else []
        for axis, size in list(enumerate(shape))[of_rows:]:
            dims.append(self._dims.setdefault((path, axis, size), Dim(size, name=f"{path}:{axis}")))
        out = new_tensor(backend.reshape_raw(leaf, [dim.extent for dim in dims]), tuple(dims))
        out.__class__ = BorrowedTensor
        return out


def _raw_of(raw: Any, before: Any, now: Any) -> Any:
    if now is before or not isinstance(before, BorrowedTensor):
        return raw
    return before.backend.reshape_raw(now.copy_transpose(before.dims)._raw, tuple(raw.shape))
