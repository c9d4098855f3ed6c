"""Modes inside and around the body of a recorded loop: random numbers, debugging switches, checks, probes, other threads."""

from __future__ import annotations

import random
import threading
from functools import partial

import numpy as np
import pytest
import torch
from asserting import assert_same, ragged, randn, tensor, using_backend
from loop_faces import run_steps
from recorded_bodies import BATCH, HIDDEN, STEPS, TIME, assert_faces_agree, frame, refused, run

import rfnb as rf
from rfnb import Dim


# -- random numbers --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "draw", [np.random.rand, random.random, lambda: float(torch.rand(()))], ids=["numpy", "random", "torch"]
)
def test_random_numbers_that_no_op_draws_are_refused(draw):
    def body(loop):
        loop.state.h = loop.state.h + draw()

    assert "random numbers that no op has drawn" in refused(body)


def test_dropout_draws_in_every_step():
    memory = randn(BATCH, ragged([3, 5, 2], BATCH, "source"), HIDDEN, seed=4)
    source = memory.dims[1]

    def body(loop):
        x = rf.dropout(frame(loop), 0.4)
        constant = rf.dropout(rf.ones([BATCH, HIDDEN]), 0.4, axis=HIDDEN)
        attended = rf.dot_attention(x, memory, memory, key_dim=HIDDEN, axis=source, att_dropout=0.3)
        loop.state.h = rf.dropout(loop.state.h, 0.2, on_forward=True) + x
        return loop.stack(attended), loop.stack(loop.state.h * constant), loop.last(x)

    with rf.init_train_step_run_ctx():
        first, *_ = assert_faces_agree(body)
        quiet = run(body, "for")[0][0]
    assert not np.allclose(first.numpy(), quiet.numpy())


def test_a_layer_with_dropout_of_constants_draws_in_every_step():
    memory = randn(BATCH, ragged([3, 5, 2], BATCH, "source"), HIDDEN, seed=4)

    def body(loop):
        out = rf.dot_attention(memory, memory, memory, key_dim=HIDDEN, axis=memory.dims[1], att_dropout=0.5)
        loop.state.h = loop.state.h + frame(loop)
        return loop.stack(rf.reduce_sum(out, axis=memory.dims[1]))

    with rf.init_train_step_run_ctx():
        assert_faces_agree(body)


def test_a_loop_without_steps_draws_nothing():
    empty = ragged([0, 0, 0], BATCH)

    def body(loop):
        loop.state.h = loop.state.h + rf.random_normal([BATCH, HIDDEN])

    draws = []
    for face in ("for", "with"):
        rf.set_random_seed(1)
        loop = rf.Loop(axis=empty)
        loop.state.h = rf.zeros([BATCH, HIDDEN])
        run_steps(loop, face, partial(body, loop))
        draws.append(rf.random_uniform([BATCH]).numpy())
    np.testing.assert_array_equal(*draws)


# -- modes of a part of the body -------------------------------------------------------------------------------------------
def test_training_in_a_part_of_the_body():
    def body(loop):
        with rf.get_run_ctx().train_flag_ctx(True):
            noisy = rf.dropout(frame(loop), 0.5)
        loop.state.h = rf.dropout(loop.state.h, 0.5) + noisy
        return loop.stack(loop.state.h)

    assert_faces_agree(body)


def test_mixed_precision_in_a_part_of_the_body():
    weight = randn(HIDDEN, Dim(6, name="out"), seed=2)

    def body(loop):
        with rf.set_amp_policy_ctx(rf.AmpPolicy("bfloat16")):
            low = rf.matmul(frame(loop), weight, reduce=HIDDEN)
            low_of_state = rf.matmul(loop.state.h, weight, reduce=HIDDEN)
        loop.state.h = loop.state.h + frame(loop)
        return loop.stack(rf.cast(low, "float32")), loop.stack(rf.cast(low_of_state, "float32"))

    low, *_ = assert_faces_agree(body)
    exact = rf.matmul(randn(BATCH, TIME, HIDDEN), weight, reduce=HIDDEN)
    assert abs(low.copy_masked(0).numpy().sum() - exact.copy_masked(0).numpy().sum()) > 1e-4


