"""The gate: no command is lost, none counts twice, whatever comes between two of them."""

import random
import threading

import pytest
from control.watched_threads import in_threads, stacks
from waiting import LONG, wait_until

from rfnb.control.gate import Gate, Stopped


class Worker:
    """Passes a gate step by step.

    Attributes:
        made: The steps it has made.
        left: Those that it began to make.
    """

    def __init__(self, gate, steps=10**6, reason=lambda at: None):
        self.gate, self.steps, self.reason = gate, steps, reason
        self.made = 0
        gate.worker = self.thread = threading.Thread(target=self._work, daemon=True)
        self.thread.start()

    def _work(self):
        try:
            for step in range(self.steps):
                self.gate.pass_(step, self.reason)
                self.made += 1
        except Stopped:
            pass
        finally:
            self.gate.end()

    def end(self):
        self.gate.stop()
        self.thread.join(LONG)
        assert not self.thread.is_alive(), stacks()


@pytest.fixture
def gate():
    gate = Gate()
    gate.pause("first")
    yield gate
    gate.stop()
    assert gate.until_over(LONG), stacks()


def stand(gate):
    assert gate.until_standing(LONG), stacks()


def test_steps_of_several_add_up(gate):
    """Two clicks on a button come before the first step is made."""
    worker = Worker(gate)
    gate.go(1)
    gate.go(1)
    gate.go(3)
    stand(gate)
    assert (worker.made, gate.at, gate.reason) == (5, 5, "5 steps were made")
    gate.go(1)
    stand(gate)
    assert (worker.made, gate.reason) == (6, "1 step was made")


def test_steps_from_many_threads_are_all_made(gate):
    worker = Worker(gate)

    def click():
        for count in (1, 2, 1, 3):
            gate.go(count)
            assert gate.until_standing(LONG)

    for turn in range(1, 30):
        in_threads(*[click] * 4)
        stand(gate)
        assert worker.made == gate.at == turn * 28


def test_steps_told_before_it_comes_to_stand_are_exact():
    """Also those that are told between its coming and its standing."""
    for _ in range(200):
        gate = Gate()
        gate.pause("first")
        worker = Worker(gate)
        gate.go(2)  # it may be anywhere before its first stand
        stand(gate)
        assert (worker.made, gate.at) == (2, 2)
        worker.end()


@pytest.mark.parametrize("told", [1, 3])
def test_steps_told_while_a_condition_is_asked_begin_with_this_one(told):
    gate, asks, go = Gate(), threading.Event(), threading.Event()

    def reason(at):
        if at == 4 and not asks.is_set():
            asks.set()
            assert go.wait(LONG)

    worker = Worker(gate, reason=reason)
    assert asks.wait(LONG)
    gate.go(told)
    go.set()
    stand(gate)
    assert (worker.made, gate.at) == (4 + told, 4 + told)
    worker.end()


def test_who_is_let_go_and_paused_before_it_notices_stands_where_it_stood(gate):
    worker = Worker(gate)
    gate.go(2)
    stand(gate)
    with gate._changed:  # the worker does not come in between
        gate.go(1)
        gate.pause("again")
    stand(gate)
    assert (worker.made, gate.at, gate.reason) == (2, 2, "again")
    gate.go(1)
    stand(gate)
    assert (worker.made, gate.at) == (3, 3)


def test_what_is_asked_for_is_done_in_its_order(gate):
    Worker(gate)
    stand(gate)
    done = []
    with gate._changed:
        asked = [gate.ask(lambda number=number: done.append(number)) for number in range(5)]
    for future in asked:
        future.result(LONG)
    assert done == [0, 1, 2, 3, 4]


def test_what_was_asked_for_is_done_although_it_goes_on_before():
    """Paused, asked, let go again: all before it has come to stand."""
    gate, came, come = Gate(), threading.Event(), threading.Event()

    def reason(at):
        came.set()
        assert come.wait(LONG)

    worker = Worker(gate, reason=reason)
    assert came.wait(LONG)
    gate.pause("now")
    asked = [gate.ask(lambda number=number: (threading.current_thread(), number)) for number in range(3)]
    gate.go()
    come.set()
    assert [future.result(LONG) for future in asked] == [(worker.thread, number) for number in range(3)]
    worker.end()


