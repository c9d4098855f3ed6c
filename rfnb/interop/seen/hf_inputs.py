"""Inputs of transformers models: their names determine their dims, for everything in the model.

input_ids, inputs_embeds {batch, time}; decoder_input_ids {batch, target}; encoder_hidden_states {batch, time, feature},
with the dims of the encoder; lengths come from attention_mask if it is 1 up to an end and 0 after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from rfnb.core.dim import Dim, ragged_dim
from rfnb.core.tensor import Tensor
from rfnb.interop.seen.calls import Call, around
from rfnb.interop.seen.hf_cache import Past, past_of, remember
from rfnb.interop.seen.readers import reads
from rfnb.interop.seen.streams import Stream, dims_of, set_all, set_stream, stream_of
from rfnb.trace.probe import listening, probe

MODEL = "transformers.modeling_utils.PreTrainedModel"
DECODER = "decoder"  # key of `Call.seen` of a model: the stream of its decoder
_TOKENS = ("input_ids", "inputs_embeds")
_TARGETS = ("decoder_input_ids", "decoder_inputs_embeds")


@reads(MODEL, before=True)
def inputs(call: Call) -> None:
    """Set the dims of the inputs of a model, or of an encoder or decoder inside one."""
    given = call.inputs
    outer = stream_of(call.outer)
    past = past_of(call)
    encoder = _tensor(given, "encoder_hidden_states")
    if encoder is not None and encoder.ndim == 3:
        found = _give(call, encoder, None, _mask(given, "encoder_attention_mask"), "time", outer)
        outer = outer or found
    main = next((raw for raw in (_tensor(given, name) for name in _TOKENS) if raw is not None and raw.ndim >= 2), None)
    if main is not None:
        # If labels are shifted inside the model, a decoder gets unseen ids, possibly as many as the encoder.
        other = None if encoder is not None and call.names.of(main) is None else outer
        name = "target" if encoder is not None and call.outer is not None else "time"
        stream = _give(call, main, other, _mask(given, "attention_mask") if not past else None, name, outer)
        if stream is not None:
            set_stream(call, stream)
            for each in around(call.outer) if encoder is not None else ():
                each.seen[DECODER] = stream
    states = _first(given.get("encoder_outputs"))
    batch = stream_of(call) or outer
    if states is not None and states.ndim == 3:
        batch = _give(call, states, None, _mask(given, "attention_mask"), "time", batch) or batch
    target = next(
        (raw for raw in (_tensor(given, name) for name in _TARGETS) if raw is not None and raw.ndim >= 2), None
    )
    if target is not None:
        _give(call, target, None, _mask(given, "decoder_attention_mask") if not past else None, "target", batch)
    new = target if target is not None else main
    if past and new is not None:
        _positions(call, past, new)


@reads(MODEL)
def outputs(call: Call, result: Any) -> None:
    """Set the dims of the states that a model returns, and those of its cache."""
    states = _first(result, "last_hidden_state")
    stream = stream_of(call)
    if states is not None and states.ndim == 3 and call.names.of(states) is None:
        found = dims_of(states, call, stream)
        if found is not None and found.time is not None:
            call.names.tensor(states, [found.batch, found.time, "feature"], call)
    ids = _tensor(call.inputs, "decoder_input_ids")
    remember(call, ids if ids is not None else _tensor(call.inputs, "input_ids"), result)


def _give(
    call: Call,
    raw: torch.Tensor,
    around: Stream | None,
    mask: torch.Tensor | None,
    name: str,
    batches: Stream | None = None,
) -> Stream | None:
    """Set the dims of a tensor {batch, time, ...}."""
    if call.names.of(raw) is None:
        lengths = lengths_of(mask, raw)
        stream = around if around is not None and _has(around.time, lengths) else None
        if stream is None and (lengths is not None or around is None):
            same = next(
                (each for each in (batches, around) if each is not None and each.batch.extent == raw.shape[0]), None
            )
            batch = same.batch if same is not None else Dim(raw.shape[0], name="batch", kind="batch")
            time = Dim(raw.shape[1], name=name) if lengths is None else ragged_dim(lengths, over=batch, name=name)
            stream = Stream(batch, time)
        found = dims_of(raw, call, stream, name)
        if found is None or found.time is None:
            return found
        roles: list[str | Dim] = [found.batch, found.time, "feature"]
        call.names.tensor(raw, roles[: raw.ndim], call)
    return dims_of(raw, call, around)


def _has(time: Dim | None, lengths: np.ndarray | None) -> bool:
    """Whether a dim may be the one with these lengths; None if unknown."""
    own = time.lengths if time is not None else None
    return lengths is None or (own is not None and own.shape == lengths.shape and bool((own == lengths).all()))


def lengths_of(mask: torch.Tensor | None, raw: torch.Tensor) -> np.ndarray | None:
    """Lengths from a mask {batch, time} that is 1 up to an end and 0 after it, with a longest sequence that fills the axis; else None."""
    if mask is None or mask.shape != raw.shape[:2]:
        return None
    real = mask.detach().cpu().numpy() != 0
    lengths: np.ndarray = real.sum(1)
    if (
        real.all()
        or lengths.max(initial=0) != real.shape[1]
        or (real != (np.arange(real.shape[1]) < lengths[:, None])).any()
    ):
        return None
    return lengths


def _positions(call: Call, past: Past, new: torch.Tensor) -> None:
    """Record the positions of a model's keys with a cache, and their tokens."""
    if past.dim is None:
        past.dim = Dim(past.length + new.shape[1], name="source")
        vocab = call.names.vocab_of(call)
        stream = dims_of(new, call, stream_of(call))
        if vocab is not None and past.ids is not None and stream is not None and listening("tokens") and new.ndim == 2:
            ids = torch.cat([past.ids, new.detach()], 1)
            over = Dim(len(vocab), name="vocab", vocab=vocab)
            probe("tokens", ids=Tensor("ids", [stream.batch, past.dim], raw_tensor=ids, sparse_dim=over))
    set_all(call, past.dim)


def _tensor(given: Mapping[str, Any], name: str) -> torch.Tensor | None:
    value = given.get(name)
    return value if isinstance(value, torch.Tensor) else None


def _mask(given: Mapping[str, Any], name: str) -> torch.Tensor | None:
    value = _tensor(given, name)
    return value if value is not None and value.ndim == 2 else None


def _first(value: Any, name: str | None = None) -> torch.Tensor | None:
    """The first tensor of a tuple or an output, or the one with a name."""
    named = getattr(value, name, None) if name is not None else None
    if named is None and isinstance(value, (tuple, list)) and value:
        named = value[0]
    if named is None and name is None and hasattr(value, "last_hidden_state"):
        named = value.last_hidden_state
    if named is None and name is not None and isinstance(value, torch.Tensor):
        named = value
    return named if isinstance(named, torch.Tensor) else None
