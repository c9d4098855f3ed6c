"""A branch repeats its run up to a step, and reports differences."""

import random
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from asserting import assert_same
from control.held_models import BATCH, FEAT, TIME, growing, plain_sums, sums
from waiting import LONG, wait_until

import rfnb as rf
from rfnb.control.holder import Trunk
from rfnb.control.run_steps import StepLog
from rfnb.control.state_history import StateHistory


def noisy():
    """A loop that draws numbers in each step, after some before it."""
    loop = rf.Loop(axis=TIME, name="noisy")
    loop.state.h = rf.random_normal([BATCH, FEAT])
    for _ in loop:
        loop.state.h = loop.state.h + rf.random_normal([BATCH, FEAT])
    return loop.state.h


@pytest.mark.parametrize("step", [0, 3, 6])
def test_a_branch_draws_the_same_numbers(step):
    run = rf.run(noisy)
    expected = run.result.numpy()
    _ = rf.random_normal([FEAT])  # the generator is one for all
    branch = run.from_step(step, paused=False)
    np.testing.assert_array_equal(branch.result.numpy(), expected)
    assert branch.drifted is None


def test_who_draws_after_a_branch_goes_on_as_without_it():
    run = rf.run(noisy)
    _ = run.result
    state = rf.get_random_state()
    expected = rf.random_normal([FEAT]).numpy()
    rf.set_random_state(state)
    _ = run.from_step(2, paused=False).result
    np.testing.assert_array_equal(rf.random_normal([FEAT]).numpy(), expected)


def test_a_branch_goes_its_own_way_from_its_step_on():
    run = rf.run(sums())
    plain = run.result[1]

    def change(at):
        at.states["h"][{"batch": 1}] = 2.0

    branch = run.from_step(3, change, name="what if")
    np.testing.assert_allclose(
        branch.result[1].numpy(), plain_sums({3: lambda h: h.__setitem__(1, 2.0)}), rtol=1e-6, atol=1e-6
    )
    assert_same(run.result[1], plain)
    assert (branch.name, branch.parent, branch.parent_step, run.branches) == ("what if", run, ("sums", 3), [branch])
    later = branch.from_step(5, lambda at: at.states["h"].__setitem__(..., 0.0))
    expected = plain_sums({3: lambda h: h.__setitem__(1, 2.0), 5: lambda h: h.fill(0.0)})
    np.testing.assert_allclose(later.result[1].numpy(), expected, rtol=1e-6, atol=1e-6)


def test_a_branch_is_the_same_also_after_the_recording_of_its_run():
    with rf.record():
        run = rf.run(sums())
        plain = run.result[1]
    branch = run.from_step(4, paused=False)
    assert_same(branch.result[1], plain)
    assert branch.drifted is None


def test_loops_in_loops_are_told_apart_by_their_path():
    def nested():
        outer = rf.Loop(axis=TIME, name="outer")
        outer.state.h = rf.zeros([BATCH, FEAT])
        for _ in outer:
            inner = rf.Loop(axis=rf.Dim(2), name="inner")
            inner.state.k = outer.state.h
            for _ in inner:
                inner.state.k = inner.state.k + 1.0
            outer.state.h = inner.state.k
        return outer.state.h

    run = rf.run(nested)
    assert run.result.numpy().max() == 14.0
    assert run.steps[:4] == (("outer", 0), ("outer.inner", 0), ("outer.inner", 1), ("outer", 1))
    branch = run.from_step(1, lambda at: at.states["k"].__setitem__(..., 0.0), path="inner", nth=6)
    assert branch.result.numpy()[:, 0].tolist() == [1.0, 8.0, 4.0]  # in the last step only the longest goes on


def test_a_run_whose_surroundings_have_changed_says_so():
    run = rf.run(growing())
    _ = run.result
    branch = run.from_step(4)
    branch.wait()
    assert branch.at.step == 1  # the first that is not as it was
    assert branch.drifted == (
        'state "h" differs before step 1 of "grows"; changed while it ran: "log" (list of 0, now list of 7)'
    )
    assert branch.reason == f"its steps differ from those of its parent run: {branch.drifted}"
    branch.stop()


