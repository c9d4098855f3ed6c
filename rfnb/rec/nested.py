"""Nested structures of Tensors and Dims: picking hypotheses, masking, their text."""

from __future__ import annotations

from typing import Any, Never

from rfnb.core.dim import Dim
from rfnb.core.dim_identity import check_remade
from rfnb.core.errors import dim_error, value_error
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_text import shape_of
from rfnb.core.tree import agree, is_container, items_of, leaves, map_nested, same_structure, values_in
from rfnb.ops.defaults import copy_to_device
from rfnb.ops.dims import replace_dim_v2
from rfnb.ops.expand import expand_dims
from rfnb.ops.gather import gather
from rfnb.ops.where import where
from rfnb.rec.ended_states import kept


def structure_text(value: Any) -> str:
    """A nested structure for messages: containers by name, Tensors by dims."""
    kind = type(value).__name__
    if isinstance(value, (list, tuple)):
        inner = ", ".join(map(structure_text, value))
        return f"[{inner}]" if kind == "list" else f"({inner})" if kind == "tuple" else f"{kind}({inner})"
    if is_container(value):
        return f"{kind}({', '.join(f'{key}={structure_text(item)}' for key, item in items_of(value))})"
    if isinstance(value, Tensor):
        return f"Tensor {shape_of(value)}"
    return value.short_repr() if isinstance(value, Dim) else "None" if value is None else type(value).__name__


def gather_nested(
    s: Any, *extra: Never, indices: Tensor, dim_map: dict[Dim, Dim] | None = None, **unknown: Never
) -> Any:
    """Pick entries of every Tensor that has the sparse_dim of `indices` (beam reordering); leave the rest unchanged.

    Args:
        s: Nested structure. A Dim in it whose lengths are over that sparse_dim is replaced by one with the picked lengths, in the
            Tensors too.
        indices: int {...}, sparse.
        dim_map: Old dims and the new ones that stand for them; new ones are added.

    Raises:
        DimError: If indices have no sparse_dim.
    """
    axis = indices.sparse_dim
    if axis is None:
        raise dim_error(
            "gather_nested: which dim?",
            {"indices": indices},
            "The indices have no sparse_dim, so say what they index into:",
            "rf.set_sparse_dim(indices, beam)",
        )
    dims = {} if dim_map is None else dim_map
    for leaf in values_in(s):
        if isinstance(leaf, Dim) and leaf not in dims and axis in leaf.length_dims:
            lengths = gather(leaf.get_size_tensor(), indices=copy_to_device(indices, "cpu"), axis=axis)
            dims[leaf] = Dim(lengths, name=leaf.name)

    def pick(x: Any) -> Any:
        if isinstance(x, Dim):
            return dims.get(x, x)
        if not isinstance(x, Tensor):
            return x
        return _with_dims(gather(x, indices=indices, axis=axis) if axis in x.dims else x, dims)

    return map_nested(pick, s)


def where_nested(
    x: Any, y: Any, *extra: Never, condition: Tensor, condition_cpu: Tensor | None = None, **unknown: Never
) -> Any:
    """x where condition, else y, for every Tensor and every Dim of two equal structures.

    Args:
        x, y: Nested structures. Where both have a Dim, the result has that of x if the two have one size, else a new one: its lengths
            are those of x where condition, else those of y; Tensors with the old dims get it.
        condition: bool {...}
        condition_cpu: The same on the host, if it is there already; lengths are on the host.

    Raises:
        ValueError: If the structures differ.
    """
    needed = set(condition.dims)

    def ready(a: Any, b: Any) -> bool:
        if isinstance(a, Tensor):
            return isinstance(b, Tensor) and a.dims == b.dims and needed.issubset(a.dims)
        return a is b

    if agree(ready, x, y):  # most steps of a loop: no dim is to be replaced or added
        return map_nested(lambda a, b: kept(condition, a, b) if isinstance(a, Tensor) else a, x, y)
    return mask_nested(x, mask=condition, mask_cpu=condition_cpu, mask_value=y)


def mask_nested(
    s: Any,
    *extra: Never,
    mask: Tensor,
    mask_cpu: Tensor | None = None,
    mask_value: Any,
    dim_map: dict[Dim, Dim] | None = None,
    allow_dim_extension: bool = True,
    **unknown: Never,
) -> Any:
    """s where mask, else `mask_value`, for every Tensor and every Dim of a structure.

    Args:
        s: Nested structure.
        mask: bool {...}
        mask_value: A number for all Tensors, or a structure like s; then Dims are merged as in `where_nested`.
        dim_map: Old dims and the new ones that stand for them; new ones are added.
        allow_dim_extension: A Tensor that lacks a dim of mask gets it; else that is an error.

    Raises:
        ValueError: If mask_value is a structure other than that of s.
        DimError: If a Tensor lacks a dim of mask, without allow_dim_extension.
    """
    number = isinstance(mask_value, (int, float))
    if mask_value is None or (not number and not same_structure(s, mask_value)):
        raise value_error(
            "mask_nested: the structures differ.",
            {
                "s": ", ".join(path for path, _ in leaves(s)),
                "mask_value": ", ".join(path for path, _ in leaves(mask_value)),
            },
            "Each Tensor needs the other one at the same place. A number stands for all:",
            "rf.mask_nested(s, mask=mask, mask_value=0)",
        )
    dims = {} if dim_map is None else dim_map

    def merge(a: Any, b: Any) -> Any:
        if isinstance(a, Dim) and isinstance(b, Dim) and a is not b:
            merged = dims.get(a) or dims.get(b) or _merged_dim(a, b, mask if mask_cpu is None else mask_cpu)
            dims[a] = dims[b] = merged
        return None

    def choose(a: Any, b: Any) -> Any:
        if isinstance(a, Dim):
            return dims.get(a, a)
        if not isinstance(a, Tensor) or a is b:
            return a
        lacking = [dim for dim in mask.dims if dim not in a.dims]
        if lacking and not allow_dim_extension:
            raise dim_error(
                f"mask_nested: a tensor has no dim {lacking[0].short_repr()}.",
                {"tensor": a, "mask": mask},
                "Masking would give it that dim, and allow_dim_extension is False.",
                "rf.mask_nested(..., allow_dim_extension=True)",
            )
        a, b = _with_dims(a, dims), _with_dims(b, dims) if isinstance(b, Tensor) else b
        check_remade("mask_nested", [("tensor", a.dims), ("mask", mask.dims)])
        return kept(mask, a, b)

    others = map_nested(lambda _: mask_value, s) if number else mask_value
    map_nested(merge, s, others)
    return map_nested(choose, s, others)


def _merged_dim(a: Dim, b: Dim, mask: Tensor) -> Dim:
    """A dim with the lengths of `a` where mask, else those of `b`. If both have the same size it is `a` itself, so that results of a
    step that use its dim match the carried values.
    """
    if a.size is not None and a.size == b.size:
        return a
    sizes = a.get_size_tensor(), b.get_size_tensor()
    lengths = where(copy_to_device(mask, "cpu"), *sizes, allow_broadcast_all_sources=True)
    return Dim(lengths, name=a.name)


def _with_dims(x: Tensor, dims: dict[Dim, Dim]) -> Tensor:
    for dim in x.dims:
        if dim in dims and dims[dim] is not dim:
            missing = [over for over in dims[dim].length_dims if over not in x.dims]
            x = replace_dim_v2(expand_dims(x, missing), in_dim=dim, out_dim=dims[dim])
    return x
