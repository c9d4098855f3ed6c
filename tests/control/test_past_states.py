"""The states before steps that were made: kept, or made again, and the same either way."""

import numpy as np
import pytest
from control.held_models import BATCH, FEAT, growing, sums
from control.noisy_models import KINDS, noisy, same
from hypothesis import given, settings
from hypothesis import strategies as st

import rfnb as rf
from rfnb.control import state_history
from rfnb.control.run_steps import StepLog

TINY = 3000  # bytes: two or three steps


def numbers(states):
    return {name: value.numpy().copy() for name, value in states.items()}


def assert_same_states(a, b):
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_array_equal(a[name], b[name])


def stepwise(run):
    """The states before each step, as the run stands there."""
    found = []
    while run.wait() and run.state == "paused":
        found.append(numbers(run.at.states))
        run.step()
    return found


def by_tick(run, tick):
    """The result of `look` for a tick."""
    path, step = run.steps[tick]
    nth = sum(1 for each in run.steps[:tick] if each == (path, step))
    return run.look(step, path=path, nth=nth)


@pytest.fixture(autouse=True)
def seeded():
    rf.set_random_seed(0)


@pytest.mark.parametrize("limit", [TINY, 1 << 20])
@pytest.mark.parametrize("kind", KINDS)
def test_states_before_any_step_are_those_that_were_there(kind, limit, monkeypatch):
    monkeypatch.setattr(state_history, "LIMIT", limit)
    run = rf.run(noisy(kind), paused=True)
    there = stepwise(run)
    assert len(there) == len(run.steps) > 3
    random = rf.get_random_state()
    for tick in [*reversed(range(len(there))), *range(len(there))]:
        assert_same_states(numbers(by_tick(run, tick)), there[tick])
    assert rf.get_random_state() == random
    if limit == TINY:
        assert len(run._holder.kept.ticks()) < len(there)  # so that some were made again


@pytest.mark.parametrize("kind", KINDS)
def test_a_look_back_changes_nothing_of_a_paused_run(kind, monkeypatch):
    monkeypatch.setattr(state_history, "LIMIT", TINY)
    fn, state = noisy(kind), rf.get_random_state()
    expected = fn()
    rf.set_random_state(state)
    run = rf.run(fn, paused=True)
    run.step(3)
    events = len(run.trace.events)
    for tick in (1, 0, 2, 3):
        by_tick(run, tick)
    assert len(run.trace.events) == events and run.branches == [] and run.state == "paused"
    run.resume()
    assert same(run.result, expected)


def test_a_look_back_at_a_run_that_runs_waits_between_two_of_its_steps(monkeypatch):
    monkeypatch.setattr(state_history, "LIMIT", TINY)
    fn, state = noisy("for", lengths=(200, 150)), rf.get_random_state()
    expected = fn()
    rf.set_random_state(state)
    run = rf.run(fn, paused=True)
    first = numbers(run.step(4).at.states)
    run.resume()
    for _ in range(3):
        assert_same_states(numbers(run.look(4)), first)
    assert same(run.result, expected)
    assert_same_states(numbers(run.look(4)), first)


def test_states_are_those_before_what_was_changed_there(monkeypatch):
    monkeypatch.setattr(state_history, "LIMIT", TINY)
    run = rf.run(sums(), paused=True)
    run.step(2)
    before = numbers(run.at.states)
    run.at.states["h"][...] = 7.0
    run.step()
    after = numbers(run.at.states)
    run.resume()
    _ = run.result
    for _ in range(2):
        assert_same_states(numbers(run.look(2)), before)
        assert_same_states(numbers(run.look(3)), after)


def test_a_branch_looks_back_into_its_trunk(monkeypatch):
    monkeypatch.setattr(state_history, "LIMIT", TINY)
    run = rf.run(noisy("for"), paused=True)
    there = stepwise(run)
    branch = run.from_step(2, lambda at: at.states["h"].__setitem__(..., 1.0))
    _ = branch.result
    own = branch._holder.kept
    for tick in (0, 1, 2):
        assert_same_states(numbers(branch.look(tick)), there[tick])
    assert not np.array_equal(branch.look(3)["h"].numpy(), there[3]["h"])
    assert min(own._states) >= 2  # the trunk is kept once


def test_nobody_hears_how_states_are_made_again(monkeypatch):
    monkeypatch.setattr(state_history, "LIMIT", TINY)
    with rf.record() as trace:
        run = rf.run(noisy("choice for"))
        _ = run.result
        events = len(trace.events)
        for tick in range(len(run.steps)):
            by_tick(run, tick)
        assert len(trace.events) == events > 0


