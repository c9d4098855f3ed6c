"""Masks over nested states: Tensors, and the Dims that the states carry."""

import numpy as np
import pytest
from asserting import assert_same, ragged, raises_message, tensor

import rfnb as rf
from rfnb import Dim, DimError, State

batch, feat = Dim(2, name="batch"), Dim(3, name="feat")
first = tensor([True, False], batch)
short, long = ragged([1, 1], batch, "keys"), ragged([2, 3], batch, "keys")
a, b = tensor([[1.0], [2.0]], batch, short), tensor([[3.0, 4.0, -9.0], [5.0, 6.0, 7.0]], batch, long)


def test_a_number_is_put_into_every_tensor():
    state = rf.mask_nested(State(h=tensor([1.0, 2.0], batch), deep=[None, b]), mask=first, mask_value=0)
    assert isinstance(state, State) and state.deep[0] is None
    assert_same(state.h, [1.0, 0.0])
    assert_same(state.deep[1], tensor([[3.0, 4.0, 0.0], [0.0, 0.0, 0.0]], batch, long))


def test_the_dims_of_two_states_are_merged():
    state = rf.where_nested({"keys": b, "axis": long}, {"keys": a, "axis": short}, condition=first)
    assert state["axis"].lengths.tolist() == [2, 1]
    assert_same(state["keys"], tensor([[3.0, 4.0], [2.0, 0.0]], batch, state["axis"]))


def test_merged_dims_are_told_to_the_caller():
    dims = {}
    state = rf.mask_nested([long, b], mask=first, mask_value=[short, a], dim_map=dims)
    assert dims == {long: state[0], short: state[0]}


def test_a_static_cache_that_grew_is_merged_too():
    old, new = Dim(1, name="old"), Dim(2, name="new")
    state = rf.where_nested(
        [new, tensor([[1.0, 2.0], [3.0, 4.0]], batch, new)], [old, tensor([[5.0], [6.0]], batch, old)], condition=first
    )
    assert state[0].lengths.tolist() == [2, 1]
    assert_same(state[1], tensor([[1.0, 2.0], [6.0, 0.0]], batch, state[0]))


def test_picked_hypotheses_bring_their_lengths():
    beam, kept = Dim(2, name="beam"), Dim(2, name="kept")
    keys = ragged([[1, 2], [1, 1]], [batch, beam], "keys")
    x = tensor([[[1.0, -9.0], [2.0, 3.0]], [[4.0, -9.0], [5.0, -9.0]]], batch, beam, keys)
    picked = tensor(np.asarray([[0, 0], [1, 0]], np.int32), batch, kept, sparse_dim=beam)
    state = rf.gather_nested({"keys": x, "axis": keys}, indices=picked)
    assert state["axis"].lengths.tolist() == [[1, 1], [1, 1]] and state["axis"].length_dims == (batch, kept)
    assert_same(state["keys"], tensor([[[1.0], [1.0]], [[5.0], [4.0]]], batch, kept, state["axis"]))


ERRORS = {
    "picking without a sparse_dim": (
        lambda: rf.gather_nested([a], indices=tensor(np.asarray([0, 1], np.int32), batch)),
        DimError,
        """
        gather_nested: which dim?
          indices  [batch=2]
        The indices have no sparse_dim, so say what they index into:
            rf.set_sparse_dim(indices, beam)
        """,
    ),
    "another structure": (
        lambda: rf.mask_nested({"a": a}, mask=first, mask_value={"b": a}),
        ValueError,
        """
        mask_nested: the structures differ.
          s           a
          mask_value  b
        Each Tensor needs the other one at the same place. A number stands for all:
            rf.mask_nested(s, mask=mask, mask_value=0)
        """,
    ),
    "a tensor that would get a dim": (
        lambda: rf.mask_nested([rf.ones([feat])], mask=first, mask_value=0, allow_dim_extension=False),
        DimError,
        """
        mask_nested: a tensor has no dim batch=2.
          tensor  [feat=3]
          mask    [batch=2]
        Masking would give it that dim, and allow_dim_extension is False.
            rf.mask_nested(..., allow_dim_extension=True)
        """,
    ),
}


@pytest.mark.parametrize(("call", "error", "text"), ERRORS.values(), ids=ERRORS)
def test_error(call, error, text):
    with raises_message(error, text):
        call()


def test_the_mask_may_be_on_the_host_already():
    host = tensor(np.asarray([True, False]), batch)
    state = rf.where_nested([long], [short], condition=first, condition_cpu=host)
    assert state[0].lengths.tolist() == [2, 1]
