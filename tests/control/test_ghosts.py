"""Ghosts say what a plain search in raw torch comes to with the same label forced, and leave nothing behind."""

from __future__ import annotations

import gc
import random
import threading
import weakref

import numpy as np
import pytest
from control.plain_search import Decision, plain_search
from plain_g2p import END, PlainG2P
from waiting import LONG, wait_until

import rfnb as rf
from rfnb.control.commands import obey
from rfnb.control.ghosts import Ghost, forced_in, plain_end, verdict
from rfnb.models import load_g2p, pronounce
from rfnb.models.g2p_checkpoint import SHIPPED
from rfnb.trace.run_tree import Outcome
from rfnb.viz.control.ghost_rows import rows_of
from rfnb.viz.control.run_view import Ghosts

WORDS = ["parachute", "phonetics", "knight", "chaos", "colonel", "queue", "rhythm", "lieutenant", "yacht", "choir"]
BEAM, MOST = 4, 28


@pytest.fixture(scope="module")
def model():
    return load_g2p()


@pytest.fixture(scope="module")
def plain(one_thread):
    return PlainG2P.load(SHIPPED)


def held(model, word="parachute", steps=3, beam_size=BEAM):
    run = rf.run(pronounce, model, word, beam_size=beam_size, paused=True, record={"model": model}, name=word)
    run.step(steps)
    return run


def force(label, *, hypothesis=0, only=True, seq=0):
    return {"do": "force", "label": label, "hypothesis": hypothesis, "seq": seq, "only": only}


def told(run, step, then, name, **more):
    ghost = Ghost(run, step, "search", 0, then, name, **more)
    assert wait_until(lambda: ghost.is_over)
    return ghost.told()


def counting(steps, name):
    """A loop that counts its steps."""
    batch, axis = rf.Dim(1, name="batch"), rf.Dim(steps, name="steps")

    def count():
        loop = rf.Loop(axis=axis, name=name)
        loop.state.h = rf.zeros([batch])
        for _ in loop:
            loop.state.h = loop.state.h + 1.0
        return loop.state.h

    return count


def test_the_ghost_of_the_review_says_what_the_model_has_to_say(model):
    run = held(model)
    said = told(run, 1, [force("EY")], "EY at 1")
    assert said["words"] == "With EY at 1: P EY R AH SH UW T, −6.72, 4.95 nats worse."
    assert said["lane"]["labels"] == ["EY", "R", "AH", "SH", "UW", "T", "<end>"]
    assert (said["lane"]["row"], said["lane"]["parent"], said["lane"]["ended"]) == (1, 0, True)
    assert said["lane"]["scores"][-1] == pytest.approx(said["score"]) == pytest.approx(-6.7185, abs=1e-4)
    assert said["edits"] == "=s====="  # from P EH R AH SH UW T
    assert run.branches == [] and run.changes == () and run.state == "paused"
    run.stop()


def test_where_the_beam_decides_it_is_said_where_the_label_falls_out(model):
    run = held(model)
    said = told(run, 1, [force("EY", only=False)], "EY at 1")
    assert said["same"] and said["lane"]["labels"] == ["EY", "R"]
    step, behind = said["lane"]["fell"]
    assert said["words"] == (
        "With EY at 1: P EH R AH SH UW T, −1.77, no change. "
        f"EY was pruned at step {step}, {behind:.2f} nats behind the last hypothesis kept."
    )
    branch = run.from_step(1, lambda at: at.force("EY"))
    branch.wait(LONG)
    history = branch.trace.beams["search"]

    def begins(slot, row):
        return history.labels_along(0, slot, step=row)[:2] == ["P", "EY"]

    assert any(begins(slot, step - 1) for slot in range(BEAM)) and not any(begins(slot, step) for slot in range(BEAM))
    margins = [item.margin for item in history.verdicts(0, step) if begins(item.parent, step - 1)]
    assert behind == pytest.approx(-max(margins), abs=1e-4)
    run.stop()


def drawn(number, model):
    """A word, a run of it that is held, its search, and one of the candidates that were cut in a step, each drawn by a number."""
    draw = random.Random(number)
    word, seen = draw.choice(WORDS), draw.randint(2, 4)
    run = held(model, word, seen)
    history, step = run.trace.beams["search"], draw.randrange(1, seen)
    cut = draw.choice([item for item in history.verdicts(0, step) if item.verdict == "cut by rank"])
    return word, run, history, step, cut


