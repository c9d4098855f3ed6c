"""Breakpoints: a run pauses where a condition holds, and says why."""

import numpy as np
import pytest
from control.held_models import BATCH, FEAT, NUM_STEPS, STATE, plain_sums, sums
from control.stops import PATIENCE, steps_with, stops

import rfnb as rf

FACES = ["for", "with", "scan"]


def largest_before():
    """The largest absolute value of the first sequence in the state of `sums` before each step, and after the last one, in NumPy."""
    seen = []

    def look(h):
        seen.append(float(np.abs(h[0]).max()))

    last = plain_sums(dict.fromkeys(range(NUM_STEPS), look))
    return [*seen, float(np.abs(last[0]).max())]


def paused(fn):
    run = rf.run(fn, paused=True)
    assert run.wait(PATIENCE)
    return run


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("kind", ["text", "function", "axis", "numbers"])
def test_a_run_pauses_at_each_step_where_a_condition_holds(face, kind):
    largest, name = largest_before(), STATE[face]
    bound = (sorted(largest)[3] + sorted(largest)[4]) / 2
    condition = {
        "text": f"{name}[{{'batch': 0}}].abs_max() > {bound!r}",
        "function": lambda at: at.states[name].abs().at({"batch": 0}).max() > bound,
        "axis": lambda at: at.states[name].abs().max(axis="feat").at({"batch": 0}) > bound,
        "numbers": lambda at: at.states[name].abs().at({BATCH: 0}) > bound,
    }[kind]
    at_end = [NUM_STEPS] if kind == "text" and face != "scan" else []
    expected = [step for step in [*range(NUM_STEPS), *at_end] if largest[step] > bound]
    assert 2 < len(expected) < NUM_STEPS, largest
    assert [step for step, _ in steps_with(sums(face), condition)] == expected


def test_a_text_is_asked_too_where_a_loop_has_made_its_last_step():
    run = paused(sums())
    run.break_when("step > 6")
    assert stops(run) == [(7, "breakpoint step 7 > 6")]
    run = paused(sums())
    run.break_when(f"step == {NUM_STEPS}")
    run.resume()
    assert run.wait(PATIENCE)
    assert repr(run.at) == '<after the last step of "sums", states h>'
    with pytest.raises(ValueError) as error:
        run.at.states["h"][...] = 0.0
    assert str(error.value) == (
        'run: "h" cannot be changed here.\n'
        "  here  after the last step\n"
        "A change affects the next step. Go back to one:\n"
        "    branch = run.from_step(...)"
    )
    run.resume()
    np.testing.assert_allclose(run.result[1].copy_transpose([BATCH, FEAT]).numpy(), plain_sums({}), rtol=1e-5)


def test_steps_are_counted_on_from_the_end_of_a_loop():
    def two():
        sums()()
        sums()()

    run = paused(two)
    point = run.break_when("step == 7", once=True)
    run.resume()
    assert run.wait(PATIENCE)
    assert point.hits == 1 and len(run.steps) == 7
    run.step(2)
    assert run.at.step == 2 and len(run.steps) == 7 + 3
    run.stop()


def test_the_reason_has_the_value_and_the_place():
    h = np.array([[0.5, -7.25, 1.0]], np.float32)
    loop_batch, feat = rf.Dim(1, name="batch"), rf.Dim(3, name="feat")

    def go():
        loop = rf.Loop(max_seq_len=2, name="net")
        loop.state.h = rf.convert_to_tensor(h, dims=[loop_batch, feat])
        for _ in loop:
            loop.state.h = loop.state.h * 1.0
            loop.end(rf.full(dims=[loop_batch], fill_value=False, dtype="bool"), include_eos=True)

    said = lambda condition, **options: steps_with(go, condition, once=True, **options)[0][1]  # noqa: E731
    assert said("h.abs_max() > 5") == "h.abs_max() 7.25 > 5"
    assert said("h < -5") == "h -7.25 < -5, batch 0, feat 1"
    assert said("h.min(axis='feat') < -5 and step == 1") == "h.min(axis='feat') -7.25 < -5, batch 0 and step 1 == 1"
    assert said('h[{"feat": 1}] < 0') == "h[{'feat': 1}] -7.25 < 0, batch 0"
    assert said("0 < h.max() < 2") == "0 < h.max() 1 < 2"
    assert said("not h > 0 or h > 0") == "h 1 > 0, batch 0, feat 2"
    assert said("loop == 'net'") == "loop net == net"
    assert said("h.abs_max() > 5", text="large") == "large: h.abs_max() 7.25 > 5"
    assert said(lambda at: at.states["h"] < -5) == "batch 0, feat 1"
    assert said(lambda at: True, text="large") == "large"
    assert said(lambda at: f"half of step {at.step}") == "half of step 1"


def test_several_that_hold_are_all_said():
    run = paused(sums())
    first, second = run.break_when(3), run.break_when("step == 3")
    run.break_when(5)
    run.resume()
    assert run.wait(PATIENCE)
    assert run.reason == "breakpoint step 3; breakpoint step 3 == 3"
    assert (first.hits, second.hits) == (1, 1)
    run.stop()


