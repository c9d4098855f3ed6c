"""Custom attention code: a softmax over the sources, in a module whose class or path mentions attention.

    class BahdanauAttention(nn.Module): ... weights = F.softmax(scores, dim=-1)
    self.attn = nn.Linear(...); weights = self.attn(...).softmax(dim=1)         # in an AttnDecoderRNN

Sizes identify the axes: the softmax runs over the source; the batch size is shared by all inputs of the module; an attribute of the
module gives the number of heads. A softmax over as many entries as a Linear of the module has outputs is an output rather than
attention, unless an input has that many positions.
"""

from __future__ import annotations

from typing import Any

import torch

from rfnb.interop.seen import hf_softmax
from rfnb.interop.seen.attention import next_step, probe_weights, softmax_inside, unchanged
from rfnb.interop.seen.calls import Call, argument, around
from rfnb.interop.seen.function_calls import sees
from rfnb.interop.seen.sides import heads_in, inputs_of, says_attention, sides, weights_dims
from rfnb.interop.seen.snapshot import ValueSnapshot
from rfnb.interop.seen.softmaxes import WrittenSoftmax
from rfnb.trace.probe import listening, trace_context


@sees(torch, "softmax")
@sees(torch.Tensor, "softmax")
def softmax(call: Call, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
    """Send the result as weights, if it belongs to `F.multi_head_attention_forward` or to an attention of transformers."""
    if not listening("attention") or not isinstance(result, torch.Tensor) or result.is_nested or not result.ndim:
        return
    if softmax_inside(call, result):
        return
    axis, home = argument(args, kwargs, 1, "dim"), hf_softmax.attention_around(call)
    if home is not None and isinstance(axis, int):
        with trace_context.module(home.path):
            hf_softmax.offer(home, result, axis)


def is_by_name(call: Call, candidate: WrittenSoftmax) -> bool:
    """Whether a softmax that is summed with no values, or with a table, is attention by the name of its module."""
    if candidate.reason:
        return candidate.is_table and says_attention(type(call.module).__name__)
    return is_attention(call, candidate.shape[candidate.axis])


def is_attention(call: Call, sources: int) -> bool:
    """Whether a softmax over this many entries in this call is attention."""
    inputs = [raw for each in around(call) for _, raw in inputs_of(each)]
    if any(sources in (raw.shape[:-1] if raw.is_floating_point() else raw.shape) for raw in inputs):
        return says_attention(type(call.module).__name__) or says_attention(call.path)
    own = says_attention(type(call.module).__name__) or says_attention(call.path.rpartition(".")[2])
    linear = any(getattr(each, "out_features", None) == sources for each in call.module.children())
    return own and not linear


def offer(call: Call, candidate: WrittenSoftmax) -> None:
    """Send weights whose axes are identified only by their sizes."""
    raw = _in_order(call, candidate.kept.raw.movedim(candidate.axis, -1))
    *front, sources = raw.shape
    if len(front) == 1 and (front[0] in _batches(call) or _is_of_tokens(call, {int(front[0]), int(sources)})):
        return _offer_row(call, raw, int(front[0]))
    elif len(front) == 0:
        return _offer_row(call, raw, None)
    elif len(front) == 2 and front[1] == 1 and front[0] in _batches(call):
        return _offer_row(call, raw[:, 0], int(front[0]))
    dims, sizes = weights_dims(call, raw.shape)
    kept = ValueSnapshot(raw)
    probe_weights(lambda: unchanged(kept).reshape(sizes), dims, kept.num_bytes)


def _in_order(call: Call, raw: torch.Tensor) -> torch.Tensor:
    """Weights with the targets after batch and heads, if sizes show that they come before one of them."""
    *front, sources = raw.shape
    heads, batches = heads_in(call.module), _batches(call)
    inputs = [inner for _, inner in inputs_of(call) if inner.ndim == 3]
    sizes, positions = ({int(n) for inner in inputs for n in inner.shape[:last]} for last in (None, 2))
    if len(front) == 3:
        told = heads == front[2] != front[1]
        fits = heads in (None, front[2]) and front[2] not in {sources} | sizes and front[1] in positions
        return raw.transpose(1, 2) if told or fits else raw
    if len(front) == 2 and front[1] in batches and front[0] in positions - batches - {heads}:
        return raw.transpose(0, 1)
    return raw


def _offer_row(call: Call, raw: torch.Tensor, batch: int | None) -> None:
    """Send the weights [batch, source] of one target: a step of the enclosing module, which calls this one several times."""
    batch_dim, _, source = sides(call, batch, 1, raw.shape[-1])
    dims = [batch_dim, source] if batch_dim is not None else [source]
    kept = ValueSnapshot(raw)
    probe_weights(lambda: unchanged(kept), dims, kept.num_bytes, targets=0, step=next_step(call))


def _is_of_tokens(call: Call, sizes: set[int]) -> bool:
    """Whether an input has an integer for each entry of weights with these sizes: a batch of sequences, one row each."""
    inputs = [raw for _, raw in inputs_of(call) if not raw.is_floating_point()]
    return any(raw.ndim == 2 and set(map(int, raw.shape)) == sizes for raw in inputs)


def _batches(call: Call) -> set[int]:
    """The leading sizes that all inputs of a call share; empty if each of them is a single sequence."""
    inputs = [raw for _, raw in inputs_of(call) if raw.is_floating_point()]
    if not any(raw.ndim > 2 for raw in inputs):
        return set()
    return set.intersection(*({int(size) for size in raw.shape[:-1]} for raw in inputs))