def test_a_pause_during_the_wait_of_a_slow_run_holds_before_that_step(gate):
    worker = Worker(gate)
    gate.seconds = 1e300
    gate.go(1)
    stand(gate)
    assert worker.made == 1  # from where it stands it goes at once
    gate.go()
    assert wait_until(lambda: worker.made == 2)
    gate.pause("now")
    stand(gate)
    assert (worker.made, gate.at) == (2, 2)
    gate.go()
    assert wait_until(lambda: worker.made == 3)
    gate.seconds = 0.0  # does not wait for the end of a slow step
    assert wait_until(lambda: worker.made > 1000)


def test_a_reason_is_said_also_where_it_would_stand_anyway(gate):
    Worker(gate, reason=lambda at: "a condition" if at in (2, 5) else None)
    gate.go(2)
    stand(gate)
    assert (gate.at, gate.reason) == (2, "a condition")
    gate.go(9)
    stand(gate)
    assert (gate.at, gate.reason) == (5, "a condition")
    gate.go(1)
    stand(gate)
    assert (gate.at, gate.reason) == (6, "1 step was made")


def test_a_reason_is_said_also_where_it_was_told_to_pause(gate):
    Worker(gate, reason=lambda at: "a condition" if at == 0 else None)
    stand(gate)
    assert (gate.at, gate.reason) == (0, "a condition")


def test_who_looks_on_and_fails_ends_no_run(gate):
    def fail():
        raise ZeroDivisionError("of a view")

    worker = Worker(gate)
    forget = gate.on_change(fail)
    with pytest.warns(UserWarning) as warned:
        gate.go(2)
        stand(gate)
        gate.go(1)
        assert wait_until(lambda: worker.made == 3)
        stand(gate)
    assert str(warned[0].message) == "rfnb: a run could not report its state: ZeroDivisionError: of a view"
    forget()
    forget()
    gate.go(1)
    stand(gate)
    assert worker.made == 4


def test_nothing_is_asked_of_one_that_is_over(gate):
    worker = Worker(gate, steps=3)
    stand(gate)
    gate.ask(lambda: None).cancel()
    assert gate.ask(gate.go).result(LONG) is None  # the worker itself lets it go on
    assert gate.until_over(LONG), stacks()
    assert worker.made == 3
    with pytest.raises(RuntimeError) as error:
        gate.ask(lambda: None)
    assert str(error.value) == (
        "run: the run has ended.\nIts result is run.result. Another run can continue from one of its steps:\n"
        "    branch = run.from_step(3)"
    )


def test_what_is_asked_of_one_that_runs_is_refused():
    gate = Gate()
    worker = Worker(gate)
    with pytest.raises(RuntimeError) as error:
        gate.ask(lambda: None)
    assert str(error.value) == (
        "run: values can be read and changed only while the run is paused.\n  state  running\n"
        "Another thread executes the steps. Pause the run first:\n    run.pause()"
    )
    worker.end()


@pytest.mark.parametrize("seed", range(6))
def test_thousands_of_commands_from_several_threads(seed):
    """Each is done, what is asked for once and by the worker alone; it ends when it is told to."""
    gate, done, asked = Gate(), [], []
    worker = Worker(gate, reason=lambda at: "here" if at % 97 == 0 else None)
    standing = threading.local()

    def look():
        assert threading.current_thread() is worker.thread
        done.append(worker.made)
        standing.at = worker.made  # what only the worker has

    def command(number):
        rng = random.Random(f"{seed} {number}")
        for _ in range(400):
            what = rng.choice(["pause", "go", "step", "ask", "seconds", "wait"])
            if what == "pause":
                gate.pause("told")
            elif what == "go":
                gate.go()
            elif what == "step":
                gate.go(rng.randint(1, 3))
            elif what == "ask":
                try:
                    asked.append(gate.ask(look))
                except RuntimeError as error:
                    assert str(error).startswith("run: values can be read"), error
            elif what == "seconds":
                gate.seconds = rng.choice([0.0, 1e-5])
            else:
                gate.until_standing(0.0)

    in_threads(*(lambda number=number: command(number) for number in range(4)))
    made = worker.made

    def goes_on():
        gate.go()  # it pauses by itself too
        return worker.made > made + 200

    assert wait_until(goes_on), stacks()
    for future in asked:
        future.result(LONG)
    assert len(done) == len(asked) > 50
    worker.end()
    assert gate.mode == "over" and gate.at is None and not gate._asked


def test_a_stop_ends_it_wherever_it_is():
    for _ in range(200):
        gate = Gate()
        worker = Worker(gate)
        in_threads(gate.stop, lambda gate=gate: gate.pause("now"), gate.go, lambda gate=gate: gate.go(2))
        assert gate.until_over(LONG), stacks()
        worker.thread.join(LONG)
        assert not worker.thread.is_alive(), stacks()
