"""Lengths of sequences, from the masks and lengths that a module gets.

Where all padding is behind the end of each sequence, and the longest one fills the axis, the dim gets lengths. Other masks stay what
they are, and the dim static: `names.mask_of(dim)`. Values on a GPU are waited for here, once for each mask that a model is given.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from rfnb.core.dim import Dim, ragged_dim


def is_mask(name: str, raw: torch.Tensor) -> bool:
    """Whether an input says which entries are real, or how many."""
    if raw.ndim == 2:
        return name.endswith(("attention_mask", "padding_mask"))
    return raw.ndim == 1 and name.endswith(("lengths", "length", "_lens")) and not raw.is_floating_point()


def add_lengths(call: Any, inputs: list[tuple[str, torch.Tensor]]) -> None:
    """Give lengths to the dims of the inputs of a call of which a mask among them says so."""
    for name, raw in inputs:
        if is_mask(name, raw) and raw.device.type != "meta" and id(raw) not in call.root.masks:
            call.root.masks[id(raw)] = raw
            place = _place(call, name, raw, inputs)
            if place is not None:
                _tell(call, name, raw, *place)


def _place(call: Any, name: str, mask: torch.Tensor, inputs: list[tuple[str, torch.Tensor]]) -> tuple[Dim, Dim] | None:
    """The dims of batch and time that a mask is of."""
    prefix = next(
        (
            word
            for word in ("src", "tgt", "memory", "decoder", "encoder", "key", "source", "target")
            if name.startswith(word)
        ),
        "",
    )
    others = [(each, raw) for each, raw in inputs if not is_mask(each, raw)]
    own = [pair for pair in others if prefix and pair[0].startswith(prefix)]
    for _, raw in own or others:
        dims = call.names.of(raw) or ()
        batch = next((dim for dim in dims if dim.kind == "batch" and dim.extent == mask.shape[0]), None)
        times = [
            dim
            for dim in dims
            if dim.kind not in ("batch", "feature") and (mask.ndim == 1 or dim.extent == mask.shape[1])
        ]
        if batch is not None and times:
            return batch, times[0]
    return None


def _tell(call: Any, name: str, mask: torch.Tensor, batch: Dim, time: Dim) -> None:
    if time.size is None:  # it has lengths
        return
    mask = mask.detach()
    if mask.ndim == 1:
        lengths = mask.cpu().numpy()
        right = bool(((lengths >= 0) & (lengths <= time.extent)).all())
        real = None
    else:
        real = _real(name, mask.cpu())
        lengths = real.sum(1)
        right = bool((real == (np.arange(real.shape[1]) < lengths[:, None])).all())
    if right and lengths.size and int(lengths.max()) == time.extent:
        if int(lengths.min()) == time.extent:
            return
        new = ragged_dim(lengths.astype(np.int32), over=batch, name=time.name)
        new.kind, new.guessed, new.vocab = time.kind, time.guessed, time.vocab
        call.names.becomes(time, new)
        return
    if real is not None:
        call.names.masks[time] = real
    if not right:
        time.remark = f"no lengths: {name} has padding elsewhere"


def _real(name: str, mask: torch.Tensor) -> np.ndarray[Any, Any]:
    """The entries that are real: padding masks of torch and fairseq are true, or minus infinity, at padding; attention masks 1 where it
    is real."""
    if not name.endswith("padding_mask"):
        return np.asarray((mask > 0).numpy())
    return np.asarray((mask == 0).numpy() if mask.is_floating_point() else ~mask.bool().numpy())
