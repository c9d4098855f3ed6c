"""Labels forced or banned from outside, in one step of a search."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from rfnb.core.dim import Dim, Dims, HostArray
from rfnb.core.errors import value_error
from rfnb.rec.loop import Loop
from rfnb.rec.selection import align_host
from rfnb.rec.selections import LabelDecision
from rfnb.search.labels import check_number, hypothesis_index, label_index, spelled
from rfnb.search.rank import FlatScores, Ranking, take


def resolved(decided: LabelDecision, axis: Dim | Dims, loop: Loop) -> LabelDecision:
    """The decision with indices in place of the texts of its label and hypothesis.

    Args:
        axis: The labels; for several sources a tuple.

    Raises:
        IndexError, ValueError: If they do not exist.
    """
    if isinstance(axis, tuple):
        after = tuple(_of_sources(decided._replace(label=label), axis) for label in decided.then)
        label = _of_sources(decided, axis)
        return decided._replace(label=label, hypothesis=hypothesis_index(decided, loop), then=after)
    decided = spelled(decided, axis)
    then = tuple(label_index(decided._replace(label=label), axis) for label in decided.then)
    hypothesis = hypothesis_index(decided, loop)
    return decided._replace(label=label_index(decided, axis), hypothesis=hypothesis, then=then)


def _of_sources(decided: LabelDecision, axes: Dims) -> tuple[int | None, ...]:
    """The label indices for several sources; None where any label may be chosen."""
    label = decided.label
    if not isinstance(label, tuple) or len(label) != len(axes) or set(label) == {None}:
        texts = [next(iter(getattr(dim, "vocab", None) or (0,))) for dim in axes]
        raise value_error(
            f"{decided.kind}: a step chooses from {len(axes)} sources.",
            {"label": repr(label), "sources": ", ".join(dim.short_repr() for dim in axes)},
            "There is a label of each source, None where it may be any.",
            f"run.at.{decided.kind}(({', '.join(map(repr, texts))}))",
        )
    return tuple(
        None if one is None else label_index(decided._replace(label=one), dim) for one, dim in zip(label, axes)
    )


def check(decided: LabelDecision, batch: Sequence[Dim], beam: Dim | None, ended: HostArray | None) -> None:
    """Check that a decision can be carried out.

    Args:
        decided: A decision from `resolved`.
        batch, beam: The dims of the choice; None for the beam: one hypothesis.
        ended: The hypotheses that ended before it, with dims; None if there are none.

    Raises:
        IndexError: If the sequence or hypothesis does not exist.
        ValueError: If the hypothesis has ended.
    """
    seqs, hypotheses = math.prod(dim.extent for dim in batch), 1 if beam is None else beam.extent
    check_number(decided.kind, "seq", decided.seq, seqs)
    if decided.hypothesis is not None:
        check_number(decided.kind, "hypothesis", decided.hypothesis, hypotheses)
    if ended is None or decided.hypothesis is None:
        return
    dims = batch if beam is None else (*batch, beam)
    host = np.broadcast_to(align_host(*ended, tuple(dims)), [dim.extent for dim in dims])
    if host.reshape(seqs, hypotheses)[decided.seq, decided.hypothesis]:
        raise value_error(
            f"{decided.kind}: this hypothesis has ended.",
            {"seq": decided.seq, "hypothesis": decided.hypothesis},
            "An ended hypothesis takes no further label. Choose one that continues, or an earlier step.",
        )


def decisions_for(
    loop: Loop, flat: FlatScores, ended: HostArray | None, count: int, given: Sequence[LabelDecision] | None = None
) -> list[LabelDecision]:
    """The decisions for this step that can be carried out; the others are reported to the loop's step.

    Args:
        count: The number of surviving hypotheses.
        given: Decisions with indices. Default: those of the loop's step.
    """
    found: list[LabelDecision] = []
    host = flat.backend.raw_to_numpy(flat.raw)
    scores = host.reshape(-1, host.shape[-1])
    for each in loop.step.decisions if given is None else given:
        try:
            one = resolved(each, flat.axis, loop) if given is None else each
            check(one, flat.rest, flat.in_dim, ended)
            if one.kind == "force":
                others = {_place(other, flat) for other in found if other.kind == "force" and other.seq == one.seq}
                _check_forced(one, scores[one.seq, _place(one, flat)], len(others | {_place(one, flat)}), count)
        except (IndexError, ValueError) as error:
            loop.step.refuse(error)
        else:
            found.append(one)
    return found


def _check_forced(one: LabelDecision, score: float, number: int, count: int) -> None:
    if score == -np.inf:
        raise cannot_come(one)
    if number > count:
        raise more_than_go_on(number, count)


def more_than_go_on(number: int, count: int) -> ValueError:
    """The error for forcing more labels than there are places."""
    return value_error(
        "force: more labels than hypotheses survive.",
        {"forced": number, "beam": count},
        "What is forced takes a place in the beam each.",
    )


def cannot_come(one: LabelDecision) -> ValueError:
    """The error for a label that is impossible in this step."""
    return value_error(
        "force: this label cannot come here.",
        {"label": one.label, "hypothesis": one.hypothesis, "seq": one.seq},
        "Its probability is 0: the model, or an option of the search, does not allow it.",
    )


def followed(loop: Loop, flat: FlatScores, ranked: Ranking, decisions: Sequence[LabelDecision]) -> None:
    """Let forced hypotheses take their further labels in the next step."""
    index = None
    for one in decisions:
        if one.kind == "force" and one.then:
            if index is None:
                host = flat.backend.raw_to_numpy(ranked.index)
                index = host.reshape(-1, host.shape[-1])
            slots = np.flatnonzero(index[one.seq] == _place(one, flat))
            if not slots.size:
                loop.step.refuse(_has_left(one))
                continue
            loop.step.decide_next(one._replace(label=one.then[0], then=one.then[1:], hypothesis=int(slots[0])))


def _has_left(one: LabelDecision) -> ValueError:
    return value_error(
        "force: this hypothesis has left the beam.",
        {"label": one.label, "then": ", ".join(map(str, one.then))},
        "It has ended, and takes no further label.",
    )


def banned(flat: FlatScores, decisions: Sequence[LabelDecision]) -> FlatScores:
    """`flat` with -inf for banned labels, and for everything but the forced labels in sequences with `only`."""
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


def forced(flat: FlatScores, ranked: Ranking, decisions: Sequence[LabelDecision]) -> Ranking:
    """`ranked` with the forced hypotheses in place of the lowest-ranked ones."""
    if not any(one.kind == "force" for one in decisions):
        return ranked
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
    return Ranking(scores, raw, backend.raw_to_numpy(scores), in_order=False, more=ranked.more)


def _rows(flat: FlatScores) -> tuple[int, int]:
    shape = flat.backend.get_shape_tuple_raw(flat.raw)
    return math.prod(shape[:-1]), shape[-1]


def _place(one: LabelDecision, flat: FlatScores) -> int:
    hypothesis: Any = one.hypothesis if flat.in_dim is not None else 0
    return int(hypothesis) * flat.num_labels + label_index(one, flat.axis)
