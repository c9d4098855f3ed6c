"""Breakpoints: a run pauses where a condition holds, and says why."""

import pytest
from control.held_models import BATCH, FEAT, TIME, sums

import rfnb as rf


def test_a_run_pauses_where_a_condition_holds():
    run = rf.run(sums(), paused=True)
    point = run.break_when(lambda at: at.step >= 2 and at.states["h"].abs_max() > 0, "large")
    run.wait()
    run.resume()
    run.wait()
    assert (run.at.step, run.reason, point.hits) == (2, "breakpoint large", 1)
    run.resume()
    run.wait()
    assert run.at.step == 3 and point.hits == 2
    point.remove()
    run.resume()
    assert run.result is not None


def test_a_condition_may_say_why():
    run = rf.run(sums(), paused=True)
    run.break_when(lambda at: f"half of step {at.step}" if at.step == 4 else None)
    run.wait()
    run.resume()
    run.wait()
    assert run.reason == "breakpoint half of step 4"
    run.stop()


def test_a_run_pauses_where_a_state_is_not_finite():
    def go():
        loop = rf.Loop(axis=TIME, name="net")
        loop.state.h = rf.ones([BATCH, FEAT])
        for step in loop:
            loop.state.h = loop.state.h * (float("inf") if step == 3 else 1.0)

    run = rf.run(go, paused=True)
    run.break_when("nan")
    run.wait()
    run.resume()
    run.wait()
    assert run.reason == "breakpoint nan: state h is not finite before step 4"
    run.stop()


def test_a_condition_that_fails_pauses_the_run_and_says_so():
    run = rf.run(sums(), paused=True)
    run.break_when(lambda at: at.states["nothing"].max() > 1, "typo")
    run.wait()
    run.resume()
    run.wait()
    assert run.reason.startswith('breakpoint typo failed: MissingKeyError: run: no state "nothing".')
    assert run.at.step == 1
    run.stop()


def test_the_number_of_a_step_is_a_condition():
    run = rf.run(sums("with"), paused=True)
    run.break_when(5)
    run.wait()
    run.resume()
    run.wait()
    assert run.at.step == 5 and run.reason == "breakpoint step 5"
    run.stop()


@pytest.mark.parametrize("given", [True, None, "inf", 0.5])
def test_what_is_no_condition_is_refused(given):
    run = rf.run(sums(), paused=True)
    with pytest.raises(TypeError) as error:
        run.break_when(given)
    assert str(error.value).startswith("break_when: no condition.\n")
    run.stop()
