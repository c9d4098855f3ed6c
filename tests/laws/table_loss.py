"""The entries of the table for losses and distances of sequences."""

from __future__ import annotations

from typing import Any

from table import case, exempt
from world import World

import rfnb as rf
from rfnb import Dim, Tensor


def _ctc(w: World) -> tuple[list[Tensor], dict[str, Any]]:
    """Logits and targets without blanks, and the options; the blank is one of the classes."""
    classes = Dim(w.classes.extent + 2, name="classes")
    blank = int(w.rng.integers(-1, classes.extent))
    batch, time = [((w.batch,), w.time), ((w.heads, w.batch), w.time), ((w.batch, w.time), w.char)][w.rng.integers(3)]
    # at most two labels, so that there mostly is an alignment
    label = Dim(int(w.rng.integers(0, 3)), name="label") if w.rng.random() < 0.5 else w.source
    own = w.shuffled(batch)[:1] if label is not w.source else (w.batch,)
    own = batch if w.rng.random() < 0.5 and time is not w.char else own
    ids = w.ints(*own, label, low=0, high=classes.extent - 1)
    ids = rf.set_sparse_dim(ids + rf.cast(ids >= blank % classes.extent, "int32"), classes)
    options = {"input_spatial_dim": time, "targets_spatial_dim": label, "blank_index": blank}
    return [w.floats(*batch, time, classes), ids], {**options, "label_loop": bool(w.rng.random() < 0.5)}


@case("ctc_loss")
def _ctc_loss(w: World) -> Any:
    inputs, options = _ctc(w)
    options |= {name: bool(w.rng.random() < 0.5) for name in ("max_approx", "logits_normalized", "zero_infinity")}
    return lambda logits, targets: rf.ctc_loss(logits=logits, targets=targets, **options), inputs


@case("ctc_best_path")
def _ctc_best_path(w: World) -> Any:
    inputs, options = _ctc(w)
    return lambda logits, targets: rf.ctc_best_path(logits=logits, targets=targets, **options), inputs


@case("ctc_greedy_decode")
def _ctc_greedy_decode(w: World) -> Any:
    out_dim, blank = Dim(None, name="out"), int(w.rng.integers(-1, w.classes.extent))
    options = {"in_spatial_dim": w.time, "blank_index": blank, "out_spatial_dim": out_dim, "wb_target_dim": w.classes}
    dims = (w.batch, w.time) if w.rng.random() < 0.5 else (w.heads, w.batch, w.time)
    return lambda logits: rf.ctc_greedy_decode(logits, **options), [w.floats(*dims, w.classes)]


for _name in ("ctc_durations_from_path", "ctc_no_label_loop_blank_durations_from_path"):

    @case(_name)
    def _durations(w: World, name: str = _name) -> Any:
        blank, out_dim = int(w.rng.integers(-1, w.classes.extent)), Dim(None, name="out")
        options = {"path_spatial_dim": w.time, "blank_index": blank, "out_spatial_dim": out_dim}
        return lambda path: getattr(rf, name)(path=path, **options), [w.ints(w.batch, w.time, sparse_dim=w.classes)]


@case("edit_distance")
def _edit_distance(w: World) -> Any:
    a, b = [
        ((w.batch, w.time), (w.batch, w.source)),
        ((w.heads, w.batch, w.time), (w.batch, w.source)),
        ((w.batch, w.feat), (w.heads, w.batch, w.source)),
        ((w.feat,), (w.batch, w.time)),
        ((w.batch, w.time, w.char), (w.batch, w.source)),
    ][w.rng.integers(5)]
    return lambda x, y: rf.edit_distance(x, a[-1], y, b[-1]), [w.ints(*a, low=0, high=3), w.ints(*b, low=0, high=3)]


exempt("a check, not an op", "assert_")
