"""Loops in recorded loops, and modules step by step: as modules of the whole sequence."""

from __future__ import annotations

import numpy as np
import pytest
from asserting import assert_same, ragged, randn
from recorded_bodies import BATCH, HIDDEN, TIME, assert_faces_agree, frame, refused, run

import rfnb as rf
from rfnb import Dim


# -- loops in loops --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("outer", ["for", "with"])
@pytest.mark.parametrize("inner", ["for", "with", "scan"])
def test_loops_in_loops(outer, inner):
    letters = ragged([2, 1, 3], BATCH, "letters")
    x = randn(BATCH, TIME, letters, HIDDEN)

    def read(loop, source, start):
        if inner == "scan":

            def step(frame, state):
                new = rf.tanh(state * 0.5 + frame)
                return new, new

            ys, last, _ = rf.scan(spatial_dim=letters, xs=source, initial=start, body=step)
            return ys, last
        loop_in = rf.Loop(axis=letters, name="letters")
        loop_in.state.h = start
        if inner == "for":
            for _ in loop_in:
                loop_in.state.h = rf.tanh(loop_in.state.h * 0.5 + loop_in.unstack(source))
                ys = loop_in.stack(loop_in.state.h)
        else:
            with loop_in:
                loop_in.state.h = rf.tanh(loop_in.state.h * 0.5 + loop_in.unstack(source))
                ys = loop_in.stack(loop_in.state.h)
        return ys, loop_in.state.h

    def body(loop):
        ys, last = read(loop, loop.unstack(x), loop.state.h)
        loop.state.h = last
        return loop.stack(rf.reduce_sum(ys, axis=letters)), loop.last(last)

    start = {"h": rf.zeros([BATCH, HIDDEN])}
    expected = [rf.zeros([BATCH, HIDDEN])]
    reference, loop = run(body, outer, start)
    h = [np.zeros((3, 4), np.float32)]
    host = x.numpy()
    for t in range(4):
        now = h[-1].copy()
        for sequence in range(3):
            if t < TIME.lengths[sequence]:
                for letter in range(letters.lengths[sequence]):
                    now[sequence] = np.tanh(now[sequence] * 0.5 + host[sequence, t, letter])
        h.append(now)
    np.testing.assert_allclose(loop.state.h.numpy(), h[-1], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(reference[1].numpy(), h[-1], rtol=1e-5, atol=1e-6)
    assert expected


# -- modules step by step are modules of the whole sequence ----------------------------------------------------------------
def attention(kind):
    return kind(HIDDEN, HIDDEN, key_dim_total=Dim(4, name="keys"), value_dim_total=Dim(4, name="values"), num_heads=2)


@pytest.mark.parametrize("kind", ["CausalSelfAttention", "RotaryPosCausalSelfAttention", "RelPosCausalSelfAttention"])
def test_self_attention_step_by_step_is_that_of_the_sequence(kind):
    rf.set_random_seed(1)
    module = attention(getattr(rf, kind))
    x = randn(BATCH, TIME, HIDDEN)

    def body(loop):
        y, loop.state.att = module(loop.unstack(x), rf.single_step_dim, state=loop.state.att)
        return loop.stack(y)

    out, _ = run(body, "with", {"att": module.default_initial_state(batch_dims=[BATCH])})
    assert_same(out, module(x, TIME)[0], tolerance=1e-5)


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_a_transformer_decoder_step_by_step_is_that_of_the_sequence(dropout):
    rf.set_random_seed(1)
    vocab, model = Dim(7, name="vocab"), Dim(4, name="model")
    source = ragged([3, 5, 2], BATCH, "source")
    decoder = rf.TransformerDecoder(model, vocab, model, num_layers=2, num_heads=2, dropout=dropout)
    memory = decoder.transform_encoder(randn(BATCH, source, model, seed=4), axis=source)
    ids = rf.random_uniform([BATCH, TIME], dtype="int32", minval=0, maxval=7, sparse_dim=vocab)

    def body(loop):
        y, loop.state.decoder = decoder(
            loop.unstack(ids), spatial_dim=rf.single_step_dim, state=loop.state.decoder, encoder=memory
        )
        return loop.stack(y)

    start = decoder.default_initial_state(batch_dims=[BATCH])
    out, _ = run(body, "with", {"decoder": start})
    assert_same(out, decoder(ids, spatial_dim=TIME, state=start, encoder=memory)[0], tolerance=1e-4)


def test_dims_that_come_late_are_not_for_python():
    def body(loop):
        loop.state.count = loop.state.count + 1.0
        return loop.stack(
            rf.reduce_sum(loop.state.count, axis=loop.state.count.dims) if loop.state.count.dims else loop.state.count
        )

    assert refused(body, {"count": rf.zeros([])}) == (
        'Loop "decoder", recorded step: the body reads the dims of a tensor that gets another dim later.\n'
        "  tensor  StepTensor{'None', [] float32 of loop decoder}\n"
        "  state   count\n"
        "A state gets the dims of the lengths when the first sequence ends. Give its initial value these dims:\n"
        "    loop.state.count = rf.expand_dims(initial, dims=[...])"
    )


def test_a_counter_that_gets_the_batch_dim_late():
    def body(loop):
        loop.state.count = loop.state.count + 1.0
        return loop.stack(loop.state.count * frame(loop))

    assert_faces_agree(body, {"count": rf.zeros([])})
