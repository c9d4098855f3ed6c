"""Thousands of commands from several threads against runs: none is lost, none counts twice, nothing hangs, no thread is left."""

import random
import threading

import numpy as np
import pytest
from control.watched_threads import in_threads, is_gone, result_of, stacks, stands
from waiting import LONG

import rfnb as rf
from rfnb import Dim

ROWS, STEPS = 4, 150
NOW = 0.0  # seconds: who commands does not wait
BATCH, TIME = Dim(ROWS, name="batch"), Dim(STEPS, name="time")


def program(face):
    """A state with a row for each thread: h = 0.5 * h + the number of the step."""

    def body(x, h):
        return h * 0.5 + x

    def go():
        start, numbers = rf.zeros([BATCH]), rf.convert_to_tensor(np.arange(STEPS, dtype=np.float32), dims=[TIME])
        if face == "scan":
            return rf.scan(spatial_dim=TIME, initial=start, xs=numbers, body=lambda x, h: (h, body(x, h)))[1]
        loop = rf.Loop(axis=TIME, name="race")
        loop.state.h = start
        if face == "with":
            with loop:
                loop.state.h = body(loop.unstack(numbers), loop.state.h)
        else:
            for _ in loop:
                loop.state.h = body(loop.unstack(numbers), loop.state.h)
        return loop.state.h

    return go


def plain(edits):
    """The same in NumPy, where before some steps rows were set.

    Args:
        edits: (step, row) -> value.
    """
    h = np.zeros(ROWS, np.float32)
    for step in range(STEPS):
        for row in range(ROWS):
            h[row] = edits.get((step, row), h[row])
        h = h * np.float32(0.5) + np.float32(step)
    return h


NOT_NOW = (
    ": it is not paused at a step.",  # it runs, or is over
    "run: values can be read",
    "run: it has continued from here.",
    " has ended.",  # values; step, resume
)


def is_no_surprise(error):
    """Whether another thread was first."""
    return any(text in str(error).split("\n")[0] for text in NOT_NOW)


class Commander:
    """One of several who command a run, with a row of the state that no other one changes.

    Attributes:
        edits: Those that were done: (step, row) -> value.
        branches: Made by it.
    """

    def __init__(self, run, row, seed, path, limit=120):
        self.run, self.row, self.path, self.limit = run, row, path, limit
        self.rng = random.Random(f"{seed} {row}")
        self.edits, self.branches, self.points, self.done = {}, [], [], 0

    def __call__(self):
        for _ in range(self.limit):
            name = self.rng.choice([name for name in dir(self) if name.startswith("do_")])
            try:
                getattr(self, name)()
            except (RuntimeError, KeyError) as error:
                assert is_no_surprise(error), (name, error)
        for point in self.points:
            point.remove()

    def do_pause(self):
        self.run.pause(NOW)

    def do_step(self):
        self.run.step(self.rng.randint(1, 3), timeout=NOW)

    def do_resume(self):
        self.run.resume()

    def do_speed(self):
        self.run.speed = self.rng.choice([0, 0, 1e5])

    def do_edit(self):
        self.run.pause(NOW)
        at, value = self.run.at, float(self.rng.randint(-99, 99))
        at.states["h" if self.path == "race" else "state"][{"batch": self.row}] = value
        self.edits[at.step, self.row] = value  # it was done there, else it had raised
        self.done += 1

    do_edit_too = do_edit

    def do_look(self):
        at = self.run.at
        state = next(iter(at.states.values()))
        assert state.numpy().shape == (ROWS,) and 0 <= at.step < STEPS and at.tick == at.step
        assert repr(self.run).startswith("<Run ")

    def do_break(self):
        step = self.rng.randrange(STEPS)
        self.points.append(self.run.break_when(lambda at: at.step == step))

    def do_remove(self):
        if self.points:
            self.points.pop().remove()

    def do_state(self):
        assert self.run.state in ("running", "paused", "done", "stopped")
        assert isinstance(self.run.reason, str)

    def do_branch(self):
        steps = self.run.steps
        if steps and len(self.branches) < 3:
            self.branches.append(self.run.from_step(self.rng.choice(steps)[1], paused=self.rng.random() < 0.5))


