"""Conditions that do not end: the run can be paused and stopped all the same."""

import sys
import threading

import pytest
from control.held_models import sums
from control.stops import PATIENCE

import rfnb as rf
from rfnb.control import breakpoints as asking_module
from rfnb.control.breakpoints import ConditionEvaluator, Interrupted
from rfnb.control.commands import obey


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(asking_module, "PATIENCE", 0.05)
    monkeypatch.setattr(asking_module, "PATIENCE_AFTER", PATIENCE)


def asks(condition):
    """A run that is asking this condition."""
    asked = threading.Event()

    def ask(at):
        asked.set()
        return condition()

    run = rf.run(sums(), paused=True)
    run.break_when(ask, "slow")
    run.resume()
    assert asked.wait(PATIENCE)
    return run


def endless():
    while True:
        pass


def endless_whatever_is_raised():
    while True:
        try:
            endless()
        except Exception:
            pass


@pytest.mark.parametrize("condition", [endless, endless_whatever_is_raised])
def test_a_run_is_paused_while_a_condition_does_not_end(condition):
    run = asks(condition)
    run.pause()
    assert (run.state, run.reason) == ("paused", "breakpoint slow was interrupted: it did not end")
    run.breakpoints[0].remove()
    run.resume()
    assert run.result is not None


def test_a_run_is_stopped_while_a_condition_does_not_end():
    run = asks(endless)
    assert run.stop().state == "stopped"


@pytest.mark.parametrize(("name", "state"), [("pause", "paused"), ("stop", "stopped")])
def test_a_command_of_a_page_ends_it_too_and_waits_for_nothing(name, state):
    run, said = asks(endless), []
    obey(run, {"do": name}, said.append)
    assert run.wait(PATIENCE) and run.state == state
    assert said == [None]


def test_what_cannot_be_ended_is_said_and_the_run_arrives_when_it_ends(monkeypatch):
    monkeypatch.setattr(asking_module, "PATIENCE_AFTER", 0.05)
    ends = threading.Event()
    run = asks(ends.wait)
    with pytest.raises(TimeoutError) as error:
        run.pause()
    lines = str(error.value).splitlines()
    assert lines[0] == f"pause: {run.name} evaluates a condition that does not end."
    assert lines[1] == "  condition    slow" and lines[2].startswith("  running for  ")
    assert lines[3] == (
        "The condition waits in a call that cannot be interrupted. The run continues when the call returns."
    )
    assert run.state == "running"
    ends.set()
    assert run.wait(PATIENCE) and run.state == "paused"
    run.breakpoints[0].remove()
    assert run.resume().result is not None


def test_a_long_step_is_waited_for_and_not_interrupted():
    goes_on, begun = threading.Event(), threading.Event()

    def go():
        for step in range(3):
            rf.gate(step)
            begun.set()
            assert goes_on.wait(PATIENCE)

    run = rf.run(go)
    run.break_when(lambda at: False)
    assert begun.wait(PATIENCE)
    waits = threading.Timer(0.3, goes_on.set)
    waits.start()
    assert run.pause().reason == "on request"
    run.resume()
    assert run.wait(PATIENCE) and run.state == "done"
    waits.join()


def test_an_interrupt_never_comes_after_the_condition_has_ended():
    """Conditions that end by themselves while another thread interrupts: each ends one way or the other, and nothing else does."""
    asking, over, ended = ConditionEvaluator(), threading.Event(), {"own": 0, "other": 0}
    before = sys.getswitchinterval()

    def work():
        while min(ended.values()) < 200:
            try:
                asking.ask("each", lambda: sum(range(ended["own"] % 100)))
            except Interrupted:
                ended["other"] += 1
            else:
                ended["own"] += 1
        over.set()

    sys.setswitchinterval(1e-6)
    try:
        worker = threading.Thread(target=work)
        worker.start()
        while worker.is_alive():
            asking.interrupt()
    finally:
        sys.setswitchinterval(before)
    assert over.is_set()  # no interrupt has ended the thread
