"""Rearranging: each op on numbers that can be followed by hand."""

import numpy as np
import pytest
from asserting import assert_same, ragged, randn, tensor

import rfnb as rf
from rfnb import Dim

batch, feat, out = Dim(3, name="batch"), Dim(2, name="feat"), Dim(5, name="out")
time, source = ragged([3, 1, 2], batch), ragged([1, 2, 0], batch, "source")
x = tensor([[1.0, 2.0, 3.0], [4.0, -9.0, -9.0], [5.0, 6.0, -9.0]], batch, time)
y = tensor([[10.0, -9.0], [20.0, 30.0], [-9.0, -9.0]], batch, source)


def ints(values, *dims, sparse_dim=None):
    return tensor(np.asarray(values, np.int32), *dims, sparse_dim=sparse_dim)


def test_copy_is_another_array():
    z = rf.copy(x)
    z.raw_tensor[0, 0] = 7
    assert x.numpy()[0, 0] == 1


def test_cast_to_the_same_dtype_is_the_same_object():
    assert rf.cast(x, "float32") is x
    assert rf.cast(x, "int64").dtype == "int64"


def test_merge_dims_has_the_first_as_major():
    z = tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], batch, feat)
    merged, dim = rf.merge_dims(z, dims=[batch, feat])
    assert dim is batch * feat
    assert_same(merged, tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], dim))
    merged, dim = rf.merge_dims(z, dims=[feat, batch])
    assert_same(merged, tensor([1.0, 3.0, 5.0, 2.0, 4.0, 6.0], dim))


def test_merging_a_ragged_minor_dim_keeps_the_padding():
    merged, dim = rf.merge_dims(x, dims=[batch, time])
    assert dim.size == 9
    assert merged.numpy().tolist() == x.numpy().ravel().tolist()


def test_split_dims_undoes_merge_dims():
    z = randn(batch, feat, out)
    merged, dim = rf.merge_dims(z, dims=[feat, out])
    assert_same(rf.split_dims(merged, axis=dim, dims=[feat, out]), z)


def test_split_dims_finds_one_size():
    rest = Dim(None, name="rest")
    split = rf.split_dims(randn(batch, feat * out), axis=feat * out, dims=[rest, out])
    assert rest.extent == 2 and split.dims == (batch, rest, out)


def test_split_undoes_concat():
    a, b = randn(batch, feat), randn(batch, out, seed=1)
    joined, dim = rf.concat((a, feat), (b, out))
    assert dim is feat + out
    assert_same(list(rf.split(joined, axis=dim, out_dims=[feat, out])), [a, b])


def test_concat_of_ragged_dims_leaves_no_gap():
    joined, dim = rf.concat((x, time), (y, source))
    assert dim is time + source
    assert dim.lengths.tolist() == [4, 3, 2]
    assert_same(joined, tensor([[1.0, 2.0, 3.0, 10.0], [4.0, 20.0, 30.0, 0.0], [5.0, 6.0, 0.0, 0.0]], batch, dim))


def test_concat_repeats_what_is_allowed_to():
    joined, dim = rf.concat((randn(batch, feat), feat), (rf.ones([out]), out), allow_broadcast=True)
    assert_same(rf.split(joined, axis=dim, out_dims=[feat, out])[1], rf.ones([batch, out]))


def test_concat_features_marks_the_result():
    a, b = randn(batch, feat), randn(batch, out)
    a.feature_dim, b.feature_dim = feat, out
    assert rf.concat_features(a, b).feature_dim is feat + out


def test_expand_dim_repeats():
    assert_same(
        rf.expand_dim(tensor([1.0, 2.0, 3.0], batch), feat), tensor([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]], batch, feat)
    )
    assert set(rf.expand_dims(tensor([1.0, 2.0, 3.0], batch), [feat, out]).dims) == {batch, feat, out}


def test_squeeze_drops_one_entry():
    one = Dim(1, name="one")
    assert_same(rf.squeeze(tensor([[1.0], [2.0], [3.0]], batch, one), one), [1.0, 2.0, 3.0])


def test_stack_and_unstack():
    parts = [tensor([1.0, 2.0, 3.0], batch), tensor([4.0, 5.0, 6.0], batch)]
    stacked, dim = rf.stack(parts)
    assert dim.size == 2
    assert_same(list(rf.unstack(stacked, axis=dim)), parts)


