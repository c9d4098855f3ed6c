"""Embeddings of torch: what is looked up are tokens, by which views label the dims that they are over."""

from __future__ import annotations

from typing import Any

import torch

from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor
from rfnb.interop.seen.calls import Call
from rfnb.interop.seen.readers import reads
from rfnb.trace.probe import listening, probe


@reads(torch.nn.Embedding)
def embedding(call: Call, result: Any) -> None:
    """Tokens {batch, time} over a vocabulary, and the dims of what came of them."""
    raw = next((raw for _, raw in call.tensors()), None)
    if (
        raw is None or not isinstance(result, torch.Tensor) or result.shape[:-1] != raw.shape
    ):  # of positions, counted by itself
        return
    roles = {1: ["time"], 2: ["batch", "time"]}.get(raw.ndim, ["batch", *["time"] * (raw.ndim - 1)])
    dims = call.names.tensor(raw, roles, call).dims
    call.names.tensor(result, [*dims, "feature"], call)
    if listening("tokens"):
        vocab = Dim(call.module.num_embeddings, name="vocab", vocab=call.names.vocab_of(call))
        probe("tokens", ids=Tensor("ids", list(dims), raw_tensor=raw.detach(), sparse_dim=vocab))
