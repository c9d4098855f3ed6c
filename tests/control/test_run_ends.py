"""A run handles interrupts, exits, forks, the end of Python, and the loss of its last reference."""

import asyncio
import copy
import gc
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import weakref

import pytest
from asserting import assert_same
from control.held_models import BATCH, FEAT, TIME, X, sums
from control.watched_threads import is_gone, result_of, stacks, stands
from waiting import LONG, wait_until
from warm import warm

import rfnb as rf
from rfnb.control.live_runs import _begun


@pytest.fixture(autouse=True)
def ctrl_c():
    """Ctrl+C is an error, also where these tests run in the background of a shell that is not interactive, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def waits(go):
    """A function that makes two steps, then waits in the third one until `go` is set."""

    def fn():
        loop = rf.Loop(axis=TIME, name="waits")
        loop.state.h = rf.zeros([BATCH, FEAT])
        for step in loop:
            if step == 2:
                assert go.wait(LONG)
            loop.state.h = loop.state.h + loop.unstack(X)
        return loop.state.h

    return fn


def interrupt_when(condition):
    """Ctrl+C for the main thread as soon as a condition holds."""

    def work():
        assert wait_until(condition)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def _main_waits():
    """Whether the main thread waits for a run."""
    frame = sys._current_frames()[threading.main_thread().ident]
    while frame is not None:
        if frame.f_code.co_name in ("until_standing", "until_over"):
            return True
        frame = frame.f_back
    return False


@pytest.mark.parametrize("ask", ["wait", "result", "step", "pause"])
def test_an_interrupt_lets_the_run_pause_and_lose_nothing(ask):
    go = threading.Event()
    run = rf.run(waits(go))
    assert wait_until(lambda: len(run.steps) == 3)
    thread = interrupt_when(_main_waits)
    with pytest.raises(KeyboardInterrupt):
        if ask == "result":
            _ = run.result
        else:
            getattr(run, ask)()
    thread.join(LONG)
    assert run.state == "running"
    go.set()
    stands(run)
    assert (run.state, run.at.step) == ("paused", 3)
    assert run.reason == ("on request" if ask == "pause" else "Ctrl+C")
    assert_same(result_of(run), waits(go)())


def test_an_interrupt_of_a_cell_that_awaits_leaves_the_run_going():
    go, runs = threading.Event(), []

    async def cell():
        runs.append(rf.run(waits(go)))
        await runs[0]

    thread = interrupt_when(lambda: runs and len(runs[0].steps) == 3)
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(cell())
    thread.join(LONG)
    go.set()
    assert_same(result_of(runs[0]), waits(go)())


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError])
def test_what_is_no_exception_is_raised_where_the_result_is_asked_for(kind):
    def leaves():
        for step in rf.Loop(axis=TIME, name="leaves"):
            if step == 1:
                raise kind(3)

    run = rf.run(leaves)
    assert run._gate.until_over(LONG), stacks()
    assert run.state == "failed"
    for _ in range(2):
        with pytest.raises(kind) as error:
            _ = run.result
        assert error.value.args == (3,) and error.traceback[-1].name == "leaves"


def test_an_error_has_the_same_traceback_each_time():
    def fails():
        for step in rf.Loop(axis=TIME, name="fails"):
            if step == 1:
                {}["nothing"]

    run, seen = rf.run(fails), []
    for _ in range(3):
        with pytest.raises(KeyError) as error:
            _ = run.result
        seen.append([(entry.path.name, entry.name) for entry in error.traceback])
        assert error.value.__context__ is None
    assert seen[0] == seen[1] == seen[2]
    assert seen[0][-1] == ("test_run_ends.py", "fails")
    assert str(error.traceback[-1].statement).strip().startswith('{}["nothing"]')


def in_python(code, python=warm):
    """The output of a program, and its exit."""
    done = subprocess.run(
        [*python(), "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=LONG, env=os.environ
    )
    return done.stdout, done.stderr, done.returncode


PROGRAM = """
    import rfnb as rf
    from rfnb import Dim
    time, feat = Dim(5, name="time"), Dim(3, name="feat")
    def sums():
        loop = rf.Loop(axis=time, name="sums")
        loop.state.h = rf.zeros([feat])
        for _ in loop:
            loop.state.h = loop.state.h + rf.random_normal([feat])
        return loop.state.h
"""


ENDS = {
    "": 0,
    "import sys; sys.exit(3)": 3,
    "raise SystemExit": 0,
    "run.speed = 1e-9; run.resume(); print(end='')": 0,
    "1 / 0": 1,
}
# What the package loads is there before the forks; each of them ends as Python does, and takes its modules apart.
EACH_END = f"""{PROGRAM}
    import faulthandler, os
    sums(), rf.run
    for number, end in enumerate({list(ENDS)!r}):
        if not os.fork():
            faulthandler.dump_traceback_later({LONG / 2}, exit=True)
            for stream, name in (1, "out"), (2, "errors"):
                os.dup2(os.open(f"{{number}}.{{name}}", os.O_CREAT | os.O_WRONLY), stream)
            break
        print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
    else:
        os._exit(0)
    run = rf.run(sums, paused=True)
    run.wait()
    run.step(2)
    exec(end)
