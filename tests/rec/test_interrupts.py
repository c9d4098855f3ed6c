"""An interrupt in the body of a loop, in an op, or in what a switch does: nothing is left half-done.

RFNB_SEED=7 interrupts at other instructions, RFNB_INTERRUPTS=400 at more of them, RFNB_ALL=1 at all of them.
"""

import contextlib
import gc
import logging
import os
import random
import sys
import warnings

import numpy as np
import pytest
import torch
from asserting import assert_same, ragged, randn
from interrupting import Interrupts, instructions
from loop_faces import run_steps
from seed import ALL, SEED

import rfnb as rf
from rfnb import Dim
from rfnb.backends import torch_modes
from rfnb.core import finite_padding, intercept
from rfnb.core.generations import are_steps_apart
from rfnb.core.op import all_ops
from rfnb.debugging import poison
from rfnb.rec import draws
from rfnb.rec.carried_variables import _bodies
from rfnb.trace import probe

BATCH, TIME = Dim(2, name="batch"), Dim(3, name="time")
X = randn(BATCH, TIME)


def state_of_the_library():
    """The state of the library that a run could leave behind."""
    return {
        "handlers": intercept._innermost.get(), "open": len(intercept._open),
        "codes": {op.fn.__code__ for op in all_ops()}, "loop": rf.Loop.current(),
        "poison": poison.switched_on(), "property": isinstance(rf.Tensor.__dict__["_raw"], property), "apart": are_steps_apart(),
        "watches": list(draws._watches), "random": random.random, "numpy": np.random.randn, "generator": set(vars(draws._generator)),
        "run": rf.get_run_ctx(), "dtype": rf.get_default_float_dtype(), "listening": probe.listening(), "recordings": len(probe._open),
        "gradients": torch.is_grad_enabled(), "place": probe.trace_context.place, "listeners": probe._listeners.get(),
        "ended": finite_padding.steps_now(), "modes": len(torch_modes.modes()), "seed": torch.manual_seed, "collecting": gc.isenabled(),
        "class of a dim": type(BATCH), "profile": sys.getprofile(), "stdout": sys.stdout, "stderr": sys.stderr,
        "logging": logging.root.manager.disable, "warnings": warnings.showwarning,
        "indices": rf.get_default_array_index_dtype(), "lock": np.random.mtrand._rand._bit_generator.lock._is_owned(),
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

        def body():
            loop.state.h = op(op(loop.state.h) + loop.unstack(X))
            return loop.stack(op(loop.state.h))

        return run_steps(loop, face, body)

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


RAGGED = ragged([3, 2], BATCH, "ragged")
Y = randn(BATCH, RAGGED)
Y.raw_tensor.requires_grad_(True)  # what has ended is masked then


def loop_over(axis, x, *, face):
    def run():
        loop = rf.Loop(axis=axis)
        loop.state.h = rf.zeros([BATCH])
        for _ in loop if face == "for" else ():
            loop.state.h = rf.tanh(loop.state.h + loop.unstack(x))
            out = loop.stack(rf.exp(loop.state.h))
        if face == "with":
            with loop:
                loop.state.h = rf.tanh(loop.state.h + loop.unstack(x))
                out = loop.stack(rf.exp(loop.state.h))
        return out

    return run


def asks_its_next_steps(axis, x):
    """The body changes a list, so its next steps are asked what they would do."""

    def run():
        loop, kept = rf.Loop(axis=axis), []
        loop.state.h = rf.zeros([BATCH])
        _bodies.clear()
        with loop:
            loop.state.h = rf.tanh(loop.state.h + loop.unstack(x))
            out = loop.stack(rf.exp(loop.state.h))
            kept.append(out)
        return out

    return run


def scan_over(axis, x):
    def body(x_t, h):
        h = rf.tanh(h + x_t)
        return rf.exp(h), h

    return lambda: rf.scan(spatial_dim=axis, xs=x, initial=rf.zeros([BATCH]), body=body)[0]


RUNS = {
    "for": (loop_over(TIME, X, face="for"), "nothing"),
    "with": (loop_over(TIME, X, face="with"), "nothing"),
    "scan": (scan_over(TIME, X), "nothing"),
    "for, ragged": (loop_over(RAGGED, Y, face="for"), "nothing"),
    "with, ragged": (loop_over(RAGGED, Y, face="with"), "nothing"),
    "with, next steps asked": (asks_its_next_steps(TIME, X), "nothing"),
    "scan, ragged": (scan_over(RAGGED, Y), "nothing"),
    "for, recorded by a trace": (loop_over(TIME, X, face="for"), "record"),
    "with, recorded by a trace": (loop_over(TIME, X, face="with"), "record"),
    "with, indices checked": (loop_over(TIME, X, face="with"), "indices"),
}
# What puts things back: every instruction of these counts. Of all others a part does.
CRITICAL = (
    "rec/loop.py",
    "rec/dry_run.py",
    "rec/thread_snapshot.py",
    "core/intercept.py",
    "rec/draws.py",
    "backends/torch_modes.py",
)
HITS = 10**9 if ALL else int(os.environ.get("RFNB_INTERRUPTS", "40"))


@pytest.mark.parametrize("part", ["what puts things back", "anything"])
@pytest.mark.parametrize("name", RUNS)
def test_an_interrupt_before_any_instruction_leaves_nothing_behind(name, part):
    run, around = RUNS[name]
    with AROUND[around]():
        for _ in range(4):  # what is made once is there
            expected = run()
        before = state_of_the_library()
        seen = instructions(run)
        critical = part == "what puts things back"
        numbers = [at for at, file in enumerate(seen) if file.endswith(CRITICAL) is critical]
        stride = max(len(numbers) // (4 * HITS if critical else HITS), 1)
        for at in numbers[SEED % stride :: stride]:
            interrupts = Interrupts(at)
            interrupts.run(run)
            assert state_of_the_library() == before, interrupts.place
        assert_same(run(), expected)
