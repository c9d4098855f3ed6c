"""The view of a run says what the run does, live and where nothing can be done with it any more."""

from __future__ import annotations

import sys
import threading

import numpy as np
import pytest
from control.held_models import sums
from markov import Markov
from viz.held import held
from viz.stored_files import assert_stored
from waiting import LONG, wait_until

import rfnb as rf
from rfnb.control.live_runs import stop_all
from rfnb.viz.control import spec as spec_of_control
from rfnb.viz.control.run_view import RunView
from rfnb.viz.control.spec import spec
from rfnb.viz.kinds import html_of, text_of
from rfnb.viz.spec import to_json


@pytest.fixture(autouse=True)
def no_run_is_left():
    yield
    stop_all()


def test_spec_is_the_stored_one():
    assert_stored("control_small.json", to_json(held()))


def test_text_is_the_stored_one():
    assert_stored("control_small.txt", text_of(held()))


def test_html_says_the_same_and_has_no_buttons():
    html = html_of(held(title="a < b"))
    assert html.startswith("<p><b>a &lt; b</b>: Paused before step 3 of &quot;decoder.search&quot;")
    assert "<button" not in html and "<li>breakpoint nan, hit 0 times</li>" in html


def lines(run):
    return text_of(spec(run)).splitlines()


def test_a_run_is_described_from_its_begin_to_its_end():
    run = rf.run(sums(), paused=True, name="decay")
    assert run.wait(LONG)
    assert lines(run) == ['decay: Paused before step 0 of "sums": it was started paused.']
    run.step(3)
    head = spec(run).head
    assert head["words"] == 'Paused before step 3 of "sums": 3 steps were made.'
    assert head["counter"] == "step 3 of 7" and head["at"] == {"path": "sums", "step": 3, "nth": 0, "of": 7}
    assert head["loops"] == [{"path": "sums", "last": 3, "runs": 1, "axis": "time"}]
    run.break_when(5)
    run.resume()
    run.wait(LONG)
    assert lines(run) == ['decay: Paused before step 5 of "sums": breakpoint step 5.', "  breakpoint step 5, hit once"]
    run.resume()
    run.wait(LONG)
    assert lines(run) == ["decay: Done after 7 steps.", "  breakpoint step 5, hit once"]
    assert not spec(run).live
    branch = run.from_step(2, name="other")
    branch.wait(LONG)
    assert lines(branch) == [
        'other: Paused before step 2 of "sums": here it branches from decay.',
        "  decay, done",
        '  other, from step 2 of "sums" of decay, paused  <- shown',
    ]
    branch.stop()
    assert lines(branch)[0] == "other: Stopped after 2 steps, without a result."


def test_a_failed_run_says_the_last_line_of_its_error_and_where():
    def fails():
        loop = rf.Loop(max_seq_len=5)
        for step in loop:
            if step == 2:
                raise ZeroDivisionError("in the run")
            loop.end(rf.constant(False, dims=[], dtype="bool"), include_eos=True)

    run = rf.run(fails, name="bad")
    assert run._gate.until_over(LONG)
    first, where = lines(run)
    assert first == 'bad: Failed in step 2 of "loop": ZeroDivisionError: in the run'
    assert where.strip().startswith("in fails, line ") and where.endswith('raise ZeroDivisionError("in the run")')
    assert spec(run).head["counter"] == "step 2 of at most 5"


def test_a_run_that_makes_a_step_says_that_it_will_pause_or_stop():
    inside, go = threading.Event(), threading.Event()

    def slow():
        rf.gate(0)
        inside.set()
        go.wait(LONG)
        rf.gate(1)

    run = rf.run(slow, name="slow")
    assert inside.wait(LONG)
    states = [spec(run).head["state"]]
    run._gate.pause("on request")
    states.append(spec(run).head["state"])
    run._gate.stop()
    states.append(spec(run).head["state"])
    go.set()
    run._gate.until_over(LONG)
    assert states == ["running", "pausing", "stopping"] and spec(run).head["state"] == "stopped"
    assert spec(run).head["words"] == "Stopped after 1 step, without a result."


