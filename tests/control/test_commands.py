"""A run executes the commands of a page, or answers with a sentence; no command waits or raises."""

import queue
import threading

import numpy as np
import pytest
from asserting import assert_same
from control.attending import decoding
from control.held_models import letters, sums
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


def test_an_edit_is_done_where_it_was_asked_for_although_the_run_was_let_go_meanwhile(page):
    run, go = page.run, threading.Event()
    place = run._holder.places[run.at.tick]
    run._gate.ask(lambda: go.wait(LONG))  # so that it is still to be done when the run is let go
    page.ask("edit", step=0, path=place.path, nth=0, then=[{"do": "set", "state": "h", "how": "zero"}])
    run.resume()
    go.set()
    assert page.answer() is None and run.wait(LONG)
    assert [(change.step, change.words) for change in run.changes] == [(0, "state h set to 0")]


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
    assert page.answer().startswith("run: the run has ended.")


def test_an_edit_of_a_run_that_is_not_paused_is_refused_in_a_sentence():
    inside, go = threading.Event(), threading.Event()

    def loop():
        rf.gate(0)
        inside.set()
        go.wait(LONG)

    page = Page(rf.run(loop))
    assert inside.wait(LONG)
    page.ask("ban", label=1)
    assert page.answer().startswith("run: values can be read")
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
    assert plain.at.step == 2 and plain.reason == f"here it branches from {run.name}"


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
        (
            {"do": "force", "label": -1},
            'Command "force": "label" is -1. It is a label, its text or index, or a list of them.',
        ),
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
    assert page.answer() == f'A branch cannot begin with "stop". Possible commands: {changes}.'
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
        assert page.answer().startswith(f"{do}: {page.run.name} has ended.")
    assert page.run.state == "done" and page.run.result is not None


def test_a_page_changes_a_state(page):
    before = page.run.at.states["h"]
    page.ask("step", steps=2)
    page.answer()
    assert wait_until(lambda: page.run.state == "paused" and page.run.at.step == 2)
    now = page.run.at.states["h"].numpy().copy()
    page.ask("set", state="h", entries={"batch": 1, "feat": [0, 2]}, value=7)
    page.ask("set", state="h", entries={"batch": 0}, how="zero")
    page.ask("set", state="h", entries={"batch": 2}, how="scale", amount=2)
    page.ask("set", state="h", entries={"batch": 1, "feat": 4}, how="paste", of={"batch": 2, "feat": 4})
    assert [page.answer() for _ in range(4)] == [None] * 4
    now[1, [0, 2]], now[0], now[2] = 7, 0, now[2] * 2
    now[1, 4] = now[2, 4]
    assert page.run.at.states["h"].numpy().tolist() == now.tolist()
    page.ask("set", state="h", how="noise", amount=0.5, seed=3)
    assert page.answer() is None
    assert page.run.changes[-1].words == "state h with noise of 0.5, seed 3" and before.name == "h"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, 'Command "set" needs either "value" or "how".'),
        ({"value": 1, "how": "zero"}, 'Command "set" needs either "value" or "how".'),
        ({"how": "scale"}, 'Command "set" takes "amount" only for "scale" and "noise".'),
        ({"how": "zero", "amount": 1}, 'Command "set" takes "amount" only for "scale" and "noise".'),
        ({"how": "double"}, 'Command "set": "how" is \'double\'. It is "zero", "scale", "noise" or "paste".'),
        (
            {"value": 1, "entries": {"batch": -2}},
            'Command "set": "entries" is {\'batch\': -2}. It is entries by names of dims: an index (-1: the last), several, or a text.',
        ),
        (
            {"value": 1, "entries": {"batch": 3}},
            'state "h": index out of range.\n  given  batch: 3\n  dim    batch=3\nEntries are 0 to 2.',
        ),
    ],
)
def test_a_bad_change_of_a_page_is_a_sentence(page, fields, said):
    page.ask("set", state="h", **fields)
    assert page.answer() == said
    assert page.run.changes == ()


def test_a_page_changes_rows_of_attention():
    run = rf.run(decoding(), paused=True)
    assert run.wait(LONG)
    page = Page(run)
    page.ask("attention", path="att", entries={"batch": 0}, row=[1, 2, 3, 4, 0, 0])
    page.ask("attention", path="att", entries={"batch": 1, "heads": [0, 2]}, focus=2, steps=2)
    page.ask("attention", path="att", entries={"batch": 1, "heads": 1}, uniform=True, lasting=True)
    assert [page.answer() for _ in range(3)] == [None] * 3
    page.ask("step", steps=2)
    assert page.answer() is None and wait_until(lambda: run.state == "paused" and run.at.step == 2)
    page.ask("attention", path="att", sharpen=0.5)
    assert page.answer() is None
    page.ask("attention", path="att", sharpen=0.5, uniform=True)
    assert page.answer() == 'Command "attention" needs one of "row", "sharpen", "focus", "hide" and "uniform".'
    run.resume()
    _ = run.result
    first, second, third, last = (run.trace.attention.steps("att")[step].numpy() for step in (0, 1, 2, 4))
    assert first[0, :, :4].tolist() == pytest.approx(np.array([[0.1, 0.2, 0.3, 0.4]] * 3), rel=1e-6)
    assert first[1, [0, 2], 2].tolist() == second[1, [0, 2], 2].tolist() == [1, 1] and third[1, 0, 2] < 1
    assert last[1, 1].tolist() == [0.25] * 4 + [0, 0] and (second[0].max(-1) < 1).all()


def test_a_page_forces_labels_of_several_steps():
    run = rf.run(letters, paused=True)
    assert run.wait(LONG)
    page = Page(run)
    page.ask("step", steps=2)
    assert page.answer() is None and wait_until(lambda: run.state == "paused" and run.at.step == 2)
    page.ask("force", label="a", then=["b"], hypothesis="a b", only=True)
    page.ask("ban", label=["a", 3], hypothesis=0, seq=1)
    assert [page.answer() for _ in range(2)] == [None, None]
    page.ask("force", label=[], seq=1)
    assert page.answer() == 'Command "force": "label" is []. It is a label, its text or index, or a list of them.'
    assert [change.words for change in run.changes] == [
        "forced a, then b for hypothesis a b of sequence 0, and nothing else",
        "banned a and c for hypothesis 0 of sequence 1",
    ]
    run.stop()


def test_a_page_lets_hypotheses_end_and_go_on():
    run = rf.run(letters, paused=True)
    assert run.wait(LONG)
    page = Page(run)
    page.ask("end")
    assert page.answer() == (
        "end: not possible here.\n  seq         0\n  hypothesis  None\nBefore the first step, the ends are unknown."
    )
    page.ask("step", steps=2)
    assert page.answer() is None and wait_until(lambda: run.state == "paused" and run.at.step == 2)
    page.ask("end", seq=1, hypothesis="a b")
    page.ask("go_on", seq=1, hypothesis=0)
    page.ask("end", hypothesis=-1)
    answers = [page.answer() for _ in range(3)]
    assert sorted(answers, key=str) == [
        'Command "end": "hypothesis" is -1. It is a place in the beam, or the labels so far.',
        None,
        None,
    ]
    assert [change.words for change in run.changes] == [
        "ended hypothesis 0 of sequence 1",
        "continued hypothesis 0 of sequence 1",
    ]
    run.stop()