def test_a_breakpoint_is_asked_also_where_a_branch_has_drifted():
    log, go = [], threading.Event()

    def grows():
        loop = rf.Loop(axis=TIME, name="grows")
        loop.state.h = rf.zeros([BATCH, FEAT])
        for _ in loop:
            log.append(1)
            assert len(log) <= 7 or go.wait(LONG)
            loop.state.h = loop.state.h + float(len(log))
        return loop.state.h

    run = rf.run(grows)
    _ = run.result
    branch = run.from_step(4)
    point = branch.break_when("h.max() == 8")
    go.set()
    branch.wait()
    assert (
        branch.reason == f"its steps differ from those of its parent run: {branch.drifted}; breakpoint h.max() 8 == 8"
    )
    assert point.hits == 1
    branch.stop()


def test_a_branch_is_made_of_a_run_that_is_being_changed():
    run = rf.run(sums())
    _ = run.result

    class Meanwhile(int):
        def __lt__(self, other):
            run._changes.setdefault(99, [])  # as the thread of the run does
            return int(self) < other

    run._changes[Meanwhile(1)] = []
    assert_same(run.from_step(3, paused=False).result[1], run.result[1])


def test_parameters_that_have_changed_are_noticed():
    linear = rf.Linear(FEAT, rf.Dim(5, name="out"))

    def go():
        loop = rf.Loop(axis=TIME, name="net")
        loop.state.h = rf.zeros([BATCH, FEAT])
        for _ in loop:
            out = rf.replace_dim_v2(linear(loop.state.h + 1.0), in_dim=linear.out_dim, out_dim=FEAT)
            loop.state.h = out
        return loop.state.h

    run = rf.run(go)
    _ = run.result
    linear.weight.initial = 0.5
    branch = run.from_step(6)
    branch.wait()
    assert branch.drifted == ('state "h" differs before step 1 of "net"; changed since: parameter "linear.weight"')
    branch.stop()


def test_a_step_that_is_not_there_is_named_with_those_that_are():
    run = rf.run(sums())
    _ = run.result
    with pytest.raises(IndexError) as error:
        run.from_step(7)
    assert str(error.value) == ("from_step: no step 7.\n  loops  sums (0 to 6)\nThe run has these steps so far.")

    def twice():
        sums()()
        return sums()()

    run = rf.run(twice)
    _ = run.result
    with pytest.raises(IndexError) as error:
        run.from_step(2)
    assert str(error.value) == (
        "from_step: several steps 2.\n  loops  sums (0 to 6)\nSeveral loops have this step, or a loop ran several times. Choose one.\n"
        '    run.from_step(2, path="sums", nth=1)'
    )
    branch = run.from_step(2, lambda at: at.states["h"].__setitem__(..., 0.0), path="sums", nth=1)
    np.testing.assert_allclose(branch.result[1].numpy(), plain_sums({2: lambda h: h.fill(0.0)}), rtol=1e-6, atol=1e-6)
    assert branch.steps == run.steps


def draws_from_all():
    """A loop that draws from each generator there is."""
    loop = rf.Loop(axis=TIME, name="noisy")
    loop.state.h = rf.random_normal([BATCH, FEAT])
    for _ in loop:
        loop.state.h = loop.state.h + rf.random_normal([BATCH, FEAT]) + float(np.random.normal()) + random.random()
    return loop.state.h


def test_a_paused_run_keeps_its_random_numbers_whoever_draws_meanwhile():
    np.random.seed(3)
    random.seed(4)
    states = rf.get_random_state(), np.random.get_state(), random.getstate()
    expected = draws_from_all().numpy()
    rf.set_random_state(states[0])
    np.random.set_state(states[1])
    random.setstate(states[2])
    run = rf.run(draws_from_all, paused=True)
    run.step(2)
    early, late = run.from_step(1), run.from_step(2, paused=False)
    np.testing.assert_array_equal(late.result.numpy(), expected)
    early.wait()
    rf.random_normal([FEAT]), np.random.normal(), random.random()
    run.step(2)
    early.step()
    run.resume()
    np.testing.assert_array_equal(run.result.numpy(), expected)
    early.resume()
    np.testing.assert_array_equal(early.result.numpy(), expected)


