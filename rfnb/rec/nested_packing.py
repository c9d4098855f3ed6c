"""Packing of nested states: only the unfinished sequences are computed, then scattered back among the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Never

from rfnb.core.dim import Dim
from rfnb.core.errors import value_error
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_checks import check_unique
from rfnb.core.tree import leaves, map_nested, same_structure, values_in
from rfnb.ops.defaults import copy_to_device
from rfnb.ops.dims import replace_dim_v2
from rfnb.ops.expand import expand_dims
from rfnb.ops.mask_packing import masked_scatter, masked_select
from rfnb.ops.where import where


def masked_select_nested(
    s: Any,
    *extra: Never,
    mask: Tensor,
    mask_cpu: Tensor | None = None,
    dims: Sequence[Dim],
    out_dim: Dim | None = None,
    dim_map: dict[Dim, Dim] | None = None,
    **unknown: Never,
) -> tuple[Any, Dim, dict[Dim, Dim]]:
    """Apply `masked_select` to every Tensor of a structure that has one of `dims`; leave the rest unchanged.

    Args:
        s: Nested structure. Dims whose lengths are over `dims` are replaced by new ones, with the lengths of what is selected.
        mask: bool {dims}
        mask_cpu: The same on the host, if it is there already.
        dim_map: Old dims and the new ones that stand for them; new ones are added.

    Returns:
        The structure, the packed dim, the dim map (which `masked_scatter_nested` needs).
    """
    mask = copy_to_device(mask, "cpu") if mask_cpu is None else mask_cpu  # read once
    new = {} if dim_map is None else dim_map
    _, out_dim = masked_select(mask, mask=mask, dims=dims, out_dim=out_dim)
    for leaf in values_in(s):
        for dim in leaf.dims if isinstance(leaf, Tensor) else [leaf] if isinstance(leaf, Dim) else []:
            if dim not in new and set(dims) & set(dim.length_dims):
                lengths, _ = masked_select(dim.get_size_tensor(), mask=mask, dims=dims, out_dim=out_dim)
                new[dim] = Dim(lengths, name=dim.name)

    def select(x: Any) -> Any:
        if isinstance(x, Dim):
            return new.get(x, x)
        if not isinstance(x, Tensor) or not set(dims) & set(x.dims):
            return x
        picked, _ = masked_select(x, mask=mask, dims=dims, out_dim=out_dim)
        return _replaced(picked, new)

    return map_nested(select, s), out_dim, new


def masked_scatter_nested(
    s: Any,
    backup: Any,
    *extra: Never,
    mask: Tensor,
    mask_cpu: Tensor | None = None,
    dims: Sequence[Dim],
    in_dim: Dim,
    masked_select_dim_map: dict[Dim, Dim],
    masked_scatter_dim_map: dict[Dim, Dim] | None = None,
    **unknown: Never,
) -> Any:
    """Undo `masked_select_nested`: the packed sequences return to their places, those of `backup` fill the others.

    Args:
        s: Nested structure with Tensors {..., in_dim}. One without in_dim that is another than that of backup, as a counter of
            steps, counts for the selected sequences: the result has `dims` then.
        backup: A structure like it, with Tensors {..., dims}.
        mask, mask_cpu, dims: As they were for selecting.
        masked_select_dim_map: What selecting gave.
        masked_scatter_dim_map: Dims of s and backup and the ones that stand for both; new ones are added. A Dim that is not
            the one which selecting made (a cache that has grown) gets the lengths of s or of backup for each sequence.

    Raises:
        ValueError: If the structures differ.
    """
    check_unique((in_dim,), "masked_scatter_nested")
    if not same_structure(s, backup):
        raise value_error(
            "masked_scatter_nested: the structures differ.",
            [(label, ", ".join(path for path, _ in leaves(x))) for label, x in (("s", s), ("backup", backup))],
            "Each packed Tensor needs the one before at the same place.",
        )
    both = {} if masked_scatter_dim_map is None else masked_scatter_dim_map
    known = set(both)
    both.update({packed: dim for dim, packed in masked_select_dim_map.items() if packed not in both})
    host = copy_to_device(mask, "cpu") if mask_cpu is None else mask_cpu

    def merge(a: Any, b: Any) -> Any:
        # What selecting made of b is b again; of another dim than b, its sequences have lengths of their own.
        if isinstance(a, Dim) and isinstance(b, Dim) and a is not b and a not in known and both.get(a) is not b:
            sizes = expand_dims(a.get_size_tensor(), [] if in_dim in a.length_dims else [in_dim]), b.get_size_tensor()
            lengths = masked_scatter(*sizes, mask=host, dims=dims, in_dim=in_dim)
            both[a] = both[b] = Dim(lengths, name=b.name)
            known.update((a, b))

    def scatter(a: Any, b: Any) -> Any:
        if isinstance(a, Dim):
            return both.get(a, a)
        if not isinstance(a, Tensor) or a is b:
            return a
        if in_dim not in a.dims:  # one value for all has changed, as a position: it has for those that were selected
            here = copy_to_device(mask, a.device)
            return where(here, _replaced(a, both), _replaced(b, both), allow_broadcast_all_sources=True)
        return masked_scatter(_replaced(a, both), _replaced(b, both), mask=mask, dims=dims, in_dim=in_dim)

    map_nested(merge, s, backup)
    return map_nested(scatter, s, backup)


def _replaced(x: Tensor, dims: dict[Dim, Dim]) -> Tensor:
    for dim in x.dims:
        if dim in dims:
            x = replace_dim_v2(x, in_dim=dim, out_dim=dims[dim])
    return x
