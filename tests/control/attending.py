"""A decoder that attends in each step, in all kinds of loops, and the same in plain NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from asserting import ragged, randn
from loop_faces import run_steps

import rfnb as rf
from rfnb import Dim
from rfnb.nn.attention.functions import _attend, _energy

BATCH, HEADS, FEAT, STEPS = Dim(2, name="batch"), Dim(3, name="heads"), Dim(4, name="feat"), Dim(5, name="steps")
LENGTHS = [6, 4]
SOURCE = ragged(LENGTHS, BATCH, "source")
KEYS, VALUES, START = (
    randn(BATCH, SOURCE, HEADS, FEAT, seed=1),
    randn(BATCH, SOURCE, HEADS, FEAT, seed=2),
    randn(BATCH, HEADS, FEAT, seed=3),
)


class Attention(rf.Module):
    """One of the ways to attend."""

    def __init__(self, how: str):
        self.how = how
        self.v = rf.Parameter([FEAT], initial=1.0)

    def __call__(self, query: rf.Tensor) -> rf.Tensor:
        options: dict[str, Any] = {"key_dim": FEAT, "axis": SOURCE}
        if self.how == "additive":
            return rf.additive_attention(query, KEYS, VALUES, energy_weight=self.v, **options)
        if self.how == "generic":
            return rf.generic_attention(rf.dot_attention_weights(query, KEYS, **options), VALUES, axis=SOURCE)
        if (
            self.how == "parts"
        ):  # as layers do that add something to the energies: each op by itself, which a recorded body lowers
            return _attend(_energy(query, KEYS, FEAT, FEAT.extent**-0.5), VALUES, SOURCE, 0.0, None)
        return rf.dot_attention(query, KEYS, VALUES, **options)


class Decoder(rf.Module):
    """h = tanh(h + what it attends to)."""

    def __init__(self, how: str):
        self.att = Attention(how)

    def __call__(self, h: rf.Tensor) -> rf.Tensor:
        return rf.tanh(h + self.att(h).copy_transpose(h.dims))


def decoding(face: str = "for", how: str = "dot") -> Callable[[], rf.Tensor]:
    """The last state of the decoder, {batch, heads, feat}."""
    decoder = Decoder(how)

    def run() -> rf.Tensor:
        if face == "scan":
            return rf.scan(spatial_dim=STEPS, initial=START, body=lambda _, h: (None, decoder(h)))[1]
        if face == "while":
            return rf.while_loop(
                lambda state: state[1] < STEPS.extent, lambda state: (decoder(state[0]), state[1] + 1), (START, rf.zeros([], dtype="int32"))
            )[0]  # fmt: skip
        if face == "gate":
            h = START
            for step in range(STEPS.extent):
                rf.gate(step, h=h)
                h = decoder(h)
            return h
        loop = rf.Loop(axis=STEPS, name="decoding")
        loop.state.h = START

        def body() -> None:
            loop.state.h = decoder(loop.state.h)

        run_steps(loop, face, body)
        return loop.state.h

    return run


Edits = dict[int, list[Callable[[np.ndarray], None]]]


def plain(edits: Edits, how: str = "dot") -> np.ndarray:
    """The same, where in some steps something is done with the weights {batch, heads, source}."""
    keys, values = (x.copy_transpose([BATCH, SOURCE, HEADS, FEAT]).numpy().astype(np.float64) for x in (KEYS, VALUES))
    h = START.copy_transpose([BATCH, HEADS, FEAT]).numpy().astype(np.float64)
    for step in range(STEPS.extent):
        if how == "additive":
            energy = np.tanh(h[:, None] + keys).sum(-1).transpose(0, 2, 1)
        else:
            energy = np.einsum("bhf,bshf->bhs", h, keys) / np.sqrt(FEAT.extent)
        energy = np.where(np.arange(6) < np.array(LENGTHS)[:, None, None], energy, -np.inf)
        weights = np.exp(energy - energy.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        for edit in edits.get(step, ()):
            edit(weights)
        h = np.tanh(h + np.einsum("bhs,bshf->bhf", weights, values))
    return h
