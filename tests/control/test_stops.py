"""A run that is stopped, at whatever step, leaves nothing half-made: not in its thread, nor for who comes after it."""

import contextvars
import functools
import threading

import pytest
import torch
from control.held_models import sums
from control.held_programs import PROGRAMS, assert_bit_equal
from control.watched_threads import in_threads, is_gone, result_of, stacks, stands
from waiting import LONG

import rfnb as rf
from rfnb.control.gate import Stopped
from rfnb.core import intercept
from rfnb.core.op import all_ops
from rfnb.rec.hold import holding


def around(program, seen):
    """The program, and what is current when it is left: of context variables those that are not as they were."""

    def go():
        before, error = dict(contextvars.copy_context().items()), None
        try:
            return program()
        except BaseException as raised:
            error = raised
            raise
        finally:
            after = contextvars.copy_context()
            now = {each.name: after[each] for each in after if after[each] != before.get(each)}
            now.pop("rfnb_step_seeds", None)  # a program may seed
            if "rfnb_place" in now:  # the step of a loop of one's own lasts as long as its recording
                now["rfnb_place"] = now["rfnb_place"]._replace(step=None, steps=(), entry=0)
            seen.append((type(error), rf.Loop.current(), now, torch.is_grad_enabled()))

    return go


@functools.cache
def steps_of(name):
    rf.set_random_seed(5)
    run = rf.run(PROGRAMS[name])
    result_of(run)
    return len(run.steps)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_stop_before_any_step_leaves_nothing_behind(name):
    count, whole = steps_of(name), []
    codes, threads = [op.fn.__code__ for op in all_ops()], threading.active_count()
    result_of(rf.run(around(PROGRAMS[name], whole)))
    rf.set_random_seed(5)
    direct = PROGRAMS[name]()
    for tick in range(count):
        seen = []
        rf.set_random_seed(5)
        run = rf.run(around(PROGRAMS[name], seen), paused=True)
        stands(run)
        if tick:
            run.step(tick)
        run.stop()
        assert run.state == "stopped" and is_gone(run)
        assert len(run.steps) == tick + 1
        with pytest.raises(rf.RunStopped) as error:
            _ = run.result
        step = run.steps[-1][1]
        assert str(error.value) == (
            f"{run.name}: it was stopped after {tick + 1} steps, and has no result.\n"
            f"Another run can continue from one of its steps:\n    branch = run.from_step({step})"
        )
        kind, loop, now, gradients = seen[0]
        assert (kind, loop, gradients) == (Stopped, None, True) and now.items() <= whole[0][2].items()
    rf.set_random_seed(5)
    assert_bit_equal(PROGRAMS[name](), direct)
    assert [op.fn.__code__ for op in all_ops()] == codes and not intercept._open
    assert holding() is None and rf.Loop.current() is None and threading.active_count() <= threads


@pytest.mark.parametrize("name", ["for", "with", "scan", "while_loop", "beam_search, raw", "training"])
def test_a_stop_from_a_condition_ends_it_there(name):
    """In the thread of the run itself, which does not wait for itself."""
    for tick in range(steps_of(name)):
        go = threading.Event()

        def program(go=go):
            assert go.wait(LONG)
            return PROGRAMS[name]()

        run = rf.run(program)
        run.break_when(lambda at, run=run, tick=tick: "stopped" if at.tick == tick and run.stop() else None)
        go.set()
        assert run._gate.until_over(LONG), stacks()
        assert run.state == "stopped" and len(run.steps) == tick + 1


def test_a_stop_at_any_time_gives_a_result_or_none():
    """While it runs, from several threads at once: it is over, and what it has is whole."""
    expected = sums()()
    for turn in range(60):
        run = rf.run(sums(), paused=turn % 2 == 0)
        in_threads(run.stop, lambda run=run: run.stop(), lambda run=run: run.pause())
        assert run._gate.mode == "over" and is_gone(run)
        if run.state == "done":
            assert_bit_equal(run.result, expected)
        else:
            assert run.state == "stopped"
        run.stop()  # again: nothing


def test_a_function_that_goes_on_after_a_stop_is_stopped_at_each_step():
    tries = []

    def stubborn():
        for _ in range(3):
            try:
                sums()()
            except BaseException as error:
                tries.append(type(error))
        return "whole"

    run = rf.run(stubborn, paused=True)
    stands(run)
    run.stop()
    assert tries == [Stopped] * 3 and run.state == "done" and run.result == "whole"


def test_a_stopped_run_runs_its_own_cleaning():
    cleaned = []

    def go():
        try:
            with rf.set_default_float_dtype_ctx("float64"):
                return sums()()
        finally:
            cleaned.append(rf.get_default_float_dtype())

    run = rf.run(go, paused=True)
    stands(run)
    run.stop()
    assert cleaned == ["float32"] and run.state == "stopped"


def test_a_stop_of_a_slow_run_does_not_wait_for_its_step():
    run = rf.run(sums(), paused=True)
    stands(run)
    run.speed = 1e-9
    run.step()
    run.resume()
    run.stop(LONG)
    assert run.state == "stopped"
