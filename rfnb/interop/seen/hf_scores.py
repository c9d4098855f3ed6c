"""Attention weights in transformers, from the arguments of the attention functions: masks, biases, windows, caps, sinks.

scores = cap * tanh(scale * Q K^T / cap) + bias + mask;  weights = softmax([scores, sink]), without the sink

The cap is from Gemma 2 (Gemma Team 2024, section 2), the sink from gpt-oss (OpenAI 2025, section 2.2): a learned score
per head for attending to nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import torch
import torch.nn.functional as F

from rfnb.interop.seen.hf_cache import KeyPositions


@dataclass(slots=True)
class Scored:
    """The inputs of attention weights: queries (batch, head, target, feature) and keys (batch, head of keys, source, feature).

    Attributes:
        mask: Added to the scores, or bool with false for hidden positions: broadcasts to (batch, head, target, source);
            or (batch, source); or a mask of flex attention, a function of four indices that is evaluated on demand.
        bias: A positional bias, also added.
        causal: Whether it is causal, with the last query aligned with the last key.
        window: Number of positions that a query sees, up to its own.
        sinks: A score per head.
    """

    query: torch.Tensor
    key: torch.Tensor
    scale: float
    mask: Any = None
    bias: torch.Tensor | None = None
    causal: bool = False
    window: int | None = None
    softcap: float | None = None
    sinks: torch.Tensor | None = None

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(batch, head, target, source)"""
        return (*self.query.shape[:3], self.key.shape[2])

    @property
    def num_bytes(self) -> int:
        """The bytes of the stored tensors."""
        return sum(raw.nbytes for raw in (self.query, self.key))

    @property
    def is_plain(self) -> bool:
        """Whether there are only queries, keys, a mask, and a window up to the query's position."""
        others = (self.bias, self.softcap, self.sinks)
        return all(each is None for each in others) and (self.window is None or self.causal)

    def added(self) -> torch.Tensor | None:
        """The mask as added to the scores, or false for hidden positions, over the existing sources; None without a mask."""
        if self.mask is None:
            return None
        self._make_mask()
        mask = _wide(self.mask)[..., : self.shape[3]]
        return mask if mask.is_floating_point() else mask != 0

    def weights(self, first: int = 0, end: int | None = None) -> torch.Tensor:
        """The rows of weights for these queries, float32."""
        end = self.query.shape[2] if end is None else end
        self._make_mask()
        groups = self.query.shape[1] // self.key.shape[1]
        with torch.no_grad():
            key = self.key.repeat_interleave(groups, 1) if groups > 1 else self.key
            query = self.query[:, :, first:end]
            scores = (query @ key.to(query.dtype).transpose(-1, -2)).float().mul_(self.scale)
            if self.softcap is not None:
                scores = torch.tanh(scores / self.softcap) * self.softcap
            for added in (self.bias, self.mask):
                if added is not None:
                    scores = _added(scores, self._rows(added, first, end))
            seen = self.seen(first, end)
            if seen is not None:
                scores.masked_fill_(~seen, -math.inf)
            if self.sinks is None:  # torch gives 0 for fully masked rows
                nothing = scores.amax(-1, keepdim=True).isneginf()
                return torch.softmax(scores, -1).masked_fill_(nothing, 0)
            sinks = self.sinks.detach().float().reshape(1, -1, 1, 1).expand(*scores.shape[:3], 1)
            return torch.softmax(torch.cat([scores, sinks], -1), -1)[..., :-1]

    def placed(self, places: KeyPositions) -> Scored:
        """The same over all positions: those without a key are hidden."""
        if not places.first:
            return self
        self._make_mask()
        mask, bias = (None if each is None else each[..., : self.shape[3]] for each in (self.mask, self.bias))
        return replace(
            self, key=F.pad(self.key, (0, 0, places.first, 0)), mask=places.masked(mask, self.shape, self.key.device),
            bias=None if bias is None else places.placed(bias),
        )  # fmt: skip

    def first_entry(self) -> Scored:
        """The same for the first batch entry only."""
        one = lambda raw: raw[:1] if isinstance(raw, torch.Tensor) and raw.ndim > 1 else raw  # noqa: E731
        return replace(self, query=self.query[:1], key=self.key[:1], mask=one(self.mask), bias=one(self.bias))

    def seen(self, first: int, end: int) -> torch.Tensor | None:
        """A mask (target, source) of the positions that these queries see by causality and window; None: all."""
        if not self.causal and self.window is None:
            return None
        device, (_, _, targets, sources) = self.query.device, self.shape
        rows = torch.arange(first, end, device=device)[:, None] + (sources - targets)
        ahead = torch.arange(sources, device=device)[None, :] - rows
        seen = ahead <= 0 if self.causal else torch.ones_like(ahead, dtype=torch.bool)
        return seen if self.window is None else seen & (ahead.abs() < self.window)

    def masked(self) -> torch.Tensor | None:
        """The positions visible by the mask, without causality and windows; broadcasts to the shape. None: all."""
        if self.mask is None:
            return None
        self._make_mask()
        mask = _wide(self.mask)[..., : self.shape[3]]  # the mask of a static cache includes empty slots
        if mask.dtype == torch.bool or not mask.is_floating_point():
            return mask != 0
        return mask > torch.finfo(mask.dtype).min / 2

    def _make_mask(self) -> None:
        function = getattr(self.mask, "mask_mod", None)
        if function is not None:
            batch, _, targets, sources = self.shape
            create = import_module("torch.nn.attention.flex_attention").create_mask
            self.mask = create(function, batch, 1, targets, sources, device=str(self.query.device))

    def _rows(self, raw: torch.Tensor, first: int, end: int) -> torch.Tensor:
        raw = _wide(raw)
        return raw[:, :, first:end, : self.shape[3]] if raw.shape[2] > 1 else raw[..., : self.shape[3]]


def _wide(raw: torch.Tensor) -> torch.Tensor:
    """A mask (batch, source) with axes for heads and targets; other masks unchanged."""
    return raw[:, None, None, :] if raw.ndim == 2 else raw


def _added(scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    if mask.is_floating_point():
        return scores + mask
    return scores.masked_fill(mask == 0, -math.inf)


def scale_of(query: Any, given: Any) -> float:
    """The scale of the scores: by default 1 / sqrt(features)."""
    return float(given) if given is not None else float(query.shape[-1] ** -0.5)