@pytest.mark.parametrize("number", range(20))
def test_a_ghost_is_a_plain_search_with_the_same_constraint(number, model, plain):
    word, run, history, step, cut = drawn(number, model)
    said = told(run, step, [force(cut.token, hypothesis=cut.parent)], f"{cut.label} at {step}")
    decision = Decision("force", cut.token, cut.parent, only=True)
    beam = plain_search(word, BEAM, most=MOST, decisions={step: [decision]}, plain=plain)
    best, free = (
        max(hyps, key=lambda hyp: hyp.score) for hyps in (beam, plain_search(word, BEAM, most=MOST, plain=plain))
    )
    assert said["labels"] == [history.label(token) for token in best.labels if token != END]
    assert said["score"] == pytest.approx(best.score, abs=1e-4)
    assert said["difference"] == pytest.approx(best.score - free.score, abs=2e-4)
    assert said["lane"]["scores"][0] == pytest.approx(cut.score, abs=1e-4)
    run.stop()


@pytest.mark.parametrize("number", range(4))
def test_a_ghost_looks_where_a_plain_search_with_its_constraint_looks(number, model, plain):
    word, run, history, step, cut = drawn(number, model)
    only = number % 2 == 0
    then = [force(cut.token, hypothesis=cut.parent, only=only)]
    ghost = Ghost(run, step, "search", 0, then, "x", rows=True)
    assert wait_until(lambda: ghost.is_over)
    lane, [shown] = ghost.told()["lane"], rows_of(ghost)
    assert (shown["path"], shown["fixed"]) == ("decoder.att", {})
    before = history.labels_along(0, cut.parent, step=step - 1) if lane["parent"] == cut.parent else None
    if before is None:  # the beam has another best one
        before = history.labels_along(0, lane["parent"], step=step - 1)
    labels = [label for label in [*before, *lane["labels"]] if label != "<end>"]
    wanted = plain.saying(word, labels).weights[step : step + len(lane["labels"])]
    np.testing.assert_allclose(shown["rows"], wanted, atol=1e-4)
    assert len(shown["rows"]) == len(lane["labels"])
    assert rows_of(Ghost(run, step, "search", 0, then, "x")) == []  # of a drag nobody shows them
    run.stop()


def test_too_many_weights_for_a_pointer_that_rests_are_left_out(model, monkeypatch):
    run = held(model)
    ghost = Ghost(run, 1, "search", 0, [force("EY")], "EY at 1", rows=True)
    assert wait_until(lambda: ghost.is_over) and len(rows_of(ghost)[0]["rows"]) == 7
    monkeypatch.setitem(rows_of.__globals__, "_MOST", 7 * len("parachute") - 1)
    assert rows_of(ghost) == []
    run.stop()


@pytest.mark.parametrize("number", range(6))
def test_the_ghost_of_a_gate_is_a_plain_search_with_that_gate(number, model, plain):
    draw = random.Random(number)
    word, seen = draw.choice(WORDS), draw.randint(2, 4)
    run = held(model, word, seen)
    gate = draw.choice(["input_gate", "forget_gate", "cell_input", "output_gate"])
    step, value, unit = draw.randrange(seen), draw.choice([0.0, 1.0]), draw.choice([None, draw.randrange(256)])
    entries = {"batch": 0} | ({"beam": 0} if step else {}) | ({} if unit is None else {"decoder": unit})
    then = [{"do": "put", "place": f"decoder.lstm.{gate}", "entries": entries, "value": value}]
    said = told(run, step, then, f"{gate} = {value} at {step}")

    def put(gates):
        gates[gate][0, slice(None) if unit is None else unit] = value

    beam = plain_search(word, BEAM, most=MOST, gates={step: put}, plain=plain)
    best, free = (
        max(hyps, key=lambda hyp: hyp.score) for hyps in (beam, plain_search(word, BEAM, most=MOST, plain=plain))
    )
    assert said["labels"] == [plain.labels[token] for token in best.labels if token != END]
    assert said["score"] == pytest.approx(best.score, abs=1e-4)
    assert said["difference"] == pytest.approx(best.score - free.score, abs=2e-4)
    if unit is None:
        assert abs(said["difference"]) > 1e-3  # so much at once is felt
    run.stop()


def test_what_cannot_be_done_is_a_sentence_and_leaves_nothing(model):
    run, before = held(model), threading.active_count()
    for then, words in (([force("XX")], "force: no label 'XX'."), ([force(99)], "force: no label 99.")):
        said = told(run, 1, then, "XX at 1")
        assert said["refused"].startswith(words) and said["lane"] is None and "words" not in said
    with pytest.raises(ValueError, match="no command"):
        Ghost(run, 1, "search", 0, [{"do": "dance"}], "dance")
    with pytest.raises(IndexError, match="no step 20"):
        Ghost(run, 20, "search", 0, [force("EY")], "EY at 20")
    assert wait_until(lambda: threading.active_count() <= before)
    run.stop()


