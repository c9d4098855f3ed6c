"""Packing the sequences of a nested state that go on, and putting them back."""

import pytest
from asserting import assert_same, ragged, raises_message, tensor

import rfnb as rf
from rfnb import Dim

batch = Dim(3, name="batch")
mask = tensor([True, False, True], batch)
keys = ragged([1, 3, 2], batch, "keys")
h = tensor([1.0, 2.0, 3.0], batch)
cache = tensor([[1.0, -9.0, -9.0], [2.0, 3.0, 4.0], [5.0, 6.0, -9.0]], batch, keys)
state = {"h": h, "cache": cache, "axis": keys, "other": [None, tensor([7.0], Dim(1, name="one"))]}


def selected():
    return rf.masked_select_nested(state, mask=mask, dims=[batch])


def test_select_packs_tensors_and_lengths():
    packed, dim, dim_map = selected()
    assert dim.extent == 2 and dim_map == {keys: packed["axis"]}
    assert packed["axis"].lengths.tolist() == [1, 2] and packed["axis"].length_dims == (dim,)
    assert_same(packed["h"], tensor([1.0, 3.0], dim))
    assert_same(packed["cache"], tensor([[1.0, 0.0], [5.0, 6.0]], dim, packed["axis"]))
    assert packed["other"] == state["other"]


def test_scatter_undoes_select():
    packed, dim, dim_map = selected()
    back = rf.masked_scatter_nested(
        packed, state, mask=mask, mask_cpu=mask, dims=[batch], in_dim=dim, masked_select_dim_map=dim_map
    )
    assert_same(back["h"], h)
    assert back["axis"] is keys
    assert_same(back["cache"], cache)


def test_scatter_of_a_cache_that_has_grown():
    packed, dim, dim_map = selected()
    longer, axis = rf.cum_concat_step(packed["h"] * 10, prev_accum=packed["cache"], axis=packed["axis"])
    back = rf.masked_scatter_nested(
        {**packed, "cache": longer, "axis": axis},
        state,
        mask=mask,
        dims=[batch],
        in_dim=dim,
        masked_select_dim_map=dim_map,
    )
    assert back["axis"].lengths.tolist() == [2, 3, 3]
    expected = [[1.0, 10.0, 0.0], [2.0, 3.0, 4.0], [5.0, 6.0, 30.0]]
    assert_same(back["cache"], tensor(expected, batch, back["axis"]))


def test_scatter_of_a_counter_counts_for_the_selected_sequences_only():
    """One number for all, as the position in the state of a TransformerDecoder: it moves on where the sequence did."""
    state = {"h": h, "position": tensor(4)}
    packed, dim, dim_map = rf.masked_select_nested(state, mask=mask, dims=[batch])
    packed["position"] = packed["position"] + 1
    back = rf.masked_scatter_nested(
        packed, state, mask=mask, mask_cpu=mask, dims=[batch], in_dim=dim, masked_select_dim_map=dim_map
    )
    assert_same(back["position"], tensor([5, 4, 5], batch))
    packed, dim, _ = rf.masked_select_nested(back, mask=tensor([True, True, False], batch), dims=[batch])
    assert_same(packed["position"], tensor([5, 4], dim))


@pytest.mark.parametrize("with_mask_cpu", [False, True])
def test_scatter_of_branches_with_other_lengths(with_mask_cpu):
    more = ragged([2, 4, 1], batch, "more")
    other = tensor([[-1.0, -2.0, 9.0, 9.0], [-3.0, -4.0, -5.0, -6.0], [-7.0, 9.0, 9.0, 9.0]], batch, more)
    packed, dim, dim_map = rf.masked_select_nested((cache, keys), mask=mask, dims=[batch])
    both = {}
    back, axis = rf.masked_scatter_nested(
        packed,
        (other, more),
        mask=mask,
        mask_cpu=mask if with_mask_cpu else None,
        dims=[batch],
        in_dim=dim,
        masked_select_dim_map=dim_map,
        masked_scatter_dim_map=both,
    )
    assert axis.lengths.tolist() == [1, 4, 2] and axis.length_dims == (batch,)
    assert both[packed[1]] is both[more] is axis
    assert_same(back, tensor([[1.0, 0, 0, 0], [-3.0, -4.0, -5.0, -6.0], [5.0, 6.0, 0, 0]], batch, axis))


ERRORS = {
    "another structure": (
        lambda: rf.masked_scatter_nested(
            {"a": h}, {"b": h}, mask=mask, dims=[batch], in_dim=batch, masked_select_dim_map={}
        ),
        ValueError,
        """
        masked_scatter_nested: the structures differ.
          s       a
          backup  b
        Each packed Tensor needs the one before at the same place.
        """,
    )
}


@pytest.mark.parametrize(("call", "error", "text"), ERRORS.values(), ids=ERRORS)
def test_error(call, error, text):
    with raises_message(error, text):
        call()
