"""What a page asks of a run is done, or answered with a sentence; nothing that it asks waits or raises."""

import queue
import threading

import pytest
from asserting import assert_same
from control.held_models import sums
from waiting import LONG, wait_until

import rfnb as rf
from rfnb.control.commands import COMMANDS, obey


class Page:
    """Asks, and has the answers."""

    def __init__(self, run):
        self.run, self.answers = run, queue.Queue()

    def ask(self, do, **fields):
        """The branch that was made, if any."""
        return obey(self.run, {"do": do, **fields}, self.answers.put)

    def answer(self):
        return self.answers.get(timeout=LONG)


@pytest.fixture
def page():
    run = rf.run(sums(), paused=True)
    assert run.wait(LONG)
    return Page(run)


def test_a_page_steps_pauses_resumes_and_stops(page):
    run = page.run
    page.ask("step", steps=2)
    wait_until(lambda: run.state == "paused" and run.at.step == 2)
    assert run.reason == "2 steps were made"
    page.ask("speed", value=1000)
    assert run.speed == pytest.approx(1000)
    page.ask("resume")
    page.ask("pause")
    assert run.wait(LONG)
    page.ask("stop")
    assert run._gate.until_over(LONG) and run.state in ("stopped", "done")
    assert [page.answer() for _ in range(5)] == [None] * 5


def test_steps_asked_for_before_the_run_waits_again_add_up():
    go = threading.Event()
    made = []

    def loop():
        for step in range(9):
            rf.gate(step)
            go.wait(LONG)
            made.append(step)

    run = rf.run(loop, paused=True)
    assert run.wait(LONG)
    page = Page(run)
    for _ in range(3):
        page.ask("step")
    go.set()
    wait_until(lambda: run.state == "paused")
    page.ask("step", steps=2)
    wait_until(lambda: run.state == "paused" and len(made) == 5)
    assert made == [0, 1, 2, 3, 4]


def test_a_breakpoint_is_set_and_removed_by_its_number(page):
    run = page.run
    page.ask("break", when="nan")
    page.ask("break", when="4")
    page.ask("break", when=2)
    page.ask("unbreak", number=3)
    page.ask("unbreak", number=3)
    assert [(point.number, point.text) for point in run.breakpoints] == [(1, "nan"), (2, "step 4")]
    page.ask("resume")
    wait_until(lambda: run.state == "paused" and run.at.step == 4)
    assert run.reason == "breakpoint step 4" and [point.hits for point in run.breakpoints] == [0, 1]
    assert [page.answer() for _ in range(6)] == [None, None, None, None, "There is no breakpoint 3.", None]


def search():
    """A search of which the first label of the best hypothesis is "a"."""
    labels, batch = rf.Dim(3, name="labels", vocab=["#", "a", "b"]), rf.Dim(1, name="batch")
    scores = rf.convert_to_tensor([[-3.0, -0.1, -2.0]], dims=[batch, labels])
    return rf.beam_search(
        lambda label, state: (scores, state), batch=batch, max_seq_len=4, beam_size=2, end_label=0, axis=labels
    ).best(0)


def test_a_label_is_forced_by_the_thread_of_the_run_and_one_that_there_is_not_is_said():
    run = rf.run(search, paused=True)
    run.step(1)
    page = Page(run)
    page.ask("force", label="nothing")
    assert page.answer().startswith("force: no label 'nothing'")
    page.ask("force", label="b", only=True)
    assert page.answer() is None
    page.ask("resume")
    assert page.answer() is None
    assert run.result.text == "a b a a"
    page.ask("force", label="b")
    assert page.answer().startswith("run: it is over.")


def test_an_edit_of_a_run_that_is_not_paused_is_refused_in_a_sentence():
    inside, go = threading.Event(), threading.Event()

    def loop():
        rf.gate(0)
        inside.set()
        go.wait(LONG)

    page = Page(rf.run(loop))
    assert inside.wait(LONG)
    page.ask("ban", label=1)
    assert page.answer().startswith("run: it is running, and only where it stands")
    go.set()


