"""No schedule of commands changes a number of a program, its gradients included; from any step it can be made again."""

import functools

import pytest
from control.held_programs import PROGRAMS, assert_bit_equal
from control.watched_threads import result_of, stands
from hypothesis import given, settings
from hypothesis import strategies as st

import rfnb as rf


@functools.cache
def expected(name):
    """The result of a direct call, and its number of steps."""
    rf.set_random_seed(5)
    direct = PROGRAMS[name]()
    rf.set_random_seed(5)
    run = rf.run(PROGRAMS[name])
    assert_bit_equal(run.result, direct)
    return direct, len(run.steps)


COMMANDS = [
    "pause",
    "step",
    "step 2",
    "step 5",
    "resume",
    "fast",
    "slow",
    "look",
    "draw",
    "break",
    "remove",
    "back",
    "again",
]


@pytest.mark.parametrize("name", PROGRAMS)
@settings(max_examples=8, deadline=None, derandomize=True)
@given(
    schedule=st.lists(st.tuples(st.sampled_from(COMMANDS), st.integers(0, 99)), max_size=10),
    paused=st.booleans(),
    record=st.booleans(),
)
def test_no_schedule_changes_a_number(name, schedule, paused, record):
    direct, count = expected(name)
    rf.set_random_seed(5)
    run, points = rf.run(PROGRAMS[name], paused=paused, record=record), []
    for what, number in schedule:
        if what in ("draw", "back", "again"):
            run.pause()  # others draw only where it stands
        if run.state == "done" and what not in ("back", "again", "break", "remove"):
            continue
        try:
            if what == "pause":
                run.pause()
            elif what.startswith("step"):
                run.step(int(what[5:] or 1))
            elif what == "resume":
                run.resume()
            elif what in ("fast", "slow"):
                run.speed = {"fast": 0, "slow": 1e4}[what]
            elif what == "look":
                run.pause()
                for state in run.at.states.values():
                    state.is_finite()
            elif what == "draw" and run.state == "paused":
                rf.random_normal([])
            elif what == "break":
                at = number % count
                points.append(run.break_when(lambda place, at=at: place.tick == at))
            elif what == "remove" and points:
                points.pop().remove()
            elif what in ("back", "again") and run.steps:
                run, points = _back(run, number, further=what == "again"), []
        except RuntimeError:
            assert run.state == "done"  # it was over in between
    assert_bit_equal(result_of(run), direct)
    while run is not None:
        assert run.drifted is None and (len(run.steps) == count or run.state in ("paused", "running"))
        run = run.parent


def _back(run, number, further):
    """The run again from one of its steps, once it stands there."""
    if run.state == "running":
        stands(run)
    tick = number % len(run.steps)
    path, step = run.steps[tick]
    nth = run.steps[:tick].count((path, step))
    branch = run.from_step(step, path=path, nth=nth, paused=True)
    stands(branch)
    assert (branch.at.tick, branch.at.step, branch.at.path, branch.drifted) == (tick, step, path, None)
    return branch


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_step_by_itself_and_a_branch_of_each(name):
    direct, count = expected(name)
    rf.set_random_seed(5)
    run = rf.run(PROGRAMS[name], paused=True)
    stands(run)
    for tick in range(count):
        assert (run.state, run.at.tick, len(run.steps)) == ("paused", tick, tick + 1)
        run.step()
    assert run.state == "done" and len(run.steps) == count
    assert_bit_equal(run.result, direct)
    for tick in range(count):
        branch = _back(run, tick, further=False)
        assert_bit_equal(result_of(branch), direct)
