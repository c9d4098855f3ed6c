"""The entries of the table for rows of the edit distance, n-gram LMs, CTC and transducer search."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from table import case, exempt
from world import World

import rfnb as rf
from rfnb import Dim, Tensor

TINY = Path(__file__).parents[1] / "golden" / "tiny.arpa"


def _pair(w: World) -> list[Tensor]:
    """Symbols of one step and a target."""
    batch = (w.batch,) if w.rng.random() < 0.5 else (w.heads, w.batch)
    return [w.ints(*batch, sparse_dim=w.classes), w.ints(w.batch, w.source, sparse_dim=w.classes)]


@case("initial_edit_distance_row")
def _initial_row(w: World) -> Any:
    return lambda b: rf.initial_edit_distance_row(b, b_spatial_dim=w.source), _pair(w)[1:]


@case("next_edit_distance_row")
def _next_row(w: World) -> Any:
    blank = int(w.rng.integers(0, w.classes.extent + 1))

    def call(a: Tensor, b: Tensor, n: Tensor, ended: Tensor) -> Any:
        row = rf.initial_edit_distance_row(b, b_spatial_dim=w.source)
        options: dict[str, Any] = {"b_spatial_dim": w.source, "blank_idx": blank}
        row = rf.next_edit_distance_row(row, a, b, n=n, **options)
        return rf.next_edit_distance_row(row, a, b, n=n + 1, ended=ended, **options)

    return call, [*_pair(w), w.ints(w.batch, low=0, high=4), w.bools(w.batch)]


@case("next_edit_distance_reduce")
def _reduce(w: World) -> Any:
    optimal = bool(w.rng.random() < 0.5)

    def call(a: Tensor, b: Tensor, ended: Tensor) -> Any:
        row = rf.initial_edit_distance_row(b, b_spatial_dim=w.source)
        options: dict[str, Any] = {"b_spatial_dim": w.source, "n": 0, "ended": ended}
        return rf.next_edit_distance_reduce(row, a, b, optimal_completion=optimal, **options)

    return call, [*_pair(w), w.bools(w.batch)]


@case("optimal_completions")
def _completions(w: World) -> Any:
    def call(a: Tensor, b: Tensor) -> Any:
        row = rf.initial_edit_distance_row(b, b_spatial_dim=w.source)
        row = rf.next_edit_distance_row(row, a, b, b_spatial_dim=w.source, n=0)
        return rf.optimal_completions(row, b, b_spatial_dim=w.source, n=1)

    return call, _pair(w)


@case("optimal_completion_edit_distance")
def _completed(w: World) -> Any:
    a = w.ints(w.heads, w.batch, w.time, sparse_dim=w.classes)
    return lambda x, y: rf.optimal_completion_edit_distance(x, w.time, y, w.source), [a, _pair(w)[1]]


@case("optimal_completion_edit_distance_per_successor")
def _per_successor(w: World) -> Any:
    a = w.ints(w.batch, w.time, sparse_dim=w.classes)

    def call(x: Tensor, y: Tensor) -> Any:
        return rf.optimal_completion_edit_distance_per_successor(x, w.time, y, w.source, successors_dim=w.classes)

    return call, [a, _pair(w)[1]]


@case("EditDistanceTable")
def _table(w: World) -> Any:
    def call(a: Tensor, b: Tensor) -> Any:
        table = rf.EditDistanceTable(b, target_spatial_dim=w.source)
        rows, state = table(a, spatial_dim=w.time)
        return rows, state.row, state.n

    return call, [w.ints(w.batch, w.time, sparse_dim=w.classes), _pair(w)[1]]


@case("NGramLM")
def _ngram(w: World) -> Any:
    lm = rf.NGramLM(TINY, ["the", "cat", "sat", "dog", "hello", "</s>", "xyz"])

    def call(labels: Tensor) -> Any:
        scores, state = lm(labels, spatial_dim=w.time)
        return scores, state.context, lm.next_scores(state), lm.end_score(state)

    dims = (w.batch, w.time) if w.rng.random() < 0.5 else (w.heads, w.batch, w.time)
    return call, [w.ints(*dims, sparse_dim=lm.out_dim)]


@case("KenLmState")
def _kenlm_state(w: World) -> Any:
    parts = ["the", "c@@", "at", "s@@", "d@@", "og", "</s>", "hel@@", "lo"]
    merge, dense = ("@@", bool(w.rng.random() < 0.5)) if w.rng.random() < 0.7 else (None, False)
    options: dict[str, Any] = {"bpe_merge_symbol": merge, "input_step_offset": int(w.rng.integers(0, 2))}
    lm = rf.KenLmState(TINY, vocab_file=parts, vocab_unknown_label=None, dense_output=dense, **options)

    def call(labels: Tensor) -> Any:
        scores, state = lm(labels, spatial_dim=w.time)
        return scores, state.context

    return call, [w.ints(w.batch, w.time, sparse_dim=lm.out_dim)]


@case("ctc_prefix_beam_search")
def _ctc_prefix(w: World) -> Any:
    classes, out_dim = Dim(4, name="classes"), Dim(None, name="labels")
    lm = rf.NGramLM(TINY, ["the", "cat", "sat"]) if w.rng.random() < 0.5 else None
    options: dict[str, Any] = {"in_spatial_dim": w.time, "blank_index": 3, "wb_target_dim": classes, "lm": lm}

    def call(logits: Tensor) -> Any:
        _, scores, _, beam = rf.ctc_prefix_beam_search(logits, beam_size=3, out_spatial_dim=out_dim, **options)
        return rf.gather(scores, indices=0, axis=beam)  # of hypotheses of equal scores either may be first

    dims = (w.batch, w.time) if w.rng.random() < 0.5 else (w.heads, w.batch, w.time)
    return call, [w.floats(*dims, classes)]


def _transducer(w: World) -> tuple[Dim, Any, Any]:
    """Classes; a step whose state is a number; its first state."""
    classes = Dim(3, name="classes")

    def step(frame: Tensor, label: Tensor, state: Tensor) -> Any:
        state = rf.tanh(state + rf.cast(rf.set_sparse_dim(label, None), frame.dtype) - 1)
        scale = rf.cast(rf.range_over_dim(classes, device=frame.device), frame.dtype)
        return frame * 1.3 + rf.expand_dim(state, classes) * scale, state

    return classes, step, lambda like: rf.zeros([w.batch], device=like.device)


@case("transducer_beam_search")
def _transducer_beam(w: World) -> Any:
    classes, step, state = _transducer(w)
    options: dict[str, Any] = {"in_spatial_dim": w.time, "wb_target_dim": classes, "blank_index": 0, "max_labels": 3}

    def call(encoder: Tensor) -> Any:
        encoder.feature_dim = classes
        found = rf.transducer_beam_search(step, encoder, beam_size=3, initial_state=state(encoder), **options)
        return rf.gather(found[1], indices=0, axis=found[3])

    return call, [w.floats(w.batch, w.time, classes)]


@case("transducer_greedy_decode")
def _transducer_greedy(w: World) -> Any:
    classes, step, state = _transducer(w)
    options: dict[str, Any] = {"in_spatial_dim": w.time, "wb_target_dim": classes, "blank_index": 0}

    def call(encoder: Tensor) -> Any:
        encoder.feature_dim = classes
        return rf.transducer_greedy_decode(
            step, encoder, initial_state=state(encoder), max_labels_per_frame=2, **options
        )[1]

    return call, [w.floats(w.batch, w.time, classes)]


@case("ctc_forced_align")
def _forced_align(w: World) -> Any:
    label = Dim(int(w.rng.integers(0, 3)), name="label") if w.rng.random() < 0.5 else w.source
    classes = Dim(4, name="classes")
    options: dict[str, Any] = {"input_spatial_dim": w.time, "targets_spatial_dim": label, "blank_index": 3}

    def call(logits: Tensor, targets: Tensor) -> Any:
        return tuple(rf.ctc_forced_align(logits=logits, targets=rf.set_sparse_dim(targets, classes), **options))

    return call, [w.floats(w.batch, w.time, classes), w.ints(w.batch, label, low=0, high=3)]


@case("transducer_forced_align")
def _transducer_align(w: World) -> Any:
    classes = Dim(3, name="classes")
    options: dict[str, Any] = {"in_spatial_dim": w.time, "targets_spatial_dim": w.source, "blank_index": 2}

    def call(logits: Tensor, targets: Tensor) -> Any:
        return rf.transducer_forced_align(logits, targets, wb_target_dim=classes, **options)

    return call, [w.floats(w.batch, w.time, w.source + 1, classes), w.ints(w.batch, w.source, low=0, high=2)]


exempt("what ctc_forced_align gives", "CtcAlignment")
exempt("on the host, of Python sequences", "Alignment align character_errors word_errors")
