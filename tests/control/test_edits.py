"""States are edited at a pause, by names of dims; an edit that does not fit changes nothing."""

import numpy as np
import pytest
import torch
from asserting import randn
from control.held_models import BATCH, FEAT, TIME, sums
from control.plain_search import assert_found, plain_search, searching
from hypothesis import given, settings
from hypothesis import strategies as st

import rfnb as rf
from rfnb import Dim
from rfnb.data.g2p import LABELS as LABELS_OF

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
        'A state is addressed by its path, or by a unique end of it.\n    run.at.states["lstm.h"]'
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
    "a dim that it lacks": ("h", {"time": 0}, 0.0, 'state "lstm.h": no dim time.', rf.DimError),
    "an index out of range": ("h", {"batch": 3}, 0.0, 'state "lstm.h": index out of range.', IndexError),
    "a number of an axis": ("h", 0, 0.0, 'state "lstm.h": entries without dims.', TypeError),
    "too many values": ("h", {"batch": 0}, [1.0, 2.0], 'state "lstm.h": the values do not fit.', rf.ShapeError),
    "text": ("h", {"batch": 0}, "zero", 'state "lstm.h": the values have the wrong dtype.', TypeError),
    "a fraction of a label": ("label", {"batch": 0}, 0.5, 'state "label": the values have the wrong dtype.', TypeError),
    "a label that there is not": ("label", {"batch": 0}, 4, 'state "label": label out of range.', IndexError),
    "a number for a flag": ("flag", {"batch": 0}, 1, 'state "flag": the values have the wrong dtype.', TypeError),
    "another dtype": ("h", ..., rf.zeros([BATCH], dtype="int32"), 'state "lstm.h": the value has the wrong dims or dtype.', rf.DimError),
    "a dim more": ("h", ..., rf.zeros([BATCH, TIME]), 'state "lstm.h": the value has the wrong dims or dtype.', rf.DimError),
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
        "run: it has continued from here.\n"
        '  position  <before step 2 of "decoder", which the run has left>\n'
        "A position can be read and changed while the run is paused there.\n    branch = run.from_step(2)"
    )
    with pytest.raises(RuntimeError, match="it has continued from here"):
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
        f"{run.name}: it is not paused at a step.\n  state  done\n"
        "The values of a run can be read and changed only while it is paused.\n    branch = run.from_step(6)"
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


# -- computed from what is there -------------------------------------------------------------------------------------------


def test_a_state_is_scaled_in_some_entries(run):
    run.at.states["h"][...] = np.arange(15.0).reshape(3, 5)
    run.at.states["h"].scale(-0.5, {"batch": 1, "feat": [0, 3]})
    expected = np.arange(15.0).reshape(3, 5)
    expected[1, [0, 3]] *= -0.5
    np.testing.assert_array_equal(run.at.states["h"].numpy(), expected)
    assert run.changes[-1].words == "state lstm.h (batch 1, feat 0, 3) times -0.5"


def test_noise_is_the_same_for_a_seed_in_each_branch_and_moves_no_generator(run):
    before, state = run.at.states["h"].numpy().astype(np.float64), rf.get_random_state()
    run.at.states["h"].add_noise(0.25, {"batch": [0, 2]}, seed=7)
    expected = before.copy()
    expected[[0, 2]] += 0.25 * np.random.default_rng(7).standard_normal((2, 5))
    np.testing.assert_array_equal(run.at.states["h"].numpy(), expected.astype(np.float32))
    assert rf.get_random_state() == state
    noisy = run.at.states["h"].numpy().copy()
    run.step()
    branch = run.from_step(3)
    branch.wait()
    assert branch.drifted is None
    np.testing.assert_array_equal(branch.at.states["h"].numpy(), run.at.states["h"].numpy())
    np.testing.assert_array_equal(branch.at.states["h"].numpy()[1:2], noisy[1:2] + 1)


def test_what_is_chosen_from_several_dims_is_all_that_lies_where_they_cross(run):
    run.at.states["h"][{"batch": [0, 2], "feat": [4, 1]}] = [[1.0, 2.0], [3.0, 4.0]]
    np.testing.assert_array_equal(run.at.states["h"].numpy()[:, [1, 4]], [[2, 1], [2, 2], [4, 3]])
    np.testing.assert_array_equal(run.at.states["h"][{"feat": [4, 1], "batch": 2}], [3, 4])


