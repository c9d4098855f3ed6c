"""The law of marks: what only moves, picks or repeats values keeps the dim that they index into (sparse_dim), and feature_dim as long as
the result has it."""

import pytest
from asserting import assert_same, ragged, tensor

import rfnb as rf
from rfnb import Dim

batch, feat, vocab = Dim(2, name="batch"), Dim(3, name="feat"), Dim(7, name="vocab")
two, one, other, longer = Dim(2, name="two"), Dim(1, name="one"), Dim(3, name="other"), Dim(4, name="longer")
time = ragged([4, 2], batch)
index = tensor([1, 0], two, sparse_dim=feat)
MASK = tensor([True, False, True], feat)

# Of x {batch, time, feat}; the result has what x has, but for the dims that are gone.
KEEPS = {
    "reduce_max over time": lambda x: rf.reduce_max(x, axis=time),
    "reduce_min over time": lambda x: rf.reduce_min(x, axis=time),
    "reduce_sum over time": lambda x: rf.reduce_sum(x, axis=time),
    "reduce_max over feat": lambda x: rf.reduce_max(x, axis=feat),
    "top_k over time": lambda x: rf.top_k(x, axis=time, k=1)[0],
    "top_k over feat": lambda x: rf.top_k(x, axis=feat, k=1)[0],
    "sort": lambda x: rf.sort(x, axis=feat)[0],
    "gather over batch": lambda x: rf.gather(x, indices=tensor([1, 0], batch), axis=time),
    "gather over feat": lambda x: rf.gather(x, indices=index, axis=feat),
    "slice": lambda x: rf.slice(x, axis=feat, start=1)[0],
    "slice over time": lambda x: rf.slice(x, axis=time, start=1)[0],
    "pad": lambda x: rf.pad(x, axes=[time], padding=[(1, 2)], value=0)[0],
    "shift_right": lambda x: rf.shift_right(x, axis=time, pad_value=0),
    "reverse_sequence": lambda x: rf.reverse_sequence(x, axis=time),
    "concat over time": lambda x: rf.concat((x, time), (x, time))[0],
    "stack": lambda x: rf.stack([x, x])[0],
    "unstack": lambda x: rf.unstack(x, axis=feat)[1],
    "split": lambda x: rf.split(x, axis=feat, out_dims=[two, one])[0],
    "split_dims": lambda x: rf.split_dims(x, axis=feat, dims=[one, other]),
    "merge_dims": lambda x: rf.merge_dims(x, dims=[batch, time])[0],
    "replace_dim": lambda x: rf.replace_dim(x, in_dim=feat, out_dim=other)[0],
    "expand_dim": lambda x: rf.expand_dim(x, two),
    "squeeze": lambda x: rf.squeeze(rf.expand_dim(x, one), one),
    "repeat": lambda x: rf.repeat(x, in_spatial_dim=feat, repeats=rf.full(dims=[feat], fill_value=2, dtype="int32"))[0],
    "masked_select": lambda x: rf.masked_select(x, mask=MASK, dims=[feat])[0],
    "pack_padded": lambda x: rf.pack_padded(x, dims=[batch, time])[0],
    "where": lambda x: rf.where(tensor([True, False], batch), x, x),
    "window": lambda x: rf.window(x, spatial_dim=time, window_dim=two)[0],
    "copy": rf.copy,
    "stop_gradient": rf.stop_gradient,
    "cast": lambda x: rf.cast(x, "int64"),
    "copy_masked": lambda x: x.copy_masked(0),
    "copy_transpose": lambda x: x.copy_transpose([feat, time, batch]),
    "a frame of a loop": lambda x: rf.TensorArray.unstack(x, axis=time)[0],
}
# Results that have feat and do not mark it.
LOSES_FEATURE = {
    name: "a reduction says nothing of what is left" for name in KEEPS if name.startswith(("reduce_", "top_k"))
}


def marked():
    x = tensor(
        [[[0, 1, 2], [3, 4, 5], [6, 0, 1], [2, 3, 4]], [[5, 6, 0], [1, 2, 3], [0, 0, 0], [0, 0, 0]]], batch, time, feat
    )
    x.sparse_dim, x.feature_dim = vocab, feat
    return x


@pytest.mark.parametrize("name", KEEPS)
def test_what_moves_values_keeps_what_they_mean(name):
    out = KEEPS[name](marked())
    assert out.sparse_dim is vocab, f"{name} gives indices into {out.sparse_dim}"
    if feat in out.dims and name not in LOSES_FEATURE:
        assert out.feature_dim is feat, f"{name} has the features {out.feature_dim}"
    assert out.feature_dim is None or out.feature_dim in out.dims


@pytest.mark.parametrize("mode", ["argmax", "argmin"])
def test_where_something_is_indexes_into_the_axis(mode):
    assert rf.reduce(marked(), mode=mode, axis=feat).sparse_dim is feat


def test_a_kept_mark_is_used():
    """The largest label of each sequence is looked up as a label."""
    table = tensor([[float(row)] for row in range(7)], vocab, one)
    best = rf.reduce_max(marked(), axis=[time, feat])
    assert_same(rf.gather(table, indices=best), tensor([[6.0], [6.0]], batch, one))
