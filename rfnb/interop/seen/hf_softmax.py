"""Custom attention code: a softmax inside a module called attention, in a transformers model, makes weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from rfnb.core.dim import Dim
from rfnb.core.errors import message
from rfnb.core.place import warn_user
from rfnb.core.tensor import Tensor
from rfnb.interop.seen.attention import weights_over
from rfnb.interop.seen.calls import Call, around
from rfnb.interop.seen.hf_attention import is_twinless
from rfnb.interop.seen.hf_cache import cached_dims, every, past_around, places_of
from rfnb.interop.seen.hf_inputs import MODEL
from rfnb.interop.seen.matrix_states import RAN
from rfnb.interop.seen.readers import reads
from rfnb.interop.seen.sides import heads_in, says_attention
from rfnb.interop.seen.snapshot import version_of
from rfnb.interop.seen.streams import is_cross, stream_of
from rfnb.trace.probe import Later, listening, probe_later

ODD = "odd softmax"
"""In `Call.seen`: why a softmax in an attention was not taken as its weights, in case nothing else is."""


def offer(home: Call, result: torch.Tensor, axis: int) -> None:
    """Send the result of a softmax as weights, if it has their axes: (batch, head, target, source), where the first two may be merged."""
    raw, stream = result.detach(), stream_of(home)
    odd, heads = f"its softmax is over {list(raw.shape)}", heads_in(home.module)
    if axis not in (-1, raw.ndim - 1) or raw.ndim not in (3, 4):
        home.seen[ODD] = f"{odd}, not over (batch, head, target, source)"
        return
    if raw.ndim == 3:
        batch = stream.batch.extent if stream is not None else raw.shape[0] // heads if heads else 0
        raw = raw.unflatten(0, (batch, -1)) if batch and raw.shape[0] % batch == 0 else raw[:, None]
    wanted = _wanted_axes(home, raw)
    if wanted is not None:
        home.seen[ODD] = (
            f"{odd}, but weights for these inputs would be over {wanted}; attention in blocks or windows has other axes"
        )
        return
    places = places_of(home, None, raw.shape[3], raw.shape[2]) or every(raw.shape[3])
    whole, raw = raw, places.filled(raw)
    dims = cached_dims(home, raw.shape, places)
    real, cross = _padding(home, raw, dims), is_cross(home)
    version = version_of(raw)

    def make() -> dict[str, Any]:
        over, remarks = places.placed(raw), list[str]()
        values = weights_over(over, dims) | masks(over, dims, real) | ({"cross": True} if cross else {})
        lost = (whole[..., raw.shape[3] :] != 0).any(-1)
        if bool(
            (lost & (whole.amax(-1) != whole.amin(-1))).any()
        ):  # padding rows may be fully masked: all entries are equal
            remarks.append("Rows sum to less than 1: the rest goes to empty cache slots.")
        if version_of(raw) != version:
            remarks.append("These are no longer the weights of the model: it has changed them in place since.")
        return places.remarked(values, remarks)

    probe_later("attention", Later(make, raw.nbytes))


def masks(raw: torch.Tensor, dims: Sequence[Dim], real: torch.Tensor | None) -> dict[str, Any]:
    """Infer the mask from weights that are exactly 0, and the padding that the dims do not describe."""
    targets, sources = raw.shape[2:]
    ahead = torch.ones(targets, sources, dtype=torch.bool, device=raw.device).triu(sources - targets + 1)
    both = real is not None and targets == sources and not is_twinless(dims[2], dims[3])
    rows = real[:, None, :, None] if real is not None and both else torch.ones((), dtype=torch.bool, device=raw.device)
    causal = targets > 1 and targets <= sources and not bool((raw.bool() & rows & ahead).any())
    if real is None:
        return {"causal": causal}
    mask = real[:, None, :].expand(-1, targets, -1)
    mask = mask & real[:, :, None] if both else mask
    mask = mask & ~ahead if causal else mask
    return {"causal": False, "mask": Tensor("mask", [dims[0], dims[2], dims[3]], raw_tensor=mask)}


def _wanted_axes(home: Call, raw: torch.Tensor) -> str | None:
    """The axes that weights for these inputs would have, for a message; None if these have them. Others are those of
    blocks, windows, hashes, gates.
    """
    inputs = [each for _, each in home.tensors() if each.ndim > 1]
    hidden = next((each for each in inputs if each.is_floating_point() and each.ndim > 2), None)
    if hidden is None:
        return "unknown axes"
    heads, stream, batch = heads_in(home.module), stream_of(home), int(hidden.shape[0])
    targets = {math.prod(hidden.shape[1:-1])}
    if hidden.ndim > 3:  # images, with features first or last
        targets.add(math.prod(hidden.shape[2:]))
    elif (
        stream is not None
        and stream.time is not None
        and {stream.batch.extent, stream.time.extent} <= set(hidden.shape)
    ):
        batch, targets = stream.batch.extent, {stream.time.extent}  # {time, batch, feature}, {batch, feature, time}
    fits = raw.shape[0] == batch and raw.shape[2] in targets and heads in (None, raw.shape[1])
    # As many targets as heads: windows may look like that.
    sizes = {*targets, *(int(size) for each in inputs for size in each.shape)}
    known = raw.shape[1] != raw.shape[2] or raw.shape[3] in sizes or past_around(home) is not None or is_cross(home)
    if fits and known:
        return None
    return f"(batch={batch}, head{'' if heads is None else f'={heads}'}, target={max(targets)}, source)"


def _padding(call: Call, raw: torch.Tensor, dims: Sequence[Dim]) -> torch.Tensor | None:
    """The mask (batch, source) of the enclosing model, if it is not one of lengths."""
    name = "encoder_attention_mask" if is_cross(call) else "attention_mask"
    for each in around(call) if dims[3].lengths is None else ():
        mask = each.inputs.get(name)
        if isinstance(mask, torch.Tensor) and mask.ndim == 2:
            fits = tuple(mask.shape) == (raw.shape[0], dims[3].extent)
            return mask.detach() != 0 if fits else None
    return None


def attention_around(call: Call) -> Call | None:
    """The call itself or the enclosing one, if it is an attention in a transformers model."""
    return next((each for each in (call, call.outer) if each is not None and is_attention(each.module)), None)


@reads(MODEL)
def without(call: Call, result: Any) -> None:
    """Report once that a model has no attention."""
    key = f"no attention in {call.path}"
    if call.outer is not None or not listening("attention") or key in call.names.said or call.seen.get(RAN):
        return
    call.names.said.add(key)
    if not any("attention" in type(module).__name__.lower() for module in call.module.modules()):
        warn_user(
            message(
                "record: this model has no attention.",
                {"model": type(call.module).__name__, "modules called attention": "none"},
                "Hidden states, tokens and logits are recorded. The code of the model can send other values:",
                'rf.probe("states", h=rf.convert_to_tensor(h, dims=[batch, time, state]), axis=time)',
            )
        )


def is_attention(module: torch.nn.Module) -> bool:
    """Whether a module is called attention, and comes from transformers or from a model written for it."""
    return is_of_transformers(module) and says_attention(type(module).__name__)


def is_of_transformers(module: torch.nn.Module) -> bool:
    """Whether the class of a module comes from transformers, or from a model written for it."""
    return type(module).__module__.startswith("transformers")