def test_of_a_model_that_has_changed_since_nothing_is_told_and_nothing_is_made():
    model = load_g2p()
    run, weight = held(model), model.decoder.lstm.bias
    weight.assign(weight + 0.5)
    said = told(run, 1, [force("EY")], "EY at 1")
    assert said["refused"].startswith(
        "The effect of EY at 1 is unknown: its steps differ from those of its parent run: "
    )
    assert 'changed since: parameter "model.decoder.lstm.bias"' in said["refused"] and said["lane"] is None
    answers = []
    asked = {"do": "edit", "path": "search", "nth": 0, "step": 1, "then": [force("EY")], "name": "EY at 1"}
    branch = obey(run, asked, answers.append)
    assert branch._gate.until_over(LONG) and wait_until(lambda: answers)
    assert answers[0].startswith("EY at 1: its steps up to step 1 differ from those of parachute: state ")
    assert run.branches == [] and run.state == "paused"
    run.stop()


def test_a_label_that_cannot_come_is_a_sentence_and_no_ghost_waits_for_a_person():
    batch, before = rf.Dim(1, name="batch"), rf.Dim(3, name="before")
    labels = rf.Dim(3, name="labels", vocab=["#", "a", "b"])
    with np.errstate(divide="ignore"):
        scores = np.log(np.array([[0.1, 0.9, 0.0]] * 3, "float32"))
    table = rf.convert_to_tensor(scores, dims=[before, labels])

    def search():
        return rf.beam_search(
            lambda label, state: (rf.gather(table, indices=rf.set_sparse_dim(label, before), axis=before), state),
            batch=batch,
            max_seq_len=3,
            beam_size=2,
            end_label=0,
            axis=labels,
        )

    run = rf.run(search, paused=True, name="search")
    run.step(2)
    said = told(run, 1, [force("b")], "b at 1")
    assert said["refused"].startswith("The effect of b at 1 is unknown: ") and "b" in said["refused"]
    assert said["lane"] is None and run.branches == []
    run.stop()


def test_a_ghost_is_told_from_its_own_step_on_and_makes_no_message_that_nobody_reads(model, monkeypatch):
    run, asked, seen = held(model, steps=4), [], []
    monkeypatch.setattr("rfnb.core.errors.no_attribute", lambda value, name: asked.append(name) or AttributeError(name))
    ghost = Ghost(run, 3, "search", 0, [], "the same")
    ghost.on_change(lambda: seen.append(ghost.is_over or ghost.told()["lane"] is not None))
    assert wait_until(lambda: ghost.is_over)
    run.stop()
    assert asked == [] and seen.count(False) <= 1  # that it has begun to run


def test_a_search_that_ends_while_it_is_read_is_not_told_as_if_it_had_ended_there(model, monkeypatch):
    begun, read = threading.Event(), threading.Event()

    def tell(ghost):
        if not begun.is_set() and ghost.lane()[1] is not None:
            begun.set()
            read.wait(LONG)

    monkeypatch.setattr(Ghost, "_tell", tell)
    run = held(model)
    ghost = Ghost(run, 1, "search", 0, [force("EY")], "EY at 1")
    lane = ghost.lane
    assert begun.wait(LONG)

    def ends_meanwhile():
        found = lane()
        read.set()
        assert wait_until(lambda: ghost.is_over)
        return found

    monkeypatch.setattr(ghost, "lane", ends_meanwhile)
    assert not read.is_set()
    first = ghost.told()
    assert not first["over"] and "words" not in first and len(first["lane"]["labels"]) < 7
    assert ghost.told()["words"].startswith("With EY at 1: P EY R AH SH UW T, −6.72, ")
    run.stop()


def test_a_ghost_that_nobody_looks_at_any_more_ends(model):
    run = rf.run(counting(1_000_000, "endless"), paused=True)
    run.step(3)
    ghost = Ghost(run, 1, "endless", 0, [{"do": "set", "state": "h", "value": 5.0}], "h = 5")
    assert ghost.run.state == "running" and not ghost.is_over
    ghost.stop()
    assert ghost.run._gate.until_over(LONG) and ghost.run.state == "stopped"
    run.stop()


def test_a_function_that_leaves_something_behind_is_not_run_again_unasked():
    layer, batch = rf.Linear(rf.Dim(2, name="feat"), rf.Dim(3, name="out")), rf.Dim(1, name="batch")
    steps = rf.Dim(3, name="steps")

    def training():
        loop = rf.Loop(axis=steps, name="training")
        loop.state.h = rf.zeros([batch])
        for _ in loop:
            layer.weight.assign(layer.weight + 1.0)
            loop.state.h = loop.state.h + 1.0
        return loop.state.h

    run = rf.run(training)
    run.result
    with pytest.raises(RuntimeError, match="a rerun would repeat its side effect on parameter") as error:
        Ghost(run, 1, "training", 0, [{"do": "set", "state": "h", "value": 5.0}], "h = 5")
    assert "run.from_step(2)" in str(error.value)


