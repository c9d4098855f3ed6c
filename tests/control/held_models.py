"""Loops that the tests of control hold, each with the same computation in plain NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from asserting import ragged, randn
from loop_faces import run_steps

import rfnb as rf
from rfnb import Dim

BATCH, FEAT = Dim(3, name="batch"), Dim(5, name="feat")
TIME = ragged([7, 4, 2], BATCH, "time")
X = randn(BATCH, TIME, FEAT)
NUM_STEPS = 7


def sums(face: str = "for") -> Callable[[], tuple[Any, Any]]:
    """A running sum over ragged sequences: its outputs {time, batch, feat}, and what it comes to."""

    def run() -> tuple[Any, Any]:
        if face == "scan":
            out, last, _ = rf.scan(
                spatial_dim=TIME, initial=rf.zeros([BATCH, FEAT]), xs=X, body=lambda x, h: (h * 0.5 + x, h * 0.5 + x)
            )
            return out, last
        loop = rf.Loop(axis=TIME, name="sums")
        loop.state.h = rf.zeros([BATCH, FEAT])

        def body() -> Any:
            loop.state.h = loop.state.h * 0.5 + loop.unstack(X)
            return loop.stack(loop.state.h)

        out = run_steps(loop, face, body)
        return out, loop.state.h

    return run


def plain_sums(edits: dict[int, Callable[[np.ndarray], None]]) -> np.ndarray:
    """The result of `sums`, {batch, feat}, if the state is changed before some steps."""
    x, lengths = X.copy_transpose([BATCH, TIME, FEAT]).numpy(), [7, 4, 2]
    h = np.zeros((3, 5), np.float32)
    for step in range(NUM_STEPS):
        if step in edits:
            edits[step](h)
        for seq in range(3):
            if step < lengths[seq]:
                h[seq] = h[seq] * np.float32(0.5) + x[seq, step]
    return h


def growing() -> Callable[[], Any]:
    """Sums of the length of a list outside of the loop, so that no run is as the one before."""
    log: list[int] = []

    def grows() -> Any:
        loop = rf.Loop(axis=TIME, name="grows")
        loop.state.h = rf.zeros([BATCH, FEAT])
        for _ in loop:
            log.append(1)
            loop.state.h = loop.state.h + float(len(log))
        return loop.state.h

    return grows


STATE = {"for": "h", "with": "h", "scan": "state"}


LABELS = Dim(4, name="labels", vocab=["#", "a", "b", "c"])
_LETTERS = np.log([[0.001, 0.7, 0.2, 0.099], [0.02, 0.08, 0.7, 0.2], [0.02, 0.28, 0.1, 0.6], [0.9, 0.04, 0.03, 0.03]])


def letters(seqs: int = 2) -> Any:
    """A search that writes "a b c", from scores of each label after the one before."""
    before = Dim(4, name="before")
    scores = rf.convert_to_tensor(_LETTERS.astype("float32"), dims=[before, LABELS])
    return rf.beam_search(
        lambda label, state: (rf.gather(scores, indices=rf.set_sparse_dim(label, before), axis=before), state),
        batch=Dim(seqs, name="seq"),
        max_seq_len=6,
        beam_size=3,
        end_label=0,
        axis=LABELS,
    )
