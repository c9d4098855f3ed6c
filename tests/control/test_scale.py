"""Ten thousand steps: the same results watched and unwatched, all in the trace, in memory that does not grow; no screen holds a run up."""

import gc
import threading

import numpy as np
import pytest
from control.watched_threads import is_gone, result_of, stacks, stands
from waiting import LONG, wait_until

import rfnb as rf
from rfnb import Dim
from rfnb.control import state_history
from rfnb.trace.event import EVENT_COST
from rfnb.viz import trace_page
from rfnb.viz.control.run_view import RunView
from rfnb.viz.pump import Pump, pump
from rfnb.viz.view import View

STEPS = 10_000
BATCH, FEAT, TIME = Dim(2, name="batch"), Dim(3, name="feat"), Dim(STEPS, name="time")


def long_loop():
    loop = rf.Loop(axis=TIME, name="long")
    loop.state.h = rf.zeros([BATCH, FEAT])
    for _ in loop:
        loop.state.h = loop.state.h * 0.5 + 1.0
    return loop.state.h


def plain(edits):
    h = np.zeros((2, 3), np.float32)
    for step in range(STEPS):
        h = edits.get(step, h) * np.float32(0.5) + np.float32(1.0)
    return h


class Page:
    """A widget without a page. Where it is `blocked`, what is sent to it does not arrive before `go` is set."""

    def __init__(self, blocked=False):
        self.frames, self.messages, self.begun, self.go = [], [], threading.Event(), threading.Event()
        if not blocked:
            self.go.set()

    @property
    def frame(self):
        return self.frames[-1]

    @frame.setter
    def frame(self, frame):
        self.begun.set()
        assert self.go.wait(LONG)
        self.frames.append(frame)

    def send(self, message, **_):
        self.begun.set()
        assert self.go.wait(LONG)
        self.messages.append(message)

    def close(self):
        pass


def watched(run, blocked=False):
    """Views of a run as pages show them."""
    pages = []
    for _ in range(4):
        page = Page(blocked)
        RunView(run).view._widget = page
        pages.append(page)
    return pages


def test_four_live_views_change_nothing_and_lose_no_event():
    run = rf.run(long_loop, paused=True)
    stands(run)
    pages = watched(run)
    run.step(100)
    run.at.states["h"][...] = 7.0
    run.break_when(lambda at: at.tick == 5000)
    run.resume()
    stands(run)
    assert run.at.step == 5000
    run.at.states["h"][{"batch": 1}] = -3.0
    run.resume()
    h = result_of(run).numpy()
    np.testing.assert_array_equal(
        h, plain({100: np.full((2, 3), 7.0, np.float32)})
    )  # 5000 steps later it is the same again
    states = run.trace.select(kind="states")
    assert len(states) == STEPS and [event.step for event in states] == list(range(STEPS))
    assert run.trace.truncated is None and len(run.steps) == STEPS and is_gone(run)
    assert (
        states[100].values["h"].numpy().tolist() == [[4.5] * 3] * 2 and states[5000].values["h"].numpy()[1, 0] == -0.5
    )
    for page in pages:  # and the last state arrives
        assert wait_until(lambda page=page: page.messages and page.messages[-1]["head"]["state"] == "done"), stacks()


@pytest.mark.parametrize("record", [False, {"limit": 1 << 20}])
def test_memory_does_not_grow_with_the_steps(monkeypatch, record):
    """The history of states and a limited recording have a bounded size, besides some bytes for each step."""
    monkeypatch.setattr(state_history, "LIMIT", 100 * EVENT_COST)
    counts = {}

    def count(at):
        if at.tick in (3000, 6000, 9999):
            gc.collect()
            counts[at.tick] = sum(type(each) is rf.Tensor for each in gc.get_objects())

    run = rf.run(long_loop, paused=True, record=record)
    stands(run)
    run.break_when(count)
    if record:
        with pytest.warns(UserWarning, match="limit"):
            result_of(run)
        assert run.trace.truncated is not None
    else:
        result_of(run)
    assert len(counts) == 3 and max(counts.values()) - counts[3000] < 100, counts
    assert run._holder.kept.num_bytes <= 100 * EVENT_COST


@pytest.mark.parametrize("how", ["a view of the run", "a view of its trace"])
def test_a_screen_that_hangs_holds_up_no_run(how):
    """Not while it runs, and not at its end."""
    run = rf.run(long_loop, paused=True)
    stands(run)
    if how == "a view of the run":
        pages = watched(run, blocked=True)
    else:
        view = View(trace_page.spec(run.trace))
        pages = [Page(blocked=True)]
        view._widget = pages[0]
        view.follow(run.trace, lambda live: trace_page.spec(run.trace))
    try:
        run.step(10)
        assert any(page.begun.wait(LONG) for page in pages[:1]), stacks()
        run.step(10)
        run.at.states["h"][...] = 1.0
        np.testing.assert_array_equal(result_of(run).numpy(), plain({}))
        assert is_gone(run) and len(run.trace.select(kind="states")) == STEPS
    finally:
        for page in pages:
            page.go.set()
    assert wait_until(lambda: not pump._box), stacks()


def test_what_draws_takes_a_small_part_of_the_time():
    """The bound holds at any cost of drawing: while Python draws, no step is made."""
    rests, drawn = [], threading.Event()

    class RawTrace(Pump):
        def _rest(self, seconds):
            rests.append(seconds)
            drawn.set()
            super()._rest(0.0)

    def draw():
        sum(range(2_000_000))

    watched = RawTrace(rate=1000.0, share=0.04)
    for _ in range(3):
        drawn.clear()
        watched.put("view", draw)
        assert drawn.wait(LONG)
    watched.end(LONG)
    least = min(rests)
    assert least > 0.05  # 24 times what it takes to draw this, on any machine


def test_what_holds_up_nothing_is_drawn_at_once():
    """Not after its share of the time: a run stands, and who has clicked waits for the picture."""
    free, drawn = threading.Event(), []
    slow = Pump(rate=1000.0, share=1e-9)  # rests for days
    slow.put("view", lambda: drawn.append(1))
    assert wait_until(lambda: drawn == [1])
    slow.put("view", lambda: drawn.append(2), free.is_set)
    assert drawn == [1]
    free.set()
    assert wait_until(lambda: drawn == [1, 2])
    slow.end(LONG)