def test_branches_that_run_at_once_draw_their_own_numbers():
    run = rf.run(noisy)
    expected = run.result.numpy()
    branches = [run.from_step(step, paused=False) for step in (0, 2, 4, 6, 3)]
    more = [branch.from_step(0, paused=False) for branch in branches if branch.wait()]
    for branch in (*branches, *more):
        np.testing.assert_array_equal(branch.result.numpy(), expected)
        assert branch.drifted is None


def test_who_waits_in_a_run_for_a_branch_of_it_lets_it_run():
    run = rf.run(noisy, paused=True)
    found = []

    def condition(at):
        if at.step == 3:
            found.append(run.from_step(2, lambda at: None).result)

    run.break_when(condition)
    run.resume()
    np.testing.assert_array_equal(found[0].numpy() if run.wait() and found else None, run.result.numpy())


def test_a_run_that_waits_for_its_turn_can_be_stopped():
    inside, go_on = threading.Event(), threading.Event()

    def waits():
        loop = rf.Loop(axis=TIME, name="waits")
        for _ in loop:
            inside.set()
            go_on.wait(LONG)

    run = rf.run(waits)
    assert inside.wait(LONG)
    branch = run.from_step(0)
    branch.stop(LONG)
    assert branch.state == "stopped"
    go_on.set()
    run.wait()
    assert run.state == "done"


def test_a_run_that_is_stopped_while_it_waits_for_its_turn_makes_no_further_step():
    inside, go_on, steps = threading.Event(), threading.Event(), []

    def waits(number):
        loop = rf.Loop(axis=TIME, name="waits")
        for _ in loop:
            steps.append(threading.current_thread())
            if number[0]:
                inside.set()
                go_on.wait(LONG)

    number = [0]
    run = rf.run(waits, number)
    _ = run.result
    first = run.from_step(2)
    assert first.wait(LONG)
    number[0] = 1
    second = run.from_step(3)  # has its turn, and stays in its first step
    assert inside.wait(LONG)
    made = steps.count(first._gate.worker)
    first.resume()
    assert wait_until(lambda: first._turn in run._turns.queue)
    first.stop(LONG)
    assert first.state == "stopped" and steps.count(first._gate.worker) == made == 2
    go_on.set()
    second.stop(LONG)


def test_a_branch_that_ends_before_its_step_says_so():
    steps = [6]

    def counts():
        loop = rf.Loop(axis=rf.Dim(steps[0]), name="counts")
        loop.state.h = rf.zeros([FEAT])
        for _ in loop:
            loop.state.h = loop.state.h + 1.0
        return loop.state.h

    run = rf.run(counts)
    _ = run.result
    steps[0] = 3
    branch = run.from_step(5)
    with pytest.warns(UserWarning, match="It never reached its branch point: it ended after 3 steps"):
        assert branch.result.numpy().max() == 3.0
    assert branch.drifted == 'it ended after 3 steps, before step 5 of "counts"; changed since: "steps[0]" (6, now 3)'


def test_a_rerun_may_overtake_the_run_that_it_is_compared_with():
    """As where somebody asks why before a run has begun its first step: what is not begun there differs in nothing."""
    steps = StepLog()
    trunk = Trunk(steps, StateHistory(), -1)
    held = SimpleNamespace(states_now=dict)
    assert trunk.difference(0, "search", 0, held) is None
    steps.append("search", 0)
    assert trunk.difference(0, "search", 0, held) is None and trunk.difference(1, "search", 1, held) is None
    assert 'step 0 of "search" was expected here' in trunk.difference(0, "other", 0, held)