class Page:
    """A page that shows a run: what it was sent, and what it asks."""

    def __init__(self, run, **options):
        self.heard = []
        self.view = RunView(run, **options)
        self.view.view.say = self.heard.append

    def ask(self, **asked):
        self.view._hear({"rfnb": "do", "id": "p 1", **asked}, self.heard.append)

    def state(self):
        heads = [message["head"] for message in list(self.heard) if message["rfnb"] == "run"]
        known = {}
        for head in heads:  # of the branches a page is told what is new
            known = known | head
        return {**heads[-1], "runs": known["runs"]} if heads else {"state": None}

    def said(self):
        return [message["said"] for message in list(self.heard) if message["rfnb"] == "did"]


@pytest.fixture
def page():
    run = rf.run(sums(), paused=True, name="decay")
    assert run.wait(LONG)
    return Page(run)


def test_what_changes_while_a_view_is_being_made_is_in_it(monkeypatch):
    def at_once(run, *, changed, **options):
        changed()  # as a thread that has found something meanwhile
        return spec(run, changed=changed, **options)

    run = rf.run(sums(), paused=True, name="decay")
    assert run.wait(LONG)
    monkeypatch.setattr(sys.modules[RunView.__module__], "spec", at_once)
    page = Page(run)
    page.ask(do="look")
    assert wait_until(lambda: page.state()["state"] == "paused")
    run.stop()


def test_a_page_hears_each_time_the_run_comes_to_wait(page):
    for step in range(1, 4):
        page.ask(do="step")
        assert wait_until(lambda step=step: page.state()["state"] == "paused" and page.state()["at"]["step"] == step)
    page.ask(do="resume")
    assert wait_until(lambda: page.state()["state"] == "done")
    assert page.said() == [None] * 4


def test_a_page_that_looks_gets_the_state_though_nothing_has_changed(page):
    page.ask(do="look")
    assert wait_until(lambda: page.state()["state"] == "paused")
    assert page.said() == [None]


def test_a_page_that_is_not_heard_follows_a_run_that_records_nothing():
    def endless():
        for step in range(1_000_000):
            rf.gate(step)

    run = rf.run(endless, name="endless", record=False)
    run.speed = 100
    page = Page(run)
    assert wait_until(lambda: page.state()["state"] == "running")
    step = page.state()["steps"]
    assert wait_until(lambda: page.state()["steps"] > step + 20)


def test_a_page_hears_what_code_does(page):
    run = page.view.run
    point = run.break_when(4)
    assert wait_until(lambda: page.state().get("points") == [{"number": 1, "text": "step 4", "hits": 0}])
    run.speed = 5
    assert wait_until(lambda: page.state().get("speed") == 5)
    point.remove()
    assert wait_until(lambda: page.state()["points"] == [])


def test_a_view_follows_the_branch_that_its_page_makes_and_goes_back(page):
    run = page.view.run
    run.resume()
    run.wait(LONG)
    page.ask(do="branch", run=run.number, step=3, name="other")
    branch = page.view.run
    assert branch is not run and wait_until(lambda: page.state().get("title") == "other")
    assert [each["name"] for each in page.state()["runs"]] == ["decay", "other"]
    page.ask(do="step", run=run.number)
    assert page.said()[-1] == "This request was for another branch; other is shown now."
    page.ask(do="follow", number=run.number)
    assert page.view.run is run and wait_until(lambda: page.state()["title"] == "decay")
    page.ask(do="follow", number=0)
    assert page.said()[-1] == "There is no branch 0."


def test_a_branch_that_is_taken_back_is_followed_no_more(page):
    run = page.view.run
    run.resume()
    run.wait(LONG)
    page.ask(
        do="edit", run=run.number, step=3, path="sums", nth=0, then=[{"do": "set", "state": "nothing", "value": 1.0}]
    )
    assert wait_until(lambda: len(page.said()) == 1 and page.view.run is run)
    assert page.said()[0].startswith('run: no state "nothing".')
    assert wait_until(lambda: [each["name"] for each in page.state().get("runs", [])] == ["decay"])


def test_a_branch_made_by_code_is_in_the_chooser(page):
    page.view.run.step(2)
    page.view.run.from_step(1, name="by code")
    assert wait_until(lambda: [each["name"] for each in page.state().get("runs", [])] == ["decay", "by code"])


