"""rf.last_hidden_state: parts of final states, of one unit or of several."""

import numpy as np
import pytest
from asserting import raises_message, randn
from recurrent_units import batch, d_in, out

import rfnb as rf
from rfnb import Dim


def lstm_state(dim=out, seed=0):
    c, h = randn(batch, dim, seed=seed), randn(batch, dim, seed=seed + 1)
    c.feature_dim = h.feature_dim = dim
    return rf.State(c=c, h=h)


def test_keys_of_a_state():
    state = lstm_state()
    both = np.concatenate([state.c.numpy(), state.h.numpy()], 1)
    for key in ("*", "flat"):
        got = rf.last_hidden_state(state, key=key, n_out=8)
        np.testing.assert_array_equal(got.numpy(), both)
        assert got.feature_dim is got.dims[-1]
    assert rf.last_hidden_state(state, key="c") is state.c and rf.last_hidden_state(state, key=1) is state.h
    plain = (state.c, state.h)
    assert rf.last_hidden_state(plain, key=0) is state.c
    one = rf.State(s=state.h)
    assert (
        rf.last_hidden_state(one, key=None)
        is rf.last_hidden_state(one)
        is rf.last_hidden_state(one, key="s")
        is state.h
    )
    assert rf.last_hidden_state(state.h, key=None) is state.h
    masked = rf.State({**state, "h_mask": state.h})
    assert rf.last_hidden_state(masked, n_out=8).dims[-1].extent == 8


def test_several_states_are_put_together():
    other = Dim(4, name="other")
    a, b, result = lstm_state(), lstm_state(other, seed=5), Dim(8, name="result")
    got = rf.last_hidden_state([a, b], key="h", out_dim=result)
    np.testing.assert_array_equal(got.numpy(), np.concatenate([a.h.numpy(), b.h.numpy()], 1))
    assert got.feature_dim is result
    summed = rf.last_hidden_state([a, b], key="*", combine="add")
    expected = sum(np.concatenate([state.c.numpy(), state.h.numpy()], 1) for state in (a, b))
    np.testing.assert_allclose(summed.numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("state, key, text", [
    ("one", "flat", 'All parts of a state of several are "flat"; this one has one part.'),
    ("one", 0, "An int is the place of a part in a state of several."),
    ("both", None, "Without key a state has one part; this one has several."),
    ("both", 2, "An int is the place of a part in a state of several."),
])  # fmt: skip
def test_a_key_that_does_not_go_with_the_state(state, key, text):
    states = {"one": rf.State(s=lstm_state().h), "both": lstm_state()}
    rows = {"one": "  s  [batch=3, out=4]", "both": "  c  [batch=3, out=4]\n  h  [batch=3, out=4]"}[state]
    with raises_message(
        ValueError, f'last_hidden_state: key {key!r} does not go with this state.\n{rows}\n{text}\n    key="*"'
    ):
        rf.last_hidden_state(states[state], key=key)


def test_a_part_that_is_not_there():
    with pytest.raises(KeyError) as caught:
        rf.last_hidden_state(lstm_state(), key="s")
    assert caught.value.args[0] == (
        'last_hidden_state: no part "s".\n  c  [batch=3, out=4]\n  h  [batch=3, out=4]\n'
        'A name is that of a part of the state.\n    key="*"'
    )


def test_another_size_of_the_result():
    with raises_message(ValueError, """
        last_hidden_state: another size.
          result  [batch=3, out=4], size 4
          n_out   5
        With key 'c' and combine 'concat' the states give 4 features.
            n_out=4
    """):  # fmt: skip
        rf.last_hidden_state(lstm_state(), key="c", n_out=5)
    with raises_message(ValueError, """
        last_hidden_state: states of different sizes.
          first  [batch=3, out=4]
          other  [batch=3, in=2]
        States that are added have one size.
            combine="concat"
    """):  # fmt: skip
        rf.last_hidden_state([lstm_state(), lstm_state(d_in)], key="c", combine="add")


def test_no_state_another_way_and_no_features():
    with raises_message(ValueError, """
        last_hidden_state: how to combine?
          combine  'mean'
          known    concat, add
        It is one of these.
            combine="concat"
    """):  # fmt: skip
        rf.last_hidden_state(lstm_state(), combine="mean")
    with raises_message(ValueError, """
        last_hidden_state: no state.
          states  none
        There is at least one.
            rf.last_hidden_state(state)
    """):  # fmt: skip
        rf.last_hidden_state([])
    with raises_message(ValueError, """
        last_hidden_state: a state without feature_dim.
          state  [batch=3, out=4]
        The features of the states are combined; name their dim.
            state.h.feature_dim = out_dim
    """):  # fmt: skip
        rf.last_hidden_state(rf.State(c=randn(batch, out), h=randn(batch, out)))
