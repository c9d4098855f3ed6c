"""Random choices from a distribution, with and without replacement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Never

from rfnb.core.dim import Dim
from rfnb.core.errors import dim_error
from rfnb.core.layout import full_shape
from rfnb.core.op import op
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.core.tensor_checks import check_dim, check_unique
from rfnb.core.tensor_text import dims_text
from rfnb.ops.cast import cast
from rfnb.ops.math import clip_by_value, log
from rfnb.ops.operands import need_tensors
from rfnb.ops.random import random_uniform
from rfnb.ops.reduce import top_k
from rfnb.ops.sequence_pairs import flat_batch, volume

_TINY = 1e-30  # log 0 would be infinite
_BELOW_ONE = 1 - 2**-24


@op(draws=True)
def random_choice_without_replacement(
    *extra: Never,
    log_probs: Tensor,
    axis: Dim | Sequence[Dim],
    num_samples_dim: Dim,
    noise_scale: float = 1.0,
    **unknown: Never,
) -> Tensor | list[Tensor]:
    """Distinct entries of `axis`, drawn one after the other, each with its probability among the remaining ones.

    Args:
        log_probs: {..., axis}, natural logs; they need not be normalised.
        axis: One dim, or several that are drawn from jointly. Padding is never chosen before a real frame.
        num_samples_dim: A static dim whose size is the number of draws.
        noise_scale: 0: always the most probable ones. Values between 0 and 1: like 1 with log_probs / noise_scale.

    Returns:
        int64 {..., num_samples_dim}, sparse over axis, in the order of drawing; a list with one per axis for several.

    Raises:
        DimError: If log_probs lacks an axis, or has fewer entries than draws.

    Source: Kool et al. 2019, "Stochastic Beams and Where to Find Them", section 2.3: the k largest of log_probs plus Gumbel noise.
    """
    need_tensors("random_choice_without_replacement", log_probs)
    for dim in axis if isinstance(axis, (list, tuple)) else (axis,):  # before anything is drawn
        check_dim("random_choice_without_replacement", log_probs, dim, "log_probs")
    scores = log_probs
    if noise_scale:
        uniform = random_uniform(log_probs.dims, dtype=log_probs.dtype, device=log_probs.device)
        noise = -log(-log(clip_by_value(uniform, _TINY, _BELOW_ONE)))
        scores = log_probs + noise * noise_scale
    return top_k(scores, axis=axis, k_dim=num_samples_dim)[1]


@op(draws=True)
def random_choice_with_replacement(
    dims: Sequence[Dim], *extra: Never, probs: Tensor, axis: Dim, **unknown: Never
) -> Tensor:
    """Entries of `axis`, each drawn with its probability, independently; {dims}.

    Args:
        dims: Dims of the result. Those in common with probs are batch dims; the others are independent draws.
        probs: {..., axis}, 0 or more; they need not be normalised. Its other dims are among `dims`. Padding of axis is never
            chosen.

    Returns:
        int32 {dims}, sparse over axis. An arbitrary index where all probabilities are 0.

    Raises:
        DimError: If probs lacks the axis, or has other dims than `dims`; or if there is nothing to choose from.
    """
    what = "random_choice_with_replacement"
    dims = check_unique(tuple(dims), what)
    check_dim(what, probs, axis, "probs")
    batch = tuple(dim for dim in probs.dims if dim is not axis)
    if not set(batch) <= set(dims) or axis in dims:
        raise dim_error(
            f"{what}: dims are not those of the result.",
            {"dims": dims_text(dims), "probs": probs, "axis": axis},
            "The result has all dims of probs but the axis, which it is sparse over, and any further ones.",
            f"dims={dims_text((*batch, *(dim for dim in dims if dim not in batch and dim is not axis)))}",
        )
    if axis.extent == 0 and volume(dims):
        raise dim_error(
            f"{what}: nothing to choose from.",
            {"probs": probs, "axis": axis},
            "The axis has one entry or more.",
        )
    own = tuple(dim for dim in dims if dim not in batch)
    backend = probs.backend
    # The first entry whose cumulated probability is above a uniform number; in float64, since rare ones are far down.
    flat = flat_batch(cast(probs.copy_masked(0, dims=[axis]), "float64"), batch, (axis,))
    cumulated = backend.cumsum_raw(flat, 1)
    uniform = random_uniform((*batch, *own), dtype="float64", device=probs.device)
    shape = volume(batch), volume(own)
    if axis.extent:
        total = backend.slice_raw(cumulated, 1, axis.extent - 1, axis.extent)
        points = backend.combine_raw(backend.reshape_raw(uniform._raw, shape), "mul", total)
        chosen = backend.clip_raw(backend.search_sorted_raw(cumulated, points, True), 0, axis.extent - 1)
    else:
        chosen = backend.full_raw(shape, 0, dtype="int64", device=probs.device)
    out = new_tensor(backend.reshape_raw(backend.cast_raw(chosen, "int32"), full_shape((*batch, *own))), (*batch, *own))
    out.sparse_dim = axis
    return out.copy_transpose(dims)
