"""A search whose parts can be changed one by one, in all ways that a loop can run."""

from __future__ import annotations

import numpy as np
import torch
from loop_faces import run_steps

import rfnb as rf
from rfnb import Dim

BASE = {
    "beam": 4, "lengths": [5, 3], "labels": 11, "end": 0, "steps": 14, "units": 3, "ends_soon": -9.0, "options": {}, "seed": 0,
    "kind": "plain", "include_eos": True, "dtype": "float32",
}  # fmt: skip
CHANGES = {
    "beam": [1, 3, 12], "lengths": [[4], [5, 3, 4]], "labels": [7, 5, 3], "end": [2], "steps": [1, 2, 3, 9], "units": [5],
    "ends_soon": [0.0, 1.0, 9.0],
    "options": [
        {"length_normalization": True}, {"no_repeat_ngram": 2}, {"banned": [3]}, {"threshold": 2.0}, {"prob_scale": 0.5},
        {"keep_beams": True}, {"input_type": "logits"}, {"name": "other"}, {"random_sample_scale": 1.0}, {"sampling": True},
    ],
    "kind": ["read", "ties", "masked", "counted", "unchanged", "impossible", "late", "two", "last", "index", "scores"],
    "include_eos": [False], "dtype": ["float64"], "seed": [1],
}  # fmt: skip


def search(
    face, *, beam, lengths, labels, end, steps, units, ends_soon, options, seed, kind, include_eos, dtype, extra=()
):
    """All that a search finds, as host arrays by name; and how many steps were made at once."""
    rng = np.random.default_rng(7)
    make = lambda *shape: rng.normal(size=shape).astype(dtype)  # noqa: E731
    batch, vocab, unit = (
        Dim(len(lengths), name="batch", kind="batch"),
        Dim(labels, name="labels"),
        Dim(units, name="units"),
    )
    source = rf.ragged_dim(lengths, over=batch, name="source")
    table = rf.convert_to_tensor(2 * make(labels, units), dims=[vocab, unit])
    inner = Dim(units, name="inner")
    recurrent = rf.convert_to_tensor(make(units, units), dims=[unit, inner])
    output = rf.convert_to_tensor(3 * make(units, labels), dims=[unit, vocab])
    words = rf.convert_to_tensor(make(len(lengths), max(lengths), units), dims=[batch, source, unit])
    bias = rf.where(rf.range_over_dim(vocab) == end, ends_soon, 0.0)
    bias = rf.cast(bias, dtype)
    rf.set_random_seed(seed)
    with torch.inference_mode():
        loop = rf.Loop(max_seq_len=steps, name="search")
        loop.state.label = rf.zeros([batch], dtype="int64", sparse_dim=vocab)
        loop.state.h = rf.zeros([batch, unit], dtype=dtype)
        if kind in ("counted", "read"):
            loop.state.count = rf.zeros([batch], dtype="int32")
        if kind == "unchanged":
            loop.state.words = rf.reduce_sum(words, axis=source)

        def body():
            x = rf.gather(table, indices=loop.state.label, axis=vocab)
            h = rf.matmul(loop.state.h + x, recurrent, reduce=unit)
            h, _ = rf.replace_dim(rf.tanh(h), in_dim=inner, out_dim=unit)
            weights = rf.softmax(rf.matmul(h, words, reduce=unit), axis=source)
            h = h + rf.matmul(weights, words, reduce=source)
            loop.state.h = h
            if kind == "unchanged":
                h = h + loop.state.words
                loop.state.words = loop.state.words
            logits = rf.matmul(h, output, reduce=unit) + bias
            if kind == "index":
                logits = logits - rf.cast(loop.iter_idx, dtype) * bias
            scores = rf.log_softmax(logits, axis=vocab) if "input_type" not in options else logits
            if kind == "ties":
                scores = rf.where(h_is_large(h, unit), rf.zeros_like(scores) - 1.0, scores)
            if kind == "impossible":
                every = rf.range_over_dim(vocab)
                allowed = (every > loop.state.label) | (every == (-1 if "no_end" in extra else end))
                scores = rf.where(allowed, scores, float("-inf"))
            if kind == "masked":
                scores = rf.where(rf.range_over_dim(vocab) == 1, float("-inf"), scores)
            if kind == "two":
                rf.choice(scores, axis=vocab, beam_size=beam, end_label=end)
            given = {"end_label": end, "axis": vocab, "beam_size": beam, **options}
            label = rf.choice(scores, **given)
            if kind == "read":
                loop.state.count = loop.state.count + rf.cast(rf.reduce_sum(loop.state.h, axis=unit) > 0, "int32")
            if kind == "counted":
                loop.state.count = loop.state.count + 1
            loop.state.label = label
            loop.end(label == end, include_eos=include_eos)
            out = [loop.stack(label), loop.stack(h if kind == "late" else label * 2)]
            if kind == "last":
                out.append(loop.last(label))
            if kind == "scores":
                out.append(loop.stack(rf.get_beam_scores(label)))
            return out

        outs = run_steps(loop, face, body)
        found = {"axis": loop.axis.lengths, "scores": rf.get_beam_scores(outs[0]), "steps": loop.num_steps}
        found |= {f"out {number}": out for number, out in enumerate(outs)}
        found |= {
            name: loop.state[name] for name in ("label", "h", *(["count"] if kind in ("counted", "read") else []))
        }
        found |= {"best": rf.decide(outs[0])}
    return {name: of(value) for name, value in found.items()}


def h_is_large(h, unit):
    return rf.reduce_max(h, axis=unit) > 0.7


def of(value):
    if not isinstance(value, rf.Tensor):
        return np.asarray(value)
    order = sorted(value.dims, key=lambda dim: dim.name)
    value = value.copy_masked(0) if any(dim.has_padding() for dim in order) else value
    return value.copy_transpose(order).numpy()