def test_a_breakpoint_holds_too_where_the_run_pauses_anyway():
    run = paused(sums())
    point = run.break_when(2)
    run.step(2)
    assert (run.reason, point.hits) == ("breakpoint step 2", 1)
    run.step()
    assert (run.reason, point.hits) == ("1 step was made", 1)
    run.stop()


def test_a_number_is_that_of_a_step_of_one_loop():
    def go():
        outer = rf.Loop(max_seq_len=3, name="outer")
        outer.state.n = rf.zeros([])
        for _ in outer:
            inner = rf.Loop(axis=rf.Dim(2, name="two"), name="inner")
            inner.state.m = outer.state.n
            for _ in inner:
                inner.state.m = inner.state.m + 1
            outer.state.n = inner.state.m
            outer.end(outer.state.n > 5, include_eos=True)

    def paths(**options):
        run = paused(go)
        run.break_when(1, **options)
        found = []
        while run.resume().wait(PATIENCE) and run.state == "paused":
            found.append((run.at.path, run.reason))
        return found

    inner, outer = ("outer.inner", "breakpoint step 1"), ("outer", "breakpoint step 1")
    assert paths() == [inner, outer, inner, inner]
    assert paths(path="outer") == [("outer", 'breakpoint step 1 of "outer"')]
    assert paths(path="inner") == [("outer.inner", 'breakpoint step 1 of "inner"')] * 3
    assert paths(once=True) == [inner]


def test_one_that_is_disabled_is_not_asked_until_it_is_enabled():
    run = paused(sums())
    point = run.break_when("step > 0")
    point.enabled = False
    assert repr(point) == "<breakpoint 1: step > 0, disabled, hits: 0>"
    run.step(3)
    assert (run.reason, point.hits) == ("3 steps were made", 0)
    point.enabled = True
    run.resume()
    assert run.wait(PATIENCE)
    assert (run.reason, run.at.step) == ("breakpoint step 4 > 0", 4)
    run.stop()


def test_one_is_removed_by_hand_or_after_once():
    run = paused(sums())
    point, once = run.break_when("step > 0"), run.break_when("step > 1", once=True)
    assert run.breakpoints == (point, once) and repr(once) == "<breakpoint 2: step > 1, once, hits: 0>"
    run.step()
    assert run.reason == "breakpoint step 1 > 0"
    run.step()
    assert run.reason == "breakpoint step 2 > 0; breakpoint step 2 > 1"
    assert run.breakpoints == (point,) and once.hits == 1
    point.remove()
    point.remove()
    assert run.breakpoints == () and stops(run) == []


def test_one_that_raises_pauses_the_run_and_says_so():
    run = paused(sums())
    run.break_when(lambda at: at.states["nothing"].max() > 1, "typo")
    run.resume()
    assert run.wait(PATIENCE)
    assert (
        run.reason.startswith('breakpoint typo failed: MissingKeyError: run: no state "nothing".') and run.at.step == 1
    )
    run.stop()


def test_a_text_about_what_is_not_there_pauses_once_and_says_so():
    found = steps_with(sums(), "hh.max() > 0")
    assert found == [
        (1, 'hh.max() > 0 was not evaluated: no state "hh" in "sums" (it has h). It is evaluated once there is one')
    ]


def test_one_that_was_not_asked_is_not_removed_by_that():
    def fn():
        scanned = sums("scan")()
        return scanned, sums()()

    run = paused(fn)
    once = run.break_when("h.abs_max() >= 0", once=True)
    run.resume()
    assert run.wait(PATIENCE) and " was not evaluated: " in run.reason and run.breakpoints == (once,)
    run.resume()
    assert run.wait(PATIENCE) and run.at.path == "sums" and run.breakpoints == ()
    run.stop()


def test_a_loop_in_a_condition_is_no_step_of_the_run():
    def ask(at):
        sums()()
        return False

    run = paused(sums())
    run.break_when(ask)
    assert stops(run) == [] and len(run.steps) == NUM_STEPS


def test_what_a_loop_of_ones_own_shows_can_be_asked_for():
    def train():
        for step, loss in enumerate([3.0, 2.0, float("nan"), 1.0]):
            rf.gate(step, loss=loss)

    assert steps_with(train, "loss < 2.5") == [(1, "loss 2 < 2.5"), (3, "loss 1 < 2.5")]
    assert steps_with(train, "nan()") == [(2, 'NaN in loss before step 2 of "loop"')]


@pytest.mark.parametrize("given", [True, None, 0.5])
def test_what_is_no_condition_is_refused(given):
    run = paused(sums())
    with pytest.raises(TypeError) as error:
        run.break_when(given)
    assert str(error.value) == (
        "break_when: not a condition.\n"
        f"  given  {type(given).__name__} {given!r}\n"
        "A condition is a function of the position, the number of a step, or text.\n"
        '    run.break_when("h.abs_max() > 5")'
    )
    assert run.breakpoints == ()
    run.stop()


def test_a_path_is_for_the_number_of_a_step():
    run = paused(sums())
    with pytest.raises(TypeError) as error:
        run.break_when("h.max() > 5", path="sums")
    assert str(error.value) == (
        "break_when: path is only allowed with a step number.\n"
        "  condition  'h.max() > 5'\n"
        "  path       sums\n"
        "In a text, the loop is part of the condition:\n"
        "    run.break_when('h.max() > 5 and loop == \"decoder\"')"
    )
    run.stop()
