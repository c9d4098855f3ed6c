"""Labels that are forced or banned from outside, in one step of a search."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from rfnb.core.dim import Dim
from rfnb.core.errors import index_error, value_error
from rfnb.rec.decisions import Decided
from rfnb.rec.loop import Loop
from rfnb.rec.selection import align_host
from rfnb.search.rank import Flat, Ranked, take

Ended = tuple[np.ndarray, tuple[Dim, ...]] | None


def label_index(decided: Decided, axis: Dim) -> int:
    """The index of a label, given as index or text.

    Raises:
        IndexError: If there is none.
    """
    label, size = decided.label, axis.extent
    vocab = getattr(axis, "vocab", None)
    if isinstance(label, str):
        found = [index for index, text in enumerate(vocab or ()) if text == label]
        if len(found) == 1:
            return found[0]
        near = f"{len(vocab)} labels, as {', '.join(map(repr, list(vocab)[:6]))}" if vocab else "none has a text"
        raise index_error(
            f"{decided.kind}: no label {label!r}." if not found else f"{decided.kind}: {len(found)} labels {label!r}.",
            [("labels", axis.short_repr()), ("texts", near)],
            "A label is given by its text, if it is the only one with it, or by its index.",
            f"run.at.{decided.kind}(0)",
        )
    if not 0 <= int(label) < size:
        raise index_error(
            f"{decided.kind}: no label {label}.",
            [("labels", axis.short_repr())],
            f"Labels are 0 to {size - 1}.",
        )
    return int(label)


def check(decided: Decided, axis: Dim, batch: Sequence[Dim], beam: Dim | None, ended: Ended) -> None:
    """Whether it can be done.

    Args:
        batch, beam: What the choice is over; None: one hypothesis.
        ended: What has ended before it, and the dims of that; None: nothing.

    Raises:
        IndexError: If there is no such label, sequence or hypothesis.
        ValueError: If the hypothesis has ended.
    """
    label_index(decided, axis)
    seqs, hypotheses = math.prod(dim.extent for dim in batch), 1 if beam is None else beam.extent
    for what, given, size in (("seq", decided.seq, seqs), ("hypothesis", decided.hypothesis, hypotheses)):
        if given is not None and not 0 <= given < size:
            raise index_error(
                f"{decided.kind}: no {what} {given}.",
                [("given", given), ("there are", size)],
                f"They are 0 to {size - 1}.",
            )
    if ended is None or decided.hypothesis is None:
        return
    dims = batch if beam is None else (*batch, beam)
    host = np.broadcast_to(align_host(*ended, tuple(dims)), [dim.extent for dim in dims])
    if host.reshape(seqs, hypotheses)[decided.seq, decided.hypothesis]:
        raise value_error(
            f"{decided.kind}: this hypothesis has ended.",
            [("seq", decided.seq), ("hypothesis", decided.hypothesis)],
            "What has ended takes no further label. Take one that goes on, or an earlier step.",
        )


def refuse_all(loop: Loop, why: str) -> None:
    """Nothing can be decided for the choice of this step."""
    for one in loop.step.decisions:
        loop.step.refuse(
            value_error(
                f"{one.kind}: not in this search.",
                [("label", repr(one.label)), ("hypothesis", one.hypothesis)],
                f"{why}: nothing was changed.",
            )
        )


def decisions_for(loop: Loop, flat: Flat, ended: Ended) -> list[Decided]:
    """The decisions for this step that can be done; the loop's step is told of the others."""
    found = []
    for one in loop.step.decisions:
        try:
            check(one, flat.axis, flat.rest, flat.in_dim, ended)
        except (IndexError, ValueError) as error:
            loop.step.refuse(error)
        else:
            found.append(one)
    return found


def banned(flat: Flat, decisions: Sequence[Decided]) -> Flat:
    """`flat` with -inf where a label is banned, and in sequences of which only what is forced goes on."""
    rows, count = _rows(flat)
    out = np.zeros((rows, count), bool)
    for one in decisions:
        if one.kind == "force":
            if one.only:
                out[one.seq] = True
        elif one.hypothesis is None:
            out[one.seq, label_index(one, flat.axis) :: flat.num_labels] = True
        else:
            out[one.seq, _place(one, flat)] = True
    for one in decisions:
        if one.kind == "force":
            out[one.seq, _place(one, flat)] = False
    if not out.any():
        return flat
    backend = flat.backend
    shape, device = backend.get_shape_tuple_raw(flat.raw), backend.get_device_raw(flat.raw)
    mask = backend.from_numpy(out.reshape(shape), dtype="bool", device=device)
    return dataclasses.replace(flat, raw=backend.where_raw(mask, float("-inf"), flat.raw))


def forced(flat: Flat, ranked: Ranked, decisions: Sequence[Decided]) -> Ranked:
    """`ranked` with what is forced in it; the last in rank have to go for it."""
    backend = flat.backend
    index = backend.raw_to_numpy(ranked.index)
    kept = index.reshape(-1, index.shape[-1]).copy()
    taken: dict[int, list[int]] = {}
    for one in decisions:
        if one.kind == "force":
            taken.setdefault(one.seq, []).append(_place(one, flat))
    changed = False
    for seq, places in taken.items():
        free = [slot for slot, place in enumerate(kept[seq]) if place not in places]
        for place in places:
            if place not in kept[seq] and free:
                kept[seq, free.pop()] = place
                changed = True
    if not changed:
        return ranked
    raw = backend.from_numpy(kept.reshape(index.shape), dtype="int64", device=backend.get_device_raw(flat.raw))
    scores = take(flat, raw)
    return Ranked(scores, raw, backend.raw_to_numpy(scores), in_order=False, more=ranked.more)


def _rows(flat: Flat) -> tuple[int, int]:
    shape = flat.backend.get_shape_tuple_raw(flat.raw)
    return math.prod(shape[:-1]), shape[-1]


def _place(one: Decided, flat: Flat) -> int:
    hypothesis: Any = one.hypothesis if flat.in_dim is not None else 0
    return int(hypothesis) * flat.num_labels + label_index(one, flat.axis)