def test_a_change_of_a_state_is_told_by_the_result_of_the_function():
    batch, steps = rf.Dim(1, name="batch"), rf.Dim(4, name="steps")

    def sums():
        loop = rf.Loop(axis=steps, name="sums")
        loop.state.h = rf.zeros([batch])
        for _ in loop:
            loop.state.h = loop.state.h + 1.0
        return "".join("ab"[int(value > 4)] for value in loop.state.h.numpy())

    run = rf.run(sums, paused=True)
    run.step(2)
    ghost = Ghost(run, 1, "sums", 0, [{"do": "set", "state": "h", "value": 5.0}], "h = 5 at 1")
    assert wait_until(lambda: ghost.is_over)
    assert ghost.told()["words"] == "With h = 5 at 1: b." and ghost.told()["lane"] is None
    ghost = Ghost(run, 1, "sums", 0, [{"do": "set", "state": "h", "value": 1.0}], "h = 1 at 1")
    assert wait_until(lambda: ghost.is_over)
    assert ghost.told()["words"] == "With h = 1 at 1: a, no change."
    run.stop()


def test_a_run_that_is_over_is_not_kept_for_its_ghosts():
    run = rf.run(counting(4, "sums"))
    run.wait(LONG)
    ghost = Ghost(run, 1, "sums", 0, [{"do": "set", "state": "h", "value": 5.0}], "h = 5")
    assert wait_until(lambda: ghost.is_over) and ghost.told()["words"]
    gone = weakref.ref(run)
    ghost = run = None
    assert wait_until(lambda: gc.collect() >= 0 and gone() is None)


def test_one_who_waits_for_the_plain_end_is_told_once():
    told = []
    run = rf.run(counting(1_000_000, "sums"), paused=True)
    run.step(2)
    base, tell = plain_end(run), lambda: told.append(1)
    for _ in range(3):
        base.on_change(tell)
    base.run._gate.stop()
    assert base.run._gate.until_over(LONG)
    assert wait_until(lambda: told) and base.run._gate._told.count(tell) == 1
    run.stop()


@pytest.mark.parametrize(
    ("scores", "words"),
    [
        ((-2.0, -1.5), "With x: b, −1.50, 0.50 nats better."),
        ((-2.0, -2.001), "With x: b, −2.00, as likely."),
        ((-2.0, -4.0), "With x: b, −4.00, 2.00 nats worse."),
        ((None, None), "With x: b."),
    ],
)
def test_the_verdict_says_result_and_cost(scores, words):
    plain, changed = (Outcome("", ((label,),), (score,)) for label, score in zip("ab", scores))
    assert verdict("x", plain, changed)["words"] == words


def test_a_label_that_is_forced_alone_cannot_fall_out():
    assert forced_in([force("EY", only=False)]) == "EY"
    assert forced_in([force("EY")]) is None
    assert forced_in([force("EY", only=False), force("R", only=False)]) is None


def test_ghosts_in_turn_run_one_after_another_and_only_their_ends_are_told(model, monkeypatch):
    run = held(model)
    heard, answers, together = [], [], []

    def say(message):
        together.append(len(ghosts._there))
        heard.append(message)

    ghosts = Ghosts(say)

    def ask(number, label):
        fields = {
            "path": "search",
            "nth": 0,
            "step": 1,
            "then": [{"do": "ban", "label": label}],
            "name": f"no {label} at 1",
        }
        ghosts.hear(run, number, {"do": "ghost", **fields, "in_turn": True}, answers.append)

    labels = ["OY", "ZH", "no such label", "AW", "UH", "EY"]
    for number, label in enumerate(labels):
        ask(number, label)
    ghosts.hear(run, 9, {"do": "unghost", "of": 4}, answers.append)
    assert answers == [None] * 7
    assert wait_until(lambda: len(heard) == 5)
    assert [(message["of"], message["over"]) for message in heard] == [(number, True) for number in (0, 1, 2, 3, 5)]
    assert "no such label" in heard[2]["refused"] and set(together) <= {0, 1}
    assert heard[-1]["words"].startswith("With no EY at 1: ")
    ask(10, "OY")  # and whose turn it is, is nobody's after the last
    assert wait_until(lambda: len(heard) == 6)
    assert heard[-1]["of"] == 10 and ghosts._there == {}
    # What cannot be told is said, and holds up nothing.
    with monkeypatch.context() as broken:
        broken.setattr(Ghost, "told", lambda self: 1 / 0)
        ask(11, "OY")
        assert wait_until(lambda: len(heard) == 7)
    ask(12, "OY")
    assert wait_until(lambda: len(heard) == 8)
    assert [(message["of"], message["over"], message["refused"]) for message in heard[6:]] == [
        (11, True, "ZeroDivisionError: division by zero"), (12, True, None)]  # fmt: skip
    run.stop()
