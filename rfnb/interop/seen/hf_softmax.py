"""Attentions that are written out: a softmax inside of a module called attention, in a model of transformers, makes weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F

from rfnb.core.dim import Dim
from rfnb.core.errors import message
from rfnb.core.place import warn_user
from rfnb.core.tensor import Tensor
from rfnb.interop.seen.calls import Call
from rfnb.interop.seen.functions import sees
from rfnb.interop.seen.hf_attention import _OFFERED, is_twinless
from rfnb.interop.seen.hf_cache import UNPLACED, cached_dims, places_of
from rfnb.interop.seen.hf_inputs import MODEL
from rfnb.interop.seen.kept import version_of
from rfnb.interop.seen.readers import reads
from rfnb.interop.seen.sides import heads_in
from rfnb.interop.seen.streams import attention_dims, is_cross, stream_of
from rfnb.trace.probe import Later, listening, probe_later


@sees(F, "softmax")
def softmax(call: Call, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
    """Offer the result as weights, if it has the axes of such: (batch, head, target, source), the first two maybe as one."""
    home = None if "multi_head" in call.seen else attention_around(call)  # that is seen as a whole
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
    _check_axes(home, raw)
    places = places_of(home, None, raw.shape[3], raw.shape[2])
    whole, raw = raw, raw if places is None else places.filled(raw)
    if places is None:
        dims = attention_dims(home, (*raw.shape[:3], 0), (*raw.shape[:2], raw.shape[3], 0))
    else:
        dims = cached_dims(home, (*raw.shape[:3], 0), places)
    real, cross = _padding(home, raw, dims), is_cross(home)
    version = version_of(raw)

    def make() -> dict[str, Any]:
        over = raw if places is None else places.placed(raw)
        values: dict[str, Any] = {
            "weights": Tensor("weights", list(dims), raw_tensor=over),
            "axis": dims[3],
            "target": dims[2],
            **masks(over, dims, real),
            **({"cross": True} if cross else {}),
        }
        remarks = [UNPLACED] if places is not None and places.total is None else []
        lost = (whole[..., raw.shape[3] :] != 0).any(-1)
        if bool((lost & (whole.amax(-1) != whole.amin(-1))).any()):  # what is padding may see nothing: all are equal
            remarks.append("Rows add up to less than 1: the rest goes to places of the cache that nothing is in yet.")
        if version_of(raw) != version:
            remarks.append("These are no weights of the model any more: it has changed them in place since.")
        return values | ({"remark": " ".join(remarks)} if remarks else {})

    home.seen[_OFFERED] = home.seen.get(_OFFERED, 0) + 1
    probe_later("attention", Later(make, raw.numel() * raw.element_size()))


def masks(raw: torch.Tensor, dims: Sequence[Dim], real: torch.Tensor | None) -> dict[str, Any]:
    """Say what may not be seen, by weights that are exactly 0 and by the padding that the dims do not tell of."""
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


def _check_axes(home: Call, raw: torch.Tensor) -> None:
    """Refuse scores of blocks, windows or hashes, whose axes are no (batch, head, target, source) of the whole sequence.

    Raises:
        ValueError: With the sizes.
    """
    hidden = next((x for _, x in home.tensors() if x.is_floating_point() and x.ndim == 3), None)
    heads = heads_in(home.module)
    if hidden is None:
        return
    batch, targets = hidden.shape[:2]
    if (raw.shape[0], raw.shape[2]) != (batch, targets) or (heads is not None and raw.shape[1] != heads):
        raise ValueError(
            f"its softmax is over {list(raw.shape)}, and weights of these inputs are over (batch={batch}, "
            f"head{'' if heads is None else f'={heads}'}, target={targets}, source); attention in blocks or windows has other axes"
        )


def _padding(call: Call, raw: torch.Tensor, dims: Sequence[Dim]) -> torch.Tensor | None:
    """The mask (batch, source) of the model around, where it is no matter of lengths."""
    around: Call | None = call
    while around is not None and dims[3].lengths is None:
        name = "encoder_attention_mask" if is_cross(call) else "attention_mask"
        mask = around.inputs.get(name)
        if isinstance(mask, torch.Tensor) and mask.ndim == 2:
            fits = tuple(mask.shape) == (raw.shape[0], dims[3].extent)
            return mask.detach() != 0 if fits else None
        around = around.outer
    return None


def attention_around(call: Call) -> Call | None:
    """The call itself or the one around it, if it is of an attention in a model of transformers."""
    inner: Call | None = call
    for _ in range(2):
        if inner is not None and is_attention(inner.module):
            return inner
        inner = inner.outer if inner is not None else None
    return None


@reads(MODEL)
def without(call: Call, result: Any) -> None:
    """Say of a model without attention that it has none, once."""
    key = f"no attention in {call.path}"
    if call.outer is not None or not listening("attention") or key in call.names.said:
        return
    call.names.said.add(key)
    if not any("attention" in type(module).__name__.lower() for module in call.module.modules()):
        warn_user(
            message(
                "record: this model has no attention.",
                [("model", type(call.module).__name__), ("modules called attention", "none")],
                "Hidden states, tokens and logits are recorded. What else its layers compute it can offer by itself:",
                'rf.probe("states", h=rf.convert_to_tensor(h, dims=[batch, time, state]), axis=time)',
            )
        )


def is_attention(module: torch.nn.Module) -> bool:
    """Whether a module is called attention, and comes from transformers or from a model that was written for it."""
    kind = type(module)
    return "attention" in kind.__name__.lower() and kind.__module__.startswith("transformers")
