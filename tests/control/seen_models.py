"""Functions with loops whose views show something in each cell, for the ways from cells to commands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from asserting import ragged, randn
from loop_faces import run_steps

import rfnb as rf
from rfnb import Dim

END = 0
VOCAB = Dim(7, name="vocab", vocab=["#", "a", "b", "c", "a", "e", "f"])  # two labels have one text


def search(
    *, batches: int = 1, beam: int = 3, face: str = "for", steps: int = 5, turns: bool = False, heads: int = 2
) -> Callable[[], Any]:
    """A search with attention over ragged sources, and a state, for several sequences: labels and their lengths.

    Args:
        heads: Of the attention, 1 or 2.
        turns: Whether the dims of the scores are in another order in each second step.
    """
    rf.set_random_seed(11)
    outer, batch = Dim(2, name="outer"), Dim(3, name="batch")
    dims = [outer, batch] if batches == 2 else [batch]
    source, key, head = ragged([5, 3, 4], batch, "source"), Dim(4, name="key"), Dim(2, name="head")
    inner = [head, key] if heads == 2 else [key]  # of one dim, the view follows the best hypothesis
    keys, values = randn(*dims, source, *inner), randn(*dims, source, *inner)
    embed, out = randn(VOCAB, *inner), randn(*inner, VOCAB)
    of_label = np.array([-2.0, 0, 0, 0, 0, 0, 0], "float32")  # so that not all end at once
    rare = rf.convert_to_tensor(of_label, dims=[VOCAB])

    def run() -> Any:
        loop = rf.Loop(max_seq_len=steps, name="decode")
        loop.state.label = rf.constant(END, dims=dims, dtype="int64", sparse_dim=VOCAB)
        loop.state.h = rf.zeros([*dims, *inner])
        loop.state.deep = {"n": rf.zeros([])}

        def body() -> Any:
            query = rf.tanh(loop.state.h * 0.7 + rf.gather(embed, indices=loop.state.label, axis=VOCAB))
            seen = rf.dot_attention(query, keys, values, key_dim=key, axis=source)
            loop.state.h = rf.tanh(query + seen)
            loop.state.deep = {"n": loop.state.deep["n"] + 1.0}
            scores = rf.log_softmax(rf.matmul(loop.state.h, out, reduce=inner) + rare, axis=VOCAB)
            if turns and loop.num_steps % 2:
                scores = scores.copy_transpose(scores.dims[::-1])
            label = rf.choice(scores, axis=VOCAB, beam_size=beam, end_label=END)
            loop.state.label = label
            loop.end(label == END, include_eos=True)
            return loop.stack(label)

        return rf.decide(run_steps(loop, face, body))

    return run


def nested() -> Any:
    """A loop whose steps have a loop each, of other lengths; and the inner one once more after it."""
    words, letters, feat = Dim(3, name="words"), [Dim(size, name="letters") for size in (2, 4, 3)], Dim(3, name="feat")
    outer = rf.Loop(axis=words, name="words")
    outer.state.sum = rf.zeros([feat])
    for step in outer:
        outer.state.sum = outer.state.sum * 0.5 + spell(letters[step], feat)
    return outer.state.sum + spell(letters[1], feat)


def spell(letters: Dim, feat: Dim) -> Any:
    """A running sum."""
    inner = rf.Loop(axis=letters, name="letters")
    inner.state.h = rf.zeros([feat])
    x = rf.convert_to_tensor(np.arange(letters.size * 3, dtype="float32").reshape(-1, 3), dims=[letters, feat])
    for _ in inner:
        inner.state.h = inner.state.h * 0.5 + inner.unstack(x)
    return inner.state.h