def test_gather_by_indices_into_their_sparse_dim():
    table = tensor([[0.0, 1.0], [10.0, 11.0], [20.0, 21.0], [30.0, 31.0], [40.0, 41.0]], out, feat)
    assert_same(
        rf.gather(table, indices=ints([4, 0, 2], batch, sparse_dim=out)),
        tensor([[40.0, 41.0], [0.0, 1.0], [20.0, 21.0]], batch, feat),
    )


def test_gather_with_a_batch_dim_in_common():
    z = tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], batch, feat)
    assert_same(rf.gather(z, indices=ints([1, 0, 1], batch), axis=feat), [2.0, 3.0, 6.0])


def test_gather_one_entry():
    assert_same(rf.gather(x, indices=0, axis=time), [1.0, 4.0, 5.0])
    assert_same(rf.gather(tensor([1.0, 2.0, 3.0], batch), indices=-1, axis=batch), np.float32(3))


def test_gather_clipped_to_the_real_frames():
    assert_same(rf.gather(x, indices=ints([9, 9, -1], batch), axis=time, clip_to_valid=True), [3.0, 4.0, 5.0])


def test_gather_clipped_gives_0_for_a_sequence_without_frames():
    dirty = tensor([[10.0, np.nan], [20.0, 30.0], [np.nan, np.nan]], batch, source)
    assert_same(rf.gather(dirty, indices=ints([0, 5, 1], batch), axis=source, clip_to_valid=True), [10.0, 30.0, 0.0])
    every = rf.gather(dirty, indices=ints([5], one := Dim(1, name="one")), axis=source, clip_to_valid=True)
    assert_same(every, tensor([[10.0], [30.0], [0.0]], batch, one))


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
@pytest.mark.parametrize("index_dims", [(), (batch,), (out,), (out, batch)])
def test_gather_clipped_gives_0_where_no_sequence_has_frames(index_dims, dtype):
    nothing = ragged([0, 0, 0], batch, "nothing")
    values = tensor(np.zeros((3, 0, 2), dtype), batch, nothing, feat)
    indices = ints(np.ones([dim.size for dim in index_dims]), *index_dims)
    picked = rf.gather(values, indices=indices, axis=nothing, clip_to_valid=True)
    assert picked.dtype == dtype and set(picked.dims) == {batch, feat, *index_dims}
    assert not picked.numpy().any()


def test_gather_clipped_gives_0_of_a_static_dim_without_entries():
    empty = Dim(0, name="empty")
    picked = rf.gather(
        tensor(np.zeros((0, 2), np.float32), empty, feat),
        indices=ints([0, 3, -1], batch),
        axis=empty,
        clip_to_valid=True,
    )
    assert_same(picked, tensor(np.zeros((3, 2), np.float32), batch, feat))


@pytest.mark.parametrize(
    ("start", "end", "lengths", "rows"),
    [
        (1, None, [2, 0, 1], [[2.0, 3.0], [0.0, 0.0], [6.0, 0.0]]),
        (0, 2, [2, 1, 2], [[1.0, 2.0], [4.0, 0.0], [5.0, 6.0]]),
        (1, 2, [1, 0, 1], [[2.0], [0.0], [6.0]]),
        (0, -1, [2, 0, 1], [[1.0, 2.0], [0.0, 0.0], [5.0, 0.0]]),
    ],
)
def test_slice_of_a_ragged_dim(start, end, lengths, rows):
    cut, dim = rf.slice(x, axis=time, start=start, end=end)
    assert dim.lengths.tolist() == lengths
    assert_same(cut, tensor(rows, batch, dim))


def test_slice_of_a_static_dim():
    cut, dim = rf.slice(tensor([0.0, 1.0, 2.0, 3.0, 4.0], out), axis=out, start=1, end=4)
    assert dim.size == 3
    assert_same(cut, tensor([1.0, 2.0, 3.0], dim))


def test_slice_with_a_start_for_each_sequence():
    cut, dim = rf.slice(x, axis=time, start=ints([1, 0, 0], batch), size=2)
    assert dim.size == 2
    assert_same(cut, tensor([[2.0, 3.0], [4.0, 4.0], [5.0, 6.0]], batch, dim))  # past the end: the last frame


