"""Each change of a run is described in words, whoever made it and however often it is repeated."""

import numpy as np
import pytest
import torch
from asserting import assert_same, randn
from control.attending import decoding
from control.held_models import BATCH, FEAT, TIME, letters, sums

import rfnb as rf


def held(fn, steps=2):
    run = rf.run(fn, paused=True)
    run.wait()
    return run.step(steps)


@pytest.mark.parametrize(
    ("entries", "value", "words"),
    [
        ({"batch": 0}, 0.0, "state h (batch 0) set to 0"),
        ({BATCH: 1, "feat": slice(1, 3)}, 7, "state h (batch 1, feat from 1 to before 3) set to 7"),
        ({"feat": slice(None)}, 1.5, "state h (feat all) set to 1.5"),
        ({"batch": 0, "feat": [0, 4]}, [5.0, 6.5], "state h (batch 0, feat 0, 4) set to 5, 6.5"),
        ({"batch": 0}, np.arange(5), "state h (batch 0) set to an array (5,)"),
        ({"feat": list(range(5))}, 0, "state h (feat 5 of them) set to 0"),
        (..., float("nan"), "state h set to nan"),
        ({}, randn(FEAT), "state h set to a tensor [feat=5]"),
    ],
)
def test_what_a_state_was_set_to_is_said(entries, value, words):
    run = held(sums())
    run.at.states["h"][entries] = value
    run.stop()
    assert run.changes == ((2, "sums", 2, words),)
    assert str(run.changes[0]) == f'step 2 of "sums": {words}'


def test_the_state_that_was_put_in_is_named():
    def two():
        loop = rf.Loop(axis=TIME, name="two")
        loop.state.h, loop.state.c = rf.zeros([BATCH, FEAT]), rf.ones([BATCH, FEAT])
        for _ in loop:
            loop.state.h = loop.state.h + 1.0

    run = held(two)
    run.at.states["h"] = run.at.states["c"]
    run.stop()
    assert [change.words for change in run.changes] == ["state h set to the values of state c"]


def test_labels_are_said_by_their_text():
    run = held(letters)
    run.at.force(2, hypothesis=1, seq=1)
    run.at.force("c", only=True)
    run.at.ban("a")
    run.at.ban(0, hypothesis=2)
    run.resume()
    _ = run.result
    assert [change.words for change in run.changes] == [
        "forced b for hypothesis 1 of sequence 1",
        "forced c for hypothesis 0 of sequence 0, and nothing else",
        "banned a for all hypotheses of sequence 0",
        "banned # for hypothesis 2 of sequence 0",
    ]


def test_a_bad_edit_is_not_said():
    run = held(sums())
    with pytest.raises(rf.ShapeError):
        run.at.states["h"][{"batch": 0}] = [1.0, 2.0]
    run.stop()
    assert run.changes == ()


def test_a_decision_that_could_not_be_done_is_said_so():
    run = rf.run(letters, paused=True)
    run.wait()
    run.at.force("nothing")  # before the first choice the labels are not known
    run.resume()
    run.wait()
    assert [str(change) for change in run.changes] == [
        'step 0 of "search": forced nothing for hypothesis 0 of sequence 0',
        "step 0 of \"search\": failed: force: no label 'nothing'.",
    ]


def test_a_function_of_the_users_own_is_named_with_what_it_did():
    run = rf.run(sums())
    _ = run.result

    def halved(at):
        at.states["h"][...] = at.states["h"].numpy() * 0.5
        at.states["h"][{"batch": 0}] = 1.0

    branch = run.from_step(3, halved)
    _ = branch.result
    assert branch.changes == (
        (3, "sums", 3, "state h set to an array (3, 5) (by halved)"),
        (3, "sums", 3, "state h (batch 0) set to 1 (by halved)"),
    )
    branch = run.from_step(3, lambda at: at.states["h"].__setitem__(..., 0.0))
    _ = branch.result
    assert [change.words for change in branch.changes] == ["state h set to 0"]
    branch = run.from_step(3, lambda at: None)
    _ = branch.result
    assert [change.words for change in branch.changes] == ["your function changed nothing"]


def test_a_branch_has_the_changes_before_it_once():
    run = held(sums())
    run.at.states["h"] = 0.0
    run.step(3)
    run.at.states["h"] = 5.0
    run.resume()
    _ = run.result
    branch = run.from_step(4, lambda at: at.states["h"].__setitem__({"batch": 1}, 2.0))
    _ = branch.result
    said = [(change.step, change.words) for change in branch.changes]
    assert said == [(2, "state h set to 0"), (4, "state h (batch 1) set to 2")]
    again = branch.from_step(6, paused=False)
    assert [(change.step, change.words) for change in again.changes] == said
    np.testing.assert_array_equal(again.result[1].numpy(), branch.result[1].numpy())


def test_what_a_breakpoint_changes_is_repeated_by_branches():
    run = rf.run(sums(), paused=True)

    def clip(at):
        if at.step == 2:
            at.states["h"] = 0.25

    run.break_when(clip)
    run.wait()
    run.resume()
    expected = run.result[1].numpy()
    assert [(change.step, change.words) for change in run.changes] == [(2, "state h set to 0.25")]
    branch = run.from_step(5, paused=False)
    np.testing.assert_array_equal(branch.result[1].numpy(), expected)
    assert branch.drifted is None


@pytest.mark.parametrize("of", [np.array, torch.tensor, list])
def test_a_branch_puts_in_what_was_given_as_it_was_then(of):
    run = held(sums())
    value, places = of([1.0, 2.0]), [0, 3]
    run.at.states["h"][{"batch": 0, "feat": places}] = value
    value[1], places[0] = 7.0, 4
    result = run.resume().result
    branch = run.from_step(3, paused=False)
    assert_same(branch.result[1], result[1])
    assert branch.drifted is None


def test_a_row_is_put_in_in_later_steps_as_it_was_when_it_was_given():
    run = held(decoding())
    row = np.array([0.0, 0.0, 1.0, 0.0])
    run.at.attention["att"].during(None)[...] = row
    row[:] = [1.0, 0.0, 0.0, 0.0]
    run.step(2)
    for weights in run.trace.attention.steps("att")[2:]:
        assert (weights.numpy()[0, 0] == [0, 0, 1, 0, 0, 0]).all()
    run.stop()
