"""Attentions that are written out: a softmax inside of a module called attention, in a model of transformers, makes weights."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from rfnb.core.tensor import Tensor
from rfnb.interop.seen.calls import Call
from rfnb.interop.seen.functions import sees
from rfnb.interop.seen.hf_attention import _OFFERED
from rfnb.interop.seen.streams import attention_dims, stream_of
from rfnb.trace.probe import Later, listening, probe_later


@sees(F, "softmax")
def softmax(call: Call, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
    """Offer the result as weights, if it has the axes of such: (batch, head, target, source), the first two maybe as one."""
    home = attention_around(call)
    if home is None or not listening("attention") or not isinstance(result, torch.Tensor) or result.ndim not in (3, 4):
        return
    axis = kwargs.get("dim", args[1] if len(args) > 1 else None)
    if axis not in (-1, result.ndim - 1):
        return
    raw, stream = result.detach(), stream_of(home)
    if raw.ndim == 3:
        batch = stream.batch.extent if stream is not None else 0
        if not batch or raw.shape[0] % batch:
            return
        raw = raw.unflatten(0, (batch, -1))
    dims = attention_dims(home, (*raw.shape[:3], 0), (*raw.shape[:2], raw.shape[3], 0))
    version = 0 if raw.is_inference() else raw._version

    def make() -> dict[str, Any]:
        values: dict[str, Any] = {
            "weights": Tensor("weights", list(dims), raw_tensor=raw),
            "axis": dims[3],
            "target": dims[2],
        }
        if not raw.is_inference() and raw._version != version:
            values["remark"] = "These are no weights of the model any more: it has changed them in place since."
        return values

    home.seen[_OFFERED] = home.seen.get(_OFFERED, 0) + 1
    probe_later("attention", Later(make, raw.numel() * raw.element_size()))


def attention_around(call: Call) -> Call | None:
    """The call itself or the one around it, if it is of an attention in a model of transformers."""
    inner: Call | None = call
    for _ in range(2):
        if inner is not None and is_attention(inner.module):
            return inner
        inner = inner.outer if inner is not None else None
    return None


def is_attention(module: torch.nn.Module) -> bool:
    """Whether a module is called attention, and comes from transformers or from a model that was written for it."""
    kind = type(module)
    return "attention" in kind.__name__.lower() and kind.__module__.startswith("transformers")
