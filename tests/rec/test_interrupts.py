"""An interrupt in the body of a loop, in an op, or in what a switch does: nothing is left half-done."""

import contextlib
import random

import numpy as np
import pytest
import torch
from asserting import assert_same, randn

import rfnb as rf
from rfnb import Dim
from rfnb.core import intercept
from rfnb.core.generations import are_steps_apart
from rfnb.core.op import all_ops
from rfnb.debugging import poison
from rfnb.rec import draws
from rfnb.trace import probe

BATCH, TIME = Dim(2, name="batch"), Dim(3, name="time")
X = randn(BATCH, TIME)


def state_of_the_library():
    """What a run may leave behind."""
    return {
        "handlers": intercept._innermost.get(), "open": len(intercept._open),
        "codes": {op.fn.__code__ for op in all_ops()}, "loop": rf.Loop.current(),
        "poison": poison.switched_on(), "property": isinstance(rf.Tensor.__dict__["_raw"], property), "apart": are_steps_apart(),
        "watches": list(draws._watches), "random": random.random, "numpy": np.random.randn, "generator": set(vars(draws._generator)),
        "run": rf.get_run_ctx(), "dtype": rf.get_default_float_dtype(), "listening": probe.listening(), "recordings": probe._open[0],
        "gradients": torch.is_grad_enabled(), "place": probe.trace_context.place.path,
    }  # fmt: skip


AROUND = {
    "nothing": contextlib.nullcontext, "record": rf.record, "padding": lambda: rf.debug(padding=1e6),
    "indices": lambda: rf.debug(indices=True), "beams": lambda: rf.debug(beams=True),
    "training": rf.init_train_step_run_ctx, "dtype": lambda: rf.set_default_float_dtype_ctx("float64"),
}  # fmt: skip


class Calls:
    """Counted where a recorded loop does not look."""

    number = 0


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("face", ["for", "with"])
@pytest.mark.parametrize("when", range(7))
def test_an_interrupt_leaves_nothing_behind(around, face, when):
    """It comes before the op number `when` of a run."""
    Calls.number = 0

    def run(op):
        loop = rf.Loop(axis=TIME)
        loop.state.h = rf.zeros([BATCH])
        if face == "for":
            for _ in loop:
                loop.state.h = op(op(loop.state.h) + loop.unstack(X))
                out = loop.stack(op(loop.state.h))
        else:
            with loop:
                loop.state.h = op(op(loop.state.h) + loop.unstack(X))
                out = loop.stack(op(loop.state.h))
        return out

    def tanh_or_interrupt(x):
        Calls.number += 1
        if Calls.number > when:
            raise KeyboardInterrupt
        return rf.tanh(x)

    expected, before = run(rf.tanh), state_of_the_library()
    with contextlib.suppress(KeyboardInterrupt):
        with AROUND[around]():
            run(tanh_or_interrupt)
    assert state_of_the_library() == before
    assert_same(run(rf.tanh), expected)
