"""The fast paths of torch.nn: one kernel for a whole attention or layer, which exposes no queries.

Queries and keys are computed on demand from its input and the rows of its parameters. A parameter is copied once per
value, since an optimizer changes it.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch
import torch.nn.functional as F
from torch.utils.weak import WeakIdKeyDictionary

from rfnb.core.op import Args, Kwargs
from rfnb.interop.seen import weights as of_torch
from rfnb.interop.seen.attention import described, lengths_mask, ragged
from rfnb.interop.seen.calls import Call, argument, around
from rfnb.interop.seen.function_calls import sees
from rfnb.interop.seen.readers import reads
from rfnb.interop.seen.sides import heads_of, name_like, sides
from rfnb.trace.probe import Later, listening, probe_later, trace_context

_PAD = 1  # the type of a key mask, [batch, source]; others broadcast against [batch, head, target, source]


@sees(torch, "_native_multi_head_attention")
def attention(call: Call, args: Args, kwargs: Kwargs, result: Any) -> None:
    """Send the weights {batch, head, time, time} of nn.MultiheadAttention on its fast path."""
    if listening("attention"):
        query, _, _, _, heads, weight, bias = args[:7]
        mask, mask_type = args[9], argument(args, kwargs, 12, "mask_type")
        _offer(call, query, heads, (weight, bias), (mask, mask_type))


@sees(torch, "_transformer_encoder_layer_fwd")
def encoder_layer(call: Call, args: Args, kwargs: Kwargs, result: Any) -> None:
    """Send the same for nn.TransformerEncoderLayer on its fast path, at the path of its attention."""
    if not listening("attention"):
        return
    src, _, heads, weight, bias = args[:5]
    norm_first, eps, norm_weight, norm_bias = args[8:12]
    mask, mask_type = (*args[18:20], kwargs.get("mask"), kwargs.get("mask_type"))[:2]
    norm = (eps, *map(_as_it_is, (norm_weight, norm_bias))) if norm_first else None
    inner = getattr(call.module, "self_attn", None)
    path = trace_context.module_name(inner) if inner is not None else None
    with trace_context.module(path if path is not None else call.path):
        _offer(call, src, heads, (weight, bias), (mask, mask_type), norm, inner)


def _offer(
    call: Call, raw: Any, heads: int, parameters: Any, masked: tuple[Any, Any], norm: Any = None, inner: Any = None
) -> None:
    mask, mask_type = masked
    width = raw.shape[-1] if not raw.is_nested else raw.size(-1)
    weight, bias = (_as_it_is(parameter, 2 * width) for parameter in parameters)
    kept, kept_mask = of_torch.keep(raw, "inputs"), None if mask is None else of_torch.keep(mask, "mask")
    lengths = [part.shape[0] for part in raw.unbind()] if raw.is_nested else None
    before = _before_nesting(call) if lengths is not None else None
    batch_size, longest = raw.shape[:2] if lengths is None else before or (len(lengths), max(lengths))
    batch, time, twin = sides(call, int(batch_size), int(longest), int(longest))
    assert batch is not None
    if lengths is not None and before is None:
        time = ragged(lengths, batch, time.name)
        twin = time.copy(match_priority=time.match_priority - 1)
    dims = [batch, heads_of(inner if inner is not None else call.module, heads), time, twin]

    def make() -> dict[str, Any]:
        with torch.no_grad():
            hidden = of_torch.read(kept)
            hidden = F.pad(hidden, (0, 0, 0, int(longest) - hidden.shape[1]))
            if norm is not None:
                hidden = F.layer_norm(hidden, hidden.shape[-1:], norm[1], norm[2], norm[0])
            query, key = F.linear(hidden, weight, bias).unflatten(-1, (2, heads, -1)).permute(2, 0, 3, 1, 4)
            visible = None if kept_mask is None else _visible(kept_mask.read(), mask_type)
            if lengths is not None:
                there = lengths_mask(lengths, int(longest)).to(hidden.device)
                visible = there[:, None, None]
            made = of_torch.weights(query, key, visible)
            if lengths is not None:
                made = made.masked_fill(~there[:, None, :, None], 0)
            return described(made, dims, visible)

    probe_later("attention", Later(make, of_torch.bytes_of(kept) + of_torch.bytes_of(kept_mask)))


def _before_nesting(call: Call) -> tuple[int, int] | None:
    """The number of sequences and their length before nn.TransformerEncoder made a nested tensor of them."""
    for outer in around(call.outer):
        src = outer.inputs.get("src")
        if isinstance(outer.module, torch.nn.TransformerEncoder) and src is not None and not src.is_nested:
            return int(src.shape[0]), int(src.shape[1])
    return None


def _visible(mask: torch.Tensor, kind: Any) -> torch.Tensor:
    """A mask of visible positions, bool, broadcasting against [batch, head, target, source]."""
    visible = ~mask if mask.dtype == torch.bool else ~mask.isneginf()
    return visible[:, None, None] if kind == _PAD else visible


_copies = WeakIdKeyDictionary()


def _as_it_is(parameter: Any, rows: int | None = None) -> Any:
    """A copy of the first rows of a parameter; cached as long as the values are equal."""
    if parameter is None:
        return None
    now = parameter.detach()[:rows]
    known = _copies[parameter]() if parameter in _copies else None
    # A comparison waits for a GPU; a copy does not.
    if now.device.type != "cpu" or known is None or known.shape != now.shape or not torch.equal(known, now):
        known = now.clone()
        _copies[parameter] = weakref.ref(known)  # released with the last event that needs it
    return known


@reads(torch.nn.TransformerEncoder, torch.nn.TransformerEncoderLayer)
def encoder(call: Call, result: Any) -> None:
    """Name the axes of an encoder's result: those of its input."""
    name_like(call, result, "src")


@reads(torch.nn.TransformerDecoder, torch.nn.TransformerDecoderLayer, torch.nn.Transformer)
def decoder(call: Call, result: Any) -> None:
    """Name the axes of a decoder's result: those of its target input."""
    name_like(call, result, "tgt")
