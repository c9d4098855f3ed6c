"""Embeddings in torch: their inputs are tokens, by which views label dims."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor
from rfnb.interop.seen.calls import Call
from rfnb.interop.seen.readers import reads
from rfnb.trace.probe import listening, probe


@reads(torch.nn.Embedding)
def embedding(call: Call, result: Any) -> None:
    """Send tokens {batch, time} over a vocabulary, and set the dims of the result."""
    raw = next((raw for _, raw in call.tensors()), None)
    if (
        raw is None or not isinstance(result, torch.Tensor) or result.shape[:-1] != raw.shape
    ):  # position ids, which count by themselves
        return
    dims = call.names.dims_of(raw, call)
    call.names.dims(result, [*dims, "feature"], call)
    if listening("tokens"):
        probe("tokens", ids=_tokens(call, raw, dims))


@reads(torch.nn.EmbeddingBag)
def embedding_bag(call: Call, result: Any) -> None:
    """Send tokens {batch, time}, or {frames} of all bags concatenated, and set the dims {bag, feature} of the result."""
    raw, offsets = call.inputs["input"], call.inputs.get("offsets")
    bags: Any = "batch"
    if offsets is not None:
        call.names.dims(raw, ["frames"], call)
        starts = call.names.of(offsets)
        bags = "bag" if starts is None or offsets.shape[0] != result.shape[0] else starts[0]
    dims = call.names.of(raw) or call.names.dims(raw, ["batch", "time"], call)
    call.names.dims(result, [dims[0] if raw.ndim == 2 else bags, "feature"], call)
    if listening("tokens"):
        probe("tokens", ids=_tokens(call, raw, dims))


def _tokens(call: Call, raw: torch.Tensor, dims: Sequence[Dim]) -> Tensor:
    return Tensor("ids", list(dims), raw_tensor=raw.detach(), sparse_dim=call.names.vocab_dim(call))