def test_of_very_many_branches_the_newest_are_in_the_rail_and_where_the_others_are_is_said(monkeypatch):
    monkeypatch.setattr(spec_of_control, "_MOST_RUNS", 4)
    run = rf.run(sums(), paused=True, name="decay")
    run.step(2)
    branches = [run.from_step(1, lambda at: None, name=f"branch {number}") for number in range(9)]
    deep = branches[0].from_step(1, lambda at: None, name="deep")
    later = [run.from_step(1, lambda at: None, name=f"later {number}") for number in range(3)]
    for each in (*branches, deep, *later):
        assert each._gate.until_over(LONG)
    head = spec(deep).head
    assert [one["name"] for one in head["runs"]] == [run.name, "branch 0", "later 0", "later 1", "later 2", "deep"]
    assert head["note"] == "The newest 4 of 14 runs are in the rail; `run.tree()` and `run.find(name)` give all."
    assert run.find("branch 5") is branches[5] and len(list(run.tree())) == 14
    monkeypatch.setattr(spec_of_control, "_MOST_RUNS", 14)
    assert len(spec(deep).head["runs"]) == 14 and not spec(deep).head["note"]
    run.stop()


def test_the_views_of_the_trace_are_below_the_buttons_and_grow(page):
    page.view.run.step(2)
    assert wait_until(lambda: len(page.view.view.spec.head["parts"]) == 2)
    parts = page.view.view.spec.head["parts"]
    assert [part["kind"] for part in parts] == ["control", "states"]
    page.view.run.resume()
    assert wait_until(lambda: not page.view.view.spec.live)


def test_two_displays_of_one_run_agree(page):
    other = Page(page.view.run)
    other.ask(do="step", steps=2)
    for each in (page, other):
        assert wait_until(lambda each=each: (each.state().get("at") or {}).get("step") == 2)


def test_the_end_is_in_the_view_when_the_cell_is_done():
    run = rf.run(sums(), name="decay")
    view = RunView(run)
    assert run.result is not None
    view.settle()
    assert not view.view.spec.live and "Done after 7 steps." in view.view.text()


def test_a_run_without_recording_shows_its_buttons_alone():
    run = rf.run(sums(), record=False, paused=True)
    run.wait(LONG)
    assert rf.show(run).kind == "control"
    recorded = rf.run(sums(), paused=True)
    recorded.wait(LONG)
    assert rf.viz.control(recorded).kind == "control" and RunView(recorded).view.kind == "group"


# -- what was expected ------------------------------------------------------------------------------------------------------
def test_what_was_expected_is_asked_of_the_view_and_its_way_is_in_the_tree():
    model = Markov()  # 0.38 * 0.97 beats all that begins with a, which is better at first
    table = [[0.01, 0.6, 0.38, 0.01], [0.3, 0.3, 0.2, 0.2], [0.97, 0.01, 0.01, 0.01], [0.25, 0.25, 0.25, 0.25]]
    model.table = np.log(np.asarray(table, np.float32))[None, None].repeat(10, 1)
    run = rf.run(lambda: model.search(1)[1], record=True, name="markov")
    assert run.wait(LONG)
    expected, wanted = "b", (2, 0)
    why = rf.why_not(run, expected)
    view, answers = RunView(run), []

    def ask(do, **fields):
        view._hear({"rfnb": "do", "id": "page 1", "do": do, **fields}, answers.append)
        return answers[-1]["said"]

    def state():
        return view._state().head["why"]

    assert state() is None and ask("repair", number=0) == "There is no answer yet."
    assert ask("why", expected=expected) is None
    wait_until(lambda: state()["text"])
    assert state()["text"] == why.text and [each[0] for each in state()["repairs"]] == [
        each.words for each in why.repairs
    ]
    tree = next(part["head"] for part in view._spec().head["parts"] if part["kind"] == "beams")
    reference = tree["seqs"][0]["reference"]
    assert reference["labels"] == list(why.expected) and reference.get("fell") == why.fell
    assert view._spec().head["parts"][0]["head"]["vocab"] == model.vocab.vocab
    number = next(index for index, each in enumerate(why.repairs) if each.tried)
    assert ask("repair", number=number) is None
    (branch,) = run.branches
    assert branch.wait(LONG) and branch.trace.beams["search"].best(0).tokens == wanted
    assert "no repair 99" in ask("repair", number=99)
    assert ask("why", expected="q q") is None
    wait_until(lambda: state()["text"])
    assert state()["wrong"] and "no such label" in state()["text"] and state()["repairs"] == []
    assert ask("why", expected=5).startswith("The expected output is a text")
    assert ask("why", expected="") is None and state() is None