def test_slice_with_an_end_for_each_sequence():
    cut, dim = rf.slice(x, axis=time, start=1, end=ints([2, 9, 9], batch))
    assert dim.lengths.tolist() == [1, 0, 1]
    assert_same(cut, tensor([[2.0], [0.0], [6.0]], batch, dim))
    cut, dim = rf.slice(x, axis=time, start=ints([1, 0, 1], batch))
    assert dim.lengths.tolist() == [2, 1, 1]
    assert_same(cut, tensor([[2.0, 3.0], [4.0, 0.0], [6.0, 0.0]], batch, dim))


def test_slice_takes_scalars_and_dims_for_numbers():
    z = tensor([0.0, 1.0, 2.0, 3.0, 4.0], out)
    assert rf.slice(z, axis=out, start=ints(1), size=2)[0].numpy().tolist() == [1.0, 2.0]
    assert rf.slice(z, axis=out, start=feat)[0].numpy().tolist() == [2.0, 3.0, 4.0]
    assert rf.slice(z, axis=out, size=feat)[1] is feat
    cut, dim = rf.slice(x, axis=time, size=source.get_size_tensor())
    assert dim.lengths.tolist() == [1, 2, 0]


def test_slice_to_a_dim_with_lengths_of_its_own():
    longer = ragged([4, 3, 1], batch)
    z = tensor(np.arange(12.0, dtype=np.float32).reshape(3, 4), batch, longer)
    for start in (0, -3):
        cut, dim = rf.slice(z, axis=longer, start=start, size=source)
        first = [0, 0, 0] if start == 0 else [1, 0, 0]
        assert dim is source
        assert_same(cut, tensor([[first[0], 0.0], [4.0, 5.0], [0.0, 0.0]], batch, source))
    cut, _ = rf.slice(z, axis=longer, start=1, size=source)
    assert_same(cut, tensor([[1.0, 0.0], [5.0, 6.0], [0.0, 0.0]], batch, source))
    cut, dim = rf.slice(randn(batch, out), axis=out, start=3, size=source)  # a static axis has enough for all
    assert cut.dims == (batch, source)
    rf.set_requires_gradient(z)
    cut, _ = rf.slice(z, axis=longer, start=1, size=source)
    grad = rf.gradient(rf.reduce_sum(cut, axis=cut.dims), z)
    assert_same(grad, tensor([[0.0, 1.0, 0.0, 0.0], [0.0, 1.0, 1.0, 0.0], [0.0] * 4], batch, longer))


def test_slice_of_every_second_frame():
    z = tensor([0.0, 1.0, 2.0, 3.0, 4.0], out)
    z.feature_dim = out
    cut, dim = rf.slice(z, axis=out, start=1, step=2)
    assert cut.feature_dim is dim
    assert_same(cut, tensor([1.0, 3.0], dim))
    cut, dim = rf.slice(x, axis=time, step=2)
    assert dim.lengths.tolist() == [2, 1, 1]
    assert_same(cut, tensor([[1.0, 3.0], [4.0, 0.0], [5.0, 0.0]], batch, dim))


def test_pad_takes_dims_for_numbers():
    padded, (dim,) = rf.pad(x, axes=[time], padding=[(feat, 0)], value=7)
    assert dim is feat + time
    assert_same(padded, tensor([[7.0, 7, 1, 2, 3], [7, 7, 4, 0, 0], [7, 7, 5, 6, 0]], batch, dim))
    padded, (dim,) = rf.pad(x, axes=[time], padding=[(0, source)], value=7)
    assert dim is time + source
    assert_same(padded, tensor([[1.0, 2, 3, 7], [4, 7, 7, 0], [5, 6, 0, 0]], batch, dim))


def test_pad_with_a_number_of_frames_for_each_sequence():
    padded, (dim,) = rf.pad(x, axes=[time], padding=[(0, ints([1, 3, 0], batch))], value=7)
    assert dim.lengths.tolist() == [4, 4, 2]
    assert_same(padded, tensor([[1.0, 2, 3, 7], [4, 7, 7, 7], [5, 6, 0, 0]], batch, dim))