"""


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """By the last line of a program with a run that stands: its output, its errors and its exit."""
    folder = tmp_path_factory.mktemp("ended")
    out, errors, status = in_python(f"    import os; os.chdir({str(folder)!r})\n{EACH_END}", lambda: [sys.executable])
    assert (errors, status) == ("", 0)
    said = [[(folder / f"{number}.{name}").read_text() for name in ("out", "errors")] for number in range(len(ENDS))]
    return {end: (*each, int(code)) for end, each, code in zip(ENDS, said, out.split(), strict=True)}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
@pytest.mark.parametrize("end", ENDS)
def test_python_ends_with_a_run_that_stands(end, ended):
    out, errors, status = ended[end]
    if end == "1 / 0":
        assert errors.strip().endswith("ZeroDivisionError: division by zero")
        errors = ""
    assert (out, errors, status) == ("", "", ENDS[end])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
def test_a_forked_process_has_no_runs():
    """Finished runs stay finished; live runs are finished there and continue here; loops there are not held."""
    code = f"""{PROGRAM}
    import os, sys
    run, done = rf.run(sums, paused=True), rf.run(sums)
    run.wait(); run.step(2); done.result
    child = os.fork()
    if not child:
        said = [run.state, done.state, done.result.raw_tensor.shape == (3,), run.wait(), run.stop() is run]
        try:
            run.result
        except RuntimeError as error:
            said.append(str(error).splitlines()[0].replace(run.name, "it"))
        said.append(rf.run(sums).result.raw_tensor.shape == (3,))
        print(said)
        sys.exit(5)
    print("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    run.resume()
    run.result
    print(run.state)
    """
    out, errors, status = in_python(code)
    assert out.splitlines() == [
        "['failed', 'done', True, True, True, 'it: it runs in another process.', True]",
        "child 5",
        "done",
    ], errors
    assert status == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
def test_a_process_that_a_run_forks_goes_on_unheld():
    """As the workers of a DataLoader do."""
    code = f"""{PROGRAM}
    import os
    def forks():
        loop = rf.Loop(axis=time, name="forks")
        for step in loop:
            if step == 1:
                child = os.fork()
                if not child:
                    sums()
                    os._exit(7)
                status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        return status
    run = rf.run(forks, paused=True)
    run.wait()
    run.step(2)
    print(run.at.step, run.state)
    run.resume()
    print(run.result)
    """
    out, errors, status = in_python(code)
    assert (out.split(), status) == (["2", "paused", "7"], 0), errors


def test_a_run_that_is_over_is_kept_by_nobody():
    def made():
        run = rf.run(sums(), paused=True)
        stands(run)
        run.step(2)
        at = run.at
        at.states["h"][...] = 1.0
        branch = run.from_step(1, paused=False)
        result_of(branch)
        result_of(run)
        assert is_gone(run) and is_gone(branch)
        return [weakref.ref(each) for each in (run, branch, at, run._gate, run._holder)]

    kept = made()
    gc.collect()
    assert [ref() for ref in kept] == [None] * 5


def test_a_run_that_has_failed_is_kept_by_nobody():
    def made():
        run = rf.run(lambda: [1][step] if (step := len(sums()()) + 3) else None)
        with pytest.raises(IndexError):
            _ = run.result
        assert is_gone(run)
        return weakref.ref(run)

    kept = made()
    gc.collect()
    assert kept() is None


def test_a_run_that_stands_stays_until_it_is_told_something():
    """Its thread has it, whoever else has forgotten it; so it can still be found and stopped at the end of Python."""

    def made():
        run = rf.run(sums(), paused=True)
        stands(run)
        return weakref.ref(run)

    kept = made()
    gc.collect()
    run = kept()
    assert run is not None and run.state == "paused" and run in _begun
    run.stop()
    assert is_gone(run)
    del run
    gc.collect()
    assert kept() is None


@pytest.mark.parametrize("how", [pickle.dumps, copy.copy, copy.deepcopy])
def test_nothing_of_a_run_is_pickled_or_copied(how):
    run = rf.run(sums(), paused=True)
    stands(run)
    point = run.break_when(3)
    for each in (run, run.at, point, run._gate):
        with pytest.raises(TypeError) as error:
            how(each)
        assert str(error.value) == (
            f"A run cannot be pickled or copied.\n  object  {type(each).__name__}\n"
            "A run is a thread of this process. To keep its data, store its trace and those of its branches:\n"
            '    run.save("run.rfnb")'
        )
    run.stop()
