"""Loops on a device: the values of the CPU, bit for bit, on the device; and how often the host waits for it.

of known length     never, whatever the body does
with an end         once in each step, to know whether there is another one
recording           no more often, at full detail
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial

import numpy as np
import pytest
import recurrent_units
from asserting import randn
from loop_faces import FACES, run_steps
from simulated import NAME, watched

import rfnb as rf
from rfnb import Dim

BATCH, FEAT, OUT, INNER = Dim(3, name="batch"), Dim(2, name="feat"), Dim(4, name="out"), Dim(5, name="inner")


def times(steps):
    """A ragged time of so many steps."""
    return rf.ragged_dim([steps, max(steps - 3, 1), max(steps // 2, 1)], over=BATCH, name="time")


class Cell(rf.Module):
    """A recurrent layer with parameters of its own."""

    def __init__(self):
        super().__init__()
        self.inp, self.rec = rf.Linear(FEAT, OUT), rf.Linear(OUT, OUT, with_bias=False)
        for seed, parameter in enumerate(self.parameters()):
            parameter.assign(randn(*parameter.dims, seed=seed))

    def __call__(self, x, h):
        return rf.tanh(self.inp(x) + self.rec(h))


def states(loop, x, **_):
    cell = Cell()

    def body():
        loop.state.h = cell(loop.unstack(x), loop.state.h)
        return loop.stack(loop.state.h), loop.last(loop.state.h)

    loop.state.h = rf.zeros([BATCH, OUT], feature_dim=OUT)
    return body


def index(loop, x, **_):
    """Reads the number of the step."""
    cell = Cell()

    def body():
        loop.state.h = cell(loop.unstack(x), loop.state.h) + rf.cast(loop.iter_idx, "float32")
        return loop.stack(loop.state.h)

    loop.state.h = rf.zeros([BATCH, OUT], feature_dim=OUT)
    return body


def nested_state(loop, x, **_):
    """A counter without batch, labels, and a state of several."""
    cell = Cell()

    def body():
        state = loop.state.all
        loop.state.all = rf.State(
            h=cell(loop.unstack(x), state.h), count=state.count + 1, label=rf.reduce_argmax(state.h, axis=OUT)
        )
        return loop.stack(loop.state.all.label), loop.stack(loop.state.all.h)

    label = rf.zeros([BATCH], dtype="int64", sparse_dim=OUT)
    loop.state.all = rf.State(h=rf.zeros([BATCH, OUT], feature_dim=OUT), count=rf.zeros([], dtype="int32"), label=label)
    return body


def source(loop, x, **_):
    """Attends to a source of other lengths."""
    cell, frames = Cell(), rf.ragged_dim([2, 4, 3], over=BATCH, name="source")
    memory = randn(BATCH, frames, OUT, seed=5)

    def body():
        h = cell(loop.unstack(x), loop.state.h)
        weights = rf.softmax(rf.matmul(h, memory, reduce=OUT), axis=frames)
        loop.state.h = h + rf.matmul(weights, memory, reduce=frames)
        return loop.stack(loop.state.h), loop.stack(rf.reduce_sum(weights, axis=frames))

    loop.state.h = rf.zeros([BATCH, OUT], feature_dim=OUT)
    return body


def inner_loop(loop, x, **_):
    """Another loop in each step."""
    cell = Cell()

    def body():
        frame = loop.unstack(x)
        h = loop.state.h
        for _ in range(2):
            h = cell(frame, h)
        inner = rf.Loop(axis=INNER)
        inner.state.h = h
        for _ in inner:
            inner.state.h = cell(frame, inner.state.h)
            rows = inner.stack(inner.state.h)
        loop.state.h = inner.state.h
        return loop.stack(rf.reduce_sum(rows, axis=INNER))

    loop.state.h = rf.zeros([BATCH, OUT], feature_dim=OUT)
    return body


def dropout(loop, x, **_):
    """Draws in each step."""
    cell = Cell()

    def body():
        loop.state.h = rf.dropout(cell(loop.unstack(x), loop.state.h), 0.5, on_forward=True)
        return loop.stack(loop.state.h + rf.random_uniform([BATCH, OUT]))

    loop.state.h = rf.zeros([BATCH, OUT], feature_dim=OUT)
    return body


BODIES = {body.__name__: body for body in (states, index, nested_state, source, inner_loop, dropout)}


def run(name, face, steps=4, **options):
    """Its outputs and last states."""
    axis = times(steps)
    loop = rf.Loop(axis=axis, optimize_move_layers_out=face != "with, nothing moved", **options)
    body = BODIES[name](loop, randn(BATCH, axis, FEAT))
    out = run_steps(loop, face, body)
    return [*(out if isinstance(out, tuple) else (out,)), *loop.state.deep_tensors()]


def on_device(call):
    """The result of call() on the device."""
    with rf.set_default_device_ctx(NAME):
        rf.set_random_seed(1)
        return call()


def assert_the_same(call):
    """On the CPU and on the device; there all of it is on the device."""
    rf.set_random_seed(1)
    expected = call()
    found = on_device(call)
    assert len(found) == len(expected) > 0
    for one, other in zip(found, expected, strict=True):
        assert one.device.startswith(NAME) and other.device == "cpu"
        assert one.dtype == other.dtype
        values = [
            each.copy_masked(0) if any(dim.need_masking() for dim in each.dims) else each for each in (one, other)
        ]
        np.testing.assert_array_equal(values[0].numpy(), values[1].numpy(), strict=True)


def waits(call, *, record=False):
    """The waits of call() on the device."""
    with watched() as seen, rf.record() if record else nullcontext():
        on_device(call)
    return seen.waits


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("name", BODIES)
def test_a_loop_gives_the_same_on_a_device(name, face):
    assert_the_same(lambda: run(name, face))


@pytest.mark.parametrize("record", [False, True])
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("name", BODIES)
def test_a_loop_of_known_length_never_waits(name, face, record):
    assert waits(lambda: run(name, face, 5), record=record) == []


def until(name, face, steps):
    """The same bodies in a loop that ends by a condition: after so many steps for the longest sequence."""
    lengths = randn(BATCH) * 0 + rf.cast(rf.range_over_dim(BATCH), "float32")  # 0, 1, 2
    most = rf.zeros([], dtype="int32") + steps + 3 if name == "limit" else steps + 3
    loop = rf.Loop(max_seq_len=most)
    loop.state.h = rf.zeros([BATCH, OUT], feature_dim=OUT)
    loop.state.left = lengths + (steps - 2)
    cell, x = Cell(), randn(BATCH, FEAT)

    def body():
        left = loop.state.left - 1.0
        loop.state.h, loop.state.left = cell(x, loop.state.h), left
        loop.end(left <= 0.0, include_eos=name != "without its end")
        return loop.stack(loop.state.h), loop.last(left)

    out = run_steps(loop, face, body)
    assert loop.num_steps == steps
    return [*out, *loop.state.deep_tensors()]


def scanned(name, _, steps):
    """A scan over a time, by a condition before or after each step, or with outputs that are not stacked."""
    cell, axis = Cell(), times(steps)
    x, h = randn(BATCH, axis, FEAT), rf.zeros([BATCH, OUT], feature_dim=OUT)
    if name == "over a dim":
        out, h, _ = rf.scan(spatial_dim=axis, xs=x, initial=h, body=lambda x, h: (cell(x, h), cell(x, h)))
        return [out, h]
    frame = randn(BATCH, FEAT)
    start = rf.State(h=h, left=rf.cast(rf.range_over_dim(BATCH), "int32") + (steps - 2))
    out, last, _ = rf.scan(
        cond=lambda _, state: state.left > 0, cond_before_body=name == "asked before", initial=start,
        body=lambda _, state: (state.h, rf.State(h=cell(frame, state.h), left=state.left - 1)), max_seq_len=30,
        return_tensor_arrays=name == "arrays",
    )  # fmt: skip
    return [*([out.stack(axis=Dim(len(out), name="steps"))] if name == "arrays" else [out]), last.h, last.left]


def repeated(_, __, steps):
    """A while_loop."""
    cell, frame = Cell(), randn(BATCH, FEAT)
    h, _ = rf.while_loop(
        lambda state: state[1] < steps, lambda state: (cell(frame, state[0]), state[1] + 1),
        (rf.zeros([BATCH, OUT], feature_dim=OUT), rf.zeros([], dtype="int32")),
    )  # fmt: skip
    return [h]


# Loops with an end. Waits in each step, and at most so many besides.
ASKED = {
    ("until", "with its end"): (until, 1, 0),
    ("until", "without its end"): (until, 1, 0),
    ("until", "limit"): (until, 1, 1),  # max_seq_len is a Tensor of the device, which is read once
    ("scan", "over a dim"): (scanned, 0, 0),
    ("scan", "asked before"): (scanned, 1, 1),  # it asks once more than it makes steps
    ("scan", "asked after"): (scanned, 1, 0),
    ("scan", "arrays"): (scanned, 1, 0),
    ("while_loop", ""): (repeated, 1, 1),  # likewise
}


@pytest.mark.parametrize("face", ["for", "with"])
@pytest.mark.parametrize("key", ASKED, ids=" ".join)
def test_a_loop_with_an_end_gives_the_same_and_waits_once_in_a_step(key, face):
    call, each, besides = ASKED[key]
    if key[0] != "until" and face == "with":
        pytest.skip("it is a function")
    assert_the_same(lambda: call(key[1], face, 4))
    for record in (False, True):
        waits(partial(call, key[1], face, 4), record=record)  # constants of its steps are compared once
        for steps in (5, 20):
            assert len(waits(partial(call, key[1], face, steps), record=record)) == each * steps + besides


def with_unit(name, steps, axis):
    """A recurrent unit step by step in a loop, and in each step on the frames of a mask; or over the whole axis."""
    unit = recurrent_units.make(name, FEAT, recurrent_units.out)
    x = randn(BATCH, axis, FEAT)
    start = recurrent_units.some_state(unit, BATCH)
    loop = rf.Loop(axis=axis)
    loop.state.s = start
    for _ in loop:
        y, loop.state.s = unit(loop.unstack(x), state=loop.state.s, spatial_dim=rf.single_step_dim)
        out = loop.stack(y)
    whole, after = unit(x, state=start, spatial_dim=axis)
    return [out, *loop.state.deep_tensors(), whole, *after.values()]


@pytest.mark.parametrize("name", recurrent_units.UNITS)
def test_a_recurrent_unit_gives_the_same_and_never_waits(name):
    assert_close(lambda: with_unit(name, 3, times(3)))
    assert waits(lambda: with_unit(name, 5, times(5))) == []


def assert_close(call):
    """As assert_the_same, where the CPU has kernels of its own for a whole cell."""
    rf.set_random_seed(1)
    expected = call()
    for one, other in zip(on_device(call), expected, strict=True):
        assert one.device.startswith(NAME) and one.dtype == other.dtype
        values = [x.copy_masked(0) if any(dim.need_masking() for dim in x.dims) else x for x in (one, other)]
        np.testing.assert_allclose(values[0].numpy(), values[1].numpy(), rtol=1e-5, atol=1e-6)


def masked(face, steps):
    """A unit that skips the steps of a mask, which is a value: each step counts the frames that it is for."""
    unit = rf.MaskedComputation(recurrent_units.make("NativeLstm2", FEAT, OUT))
    axis = times(steps)
    x = randn(BATCH, axis, FEAT)
    mask = rf.reduce_sum(x, axis=FEAT) > 0
    loop = rf.Loop(axis=axis)
    loop.state.s = unit.default_initial_state(batch_dims=[BATCH])

    def body():
        y, loop.state.s = unit(
            loop.unstack(x), mask=loop.unstack(mask), in_spatial_dim=rf.single_step_dim, state=loop.state.s
        )
        return loop.stack(y)

    return [run_steps(loop, face, body), *loop.state.deep_tensors()]


@pytest.mark.parametrize("face", ["for", "with"])
def test_a_unit_that_skips_steps_gives_the_same_and_never_waits(face):
    assert_close(lambda: masked(face, 4))
    assert waits(lambda: masked(face, 5)) == []


def growing(face, steps):
    """Attends to all steps so far."""
    cell, axis = Cell(), times(steps)
    x = randn(BATCH, axis, FEAT)
    loop = rf.Loop(axis=axis)
    loop.state.h = rf.zeros([BATCH, OUT], feature_dim=OUT)
    loop.state.past = rf.cum_concat_initial_state([BATCH, OUT])

    def body():
        h = cell(loop.unstack(x), loop.state.h)
        past, history, loop.state.past = rf.cum_concat(h, axis=rf.single_step_dim, state=loop.state.past)
        weights = rf.softmax(rf.matmul(h, past, reduce=OUT), axis=history)
        loop.state.h = h + rf.matmul(weights, past, reduce=history)
        return loop.stack(loop.state.h)

    return [run_steps(loop, face, body), loop.state.h]


@pytest.mark.parametrize("face", ["for", "with"])
def test_a_history_gives_the_same_and_never_waits(face):
    assert_the_same(lambda: growing(face, 4))
    assert waits(lambda: growing(face, 5)) == []


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("name", ["states", "source", "inner_loop"])
def test_gradients_through_a_loop_are_those_of_the_cpu(name, face):
    def call():
        axis = times(4)
        loop = rf.Loop(axis=axis, optimize_move_layers_out=face != "with, nothing moved")
        x = randn(BATCH, axis, FEAT)
        x.raw_tensor.requires_grad_()
        out = run_steps(loop, face, BODIES[name](loop, x))
        out = out[0] if isinstance(out, tuple) else out
        rf.reduce_sum(rf.sin(out), axis=list(out.dims)).raw_tensor.backward()
        return [x._like(x.raw_tensor.grad, x.dims)]

    assert_close(call)
