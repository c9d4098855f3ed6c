"""Attention weights of transformers, from the arguments of their functions: masks, biases, windows, caps, sinks.

scores = cap * tanh(scale * Q K^T / cap) + bias + mask;  weights = softmax([scores, sink]), without the sink

The cap is of Gemma 2 (Gemma Team 2024, section 2), the sink of gpt-oss (OpenAI 2025, section 2.2): a learned score for attending to
nothing, one for each head.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import torch
import torch.nn.functional as F


@dataclass(slots=True)
class Scored:
    """The parts of which weights are made: queries (batch, head, target, feature) and keys (batch, head of keys, source, feature).

    Attributes:
        mask: Added to the scores, or false where nothing is seen: broadcasts to (batch, head, target, source); or (batch, source); or of
            flex attention, which has a function of four indices, made when it is needed.
        bias: Of positions, likewise added.
        causal: Whether nothing ahead is seen; the last query stands at the last key.
        window: How many positions up to its own a query sees.
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
        """bytes of what is kept."""
        return sum(raw.numel() * raw.element_size() for raw in (self.query, self.key))

    @property
    def is_plain(self) -> bool:
        """Whether queries, keys, a mask and a window behind the place of the query are all that there is."""
        others = (self.bias, self.softcap, self.sinks)
        return all(each is None for each in others) and (self.window is None or self.causal)

    def added(self) -> torch.Tensor | None:
        """The mask as it is added to the scores, or false where nothing is seen, of the sources that there are; None without one."""
        if self.mask is None:
            return None
        self._make_mask()
        mask = _wide(self.mask)[..., : self.shape[3]]
        return mask if mask.is_floating_point() else mask != 0

    def weights(self, first: int = 0, end: int | None = None) -> torch.Tensor:
        """The rows of these queries, float32."""
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
            if self.sinks is None:  # where nothing may be seen torch gives 0
                nothing = scores.amax(-1, keepdim=True).isneginf()
                return torch.softmax(scores, -1).masked_fill_(nothing, 0)
            sinks = self.sinks.detach().float().reshape(1, -1, 1, 1).expand(*scores.shape[:3], 1)
            return torch.softmax(torch.cat([scores, sinks], -1), -1)[..., :-1]

    def placed(self, first: int) -> Scored:
        """The same over all positions, of which the first key stands at `first`: nothing is seen before."""
        self._make_mask()
        mask = self.mask
        if mask is None:
            mask = torch.ones((1, 1, 1, self.shape[3]), dtype=torch.bool, device=self.key.device)
        outside = -math.inf if mask.is_floating_point() else 0
        return replace(
            self, key=F.pad(self.key, (0, 0, first, 0)), mask=F.pad(mask[..., : self.shape[3]], (first, 0), value=outside),
            bias=None if self.bias is None else F.pad(self.bias[..., : self.shape[3]], (first, 0)),
        )  # fmt: skip

    def first_entry(self) -> Scored:
        """The same of the first entry of the batch."""
        one = lambda raw: raw[:1] if isinstance(raw, torch.Tensor) and raw.ndim > 1 else raw  # noqa: E731
        return replace(self, query=self.query[:1], key=self.key[:1], mask=one(self.mask), bias=one(self.bias))

    def seen(self, first: int, end: int) -> torch.Tensor | None:
        """A mask (target, source) of what these queries see by their places; None: all."""
        if not self.causal and self.window is None:
            return None
        device, (_, _, targets, sources) = self.query.device, self.shape
        rows = torch.arange(first, end, device=device)[:, None] + (sources - targets)
        ahead = torch.arange(sources, device=device)[None, :] - rows
        seen = ahead <= 0 if self.causal else torch.ones_like(ahead, dtype=torch.bool)
        return seen if self.window is None else seen & (ahead.abs() < self.window)

    def masked(self) -> torch.Tensor | None:
        """The positions that may be seen by the mask, without causality and windows; broadcasts to the shape. None: all."""
        if self.mask is None:
            return None
        self._make_mask()
        mask = _wide(self.mask)[..., : self.shape[3]]  # a static cache has one for places that nothing is in yet
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
    """A mask (batch, source) with axes for heads and targets; others as they are."""
    return raw[:, None, None, :] if raw.ndim == 2 else raw


def _added(scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    if mask.is_floating_point():
        return scores + mask
    return scores.masked_fill(mask == 0, -math.inf)


def scale_of(query: Any, given: Any) -> float:
    """The factor of the scores: the default is 1 / sqrt(features)."""
    return float(given) if given is not None else float(query.shape[-1] ** -0.5)
