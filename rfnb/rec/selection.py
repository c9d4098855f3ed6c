"""Selection: which hypotheses a choice lets go on, and how everything else follows.

A search has two beam dims: the *carried* one, under which states live between steps, and the one of the choice in this step.
At the end of a step what was computed before the choice is gathered by parent, and everything is carried on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.ops import array


class Selection:
    """One choice of one step.

    Args:
        in_dim: The beam before the choice; None in the first step (one hypothesis).
        out_dim: The beam after it.
        carried: The beam dim between steps.
        parents: int {batch dims, out_dim}, sparse over in_dim: which hypothesis each one continues.
    """

    def __init__(self, in_dim: Dim | None, out_dim: Dim, carried: Dim, parents: Tensor):
        self.in_dim, self.out_dim, self.carried, self.parents = in_dim, out_dim, carried, parents

    def bring(self, value: Any) -> Any:
        """A value of this step under the beam after the choice."""
        if isinstance(value, Tensor) and self.in_dim is not None and self.in_dim in value.dims:
            if self.out_dim in value.dims:
                return value
            return array.gather(value, indices=self.parents, axis=self.in_dim)
        return value

    def to_carried(self, value: Any) -> Any:
        """A value of this step under the carried beam."""
        value = self.bring(value)
        if isinstance(value, Tensor) and self.out_dim in value.dims:
            return value._like(value._raw, tuple(self.carried if dim is self.out_dim else dim for dim in value.dims))
        return value

    def follow_host(self, value: np.ndarray, dims_in: tuple[Dim, ...], dims_out: tuple[Dim, ...]) -> np.ndarray:
        """A host array over `dims_in` (with the carried beam) for the hypotheses after the choice, over `dims_out`."""
        before = tuple(self.carried if dim is self.out_dim else dim for dim in dims_out)
        value = value.transpose([dims_in.index(dim) for dim in before])
        parents = self.parents.copy_transpose([dim for dim in dims_out if dim in self.parents.dims]).numpy()
        parents = parents.reshape([dim.extent if dim in self.parents.dims else 1 for dim in dims_out])
        axis = dims_out.index(self.out_dim)
        shape = list(value.shape)
        shape[axis] = parents.shape[axis]
        return np.take_along_axis(value, np.broadcast_to(parents, shape), axis)


def backtrack(values: Sequence[Tensor], history: Sequence[Selection]) -> list[Tensor]:
    """The value of every step, along the final hypotheses: {..., carried}.

    Args:
        values: One per step, under the beam before or after the choice of that step; without beam dim it is the same for all.
        history: The selection of each step.
    """
    out: list[Tensor] = []
    position: Tensor | None = None  # which hypothesis of this step each final one goes through; None: itself
    for value, selection in zip(reversed(values), reversed(history)):
        parents = selection.to_carried(selection.parents)
        origin = parents if position is None else _pick(parents, position, selection.carried)
        if selection.out_dim in value.dims:
            value = selection.to_carried(value)
            value = value if position is None else _pick(value, position, selection.carried)
        elif selection.in_dim is not None and selection.in_dim in value.dims:
            value = _pick(value, origin, selection.in_dim)
        out.insert(0, value)
        position = origin
    return out


def _pick(value: Tensor, index: Tensor, carried: Dim) -> Tensor:
    """value at hypothesis `index` ({batch dims, carried}); the carried dim stays the beam dim of the result."""
    other = carried.copy(match_priority=1)
    renamed = new_tensor(index._raw, tuple(other if dim is carried else dim for dim in index.dims))
    picked = array.gather(value, indices=renamed, axis=carried)
    return picked._like(picked._raw, tuple(carried if dim is other else dim for dim in picked.dims))
