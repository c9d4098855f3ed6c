"""Random test data for templates: first sizes for dims without one, then values.

    data = TensorDict([Tensor("x", [batch_dim, time, feat]), Tensor("y", [batch_dim], "int32", sparse_dim=classes)])
    tensor_dict_fill_random_numpy_(data)

NumPy draws the values, so they are the same for every backend.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rfnb.backends import registry
from rfnb.core.dim import Dim, Dims
from rfnb.core.errors import value_error
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_dict import TensorDict

BATCH_SIZE, SHORTEST, LONGEST = 3, 2, 7  # where nothing else is said
Sizes = Mapping[Dim, int] | None


def tensor_dict_fill_random_numpy_(
    tensor_dict: TensorDict, *, rnd: int | Any = 42, dyn_dim_max_sizes: Sizes = None, dyn_dim_min_sizes: Sizes = None
) -> None:
    """Fill every template with random values in place; a dim has the same sizes in all of them.

    Args:
        rnd: A seed, or a NumPy generator.
        dyn_dim_max_sizes, dyn_dim_min_sizes: Bounds of lengths by dim. Default: from 2 to 7 frames; 3 sequences.
    """
    rnd = np.random.default_rng(rnd) if isinstance(rnd, int) else rnd
    _fill_sizes(tensor_dict.all_dims(), rnd, dyn_dim_max_sizes, dyn_dim_min_sizes)
    for tensor in tensor_dict.data.values():
        tensor_fill_random_numpy_(
            tensor, rnd=rnd, dyn_dim_max_sizes=dyn_dim_max_sizes, dyn_dim_min_sizes=dyn_dim_min_sizes
        )


def tensor_fill_random_numpy_(
    x: Tensor,
    *,
    min_val: int = 0,
    max_val: int | None = None,
    rnd: Any,
    dyn_dim_max_sizes: Sizes = None,
    dyn_dim_min_sizes: Sizes = None,
) -> bool:
    """Fill a template with random values in place, and size its dims that have no size.

    Args:
        min_val, max_val: For integers: bounds, both inclusive. Default: below the size of the sparse dim, else up to 10. Floats are
            standard normal.

    Returns:
        False if it already had values, which are kept.
    """
    if x.raw_tensor is not None:
        return False
    _fill_sizes(x.dims, rnd, dyn_dim_max_sizes, dyn_dim_min_sizes)
    shape = tuple(dim.extent for dim in x.dims)
    if x.dtype == "bool":
        values = rnd.uniform(size=shape) < 0.5
    elif x.dtype.startswith(("int", "uint")):
        if max_val is None:
            max_val = x.sparse_dim.extent - 1 if x.sparse_dim is not None else 10
        values = np.floor(rnd.uniform(min_val, max_val + 1, size=shape))
    else:
        values = rnd.normal(size=shape)
    x.raw_tensor = registry.selected().from_numpy(np.asarray(values), dtype=x.dtype)
    return True


def get_random_seq_lens_for_dyn_dims(
    dims: Sequence[Dim],
    rnd: Any,
    *,
    batch_size: int = BATCH_SIZE,
    dyn_dim_max_sizes: Sizes = None,
    dyn_dim_min_sizes: Sizes = None,
) -> dict[Dim, np.ndarray]:
    """Random sizes for those of `dims` that have none: one number for a batch dim, lengths for others.

    Lengths are over the declared dims, else over the batch dim among `dims`, else there is a single length. Derived dims are skipped,
    since their sizes follow.

    Returns:
        Dim -> int32 array; the dims of lengths come before them.
    """
    batch = [dim for dim in dims if dim.is_batch_dim()]
    found: dict[Dim, np.ndarray] = {}

    def size(dim: Dim) -> int:
        return int(found[dim].max(initial=0)) if dim in found else dim.extent

    def draw(dim: Dim) -> None:
        if dim.is_dim_known() or dim in found or dim.expr is not None or dim.twin_of is not None:
            return
        if dim.is_batch_dim():
            found[dim] = np.asarray(batch_size, np.int32)
            return
        over = _over(dim, batch)
        for other in over:
            draw(other)
        low, high = (dyn_dim_min_sizes or {}).get(dim, SHORTEST), (dyn_dim_max_sizes or {}).get(dim, LONGEST)
        shape = tuple(map(size, over))
        found[dim] = np.floor(rnd.uniform(min(low, high), high + 1, size=shape)).astype(np.int32)

    for dim in dims:
        draw(dim)
    return found


def tensor_dict_dims_random_seq_len_min_max(
    tensor_dict: TensorDict, seq_lens: None | int | tuple[int, int] | Mapping[Any, Any] = None
) -> list[tuple[Dim, int, int]]:
    """(dim, shortest, longest) for every dim of the Tensors that may be ragged.

    Args:
        seq_lens: One length, a pair of bounds, or these by Dim or its name (None: for all others). Default: 2 to 7.

    Raises:
        ValueError: If the shortest is longer than the longest.
    """
    by_dim = dict(seq_lens) if isinstance(seq_lens, Mapping) else {None: seq_lens}
    out = []
    for dim in tensor_dict.all_dims():
        if dim.is_static() or dim.is_batch_dim() or dim.expr is not None:
            continue
        bounds = by_dim.get(dim, by_dim.get(dim.name, by_dim.get(None)))
        low, high = (bounds, bounds) if isinstance(bounds, int) else bounds or (SHORTEST, LONGEST)
        if low > high:
            raise value_error(
                "tensor_dict_dims_random_seq_len_min_max: the bounds are the wrong way round.",
                {"dim": dim, "shortest": low, "longest": high},
                "The shortest comes first.",
            )
        out.append((dim, low, high))
    return out


def _over(dim: Dim, batch: Sequence[Dim]) -> Dims:
    return dim.declared_length_dims or tuple(batch[:1])


def _fill_sizes(dims: Sequence[Dim], rnd: Any, longest: Sizes, shortest: Sizes) -> None:
    drawn = get_random_seq_lens_for_dyn_dims(dims, rnd, dyn_dim_max_sizes=longest, dyn_dim_min_sizes=shortest)
    batch = [dim for dim in dims if dim.is_batch_dim()]
    for dim, sizes in drawn.items():
        dim.dyn_size_ext = sizes if dim.is_batch_dim() else Tensor("sizes", _over(dim, batch), raw_tensor=sizes)
