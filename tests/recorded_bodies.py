"""Bodies of loops, recorded and not: both give the same, or the recorded loop refuses them."""

from __future__ import annotations

import pytest
from asserting import assert_same, ragged, randn
from loop_faces import run_steps

import rfnb as rf
from rfnb import Dim
from rfnb.rec.step_tensor import RecordingError

BATCH, HIDDEN = Dim(3, name="batch"), Dim(4, name="hidden")
TIME = ragged([4, 2, 3], BATCH)
STEPS = Dim(4, name="steps")


def run(body, face, states=None, axis=TIME, **options):
    loop = rf.Loop(axis=axis, name="decoder", **options)
    for name, value in ({"h": rf.zeros([BATCH, HIDDEN])} if states is None else states).items():
        loop.state[name] = value
    out = run_steps(loop, face, lambda: body(loop))
    return out, loop


def assert_faces_agree(body, states=None, axis=TIME, **options):
    """The outputs of both faces, with the same seed; returns those."""
    outputs = []
    for face in ("for", "with"):
        rf.set_random_seed(3)
        out, loop = run(body, face, states() if callable(states) else states, axis, **options)
        outputs.append(
            [*(out if isinstance(out, tuple) else (out,)), *loop.state.deep_tensors(), rf.random_uniform([BATCH])]
        )
    for got, expected in zip(outputs[1], outputs[0], strict=True):
        assert_same(got, expected, tolerance=1e-5)
    return outputs[0]


def refused(body, states=None, axis=TIME):
    """The message of the error with which a recorded loop refuses a body."""
    with pytest.raises(RecordingError) as error:
        run(body, "with", states, axis)
    assert rf.Loop.current() is None
    return str(error.value)


def frame(loop):
    return loop.unstack(randn(BATCH, TIME, HIDDEN))
