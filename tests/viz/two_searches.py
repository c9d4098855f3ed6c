"""Two recorded searches that are the same up to a known step, and a tree of branches that has them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import rfnb as rf
from rfnb import Dim
from rfnb.trace.run_tree import AppliedChange, Branch, BranchPoint, Tree, best_so_far

STEPS = 5


def recorded_search(labels: Sequence[str], parted: int = STEPS, *, beam: int = 3, steps: int = STEPS, seqs: int = 1):
    """The recording of a search with attention and a state, whose scores are other ones from step `parted` on."""
    count = len(labels)
    random = np.random.default_rng(0)
    scores = random.normal(size=(steps, count, count)).astype(np.float32)
    scores[parted:] = scores[parted:, :, ::-1]
    scores[: steps - 1, :, 0] -= 3.0  # nothing ends early
    scores[steps - 1 :, :, 0] += 9.0
    weights = random.random((count, 4)).astype(np.float32)
    vocab = Dim(count, name="labels", vocab=list(labels))
    before, time, source = Dim(count, name="before"), Dim(steps, name="time"), Dim(4, name="source")
    table = rf.convert_to_tensor(scores, dims=[time, before, vocab])
    looks = rf.convert_to_tensor(weights / weights.sum(-1, keepdims=True), dims=[before, source])
    batch = Dim(seqs, name="batch", kind="batch")
    with rf.record() as trace:
        loop = rf.Loop(max_seq_len=steps, name="search")
        loop.state.label = rf.zeros([batch], dtype="int64", sparse_dim=before)
        loop.state.step = rf.zeros([], dtype="int64", sparse_dim=time)
        loop.state.h = rf.zeros([batch, source])
        for _ in loop:
            look = rf.gather(looks, indices=loop.state.label, axis=before)
            rf.probe("attention", weights=look, axis=source)
            row = rf.gather(rf.gather(table, indices=loop.state.step, axis=time), indices=loop.state.label, axis=before)
            label = rf.choice(rf.log_softmax(row, axis=vocab), axis=vocab, beam_size=beam, end_label=0)
            loop.state.h = loop.state.h + look
            loop.state.label, loop.state.step = rf.set_sparse_dim(label, before), loop.state.step + 1
            loop.end(label == 0, include_eos=True)
    return trace


def branch_tree(labels: Sequence[str] = ("#", "a", "b", "c"), at: int = 2) -> Tree:
    """A run, a branch of it that is other from step `at` on, and one of that which does the same."""
    names = [f"{labels[0]} main", f"{labels[-1]} what if", f"{labels[len(labels) // 2]} again"]
    found = []
    for number, (name, parted) in enumerate(zip(names, (STEPS, at, at))):
        trace = recorded_search(labels, parted)
        steps = tuple(("search", step) for step in range(STEPS))
        left = BranchPoint(at + number - 1, "search", at + number - 1) if number else None
        changes = tuple(
            AppliedChange(tick, "search", tick, f"forced {labels[-1]} for hypothesis 0 of sequence 0")
            for tick in range(at, at + number)
        )
        parent = found[-1].name if found else None
        found.append(Branch(name, parent, left, steps, changes, outcome=best_so_far(trace), trace=trace))
    return Tree(found)
