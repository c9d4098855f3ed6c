"""Functions with random numbers in each kind of loop that a run holds."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from loop_faces import run_steps

import rfnb as rf
from rfnb import Dim

KINDS = ("for", "with", "nested", "scan", "while_loop", "choice for", "choice with", "search", "raw search", "own")


def noisy(kind: str, *, lengths: tuple[int, ...] = (5, 3), seed: int = 0) -> Callable[[], list[np.ndarray]]:
    """A function that gives all it has computed as arrays: dropout, noise in states and in scores.

    Args:
        kind: One of `KINDS`.
        lengths: Of the sequences.
        seed: Of the numbers that are no noise.
    """
    batch, feat, vocab = Dim(len(lengths), name="batch"), Dim(3, name="feat"), Dim(5, name="labels")
    rng, longest = np.random.default_rng(seed), max(lengths)
    sizes = rf.convert_to_tensor(np.array(lengths, "int32"), dims=[batch])
    time = Dim(sizes, name="time")
    x = rf.convert_to_tensor(rng.normal(size=(len(lengths), longest, 3)).astype("float32"), dims=[batch, time, feat])
    table = rf.convert_to_tensor(rng.normal(size=(5, 5)).astype("float32") * 2, dims=[Dim(5, name="before"), vocab])

    def next_state(x_t: Any, h: Any) -> Any:
        return 0.5 * h + rf.dropout(x_t, 0.4, on_forward=True) + 0.1 * rf.random_normal([batch, feat])

    def start() -> Any:
        return rf.random_normal([batch, feat])

    def scores_of(label: Any) -> Any:
        out = rf.gather(table, indices=rf.set_sparse_dim(label, table.dims[0]), axis=table.dims[0])
        return rf.log_softmax(out + 0.3 * rf.random_normal(out.dims), axis=vocab)

    def loop_in(face: str) -> list[Any]:
        loop = rf.Loop(axis=time, name="steps")
        loop.state.h, loop.state.more = start(), {"mean": rf.zeros([batch])}

        def body() -> Any:
            h = next_state(loop.unstack(x), loop.state.h)
            if face == "nested":
                inner = rf.Loop(axis=Dim(2), name="inner")
                inner.state.k = h
                for _ in inner:
                    inner.state.k = inner.state.k + 0.1 * rf.random_normal([batch, feat])
                h = inner.state.k
            loop.state.more = {"mean": loop.state.more["mean"] + rf.reduce_mean(h, axis=feat)}
            loop.state.h = h
            return loop.stack(h)

        out = run_steps(loop, "with" if face == "with" else "for", body)
        return [out, loop.state.h, loop.state.more["mean"]]

    def choices(face: str) -> list[Any]:
        loop = rf.Loop(max_seq_len=longest, name="steps")
        loop.state.label = rf.zeros([batch], dtype="int64")

        def body() -> Any:
            label = rf.choice(
                scores_of(loop.state.label), axis=vocab, beam_size=3, end_label=0, random_sample_scale=0.5
            )
            loop.state.label = rf.set_sparse_dim(label, None)
            loop.end(label == 0, include_eos=True)
            return loop.stack(label)

        out = run_steps(loop, face, body)
        return [rf.decide(out), rf.get_beam_scores(out)]

    def search() -> list[Any]:
        found = rf.beam_search(
            lambda label, state: (scores_of(label), {"h": state["h"] + rf.random_normal([batch, feat])}),
            batch=batch, state={"h": start()}, axis=vocab, max_seq_len=longest, beam_size=3, end_label=0,
            early_stopping=False, name="steps",
        )  # fmt: skip
        return [found.best(seq).score for seq in range(len(lengths))] + [
            found.best(seq).tokens for seq in range(len(lengths))
        ]

    def raw_search() -> list[Any]:
        raw_table = table.copy_transpose(table.dims).raw_tensor
        randn = functools.partial(torch.randn, device=raw_table.device)

        def step(labels: Any, state: Any) -> Any:
            h = state["h"] * 0.5 + randn(len(labels), 3)
            scores = raw_table[labels] + torch.nn.functional.dropout(h, 0.4).sum(-1, keepdim=True)
            return (scores + randn(len(labels), 5)).log_softmax(-1), {"h": h, "count": state["count"] + 1}

        found = rf.beam_search(
            step, batch=len(lengths), state={"h": randn(len(lengths), 3), "count": 0}, max_seq_len=longest,
            beam_size=3, end_label=0, early_stopping=False, name="steps",
        )  # fmt: skip
        return [found.best(seq).score for seq in range(len(lengths))] + [
            found.best(seq).tokens for seq in range(len(lengths))
        ]

    def own() -> list[Any]:
        h = start()
        for step in range(longest):
            rf.gate(step, h=h)
            h = h + rf.random_normal([batch, feat])
        return [h]

    def run() -> list[np.ndarray]:
        if kind in ("for", "with", "nested"):
            values = loop_in(kind)
        elif kind.startswith("choice"):
            values = choices(kind.split()[1])
        elif kind == "scan":
            values = list(
                rf.scan(spatial_dim=time, initial=start(), xs=x, body=lambda x_t, h: (h * 2.0, next_state(x_t, h)))[:2]
            )
        elif kind == "while_loop":
            last = rf.while_loop(
                lambda state: state["step"] < longest,
                lambda state: {"h": next_state(state["h"], state["h"]), "step": state["step"] + 1},
                {"h": start(), "step": 0},
            )
            values = [last["h"]]
        else:
            values = {"search": search, "raw search": raw_search, "own": own}[kind]()
        return [each.numpy() if isinstance(each, rf.Tensor) else np.array(each) for each in values]

    return run


def same(a: list[np.ndarray], b: list[np.ndarray]) -> bool:
    """Whether two results are the same bit for bit, besides padding that nobody has written."""
    return len(a) == len(b) and all(np.array_equal(x, y, equal_nan=x.dtype.kind == "f") for x, y in zip(a, b))
