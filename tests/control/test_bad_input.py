"""Invalid requests to a run get errors in whole sentences, and the run continues as if there had been no request."""

import asyncio
import contextvars
import functools
import threading
import types

import numpy as np
import pytest
from asserting import assert_same, raises_message
from control.held_models import BATCH, FEAT, TIME, plain_sums, sums
from control.watched_threads import in_threads, result_of, stands
from waiting import LONG

import rfnb as rf


@pytest.fixture
def run():
    """A run that stands before its second step; whatever was asked of it, it gives what a call gives."""
    run = rf.run(sums(), paused=True, name="it")
    stands(run)
    run.step()
    yield run
    assert (run.state, run.at.step) == ("paused", 1)
    assert_same(result_of(run), sums()())


def generator(n=3):
    yield n


async def coroutine():
    return 1


async def generator_of_coroutines():
    yield 1


class Callable:
    def __call__(self):
        yield 1


NO_FUNCTION = {
    "no function": (
        3,
        "run: not a function.\n  given  int\nA run calls a function.\n    rf.run(model.search, x)",
    ),
    "a generator function": (
        generator,
        "run: the call returns a generator and runs nothing.\n  fn  generator\n"
        "A run is the call of a function. Pass a function that consumes all of it:\n    rf.run(lambda: list(fn(...)))",
    ),
    "a part of one": (
        functools.partial(functools.partial(generator, n=2)),
        "run: the call returns a generator and runs nothing.\n  fn  partial\n"
        "A run is the call of a function. Pass a function that consumes all of it:\n    rf.run(lambda: list(fn(...)))",
    ),
    "an object whose call is one": (
        Callable(),
        "run: the call returns a generator and runs nothing.\n  fn  Callable\n"
        "A run is the call of a function. Pass a function that consumes all of it:\n    rf.run(lambda: list(fn(...)))",
    ),
    "a coroutine function": (
        coroutine,
        "run: the call returns a coroutine and runs nothing.\n  fn  coroutine\n"
        "A run is the call of a function. Pass a function that consumes all of it:\n    rf.run(lambda: asyncio.run(fn(...)))",
    ),
    "an asynchronous generator": (
        generator_of_coroutines,
        "run: the call returns a generator and runs nothing.\n  fn  generator_of_coroutines\n"
        "A run is the call of a function. Pass a function that consumes all of it:\n    rf.run(lambda: list(fn(...)))",
    ),
}


@pytest.mark.parametrize("what", NO_FUNCTION)
def test_what_is_no_function_that_runs_is_refused(what):
    fn, text = NO_FUNCTION[what]
    threads = threading.active_count()
    with raises_message(TypeError, text):
        rf.run(fn)
    assert threading.active_count() == threads


def test_a_function_that_gives_a_coroutine_has_run_nothing():
    run = rf.run(lambda: coroutine())
    with raises_message(
        TypeError,
        "run: the call returns a coroutine and runs nothing.\n  fn  <lambda>\n"
        "A run is the call of a function. Pass a function that consumes all of it:\n    rf.run(lambda: asyncio.run(fn(...)))",
    ):
        _ = run.result
    assert rf.run(lambda: asyncio.run(coroutine())).result == 1
    assert isinstance(rf.run(lambda: (n for n in range(3))).result, types.GeneratorType)  # a result like any other


def test_a_run_is_not_started_twice(run):
    with raises_message(
        TypeError,
        "run: it was started already.\n  state  paused\nA run starts once. To start from the beginning, make a new run:\n"
        "    again = run.from_step(0, paused=False)",
    ):
        rf.run(run)
    assert_same(run.from_step(0, paused=False).result, sums()())


def test_a_run_in_a_run_is_refused():
    def outer():
        rf.run(sums())

    run = rf.run(outer)
    with raises_message(
        RuntimeError,
        "run: called inside a run.\n  fn  run\nThe outer run holds the loops of the functions called here.\n    fn(...)",
    ):
        _ = run.result


@pytest.mark.parametrize("steps", [0, -1, True, 1.0, "2", None, [1]])
def test_no_number_of_steps_is_refused(run, steps):
    with raises_message(
        ValueError,
        f"step: invalid number of steps {steps!r}.\n  steps  {steps!r}\nA run advances by one step or more.\n    run.step()",
    ):
        run.step(steps)


def test_any_number_of_steps_may_be_asked_for():
    run = rf.run(sums(), paused=True)
    stands(run)
    run.step(10**30)
    assert run.state == "done"


@pytest.mark.parametrize("speed", [float("nan"), -1, -0.5, True, "5", None, 1j])
def test_no_speed_is_refused(run, speed):
    with raises_message(
        ValueError, f"speed: not a number of steps per second.\n  speed  {speed!r}\n0 is as fast as possible."
    ):
        run.speed = speed
    assert run.speed == 0