def test_a_state_is_pasted_from_another_sequence_and_another_step(run):
    h = run.at.states["h"]
    h[...] = np.arange(15.0).reshape(3, 5)
    kept = run.at.states["h"]
    run.step()
    run.at.states["h"].paste(of={"batch": 2}, to={"batch": 0})
    run.at.states["h"].paste(kept, of={"batch": 1, "feat": slice(0, 2)}, to={"batch": 1, "feat": slice(3, 5)})
    expected = np.arange(15.0).reshape(3, 5) + [[1], [1], [0]]  # the third sequence has ended
    expected[0] = expected[2]
    expected[1, 3:] = [5, 6]
    np.testing.assert_array_equal(run.at.states["h"].numpy(), expected)
    run.at.states["c"].paste(run.at.states["h"])  # its dims are in another order
    np.testing.assert_array_equal(run.at.states["c"].numpy(), expected.T)
    assert [change.words for change in run.changes][1:] == [
        "state lstm.h (batch 0) set to state lstm.h (batch 2)",
        "state lstm.h (batch 1, feat from 3 to before 5) set to state lstm.h (batch 1, feat from 0 to before 2) as it was",
        "state lstm.c set to state lstm.h as it was",
    ]


def test_a_state_of_an_earlier_step_is_pasted_as_it_was_and_branches_repeat_it():
    words = ["thesis", "beta"]
    run = rf.run(searching(words, 3), paused=True)
    run.wait()
    run.step(4)
    for name in "hc":
        run.at.states[name].paste(run.look(0)[name], of={"batch": 0}, to={"batch": 0, "hypothesis": 1})
        run.at.states[name].paste(run.look(2)[name], of={"batch": 1, "hypothesis": 0}, to={"batch": 0, "hypothesis": 2})
    run.step()
    branch = run.from_step(5)
    run.resume()
    kept = {}

    def keep(step, seq):
        return lambda beam: kept.update({(seq, step): [(hyp.h, hyp.c) for hyp in beam]})

    def paste(beam):
        (beam[1].h, beam[1].c), (beam[2].h, beam[2].c) = kept[0, 0][0], kept[1, 2][0]

    plain_search("beta", 3, most=22, states={2: keep(2, 1)})
    expected = plain_search("thesis", 3, most=22, states={0: keep(0, 0), 4: paste})
    assert_found(run.result, 0, expected)
    branch.wait()
    assert branch.drifted is None
    branch.resume()
    assert_found(branch.result, 0, expected)


def test_a_hypothesis_is_pasted_onto_another():
    words = ["thesis"]
    run = rf.run(searching(words, 3), paused=True)
    run.wait()
    run.step(3)
    for name in "hc":
        run.at.states[name].paste(of={"hypothesis": 0}, to={"hypothesis": 2})
    run.resume()

    def paste(beam):
        beam[2].h, beam[2].c = beam[0].h, beam[0].c

    assert_found(run.result, 0, plain_search("thesis", 3, most=22, states={3: paste}))


@settings(max_examples=15, deadline=None)
@given(
    edits=st.dictionaries(
        st.integers(0, 4),
        st.tuples(
            st.sampled_from(["zero", "scale", "noise", "unit"]), st.sampled_from("hc"), st.integers(0, 1), st.integers(0, 2)
        ),
        max_size=3,
    )
)  # fmt: skip
def test_the_search_of_a_whole_model_goes_on_from_the_changed_states(edits):
    words = ["thesis", "beta"]
    run = rf.run(searching(words, 3), paused=True)
    done = [{}, {}]

    def plainly(how, name, hypothesis):
        def change(beam):
            one = beam[hypothesis]
            value = getattr(one, name).clone()
            if how == "zero":
                value[:] = 0
            elif how == "unit":
                value[4] = 2.5
            elif how == "scale":
                value *= -3
            else:
                value += torch.from_numpy(0.5 * np.random.default_rng(1).standard_normal(value.shape)).float()
            setattr(one, name, value)

        return change

    for step, (how, name, seq, hypothesis) in sorted(edits.items()):
        run.wait()
        if run.state == "paused" and step > run.at.step:
            run.step(step - run.at.step)
        if run.state != "paused":
            break
        hypothesis = hypothesis if step else 0
        entries = {"batch": seq, **({"hypothesis": hypothesis} if step else {})}
        state = run.at.states[name]
        if how == "scale":
            state.scale(-3, entries)
        elif how == "noise":
            state.add_noise(0.5, entries, seed=1)
        else:
            state[entries if how == "zero" else {**entries, "decoder": 4}] = 0.0 if how == "zero" else 2.5
        done[seq][step] = plainly(how, name, hypothesis)
    run.pause()
    if run.state == "paused":
        run.resume()
    for seq, word in enumerate(words):
        assert_found(run.result, seq, plain_search(word, 3, most=22, states=done[seq]))


