"""Selection of frames by a mask, packed without gaps, and the reverse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Never

import numpy as np

from rfnb.core.dim import Dim, Dims
from rfnb.core.dim_identity import check_remade
from rfnb.core.errors import dim_error, type_error, value_error
from rfnb.core.layout import full_shape
from rfnb.core.op import op
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.core.tensor_checks import check_lengths_here
from rfnb.core.tensor_text import dims_text, operand_rows, shape_of
from rfnb.ops import math
from rfnb.ops.cast import cast
from rfnb.ops.cumsum import cumsum
from rfnb.ops.dims import sequence_mask
from rfnb.ops.expand import expand_dims
from rfnb.ops.gather import gather
from rfnb.ops.merge import merge_dims, split_dims
from rfnb.ops.operands import need_tensors
from rfnb.ops.out_dim import settle_size
from rfnb.ops.pad import pad
from rfnb.ops.where import where


@op
def masked_select(
    tensor: Tensor, *extra: Never, mask: Tensor, dims: Sequence[Dim], out_dim: Dim | None = None, **unknown: Never
) -> tuple[Tensor, Dim]:
    """The entries where `mask` is True, packed consecutively.

    Args:
        tensor: {..., dims}
        mask: bool {..., dims}; its padding counts as False. Read by the host, which needs the number of entries.
        dims: The dims to merge into one (first is major). The other dims of the mask are kept.
        out_dim: Default: a new dim. A dim without size is sized: ragged over the other dims of the mask, if there are any.

    Returns:
        {..., out_dim}, out_dim.

    Raises:
        DimError: If one of dims is not in the mask, or out_dim has another size.
        TypeError: If the mask is not bool.
    """
    need_tensors("masked_select", tensor, mask)
    dims = tuple(dims)
    _check_mask("masked_select", mask, dims)
    _check_lengths("masked_select", mask, dims)
    rest = tuple(dim for dim in mask.dims if dim not in dims)
    picked = mask.copy_masked(False).copy_transpose((*rest, *dims)).numpy()
    picked = picked.reshape((*full_shape(rest), int(np.prod(full_shape(dims)))))
    lengths = picked.sum(-1).astype(np.int32)
    needed = Dim(new_tensor(mask.backend.from_numpy(lengths, dtype="int32", device="cpu"), rest), name="selected")
    out_dim = needed if out_dim is None else out_dim
    settle_size("masked_select", out_dim, needed)
    # A stable sort of "is not picked" has the picked ones in front, in their order.
    positions = np.argsort(~picked, axis=-1, kind="stable")[..., : out_dim.extent]
    raw = tensor.backend.from_numpy(positions, dtype="int64", device=tensor.device)
    flat = Dim(picked.shape[-1], name="flat")
    merged, _ = merge_dims(
        expand_dims(tensor, [dim for dim in dims if dim not in tensor.dims]), dims=dims, out_dim=flat
    )
    return gather(merged, indices=new_tensor(raw, (*rest, out_dim)), axis=flat), out_dim


@op
def masked_scatter(
    source: Tensor,
    backup: Tensor | float | int | None = None,
    *extra: Never,
    mask: Tensor,
    dims: Sequence[Dim],
    in_dim: Dim,
    **unknown: Never,
) -> Tensor:
    """Undo `masked_select`: place the frames of `in_dim` where `mask` is True, and `backup` elsewhere.

    Args:
        source: {..., in_dim}
        backup: {...}, a number, or None for 0.
        mask: bool {..., dims}; its padding counts as False.
        dims: The dims that replace `in_dim`.

    Returns:
        {..., dims}: the dims of mask, source (without in_dim) and backup.

    Raises:
        DimError: If in_dim is not in source, one of dims not in the mask, or source and backup have different ragged dims.
        TypeError: If the mask is not bool.
    """
    need_tensors("masked_scatter", source, mask)
    dims = tuple(dims)
    _check_mask("masked_scatter", mask, dims)
    _check_lengths("masked_scatter", mask, dims)
    source.axis_of(in_dim, "masked_scatter")
    if isinstance(backup, Tensor):
        _check_frames(source, backup, in_dim, dims)
    if in_dim.extent == 0:  # then the mask is False everywhere, but gather needs something to read
        source, (in_dim,) = pad(source, axes=[in_dim], padding=[(0, 1)])
    mask = mask.copy_masked(False)
    rest = tuple(dim for dim in mask.dims if dim not in dims)
    ordered = mask.copy_transpose((*rest, *dims))
    flat = Dim(int(np.prod(full_shape(dims))), name="flat")
    merged, _ = merge_dims(ordered, dims=dims, out_dim=flat)
    index = math.clip_by_value(cumsum(cast(merged, "int64"), spatial_dim=flat) - 1, 0, in_dim.extent - 1)
    out = gather(source, indices=split_dims(index, axis=flat, dims=dims), axis=in_dim)
    return where(ordered, out, 0 if backup is None else backup, allow_broadcast_all_sources=True)


def _check_mask(what: str, mask: Tensor, dims: Dims) -> None:
    if mask.dtype != "bool":
        raise type_error(
            f"{what}: the mask is not bool.",
            {"mask": f"{shape_of(mask)} {mask.dtype}"},
            "True selects an entry.",
            "mask = x > 0",
        )
    missing = [dim for dim in dims if dim not in mask.dims]
    if missing or not dims:
        raise dim_error(
            f"{what}: the mask needs the dims that are packed.",
            {"mask": mask, "dims": dims_text(dims)},
            "The packed dims are some or all of those of the mask.",
            f"mask = rf.expand_dim(mask, {missing[0].name})" if missing else None,
        )


def _check_frames(source: Tensor, backup: Tensor, in_dim: Dim, dims: Dims) -> None:
    """Check that source and backup have the same frames, since each entry of the result is a frame of one of them."""
    operands = [("source", source), ("backup", backup)]
    check_remade("masked_scatter", [(label, tensor.dims) for label, tensor in operands], but=(in_dim, *dims))
    ours, theirs = (
        [dim for dim in tensor.dims if dim.need_masking() and dim not in (*other.dims, in_dim, *dims)]
        for tensor, other in ((source, backup), (backup, source))
    )
    if not ours or not theirs:
        return
    raise dim_error(
        "masked_scatter: source and backup have different ragged dims.",
        [*operand_rows(operands), ("in_dim", in_dim)],
        f"{ours[0].name} and {theirs[0].name} would make an outer product. Where the two have frames of their own, the dim that "
        "stands for\nboth has the lengths of source or of backup for each sequence:",
        f"rf.masked_scatter_nested((source, {ours[0].name}), (backup, {theirs[0].name}), mask=..., dims=[...], ...)",
    )


def _check_lengths(what: str, mask: Tensor, dims: Dims) -> None:
    """Check the lengths: without the lengths of its dims, the padding of the mask would not count as False."""
    for dim in dims:
        check_lengths_here(what, [("mask", mask.dims)], dim, "mask")


@op
def pack_padded(
    source: Tensor,
    *extra: Never,
    dims: Sequence[Dim],
    enforce_sorted: bool = False,
    out_dim: Dim | None = None,
    **unknown: Never,
) -> tuple[Tensor, Dim]:
    """The real frames over `dims` (first is major) as one dim without padding.

    Args:
        source: {..., dims}
        enforce_sorted: Must be False.

    Returns:
        {..., out_dim}, out_dim.

    Raises:
        ValueError: If enforce_sorted is set.
    """
    need_tensors("pack_padded", source)
    if enforce_sorted:
        raise value_error(
            "pack_padded: enforce_sorted.",
            {"source": source, "dims": dims_text(tuple(dims))},
            "Frames are packed in the order of the dims, whatever their lengths are.",
            "rf.pack_padded(source, dims=[...])",
        )
    for dim in dims:
        check_lengths_here("pack_padded", [("source", source.dims), ("dims", tuple(dims))], dim, "source")
    return masked_select(source, mask=_real_frames(dims, source), dims=dims, out_dim=out_dim)


@op
def pad_packed(source: Tensor, *extra: Never, in_dim: Dim, dims: Sequence[Dim], **unknown: Never) -> Tensor:
    """Undo `pack_padded`: {..., in_dim} -> {..., dims}, 0 in the padding."""
    need_tensors("pad_packed", source)
    return masked_scatter(source, mask=_real_frames(dims, source), dims=dims, in_dim=in_dim)


def _real_frames(dims: Sequence[Dim], like: Tensor) -> Tensor:
    mask: Any = sequence_mask(dims, device=like.device)
    return expand_dims(mask, [dim for dim in dims if dim not in mask.dims])