@pytest.mark.parametrize("speed", [float("inf"), 1e300, 10**400, np.float32(1e30), 0])
def test_a_speed_may_be_as_large_as_it_likes(speed):
    run = rf.run(sums(), paused=True)
    run.speed = speed
    assert_same(result_of(run), sums()())


@pytest.mark.parametrize("speed", [1e-300, 5e-324, 1e-9])
def test_a_slow_run_is_told_to_go_on(speed):
    run = rf.run(sums(), paused=True)
    stands(run)
    run.speed = speed
    run.step()  # from where it stands it goes at once
    run.resume()
    assert run.state == "running"
    run.speed = 0
    assert_same(result_of(run), sums()())


@pytest.mark.parametrize("timeout", [float("nan"), True, "1", [1], 1j])
@pytest.mark.parametrize("what", ["wait", "pause", "step", "stop"])
def test_no_number_of_seconds_is_refused(run, what, timeout):
    with raises_message(
        ValueError,
        f"{what}: not a number of seconds.\n  timeout  {timeout!r}\n"
        "The timeout is the maximal number of seconds; None waits without limit.",
    ):
        getattr(run, what)(timeout=timeout)


@pytest.mark.parametrize(
    ("poll", "fix"), [(3, "run.wait(3, poll=True)"), (0.5, "run.wait(0.5, poll=True)"), ("yes", "run.wait(poll=True)")]
)
def test_a_time_in_the_place_of_poll_is_refused(run, poll, fix):
    """Taken for True, it waited as long as it took."""
    with raises_message(
        TypeError,
        f"wait: poll is not a bool.\n  poll  {poll!r}\n"
        "poll determines whether buttons of pages work while waiting; the timeout is in seconds:\n"
        f"    {fix}",
    ):
        run.wait(poll=poll)


@pytest.mark.parametrize("seconds", [0, -1, -1e300, float("-inf")])
def test_who_has_no_time_left_does_not_wait(seconds):
    go = threading.Event()

    def waits():
        assert go.wait(LONG)
        return sums()()

    run = rf.run(waits)
    assert run.wait(seconds) is False
    assert run.pause(seconds).state == "running"
    go.set()
    stands(run)
    assert run.wait(seconds) is True
    result_of(run)
    assert run.wait(float("inf")) and run.wait(LONG * 1e300)


def test_a_run_does_not_wait_for_itself():
    seen = []

    def asks():
        for each in (lambda: made[0].wait(), lambda: made[0].result, lambda: asyncio.run(awaits())):
            with pytest.raises(RuntimeError) as error:
                each()
            seen.append(str(error.value))
        made[0].pause()
        made[0].resume()  # these it may say to itself
        return sums()()

    async def awaits():
        return await made[0]

    made, go = [], threading.Event()

    def begins():
        assert go.wait(LONG)
        return asks()

    made.append(rf.run(begins, name="it"))
    go.set()
    assert_same(result_of(made[0]), sums()())
    assert seen == [
        f"{what}: called inside it.\n  thread  rfnb it\n"
        "The run would wait for itself forever. Call it in another cell or thread."
        for what in ("wait", "result", "await")
    ]


def test_what_is_over_is_told_nothing_any_more():
    run = rf.run(sums(), name="it")
    assert_same(result_of(run), sums()())
    for what in ("step", "resume"):
        with raises_message(
            RuntimeError,
            f"{what}: it has ended.\n  state  done\nAnother run can continue from one of its steps:\n"
            "    branch = run.from_step(6)",
        ):
            getattr(run, what)()
    with raises_message(
        RuntimeError,
        "it: it is not paused at a step.\n  state  done\nThe values of a run can be read and changed only while it is paused.\n"
        "    branch = run.from_step(6)",
    ):
        _ = run.at
    run.pause()
    run.stop()
    assert run.state == "done" and run.wait() and run.reason == ""


def left(step):
    return (
        f'run: it has continued from here.\n  position  <before step {step} of "sums", which the run has left>\n'
        f"A position can be read and changed while the run is paused there.\n    branch = run.from_step({step})"
    )


LATE = {
    "an edit": lambda at, h: h.__setitem__(..., 1.0),
    "an edit of a state": lambda at, h: at.states.__setitem__("h", 1.0),
    "a state": lambda at, h: at.states["h"],
    "its states": lambda at, h: len(at.states),
    "a label that is forced": lambda at, h: at.force(1),
    "a label that is banned": lambda at, h: at.ban(1),
}