def test_pad_with_a_value_for_each_sequence():
    value = tensor([7.0, 8.0, 9.0], batch)
    padded, (dim,) = rf.pad(x, axes=[time], padding=[(1, 1)], value=value)
    assert_same(padded, tensor([[7.0, 1, 2, 3, 7], [8, 4, 8, 0, 0], [9, 5, 6, 9, 0]], batch, dim))
    assert rf.shift_right(x, axis=time, pad_value=value).numpy()[:, 0].tolist() == [7.0, 8.0, 9.0]


def test_pad_of_the_raw_arrays_keeps_the_padding_between():
    padded, (dim,) = rf.pad(x, axes=[time], padding=[(0, 1)], value=7, handle_dynamic_dims=False)
    assert dim.size == 4
    assert padded.numpy()[1].tolist() == [4.0, -9.0, -9.0, 7.0]


@pytest.mark.parametrize(
    ("mode", "values"),
    [("reflect", [2.0, 1, 2, 3, 2]), ("replicate", [1.0, 1, 2, 3, 3]), ("circular", [3.0, 1, 2, 3, 1])],
)
def test_pad_repeats_frames(mode, values):
    padded, (dim,) = rf.pad(tensor([1.0, 2.0, 3.0], batch), axes=[batch], padding=[(1, 1)], mode=mode)
    assert_same(padded, tensor(values, dim))


def test_pad_and_shift_keep_the_feature_dim():
    z = tensor([1.0, 2.0, 3.0], batch)
    z.feature_dim = batch
    assert rf.pad(z, axes=[batch], padding=[(1, 1)])[0].feature_dim is 1 + batch + 1
    assert rf.shift_right(z, axis=batch, pad_value=0).feature_dim is batch


def test_pad_starts_at_the_end_of_each_sequence():
    padded, (dim,) = rf.pad(x, axes=[time], padding=[(1, 2)], value=7.0)
    assert dim is 1 + time + 2
    assert_same(padded, tensor([[7.0, 1, 2, 3, 7, 7], [7, 4, 7, 7, 0, 0], [7, 5, 6, 7, 7, 0]], batch, dim))


def test_shift():
    assert_same(
        rf.shift_right(x, axis=time, pad_value=0.0),
        tensor([[0.0, 1.0, 2.0], [0.0, 0.0, 0.0], [0.0, 5.0, 0.0]], batch, time),
    )
    assert_same(
        rf.shift_left(x, axis=time, pad_value=0.0),
        tensor([[2.0, 3.0, 0.0], [0.0, 0.0, 0.0], [6.0, 0.0, 0.0]], batch, time),
    )


def test_reverse_sequence_keeps_the_padding_at_the_end():
    assert_same(
        rf.reverse_sequence(x, axis=time), tensor([[3.0, 2.0, 1.0], [4.0, 0.0, 0.0], [6.0, 5.0, 0.0]], batch, time)
    )
    assert_same(rf.reverse_sequence(rf.reverse_sequence(x, axis=time), axis=time), x)


def test_one_hot():
    hot = rf.one_hot(ints([1, 0, 1], batch, sparse_dim=feat))
    assert hot.feature_dim is feat
    assert_same(hot, tensor([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]], batch, feat))


def test_sparse_to_dense():
    dense = rf.sparse_to_dense(ints([1, 0, 1], batch), label_value=0.5, other_value=-1.0, axis=feat)
    assert_same(dense, tensor([[-1.0, 0.5], [0.5, -1.0], [-1.0, 0.5]], batch, feat))


def test_concat_fills_in_the_lengths_of_a_new_dim():
    new = Dim(None, name="new")
    rf.concat((x, time), (y, source), out_dim=new)
    assert new.lengths.tolist() == [4, 3, 2]


def test_concat_of_the_raw_arrays_keeps_the_padding_between():
    joined, dim = rf.concat((x, time), (y, source), handle_dynamic_dims=False)
    assert dim.size == 5
    assert joined.numpy()[1].tolist() == [4.0, -9.0, -9.0, 20.0, 30.0]


def test_slice_before_the_start_is_the_start():
    assert rf.slice(tensor([1.0, 2.0, 3.0], batch), axis=batch, start=-9, end=2)[0].numpy().tolist() == [1.0, 2.0]
