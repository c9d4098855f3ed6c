"""Reading and writing of array entries by indices, for torch."""

from __future__ import annotations

from typing import Any

import torch

from rfnb.backends.constants import kept
from rfnb.backends.torch_functions import DTYPES, HALF

_INDEX = frozenset((torch.int64, torch.int32))


def take(raw: Any, indices: Any, axis: int) -> Any:
    """See `Backend.take_raw`."""
    if indices.dtype not in _INDEX:
        indices = _as_index(indices)
    if not indices.dim() and indices.is_cpu and not raw.is_cpu:
        return raw.select(axis, int(indices))  # a number of the host, as the counter of a loop is
    if not indices.dim() and not indices.is_cpu:
        return raw.index_select(axis, indices.reshape(1)).squeeze(axis)  # as a number it would be waited for
    if axis == 0:
        return torch.embedding(raw, indices) if raw.dim() == 2 else raw[indices]
    if indices.dim() <= 1:
        return raw.index_select(axis, indices) if indices.dim() else raw.select(axis, int(indices))
    shape = raw.shape[:axis] + indices.shape + raw.shape[axis + 1 :]
    return raw.index_select(axis, indices.reshape(-1)).reshape(shape)


def batched_take(raw: Any, indices: Any, num_batch: int) -> Any:
    """See `Backend.batched_take_raw`."""
    if indices.dtype not in _INDEX:
        indices = _as_index(indices)
    if raw.dim() == num_batch + 1:  # quicker, and an index below 0 is an error
        if indices.dim() == num_batch:
            return raw.gather(num_batch, indices.long().unsqueeze(num_batch)).squeeze(num_batch)
        picked = raw.gather(num_batch, indices.long().flatten(num_batch))
        return picked if indices.dim() == num_batch + 1 else picked.reshape(indices.shape)
    if num_batch == 1:  # the usual one, without tuples of sizes
        return raw[_grid(raw.shape[0], 0, indices.dim(), raw.device), indices]
    device, ndim = raw.device, indices.dim()
    return raw[(*(_grid(raw.shape[axis], axis, ndim, device) for axis in range(num_batch)), indices)]


def _as_index(indices: Any) -> Any:
    """Small integers converted for kernels; torch would interpret uint8, like bool, as a mask."""
    if indices.dtype == torch.bool or indices.dtype.is_floating_point or indices.dtype.is_complex:
        raise IndexError(f"indices of {indices.dtype}")
    return indices.long()


@kept(256)
def _grid(size: int, axis: int, ndim: int, device: torch.device) -> Any:
    """An index along a batch axis that broadcasts against `ndim` axes."""
    with torch.inference_mode(False):  # else a later training could not use it
        return torch.arange(size, device=device).view([-1 if other == axis else 1 for other in range(ndim)])


def scatter(raw: Any, indices: Any, size: int, kind: str, neutral: Any) -> Any:
    """See `Backend.scatter_raw`."""
    out = raw.new_full((raw.shape[0], size, raw.shape[2]), neutral)
    indices = indices.long().unsqueeze(-1).expand(raw.shape)
    if kind == "sum":
        if raw.dtype in HALF:  # one by one in 16 bits, 2048 + 1 is 2048
            return out.float().scatter_add(1, indices, raw.float()).to(raw.dtype)
        return out.scatter_add(1, indices, raw)
    return out.scatter_reduce(1, indices, raw, {"max": "amax", "min": "amin"}[kind])


def one_hot(raw: Any, size: int, on: float, off: float, dtype: str) -> Any:
    """See `Backend.one_hot_raw`."""
    out = torch.full((*raw.shape, size), off, dtype=DTYPES[dtype], device=raw.device)
    return out.scatter_(-1, raw.long().unsqueeze(-1), on)


def first_top_k(raw: Any, k: int) -> tuple[Any, Any]:
    """See `Backend.first_top_k_raw`: sorts by numbers that combine the order of values with that of places."""
    if raw.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        best, index = torch.sort(raw, dim=-1, descending=True, stable=True)
        return best[..., :k], index[..., :k]
    size = raw.shape[-1]
    scores = raw.detach().float() + 0.0  # -0.0 is no less than 0.0
    bits = torch.where(scores == scores, scores, torch.nan).contiguous().view(torch.int32)  # NaN may have a sign
    bits = torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits).long()  # numbers below 0 count down
    keys = bits * 2**32 + torch.arange(size - 1, -1, -1, device=raw.device)
    index = size - 1 - torch.topk(keys, k, -1)[0] % 2**32
    return raw.gather(-1, index), index