@pytest.mark.parametrize("end", ["a step later", "running", "done", "stopped"])
@pytest.mark.parametrize("what", LATE)
def test_a_position_that_was_left_changes_nothing(what, end):
    run, go = rf.run(sums(), paused=True), threading.Event()
    stands(run)
    run.step(2)
    at = run.at
    h = at.states["h"]
    if end == "a step later":
        run.step()
    elif end == "running":
        run.break_when(lambda here: go.wait(LONG) and False)
        run.resume()
        assert run.state == "running"
    elif end == "done":
        result_of(run)
    else:
        run.stop()
    if end == "running":
        while not at.is_left:  # it was told to go on, and notices
            pass
    with raises_message(RuntimeError, left(2)):
        LATE[what](at, h)
    go.set()
    if end != "stopped":
        assert_same(result_of(run), sums()())
    assert run.changes == ()


def test_a_position_that_a_condition_has_kept_is_no_way_around_the_thread_of_the_run():
    kept = []
    run = rf.run(sums(), paused=True)
    stands(run)
    run.break_when(lambda at: kept.append(at))
    run.step(3)
    with raises_message(RuntimeError, left(2)):
        kept[-2].force(1)
    kept[-1].states["h"][{"batch": 0}] = 2.0  # here it stands
    expected = plain_sums({3: lambda h: h.__setitem__(0, 2.0)})
    np.testing.assert_allclose(result_of(run)[1].numpy(), expected, rtol=1e-6)
    assert [str(change) for change in run.changes] == ['step 3 of "sums": state h (batch 0) set to 2']


def test_what_a_condition_changes_is_noted_and_repeated():
    run = rf.run(sums(), paused=True)
    stands(run)
    point = run.break_when(lambda at: at.states["h"].__setitem__(..., 2.0) if at.step == 3 else None)
    run.resume()
    expected = plain_sums({3: lambda h: h.fill(2.0)})
    np.testing.assert_allclose(result_of(run)[1].numpy(), expected, rtol=1e-6)
    assert [change.step for change in run.changes] == [3] and point.hits == 0
    branch = run.from_step(5, paused=False)
    np.testing.assert_array_equal(result_of(branch)[1].numpy(), run.result[1].numpy())
    assert branch.drifted is None


def test_a_branch_of_a_run_that_has_failed_goes_to_where_it_failed():
    def fails():
        loop = rf.Loop(axis=TIME, name="fails")
        loop.state.h = rf.zeros([BATCH, FEAT])
        for step in loop:
            if step == 4 and rf.reduce_max(loop.state.h, axis=[BATCH, FEAT]).raw_tensor > 3:
                raise ArithmeticError("too large")
            loop.state.h = loop.state.h + 1.0
        return loop.state.h

    run = rf.run(fails)
    assert run._gate.until_over(LONG) and run.state == "failed"
    again = run.from_step(4, paused=False)
    with pytest.raises(ArithmeticError, match="too large"):
        _ = again.result
    mended = run.from_step(4, lambda at: at.states["h"].__setitem__(..., 0.0))
    assert mended.result.numpy()[0].tolist() == [3.0] * 5
    with raises_message(IndexError, "from_step: no step 5.\n  loops  fails (0 to 4)\nThe run has these steps so far."):
        run.from_step(5)


def test_a_branch_of_a_run_that_was_stopped_goes_beyond_it():
    run = rf.run(sums(), paused=True)
    stands(run)
    run.step(2)
    run.stop()
    with raises_message(IndexError, "from_step: no step 3.\n  loops  sums (0 to 2)\nThe run has these steps so far."):
        run.from_step(3)
    assert_same(run.from_step(2, paused=False).result, sums()())


def test_threads_that_a_function_starts_are_not_held():
    """With or without a copy of its context: they run at once, and take no step from the run."""

    def go(in_context):
        results, context = [], contextvars.copy_context()
        loop = rf.Loop(axis=TIME, name="outer")
        loop.state.h = rf.zeros([BATCH, FEAT])
        for _ in loop:
            work = (lambda: context.copy().run(sums())) if in_context else sums()
            in_threads(lambda work=work: results.append(work()), lambda work=work: results.append(work()))
            loop.state.h = results[-1][1]
        return results

    for in_context in (False, True):
        run = rf.run(go, in_context, paused=True)
        stands(run)
        run.step(3)
        assert run.at.step == 3
        results = result_of(run)
        assert set(run.steps) == {("outer", step) for step in range(7)} and len(run.steps) == 7
        expected = sums()()
        assert len(results) == 14
        for result in results:
            assert_same(result, expected)


@pytest.mark.parametrize("step", [-1, 1.5, True])
def test_a_step_of_ones_own_loop_has_a_number(step):
    run = rf.run(lambda: rf.gate(step))
    with raises_message(
        ValueError,
        f"gate: not a step number.\n  step  {step!r}\nSteps are counted from 0.\n    rf.gate(step, loss=loss)",
    ):
        _ = run.result
