"""Weights from queries and keys of torch, as they were when a module was called.

weights = softmax(scale * Q K^T + mask)         Vaswani et al. 2017, eq. 1
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from rfnb.core.errors import runtime_error


class Kept:
    """A tensor of a call, to be read later as it was then; no copy, unless it is one that is changed in place."""

    def __init__(self, raw: torch.Tensor, what: str):
        raw = raw.detach()
        # A buffer that was written to will be again: a static cache of keys. Without a counter one could not tell.
        if raw.is_inference() or raw._version:
            raw = raw.clone()
        self._raw, self._what = raw, what
        self._version = None if raw.is_inference() else raw._version
        self.num_bytes = raw.numel() * raw.element_size()

    def read(self) -> torch.Tensor:
        """The tensor.

        Raises:
            RuntimeError: If it was changed in place since.
        """
        if self._version is not None and self._raw._version != self._version:
            raise runtime_error(
                f"attention: the {self._what} of this call are not what they were.",
                [(self._what, f"{tuple(self._raw.shape)}, changed in place after the call")],
                "Weights are made of queries and keys when they are looked at first. Look before the model changes them:",
                "trace.attention[path]    # inside of `with rf.record(...)`, after the call",
            )
        return self._raw


def keep(raw: Any, what: str) -> Any:
    """A `Kept`; of a nested tensor one for each of its sequences."""
    return [Kept(part, what) for part in raw.detach().unbind()] if raw.is_nested else Kept(raw, what)


def bytes_of(kept: Any) -> int:
    """The bytes of what is kept."""
    return sum(map(bytes_of, kept)) if isinstance(kept, list) else kept.num_bytes if kept is not None else 0


def read(kept: Any) -> torch.Tensor:
    """The tensor [..., position, feature]; of several sequences padded with 0."""
    if not isinstance(kept, list):
        return kept.read()
    return torch.nn.utils.rnn.pad_sequence([one.read().transpose(0, -2) for one in kept], True).transpose(1, -2)


def weights(
    query: torch.Tensor, key: torch.Tensor, mask: Any = None, *, causal: bool = False, scale: float | None = None
) -> torch.Tensor:
    """Weights [..., target, source] before dropout, in float32 at least.

    Args:
        query: [..., target, feature]
        key: [..., source, feature]. Where it has fewer heads, several heads of the queries share one.
        mask: Bool, true for what may be seen, or what is added to the scores.
        causal: Whether target i sees the sources 0 to i.
        scale: Default: 1 / sqrt(feature).
    """
    with torch.no_grad():
        query, key = (raw if raw.dtype == torch.float64 else raw.float() for raw in (query, key))
        if query.ndim > 2 and key.shape[-3] not in (1, query.shape[-3]):
            key = key.repeat_interleave(query.shape[-3] // key.shape[-3], -3)
        scores = (query @ key.transpose(-1, -2)) * (scale if scale is not None else query.shape[-1] ** -0.5)
        if causal:
            scores = scores.masked_fill(~upper_left(scores.shape[-2], scores.shape[-1], scores.device), -math.inf)
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask
        # Where nothing may be seen torch gives 0.
        return torch.softmax(scores, -1).masked_fill(scores.isneginf().all(-1, keepdim=True), 0)


def seen(mask: Any, shape: Sequence[int], *, causal: bool = False) -> Any:
    """A mask of what may be seen, bool [..., target, source], axes where it is the same for all of size 1; None if that is everything.

    Args:
        shape: Of the weights.
        causal: As for `weights`; where there are as many targets as sources the flag says it, and no mask is needed.
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


def upper_left(targets: int, sources: int, device: Any = None) -> torch.Tensor:
    """The cells that a causal mask of torch shows: where there are more sources than targets, the first ones."""
    return torch.ones(targets, sources, dtype=torch.bool, device=device).tril()