def test_gradients_in_scopes():
    def gradients(face):
        x, weight = randn(BATCH, TIME, HIDDEN), randn(HIDDEN, seed=5)
        rf.set_requires_gradient(weight)

        def body(loop):
            with rf.gradient_checkpoint_scope():
                inner = rf.tanh(loop.unstack(x) * weight)
            with rf.stop_gradient_scope():
                fixed = rf.tanh(loop.state.h * weight)
            loop.state.h = inner * fixed + rf.scaled_gradient(loop.state.h, 0.5) * weight + inner
            return loop.stack(loop.state.h)

        out, _ = run(body, face)
        rf.reduce_sum(out, axis=out.dims).raw_tensor.backward()
        return weight.raw_tensor.grad

    torch.testing.assert_close(gradients("with"), gradients("for"))


def test_with_poison_in_the_padding():
    weight = randn(HIDDEN, Dim(4, name="out"), seed=2)

    def body(loop):
        x = rf.matmul(frame(loop), weight, reduce=HIDDEN)
        loop.state.h = rf.tanh(loop.state.h + rf.replace_dim(x, in_dim=weight.dims[1], out_dim=HIDDEN)[0])
        return loop.stack(rf.softmax(loop.state.h, axis=HIDDEN))

    with rf.debug(padding="nan"):
        assert_faces_agree(body)


def test_on_the_numpy_backend():
    with using_backend("numpy"):

        def body(loop):
            loop.state.h = rf.tanh(loop.state.h + frame(loop))
            return loop.stack(rf.dropout(loop.state.h, 0.5, on_forward=True)), loop.last(loop.state.h)

        assert_faces_agree(body, lambda: {"h": rf.zeros([BATCH, HIDDEN])})


def test_two_threads_record_at_once():
    def body(loop):
        loop.state.h = rf.tanh(loop.state.h + frame(loop))
        return loop.stack(rf.exp(loop.state.h))

    expected, _ = run(body, "for")
    results, barrier = [], threading.Barrier(3)

    def work():
        barrier.wait()
        for _ in range(5):
            results.append(run(body, "with")[0])

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    barrier.wait()
    for _ in range(20):
        assert_same(rf.relu(expected), expected)  # a thread that records nothing sees nothing of it
    for thread in threads:
        thread.join()
    assert len(results) == 10
    for out in results:
        assert_same(out, expected)


# -- checks and effects ----------------------------------------------------------------------------------------------------
def test_a_check_is_done_in_every_step():
    x = tensor([[1.0, 1, 1, -1]] * 3, BATCH, STEPS)

    def body(loop):
        value = loop.unstack(x)
        rf.assert_(value > 0, "positive")
        return loop.stack(value)

    for face in ("for", "with"):
        with pytest.raises((AssertionError, RuntimeError), match="positive"):
            run(body, face, {}, STEPS)


def test_a_probe_of_constants_is_offered_in_every_step():
    def steps(face):
        with rf.record() as trace:
            run(lambda loop: rf.probe("mine", value=rf.ones([BATCH])), face, {}, STEPS)
        return [event.step for event in trace.select(kind="mine")]

    assert steps("with") == steps("for") == [0, 1, 2, 3]


def test_an_error_in_a_later_step_leaves_the_loop():
    x = tensor([[0, 1, 2, 9]] * 3, BATCH, STEPS, sparse_dim=HIDDEN)

    def body(loop):
        loop.state.h = loop.state.h + rf.gather(randn(HIDDEN), indices=loop.unstack(x), axis=HIDDEN)
        return loop.stack(loop.state.h)

    with pytest.raises((IndexError, RuntimeError)):
        run(body, "with", {"h": rf.zeros([BATCH])}, STEPS)
    assert rf.Loop.current() is None
    assert_faces_agree(lambda loop: loop.stack(frame(loop)))
