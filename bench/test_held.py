"""Cost of holding a loop, as ratios: held and unwatched against plain, recorded, and with four live views against recorded and unwatched.

Both sides of each are the same loop of rfnb, in a thread of its own. What is counted is the time of the processor in all threads, so that
what draws counts too, wherever it runs.
"""

from __future__ import annotations

import threading

import numpy as np
import pytest

import rfnb as rf
from rfnb import Dim
from rfnb.viz.control.run_view import RunView

BATCH, FEAT, KEYS = Dim(8, name="batch"), Dim(128, name="feat"), Dim(30, name="keys")


class Page:
    """A widget without a page."""

    frame = b""

    def send(self, message, **_):
        pass

    def close(self):
        pass


class Decoder:
    """Attention over an encoder and a matrix product in each step.

    Args:
        steps: The number of steps.
    """

    def __init__(self, steps):
        self.time = Dim(steps, name="time")
        rng = np.random.default_rng(3)
        out = Dim(128, name="out")
        self.weight = rf.convert_to_tensor(rng.standard_normal((128, 128)).astype("float32") * 0.05, dims=[FEAT, out])
        self.keys = rf.convert_to_tensor(rng.standard_normal((8, 30, 128)).astype("float32"), dims=[BATCH, KEYS, FEAT])

    def __call__(self):
        loop = rf.Loop(axis=self.time, name="decoder")
        loop.state.h = rf.zeros([BATCH, FEAT])
        for _ in loop:
            context = rf.dot_attention(loop.state.h, self.keys, self.keys, key_dim=FEAT, axis=KEYS)
            out = rf.tanh(rf.matmul(loop.state.h, self.weight, reduce=FEAT))
            loop.state.h = rf.replace_dim_v2(out, in_dim=self.weight.dims[1], out_dim=FEAT) + context
        return loop.state.h


class Tiny(Decoder):
    """Almost nothing in each step: what a loop itself costs."""

    def __call__(self):
        loop = rf.Loop(axis=self.time, name="tiny")
        loop.state.h = rf.zeros([BATCH])
        for _ in loop:
            loop.state.h = loop.state.h + 1.0
        return loop.state.h


def in_thread(fn):
    """fn() in a thread of its own."""
    found = []
    thread = threading.Thread(target=lambda: found.append(fn()))
    thread.start()
    thread.join()
    return found[0]


def recorded(fn):
    with rf.record():
        return fn()


def held(fn, **options):
    return rf.run(fn, **options).result


def watched(fn):
    """With four live views."""
    run = rf.run(fn, paused=True)
    run.wait()
    views = [RunView(run) for _ in range(4)]
    for view in views:
        view.view._widget = Page()
    run.resume()
    return run.result


SIDES = {
    "held against plain": (lambda fn: held(fn, record=False), in_thread, {"tiny": 2.5, "decoder": 1.7}),
    "held and recorded against recorded": (held, lambda fn: in_thread(lambda: recorded(fn)), {"tiny": 2.0, "decoder": 1.4}),
}  # fmt: skip


@pytest.mark.parametrize("size", ["tiny", "decoder"])
@pytest.mark.parametrize("name", SIDES)
def test_held(overhead, name, size):
    ours, theirs, limits = SIDES[name]
    fn = Tiny(300) if size == "tiny" else Decoder(300)
    overhead(f"{name}, {size}", lambda: ours(fn), lambda: theirs(fn), limit=limits[size], turns=15, warmup=2)


def test_four_live_views(overhead):
    """The picture that is made before the run goes on belongs to both sides: it is made once, for who opens a view."""
    fn = Decoder(10_000)

    def unwatched():
        run = rf.run(fn, paused=True)
        run.wait()
        for _ in range(4):
            RunView(run)
        run.resume()
        return run.result

    overhead("four live views against unwatched", lambda: watched(fn), unwatched, limit=1.05, turns=5, warmup=1)
