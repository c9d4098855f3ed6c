"""Attention weights from queries and keys in torch, with their values at the time of the call.

weights = softmax(scale * Q K^T + mask)         Vaswani et al. 2017, eq. 1
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from rfnb.interop.seen.snapshot import ValueSnapshot, version_of


def keep(raw: Any, what: str) -> Any:
    """A `ValueSnapshot`; for a nested tensor one per sequence."""
    if raw.is_nested:
        return [keep(part, what) for part in raw.detach().unbind()]
    # A buffer that was written to will be written to again: a static cache of keys.
    return ValueSnapshot(raw, what, copy=True if version_of(raw) else None)


def bytes_of(kept: Any) -> int:
    """The bytes of the stored values."""
    return sum(map(bytes_of, kept)) if isinstance(kept, list) else kept.num_bytes if kept is not None else 0


def read(kept: Any) -> torch.Tensor:
    """The tensor [..., position, feature]; several sequences are padded with 0."""
    if not isinstance(kept, list):
        return kept.read()
    return torch.nn.utils.rnn.pad_sequence([one.read().transpose(0, -2) for one in kept], True).transpose(1, -2)


def weights(
    query: torch.Tensor, key: torch.Tensor, mask: Any = None, *, causal: bool = False, scale: float | None = None
) -> torch.Tensor:
    """The weights as in `made`, without gradients."""
    with torch.no_grad():
        return made(query, key, mask, causal=causal, scale=scale)


def made(
    query: torch.Tensor, key: torch.Tensor, mask: Any = None, *, causal: bool = False, scale: float | None = None
) -> torch.Tensor:
    """Weights [..., target, source] before dropout, in float32 at least.

    Args:
        query: [..., target, feature]
        key: [..., source, feature]. With fewer heads, several heads of the queries share one.
        mask: Bool, true for visible positions, or added to the scores.
        causal: Whether target i sees the sources 0 to i.
        scale: Default: 1 / sqrt(feature).
    """
    query, key = (raw if raw.dtype == torch.float64 else raw.float() for raw in (query, key))
    heads, own = (raw.shape[-3] if raw.ndim > 2 else 1 for raw in (query, key))
    if 1 not in (heads, own) and heads != own:
        key = key.repeat_interleave(heads // own, -3)
    scores = (query @ key.transpose(-1, -2)) * (scale if scale is not None else query.shape[-1] ** -0.5)
    if causal:
        scores = scores.masked_fill(~upper_left(scores.shape[-2], scores.shape[-1], scores.device), -math.inf)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask
    # torch gives 0 for fully masked rows.
    return torch.softmax(scores, -1).masked_fill(scores.isneginf().all(-1, keepdim=True), 0)


def seen(mask: Any, shape: Sequence[int], *, causal: bool = False) -> Any:
    """A mask of visible positions, bool [..., target, source], with size 1 for axes along which it is constant; None if all are visible.

    Args:
        shape: The shape of the weights.
        causal: As in `weights`; with as many targets as sources the flag suffices, and no mask is needed.
    """
    if causal and shape[-1] != shape[-2]:
        there = upper_left(shape[-2], shape[-1], mask.device if mask is not None else None)
        there = there.reshape([1] * (len(shape) - 2) + list(there.shape))
    else:
        there = None
    if mask is not None:
        visible = mask if mask.dtype == torch.bool else ~mask.isneginf()
        visible = visible.reshape([1] * (len(shape) - visible.ndim) + list(visible.shape))
        there = visible if there is None else there & visible
    return None if there is None or bool(there.all()) else there


def both(mask: Any, other: torch.Tensor) -> torch.Tensor:
    """The intersection of a mask (None: all visible) with another one, which is bool."""
    if mask is None:
        return other
    return mask & other if mask.dtype == torch.bool else mask.masked_fill(~other, -math.inf)


def upper_left(targets: int, sources: int, device: Any = None) -> torch.Tensor:
    """The visible cells of torch's causal mask, which is aligned with the first source if there are more sources than targets."""
    return torch.ones(targets, sources, dtype=torch.bool, device=device).tril()
