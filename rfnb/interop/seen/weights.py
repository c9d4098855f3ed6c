"""Attention weights from queries and keys in torch, with their values at the time of the call.

weights = softmax(scale * Q K^T + mask)         Vaswani et al. 2017, eq. 1
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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
        scores = scores.masked_fill(~upper_left(scores.shape, scores.device), -math.inf)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask
    # torch gives 0 for fully masked rows.
    return torch.softmax(scores, -1).masked_fill(scores.isneginf().all(-1, keepdim=True), 0)


def visible(mask: Any) -> Any:
    """A mask as bool; None if all positions are visible."""
    seen = mask if mask is None or mask.dtype == torch.bool else ~mask.isneginf()
    return None if seen is None or bool(seen.all()) else seen


def both(mask: Any, other: torch.Tensor) -> torch.Tensor:
    """The intersection of a mask (None: all visible) with another one, which is bool."""
    if mask is None:
        return other
    return mask & other if mask.dtype == torch.bool else mask.masked_fill(~other, -math.inf)


def upper_left(shape: Sequence[int], device: Any = None) -> torch.Tensor:
    """The visible cells of torch's causal mask for weights of this shape, which is aligned with the first source if there are more
    sources than targets.
    """
    return torch.ones([1] * (len(shape) - 2) + list(shape[-2:]), dtype=torch.bool, device=device).tril()


def arguments(args: Any, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `F.scaled_dot_product_attention` by name."""
    return dict(zip(("query", "key", "value", "attn_mask", "dropout_p", "is_causal"), args)) | dict(kwargs)
