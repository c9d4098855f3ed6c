"""Dims that are declared the same (`u.declare_same_as(time)`): operands that have one of them each are brought together.

Asked where an op makes a new plan; plans for such operands are not made, so only these calls pay for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rfnb.core.dim import Dim
from rfnb.core.dim_relations import any_declared, check_same_sizes, representative
from rfnb.core.errors import DimError, dim_error
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_text import operand_rows


def brought_together(what: str, values: Sequence[Any]) -> tuple[Any, ...] | None:
    """The operands of an op, of several dims that are declared the same all with the one that represents them; None if there
    are no such dims. An operand that has two of them says that they are apart, and stays as it is.

    Raises:
        DimError: If their sizes differ by now, or lengths of another dim are over one that would go.
    """
    if not any_declared():
        return None
    tensors = [value for value in values if isinstance(value, Tensor)]
    families: dict[Dim, dict[Dim, None]] = {}
    for tensor in tensors:
        for dim in tensor.dims:
            families.setdefault(representative(dim), {})[dim] = None
    put: dict[Dim, Dim] = {}
    for base, members in families.items():
        if len(members) > 1 and all(sum(dim in tensor.dims for dim in members) < 2 for tensor in tensors):
            for dim in members:
                if dim is not base:
                    check_same_sizes(dim, base)
                    put[dim] = base
    if not put:
        return None
    for tensor in tensors:
        for dim in tensor.dims:
            gone = [over for over in dim.length_dims if over in put and dim not in put]
            if gone:
                raise _without_lengths(what, values, dim, gone[0], put[gone[0]])
    return tuple(_with_dims(value, put) if isinstance(value, Tensor) else value for value in values)


def dim_among(dim: Dim, values: Sequence[Any]) -> Dim:
    """`dim`, or what now represents it in operands that were brought together."""
    return dim if any(dim in value.dims for value in values if isinstance(value, Tensor)) else representative(dim)


def _with_dims(tensor: Tensor, put: dict[Dim, Dim]) -> Tensor:
    if not any(dim in put for dim in tensor.dims):
        return tensor
    out = tensor._like(tensor._raw, tuple(put.get(dim, dim) for dim in tensor.dims))
    if tensor._feature_dim in put:
        out._feature_dim = put[tensor._feature_dim]
    out._finite = tensor._finite
    return out


def _without_lengths(what: str, values: Sequence[Any], dim: Dim, over: Dim, base: Dim) -> DimError:
    operands = [(chr(ord("a") + place), value) for place, value in enumerate(values) if isinstance(value, Tensor)]
    return dim_error(
        f"{what}: the lengths of {dim.short_repr()} are over {over.short_repr()}, which is declared the same as another dim.",
        [*operand_rows(operands), ("declared", f"{over.name} as {base.name}")],
        f"With {base.name} in its place, {dim.name} would have no lengths. Say over which dim they are:",
        f"{dim.name} = rf.ragged_dim([...], over={base.name})",
    )
