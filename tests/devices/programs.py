"""Programs for the default device: each is made, and then called, with the same numbers wherever it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from loop_faces import run_steps

import rfnb as rf
from rfnb import Dim

BATCH, VOCAB, MODEL = Dim(3, name="batch"), Dim(7, name="vocab"), Dim(4, name="model")
TIME = rf.ragged_dim([5, 2, 3], over=BATCH, name="time")
FRAME = Dim(2, name="frame")
IDS = np.random.default_rng(3).integers(0, 7, (3, 5)).astype("int64") * (np.arange(5) < [[5], [2], [3]])


def with_numbers(model: rf.Module) -> Any:
    """The module with numbers that do not depend on the device."""
    rng = np.random.default_rng(1)
    for _, parameter in model.named_parameters():
        values = rng.normal(size=[dim.extent for dim in parameter.dims]).astype("float32")
        parameter.initial = rf.convert_to_tensor(values, dims=parameter.dims)
    return model


def frames() -> Any:
    """{batch, time, model}"""
    values = np.random.default_rng(2).normal(size=(3, 5, 4)).astype("float32")
    return rf.convert_to_tensor(values, dims=[BATCH, TIME, MODEL])


def ids() -> Any:
    """Labels {batch, time}"""
    return rf.convert_to_tensor(IDS, dims=[BATCH, TIME], sparse_dim=VOCAB)


def encoder() -> Callable[[], Any]:
    """A Transformer over labels."""
    model = with_numbers(rf.TransformerEncoder(VOCAB, MODEL, num_layers=2, num_heads=2))
    x = ids()
    return lambda: model(x, spatial_dim=TIME)


def decoder() -> Callable[[], Any]:
    """A Transformer that reads an encoder."""
    model = with_numbers(rf.TransformerDecoder(MODEL, VOCAB, MODEL, num_layers=1, num_heads=2))
    x, y = ids(), frames()

    def call() -> Any:
        seen = model.transform_encoder(y, axis=TIME)
        state = model.default_initial_state(batch_dims=[BATCH])
        return model(x, spatial_dim=TIME, state=state, encoder=seen)[0]

    return call


def attending_loop(face: str) -> Callable[[], Any]:
    """An LSTM in a loop that attends to frames."""
    hidden = Dim(4, name="hidden")
    model = with_numbers(rf.LSTM(MODEL, hidden))
    x = frames()

    def body(loop: rf.Loop) -> Any:
        out, loop.state.h = model(loop.unstack(x), state=loop.state.h, spatial_dim=rf.single_step_dim)
        query, _ = rf.replace_dim(out, in_dim=hidden, out_dim=MODEL)
        seen = rf.dot_attention(query, x, x, key_dim=MODEL, axis=TIME)
        rf.probe("own", seen=seen, norm=rf.reduce_sum(seen, axis=MODEL))
        return loop.stack(rf.dropout(seen, 0.0) + query)

    def call() -> Any:
        loop = rf.Loop(axis=TIME, name="decoder")
        loop.state.h = model.default_initial_state(batch_dims=[BATCH])
        return run_steps(loop, face, lambda: body(loop))

    return call


def scan() -> Callable[[], Any]:
    """A scan over frames."""
    x = frames()
    start = rf.zeros([BATCH, MODEL])

    def body(frame: Any, state: Any) -> Any:
        rf.probe("own", frame=frame)
        return (state * 0.5 + frame,) * 2

    return lambda: rf.scan(spatial_dim=TIME, initial=start, xs=x, body=body)[0]


def scores_of() -> Any:
    """Log probabilities {before, vocab}"""
    values = np.random.default_rng(4).normal(size=(7, 7)).astype("float32") * 2
    table = rf.convert_to_tensor(values, dims=[Dim(7, name="before"), VOCAB])
    return rf.log_softmax(table, axis=VOCAB)


def beam_search() -> Callable[[], Any]:
    """A search for the best labels."""
    table = scores_of()

    def step(label: Any, state: Any) -> Any:
        at = rf.set_sparse_dim(label, table.dims[0])
        return rf.gather(table, indices=at, axis=table.dims[0]), {"count": state["count"] + 1.0}

    return lambda: rf.beam_search(
        step, batch=BATCH, state={"count": rf.zeros([BATCH])}, axis=VOCAB, max_seq_len=4, beam_size=3, end_label=0,
    )  # fmt: skip


def choices(face: str) -> Callable[[], Any]:
    """A search as a loop with a choice."""
    table = scores_of()

    def body(loop: rf.Loop) -> Any:
        at = rf.set_sparse_dim(loop.state.label, table.dims[0])
        scores = rf.gather(table, indices=at, axis=table.dims[0])
        label = rf.choice(scores, axis=VOCAB, beam_size=3, end_label=0)
        loop.state.label = rf.set_sparse_dim(label, None)
        loop.end(label == 0, include_eos=True)
        return loop.stack(label)

    def call() -> Any:
        loop = rf.Loop(max_seq_len=4, name="search")
        loop.state.label = rf.zeros([BATCH], dtype="int64")
        return rf.decide(run_steps(loop, face, lambda: body(loop)))

    return call


def attending_search() -> Callable[[], Any]:
    """A search that attends to frames in each step, and carries a state."""
    table, x, embedding = scores_of(), frames(), with_numbers(rf.Embedding(VOCAB, MODEL))

    def call() -> Any:
        loop = rf.Loop(max_seq_len=4, name="search")
        loop.state.label = rf.zeros([BATCH], dtype="int64", sparse_dim=VOCAB)
        loop.state.h = rf.zeros([BATCH, MODEL])
        for _ in loop:
            query = embedding(loop.state.label) + loop.state.h
            seen = rf.dot_attention(query, x, x, key_dim=MODEL, axis=TIME)
            loop.state.h = rf.tanh(seen)
            at = rf.set_sparse_dim(loop.state.label, table.dims[0])
            scores = rf.gather(table, indices=at, axis=table.dims[0]) + rf.reduce_sum(seen, axis=MODEL) * 0.0
            label = rf.choice(scores, axis=VOCAB, beam_size=3, end_label=0)
            loop.state.label = label
            loop.end(label == 0, include_eos=True)
            out = loop.stack(label)
        return rf.decide(out)

    return call


PROGRAMS: dict[str, Callable[[], Callable[[], Any]]] = {
    "encoder": encoder,
    "decoder": decoder,
    "for": lambda: attending_loop("for"),
    "with": lambda: attending_loop("with"),
    "scan": scan,
    "beam_search": beam_search,
    "choice for": lambda: choices("for"),
    "choice with": lambda: choices("with"),
    "attending search": attending_search,
}
