"""Attention of torch: weights made of queries and keys when somebody looks at them.

weights = softmax(scale * Q K^T + mask)         Vaswani et al. 2017, eq. 1
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F

from rfnb.core.tensor import Tensor
from rfnb.interop.seen.calls import Call
from rfnb.interop.seen.functions import sees
from rfnb.trace.probe import Later, listening, probe_later


@sees(F, "scaled_dot_product_attention")
def scaled_dot_product_attention(call: Call, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
    """Offer weights {batch, head, target, source} of `F.scaled_dot_product_attention`."""
    if not listening("attention"):
        return
    given: dict[str, Any] = dict(zip(("query", "key", "value", "attn_mask", "dropout_p", "is_causal"), args)) | kwargs
    query, key = given["query"].detach(), given["key"].detach()
    mask = None if given.get("attn_mask") is None else given["attn_mask"].detach()
    causal, scale = bool(given.get("is_causal")), given.get("scale")
    shape = (*query.shape[:-1], key.shape[-2])
    roles = ["batch", "head", "target", "source"] if len(shape) == 4 else ["batch", "target", "source"][-len(shape) :]
    dims = call.names.found(shape, roles, call)

    def make() -> dict[str, Any]:
        raw = weights(query, key, mask, causal=causal, scale=scale)
        return {
            "weights": Tensor("weights", list(dims), raw_tensor=raw),
            "axis": dims[-1],
            "target": dims[-2],
            "causal": causal,
        }

    probe_later("attention", Later(make, 4 * math.prod(shape)))


def weights(query: Any, key: Any, mask: Any = None, *, causal: bool = False, scale: float | None = None) -> Any:
    """Weights [..., target, source] from queries [..., target, feature] and keys [..., source, feature]."""
    if key.shape[-3:-2] != query.shape[-3:-2]:  # several heads of queries share one of keys
        key = key.repeat_interleave(query.shape[-3] // key.shape[-3], -3)
    with torch.no_grad():
        scores = (query @ key.transpose(-1, -2)).float() * (scale if scale is not None else query.shape[-1] ** -0.5)
        if causal:
            scores = scores.masked_fill(
                torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1), -math.inf
            )
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask
        return torch.softmax(scores, -1)