def test_what_was_is_read_and_not_changed():
    run = rf.run(sums(), name="sums")
    _ = run.result
    states = run.look(3)
    assert repr(states) == '<states before step 3 of "sums": h [batch=3, feat=5] float32>'
    assert list(states) == ["h"] and states["h"].dims == (BATCH, FEAT)
    with pytest.raises(ValueError) as error:
        states["h"][...] = 0.0
    assert str(error.value) == (
        'look: state "h" belongs to a past step.\n'
        "  step  3\n"
        "The past cannot be changed. A branch can continue differently from there:\n"
        "    branch = run.from_step(3)"
    )
    with pytest.raises(IndexError) as error:
        run.look(9)
    assert str(error.value) == "look: no step 9.\n  loops  sums (0 to 6)\nThe run has these steps so far."


def test_states_that_cannot_be_made_again_are_not_made_up(monkeypatch):
    monkeypatch.setattr(state_history, "LIMIT", TINY)
    run = rf.run(growing())
    result = run.result.numpy().copy()
    gone = next(tick for tick in range(7) if run._holder.kept.at(tick) is None)
    with pytest.raises(RuntimeError) as error:
        run.look(gone)
    first = next(tick for tick in run._holder.kept.ticks() if tick)
    assert str(error.value) == (
        f'look: the states before step {gone} of "grows" are gone.\n'
        f'  because  state "h" differs before step {first} of "grows"; '
        'changed while it ran: "log" (list of 0, now list of 7)\n'
        "They were not kept, so the function ran again, but with a different result. Steps that were kept can still be shown."
    )
    np.testing.assert_array_equal(run.result.numpy(), result)
    assert run.look(first)["h"].numpy().any()


@settings(max_examples=30, deadline=None)
@given(
    kind=st.sampled_from(KINDS),
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=3).map(tuple),
    seed=st.integers(0, 5),
    limit=st.sampled_from([1, TINY, 20_000, 1 << 20]),
    data=st.data(),
)
def test_an_unchanged_branch_gives_the_same_numbers(kind, lengths, seed, limit, data):
    rf.set_random_seed(seed)
    fn, before = noisy(kind, lengths=lengths, seed=seed), state_history.LIMIT
    state_history.LIMIT = limit
    try:
        run = rf.run(fn)
        expected = run.result
        tick = data.draw(st.integers(0, len(run.steps) - 1))
        path, step = run.steps[tick]
        nth = sum(1 for each in run.steps[:tick] if each == (path, step))
        branch = run.from_step(step, path=path, nth=nth)
        branch.wait()
        assert (branch.state, branch.drifted, branch.reason) == (
            "paused",
            None,
            f"here it branches from {run.name}",
        )
        assert_same_states(numbers(branch.at.states), numbers(by_tick(run, tick)))
        branch.resume()
        assert same(branch.result, expected)
    finally:
        state_history.LIMIT = before


class Count(list):
    """Bytes of states and how many of them a run keeps, after each so many steps."""

    def of(self, run):
        own = run._holder.kept
        self.append((len(own.ticks()), own.num_bytes))


@pytest.mark.parametrize("kind", ["for", "raw search", "own"])
def test_what_a_run_holds_does_not_grow_with_its_steps(kind, monkeypatch):
    limit = 60_000
    monkeypatch.setattr(state_history, "LIMIT", limit)
    rf.set_random_seed(1)
    run, seen = rf.run(noisy(kind, lengths=(2500, 2400)), paused=True, record=False), Count()
    for _ in range(5):
        run.wait()
        run.step(60)
        seen.of(run)
    run.resume()
    assert run.result and len(run.steps) > 310
    seen.of(run)
    own = run._holder.kept
    assert max(size for _, size in seen) <= limit
    assert all(
        20 <= count <= limit // 1024 for count, _ in seen[1:]
    )  # of states as small as these at least half as many
    assert own.num_bytes == sum(size for _, size in own._states.values())
    ticks = own.ticks()
    assert len(set(np.diff(ticks))) == 1 and ticks[0] == 0  # evenly spread
    branch = run.from_step(250, paused=False)
    assert same(branch.result, run.result) and branch.drifted is None
    assert min(branch._holder.kept._states) >= 250  # its own steps alone
    for tick in (249, 248, 3, len(run.steps) - 1):
        assert_same_states(numbers(run.look(tick)), numbers(run.look(tick)))
        assert sum(map(state_history.bytes_of, own._again.values())) <= limit // 4


def test_ten_thousand_steps_take_120_kilobytes_to_be_known():
    """(path, step) of each: what a run holds of a step that it does not keep."""
    steps = StepLog()
    for index in range(10_000):
        steps.append("decoder", index)
    assert steps._path_of.itemsize * len(steps) + steps._index_of.itemsize * len(steps) == 120_000
    assert steps[-1] == ("decoder", 9999) and steps[3:5] == (("decoder", 3), ("decoder", 4))
    assert len(steps) == 10_000 and ("decoder", 77) in steps and steps == list(steps)
    assert repr(steps) == "<10000 steps: ... " + ", ".join(f"decoder {index}" for index in range(9994, 10_000)) + ">"