def test_labels_are_set_by_their_text():
    run = rf.run(searching(["thesis", "beta"], 3), paused=True)
    run.wait()
    run.step(2)
    run.at.states["label"][{"batch": 1, "hypothesis": [0, 2]}] = ["AH", "B"]
    assert run.at.states["label"][{"batch": 1}][[0, 2]].tolist() == [LABELS_OF.index("AH"), LABELS_OF.index("B")]
    with pytest.raises(IndexError) as error:
        run.at.states["label"][{"batch": 1}] = "XX"
    assert str(error.value) == (
        f"state \"label\": no label 'XX'.\n  labels  label={len(LABELS_OF)}\n"
        f"  texts   {len(LABELS_OF)} labels, as {', '.join(map(repr, LABELS_OF[:6]))}\n"
        "A label is given by its text, if it is the only one with it, or by its index."
    )
    run.stop()


REFUSED = {
    "a factor that is none": (
        lambda h: h.scale(float("inf")), TypeError,
        'state "lstm.h": invalid factor inf.\n  factor  inf\nA factor is a finite number.',
    ),
    "a deviation below 0": (
        lambda h: h.add_noise(-1.0), ValueError,
        'state "lstm.h": invalid standard deviation -1.0.\n  std  -1.0\nA standard deviation is a number of at least 0.',
    ),
    "another size": (
        lambda h: h.paste(of={"batch": 0, "feat": slice(0, 2)}, to={"batch": 1}), rf.DimError,
        'state "lstm.h": the pasted values do not fit.\n  entries  [feat=5] float32\n  pasted   [feat=2] float32\n'
        "Both need dims of the same names and sizes, and the same dtype. Select an entry of a dim that only one of them has.",
    ),
    "another dtype": (
        lambda h: h.paste(rf.zeros([BATCH, FEAT], dtype="float64")), rf.DimError,
        'state "lstm.h": the pasted values do not fit.\n  entries  [batch=3, feat=5] float32\n  pasted   [batch=3, feat=5] float64\n'
        "Both need dims of the same names and sizes, and the same dtype. Select an entry of a dim that only one of them has.",
    ),
    "an entry of a list": (
        lambda h: h.__setitem__({"feat": [0, 5]}, 0.0), IndexError,
        'state "lstm.h": index out of range.\n  given  feat: 5\n  dim    feat=5\nEntries are 0 to 4.',
    ),
    "half an entry": (
        lambda h: h.__setitem__({"feat": 0.5}, 0.0), IndexError,
        'state "lstm.h": index out of range.\n  given  feat: 0.5\n  dim    feat=5\nEntries are 0 to 4.',
    ),
    "beyond the range": (
        lambda h: h.__setitem__({"feat": 0}, 1e39), ValueError,
        'state "lstm.h": the values exceed the range of its dtype.\n  state   float32\n  values  1e+39 to 1e+39\n'
        "A float32 is -3.4028235e+38 to 3.4028235e+38.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_computed_changes_nothing(run, what):
    change, kind, text = REFUSED[what]
    before = run.at.states["h"].numpy().copy()
    with pytest.raises(kind) as error:
        change(run.at.states["h"])
    assert str(error.value) == text
    np.testing.assert_array_equal(run.at.states["h"].numpy(), before)
    assert run.changes == ()


def test_labels_and_flags_are_not_computed_with(run):
    with pytest.raises(TypeError) as error:
        run.at.states["label"].scale(2)
    assert str(error.value) == (
        'state "label": its values are not numbers to compute with.\n  state  [batch=3] int64\n'
        "Labels, flags and counts can be set, but not scaled or perturbed."
    )


def test_entries_that_are_padding_are_not_set():
    lengths = rf.convert_to_tensor(np.array([3, 1, 2], np.int32), dims=[BATCH])
    inner = Dim(lengths, name="inner")

    def go():
        loop = rf.Loop(axis=TIME, name="ragged")
        loop.state.h = rf.zeros([BATCH, inner])
        for _ in loop:
            pass
        return loop.state.h

    run = rf.run(go, paused=True)
    run.wait()
    with pytest.raises(IndexError) as error:
        run.at.states["h"][{"batch": 1, "inner": 1}] = 1.0
    assert str(error.value) == (
        'state "h": these entries are padding.\n  state  [batch=3, inner<=3]\n'
        "Padding has no effect: a sequence has as many frames as its length."
    )
    run.at.states["h"][{"inner": 1}] = 1.0  # of two sequences
    run.stop()


def test_a_dim_whose_name_another_one_has_is_given_itself():
    one, other = Dim(2, name="same"), Dim(3, name="same")

    def go():
        loop = rf.Loop(axis=TIME, name="twins")
        loop.state.h = rf.zeros([one, other])
        for _ in loop:
            pass
        return loop.state.h

    run = rf.run(go, paused=True)
    run.wait()
    with pytest.raises(rf.DimError, match="ambiguous dim same"):
        run.at.states["h"][{"same": 0}] = 1.0
    run.at.states["h"][{other: 2}] = 1.0
    run.resume()
    assert run.result.numpy().tolist() == [[0, 0, 1], [0, 0, 1]]