def test_a_branch_begins_with_changes_and_goes_on():
    run = rf.run(search)
    assert run.result.text == "a a a a"
    page = Page(run)
    branch = page.ask("branch", step=1, then=[{"do": "force", "label": "b", "only": True}], name="with b")
    assert page.answer() is None
    assert branch.name == "with b" and branch.result.text == "a b a a"
    plain = page.ask("branch", step=2)
    assert page.answer() is None
    wait_until(lambda: plain.state == "paused")
    assert plain.at.step == 2 and plain.reason == f"here it leaves {run.name}"


def test_a_branch_whose_change_cannot_be_done_pauses_there_and_says_so():
    run = rf.run(search)
    assert run.result is not None
    page = Page(run)
    branch = page.ask("branch", step=1, then=[{"do": "force", "label": "nothing"}])
    said = page.answer()
    assert said.startswith("force: no label 'nothing'")
    wait_until(lambda: branch.state == "paused")
    assert branch.at.step == 1 and branch.reason == said
    branch.resume()
    assert branch.result.text == "a a a a"  # nothing was changed


def test_a_branch_that_is_stopped_before_its_step_says_so():
    go = threading.Event()
    go.set()

    def loop():
        for step in range(3):
            rf.gate(step)
            go.wait(LONG)

    run = rf.run(loop)
    assert run.result is None
    go.clear()
    page = Page(run)
    branch = page.ask("branch", step=2, then=[{"do": "ban", "label": 1}])
    branch._gate.stop()
    go.set()
    assert page.answer() == f"{branch.name} has ended before step 2."


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ({"do": "jump"}, f"There is no command 'jump'. There are: {', '.join(COMMANDS)}."),
        ({}, f"There is no command None. There are: {', '.join(COMMANDS)}."),
        ([1], f"There is no command None. There are: {', '.join(COMMANDS)}."),
        ({"do": ["pause"]}, f"There is no command ['pause']. There are: {', '.join(COMMANDS)}."),
        ({"do": "pause", "now": 1}, 'Command "pause" has no "now". It has: no fields.'),
        ({"do": "step", "steps": 0}, 'Command "step": "steps" is 0. It is a whole number from 1.'),
        ({"do": "step", "steps": True}, 'Command "step": "steps" is True. It is a whole number from 1.'),
        ({"do": "step", "steps": None}, 'Command "step": "steps" is None. It is a whole number from 1.'),
        ({"do": "speed"}, 'Command "speed" needs "value": a number from 0.'),
        ({"do": "speed", "value": float("nan")}, 'Command "speed": "value" is nan. It is a number from 0.'),
        ({"do": "force", "label": -1}, 'Command "force": "label" is -1. It is a label: its text or index.'),
        ({"do": "branch", "step": 1, "then": "ban"}, 'Command "branch": "then" is \'ban\'. It is a list of commands.'),
    ],
)
def test_what_is_not_understood_is_a_sentence_and_the_run_is_intact(page, asked, answer):
    said = []
    assert obey(page.run, asked, said.append) is None
    assert said == [answer]
    assert page.run.state == "paused" and page.run.at.step == 0


def test_a_branch_does_not_begin_with_what_is_no_change(page):
    page.run.step()
    page.ask("branch", step=0, then=[{"do": "stop"}])
    changes = ", ".join(name for name, one in COMMANDS.items() if one.change)
    assert page.answer() == f'A branch does not begin with "stop". It may with: {changes}.'
    page.ask("branch", step=40)
    assert page.answer().startswith("from_step: no step 40.")
    assert page.run.branches == []


def test_all_commands_on_a_run_that_is_over_answer_and_change_nothing(page):
    expected = sums()()[1]
    page.ask("resume")
    assert page.answer() is None
    assert_same(page.run.result[1], expected)
    for do, fields in {"pause": {}, "stop": {}, "speed": {"value": 2}}.items():
        page.ask(do, **fields)
        assert page.answer() is None
    for do in ("step", "resume"):
        page.ask(do)
        assert page.answer().startswith(f"{do}: {page.run.name} is over.")
    assert page.run.state == "done" and page.run.result is not None
