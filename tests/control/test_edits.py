"""What is changed where a run stands: by names of dims, and what does not fit changes nothing."""

import numpy as np
import pytest
from asserting import randn
from control.held_models import BATCH, FEAT, TIME, sums

import rfnb as rf
from rfnb import Dim

LABELS = Dim(4, name="labels")


def nested():
    """A loop with states in states, of several kinds."""
    loop = rf.Loop(axis=TIME, name="decoder")
    loop.state.lstm = rf.State(h=rf.zeros([BATCH, FEAT]), c=rf.ones([FEAT, BATCH]))
    loop.state.label = rf.zeros([BATCH], dtype="int64", sparse_dim=LABELS)
    loop.state.flag = rf.constant(False, dims=[BATCH], dtype="bool")
    for _ in loop:
        loop.state.lstm = rf.State(h=loop.state.lstm.h + 1.0, c=loop.state.lstm.c)
    return loop.state.lstm.h, loop.state.lstm.c, loop.state.label, loop.state.flag


@pytest.fixture
def run():
    run = rf.run(nested, paused=True)
    run.wait()
    run.step(2)
    yield run
    run.stop()


def test_states_are_found_by_their_path_and_its_end(run):
    states = run.at.states
    assert list(states) == ["lstm.h", "lstm.c", "label", "flag"]
    assert repr(states["h"]) == '<state "lstm.h": [batch=3, feat=5] float32>'
    with pytest.raises(KeyError) as error:
        states["x"]
    assert str(error.value) == (
        'run: no state "x".\n  states  lstm.h, lstm.c, label, flag\n'
        "A state is found by its path, or by an end of it that no other one has."
    )


@pytest.mark.parametrize(
    ("entries", "value", "expected"),
    [
        ({"batch": 0}, 7.0, lambda h: h.__setitem__(0, 7)),
        ({BATCH: 1, "feat": slice(1, 3)}, 7, lambda h: h.__setitem__((1, slice(1, 3)), 7)),
        ({"feat": [0, 4]}, [[5.0, 6.0]] * 3, lambda h: h.__setitem__((slice(None), [0, 4]), [5, 6])),
        ({"batch": -1}, np.arange(5), lambda h: h.__setitem__(2, np.arange(5))),
        (..., float("nan"), lambda h: h.fill(np.nan)),
        ({}, 0.0, lambda h: h.fill(0)),
    ],
)
def test_entries_are_set_by_names(run, entries, value, expected):
    before = run.at.states["h"].numpy().copy()
    run.at.states["h"][entries] = value
    expected(before)
    np.testing.assert_array_equal(run.at.states["h"].numpy(), before)
    np.testing.assert_array_equal(run.at.states["c"].numpy(), np.ones((5, 3)))


def test_a_tensor_goes_by_its_dims_in_whatever_order(run):
    new = randn(FEAT, BATCH)
    run.at.states["h"] = new
    np.testing.assert_array_equal(run.at.states["h"].numpy(), new.numpy().T)
    row = randn(FEAT)
    run.at.states["c"][{"batch": 2}] = row
    np.testing.assert_array_equal(run.at.states["c"][{"batch": 2}], row.numpy())
    np.testing.assert_array_equal(run.at.states["c"][{"batch": 1}], np.ones(5))


def test_another_state_may_be_put_in(run):
    run.at.states["h"] = run.at.states["c"]
    np.testing.assert_array_equal(run.at.states["h"].numpy(), np.ones((3, 5)))


def test_labels_and_flags_are_set_as_such(run):
    run.at.states["label"][{"batch": 1}] = 3
    run.at.states["flag"][{"batch": 2}] = True
    run.resume()
    _, _, label, flag = run.result
    assert label.numpy().tolist() == [0, 3, 0] and label.sparse_dim is LABELS
    assert flag.numpy().tolist() == [False, False, True]


BAD = {
    "a dim that it lacks": ("h", {"time": 0}, 0.0, 'state "lstm.h": no dim time?', rf.DimError),
    "no such entry": ("h", {"batch": 3}, 0.0, 'state "lstm.h": no such entry.', IndexError),
    "a number of an axis": ("h", 0, 0.0, 'state "lstm.h": which entries?', TypeError),
    "too many values": ("h", {"batch": 0}, [1.0, 2.0], 'state "lstm.h": the values do not fit.', rf.ShapeError),
    "text": ("h", {"batch": 0}, "zero", 'state "lstm.h": values of another kind.', TypeError),
    "a fraction of a label": ("label", {"batch": 0}, 0.5, 'state "label": values of another kind.', TypeError),
    "a label that there is not": ("label", {"batch": 0}, 4, 'state "label": no such label.', IndexError),
    "a number for a flag": ("flag", {"batch": 0}, 1, 'state "flag": values of another kind.', TypeError),
    "another dtype": ("h", ..., rf.zeros([BATCH], dtype="int32"), 'state "lstm.h": it keeps its dims and dtype.', rf.DimError),
    "a dim more": ("h", ..., rf.zeros([BATCH, TIME]), 'state "lstm.h": it keeps its dims and dtype.', rf.DimError),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_what_does_not_fit_changes_nothing(run, what):
    name, entries, value, text, kind = BAD[what]
    before = {path: state.numpy().copy() for path, state in run.at.states.items()}
    with pytest.raises(kind) as error:
        run.at.states[name][entries] = value
    assert str(error.value).startswith(text)
    for path, state in run.at.states.items():
        np.testing.assert_array_equal(state.numpy(), before[path])
    run.resume()
    np.testing.assert_array_equal(run.result[0].numpy()[0], np.full(5, 7.0))


def test_an_old_position_says_that_the_run_has_gone_on(run):
    at, state = run.at, run.at.states["h"]
    run.step()
    with pytest.raises(RuntimeError) as error:
        at.states["h"]
    assert str(error.value) == (
        "run: it has gone on from here.\n"
        '  position  <before step 2 of "decoder", from where the run has gone on>\n'
        "A position is looked at and changed while the run stands there.\n    branch = run.from_step(2)"
    )
    with pytest.raises(RuntimeError, match="it has gone on from here"):
        state[...] = 0.0
    assert run.at.states["h"].max() == 3.0


def test_nothing_is_changed_while_it_runs():
    run = rf.run(sums(), paused=True)
    run.wait()
    run.resume()
    _ = run.result
    with pytest.raises(RuntimeError) as error:
        _ = run.at
    assert str(error.value) == (
        f"{run.name}: it stands nowhere.\n  state  done\n"
        "Only where a run is paused its values are looked at and changed.\n    branch = run.from_step(6)"
    )


def test_numbers_of_a_state_leave_padding_out():
    lengths = rf.convert_to_tensor(np.array([3, 1, 2], np.int32), dims=[BATCH])
    inner = Dim(lengths, name="inner")

    def go():
        loop = rf.Loop(axis=TIME, name="ragged")
        loop.state.h = rf.convert_to_tensor(
            np.array([[1, 2, 3], [4, 99, 99], [5, 6, 99]], np.float32), dims=[BATCH, inner]
        )
        for _ in loop:
            pass

    run = rf.run(go, paused=True)
    run.wait()
    h = run.at.states["h"]
    assert (h.max(), h.min(), h.abs_max(), h.mean(), h.is_finite()) == (6.0, 1.0, 6.0, 3.5, True)
    run.stop()
