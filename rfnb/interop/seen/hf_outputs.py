"""Results of layers and models of transformers: hidden states over positions, logits over a vocabulary."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor
from rfnb.interop.seen.calls import Call
from rfnb.interop.seen.hf_inputs import DECODER, MODEL
from rfnb.interop.seen.names import Names
from rfnb.interop.seen.readers import reads
from rfnb.interop.seen.snapshot import ValueSnapshot, say_changed
from rfnb.interop.seen.streams import dims_of, stream_of
from rfnb.trace.probe import Later, listening, probe_later, trace_context

DONE = "logits"
_TURNS = "turns"  # key of `Call.seen` of an outermost call: by path, what its layers sent, call by call
LAYER = "transformers.modeling_layers.GradientCheckpointingLayer"


@reads(LAYER)
def hidden(call: Call, result: Any) -> None:
    """Send the hidden states {batch, time, feature} that a layer returns."""
    raw = result[0] if isinstance(result, (tuple, list)) and result else result
    if not listening("states") or not isinstance(raw, torch.Tensor) or raw.ndim != 3:
        return
    stream = dims_of(raw, call, stream_of(call))
    if stream is None or stream.time is None:
        return
    time = stream.time
    known = call.names.of(raw) or ()
    roles: list[str | Dim] = [stream.batch, time, "feature"]
    if time in known[2:]:  # convolutions have the channels first
        roles = [stream.batch, "feature", time]
    tensor = call.names.tensor(raw, roles, call)
    if time not in tensor.dims:
        return
    later = _later("states", call.path, tensor.dims, raw, lambda kept: {"hidden": _held(kept, time), "axis": time})
    call.root.seen.setdefault(_TURNS, {}).setdefault(call.path, []).append(weakref.ref(later))


@reads(MODEL)
def turns(call: Call, result: Any) -> None:
    """Send the hidden states of layers that were called several times in an outermost call, as a loop with one step per turn."""
    if call.outer is not None:
        return
    for path, made in call.seen.pop(_TURNS, {}).items():
        laters = [later for each in made if (later := each()) is not None]  # events that nobody received are missing
        if len(laters) > 1:
            before = trace_context.enter_module(partial("{}.turns".format, path))
            try:
                probe_later("states", Later(partial(_by_turn, laters, call.names), 0))
            finally:
                trace_context.leave_module(before)


def _by_turn(laters: Sequence[Later], names: Names) -> dict[str, Any]:
    """The hidden states of the turns, {batch, turn, time, feature}; for each position their norm, and their relative
    distance from those of the last turn: 0 once they no longer change.
    """
    states: list[Tensor] = [later["hidden"] for later in laters]
    batch, *rest = states[-1].dims
    turn = Dim(len(states), name="turn")
    raw = torch.stack([state.raw_tensor for state in states], 1)
    axis = 2 + next(place for place, dim in enumerate(rest) if dim.kind == "feature")
    norm = torch.linalg.vector_norm(raw.float(), dim=axis)
    apart = torch.linalg.vector_norm(raw.float() - raw[:, -1:].float(), dim=axis)
    outer = [batch, turn, *(dim for dim in rest if dim.kind != "feature")]
    return {
        "hidden": names.seen(raw, (batch, turn, *rest), "hidden"),
        "norm": names.seen(norm, outer, "norm"),
        "from_last": names.seen(apart / norm[:, -1:].clamp_min(1e-30), outer, "from_last"),
        "axis": turn,
    }


@reads(MODEL)
def logits(call: Call, result: Any) -> None:
    """Send the logits {batch, time, vocab} or {batch, label} that a model returns."""
    raw = getattr(result, "logits", None)
    if not listening("outputs") or not isinstance(raw, torch.Tensor) or raw.ndim not in (2, 3):
        return
    if call.seen.get(DONE) is raw:  # already sent by an inner model
        return
    if call.outer is not None:
        call.outer.seen[DONE] = raw
    around = call.seen.get(DECODER) or stream_of(call)
    vocab = _vocabulary(call, int(raw.shape[-1]))
    if raw.ndim == 3:
        stream = dims_of(raw, call, around)
        if stream is None or stream.time is None:
            return
        dims = [stream.batch, stream.time, vocab]
    else:
        same = around is not None and around.batch.extent == raw.shape[0]
        dims = [around.batch if around is not None and same else Dim(raw.shape[0], name="batch", kind="batch"), vocab]
    _later("outputs", call.path, dims, raw, lambda kept: {"logits": kept, "axis": vocab})


def _held(hidden: Tensor, time: Dim) -> Tensor:
    """The states with the last real one repeated in the padding, where a model's states have no meaning."""
    if time.lengths is None or tuple(time.length_dims) != (hidden.dims[0],):
        return hidden
    place = hidden.dims.index(time)
    raw = hidden.raw_tensor.movedim(place, 1)
    last = torch.as_tensor(time.lengths, device=raw.device).reshape(-1, 1).long() - 1
    at = torch.arange(raw.shape[1], device=raw.device)[None].minimum(last.clamp(min=0))
    return Tensor("hidden", list(hidden.dims), raw_tensor=raw.gather(1, at[..., None].expand_as(raw)).movedim(1, place))


def _later(kind: str, path: str, dims: Sequence[Dim], raw: torch.Tensor, values: Any) -> Later:
    """A lazy event for a result, which the model may still change in place."""
    kept = ValueSnapshot(raw)

    def make() -> dict[str, Any]:
        there = kept.raw
        if not kept.is_same:
            say_changed("the hidden states or logits", path, "values", "nothing")
            there = torch.full_like(there, torch.nan)
        made: dict[str, Any] = values(Tensor(kind, list(dims), raw_tensor=there))
        return made

    later = Later(make, raw.nbytes)
    probe_later(kind, later)
    return later


def _vocabulary(call: Call, size: int) -> Dim:
    """The dim of outputs: that of the tied embedding, or of classes named in the config."""
    names, config = call.names, getattr(call.module, "config", None)
    for getter in ("get_output_embeddings", "get_input_embeddings"):
        try:
            module = getattr(call.module, getter)()
        except (AttributeError, NotImplementedError):
            continue
        if isinstance(module, torch.nn.Module) and names.labels is not None:
            labels = names.labels.of(names.paths_of(module), size)
            if labels is not None:
                return Dim(size, name="vocab", kind="feature", vocab=labels)
    classes = getattr(config, "id2label", None)
    if isinstance(classes, dict) and len(classes) == size != getattr(config, "vocab_size", None):
        own = [str(classes.get(index, index)) for index in range(size)]
        if any(not label.startswith("LABEL_") for label in own):
            return Dim(size, name="label", kind="feature", vocab=own)
    return names.vocab_dim(call, size)