@pytest.mark.parametrize("face", ["for", "with", "scan"])
@pytest.mark.parametrize("seed", range(4))
def test_each_command_of_several_threads_is_done_once(face, seed):
    threads = threading.enumerate()
    run = rf.run(program(face), record=seed % 2 == 0, paused=True)
    path = "scan" if face == "scan" else "race"
    commanders = [Commander(run, row, seed, path) for row in range(ROWS)]
    in_threads(*commanders)
    run.speed = 0
    result = result_of(run).numpy()
    edits = {place: value for one in commanders for place, value in one.edits.items()}
    np.testing.assert_array_equal(result, plain(edits))
    assert run.steps == tuple((path, step) for step in range(STEPS))
    assert len(run.changes) == sum(one.done for one in commanders)
    assert {change.step for change in run.changes} == {step for step, _ in edits}
    branches = [branch for one in commanders for branch in one.branches]
    assert sorted(map(id, run.branches)) == sorted(map(id, branches))
    for branch in branches:
        before = {place: value for place, value in edits.items() if place[0] < branch.left.step}
        np.testing.assert_array_equal(result_of(branch).numpy(), plain(before))
        assert branch.drifted is None
    if run.trace is not None:
        assert len(run.trace.select(kind="states")) == (STEPS if face != "scan" else 0)
    assert all(map(is_gone, [run, *branches]))
    assert {thread.name for thread in threading.enumerate() if thread not in threads} <= {"rfnb-pump"}


@pytest.mark.parametrize("seed", range(4))
def test_a_stop_among_commands_ends_it(seed):
    run = rf.run(program("for"), paused=True)
    commanders = [Commander(run, row, seed, "race", limit=60) for row in range(3)]

    def stop():
        for _ in range(20):
            run.state
        run.stop()

    in_threads(*commanders, stop)
    for branch in [run, *run.branches]:
        branch.stop()
        assert branch._gate.until_over(LONG), stacks()
        assert branch.state in ("stopped", "done") and is_gone(branch)


def test_a_position_is_left_exactly_when_its_step_is_made():
    """As the step itself sees it, whoever commands."""
    standing, wrong = [], []

    def go():
        loop = rf.Loop(axis=TIME, name="race")
        loop.state.h = rf.zeros([BATCH])
        for step in loop:
            wrong.extend(at.step for at in standing if at.step <= step and not at.is_left)
            loop.state.h = loop.state.h + 1.0
        return loop.state.h

    run = rf.run(go, paused=True)
    stands(run)
    run.break_when(lambda at: standing.append(at) or wrong.extend([at.step] if at.is_left else []))

    def command(seed):
        rng = random.Random(seed)
        for _ in range(200):
            try:
                rng.choice([run.pause, run.resume, lambda: run.step(timeout=NOW), lambda: standing.append(run.at)])()
            except RuntimeError as error:
                assert is_no_surprise(error), error

    in_threads(*(lambda seed=seed: command(seed) for seed in range(3)))
    result_of(run)
    assert wrong == [] and len(standing) >= STEPS - 1 and all(at.is_left for at in standing)


def test_two_runs_under_fire_do_not_touch_each_other():
    runs = [rf.run(program(face), paused=True) for face in ("for", "with")]
    commanders = [Commander(run, row, 9, "race") for run in runs for row in range(2)]
    in_threads(*commanders)
    for number, run in enumerate(runs):
        run.speed = 0
        mine = commanders[2 * number : 2 * number + 2]
        edits = {place: value for one in mine for place, value in one.edits.items()}
        np.testing.assert_array_equal(result_of(run).numpy(), plain(edits))
