"""Rearranging: each op on numbers that can be followed by hand."""

import numpy as np
import pytest
from asserting import assert_same, ragged, raises_message, randn, tensor

import rfnb as rf
from rfnb import Dim, DimError

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


one, two, three = (Dim(size, name=name) for size, name in ((1, "one"), (2, "two"), (3, "three")))
SAME_DIM_TWICE = {
    "split": lambda: rf.split(randn(batch, out), axis=out, out_dims=[batch, feat]),
    "split_dims": lambda: rf.split_dims(randn(feat, 2 * feat), axis=2 * feat, dims=[two, feat]),
    "merge_dims": lambda: rf.merge_dims(randn(batch, three, one), dims=[three, one], out_dim=batch),
    "stack": lambda: rf.stack([randn(batch), randn(batch), randn(batch)], out_dim=batch),
    "slice": lambda: rf.slice(randn(batch, out), axis=out, end=3, out_dim=batch),
    "pad": lambda: rf.pad(randn(batch, feat), axes=[feat], padding=[(0, 1)], out_dims=[batch]),
    "concat": lambda: rf.concat((randn(batch, feat), feat), (randn(batch, one), one), out_dim=batch),
    "replace_dim": lambda: rf.replace_dim(randn(batch, three), in_dim=three, out_dim=batch),
    "top_k": lambda: rf.top_k(randn(batch, out), axis=out, k_dim=batch),
}


@pytest.mark.parametrize("call", SAME_DIM_TWICE.values(), ids=SAME_DIM_TWICE)
def test_a_result_never_has_a_dim_twice(call):
    with pytest.raises(DimError, match="the same dim twice"):
        call()


def _char():
    return ragged(np.ones((3, 3), np.int32), [batch, time], "char")


ERRORS = {
    "merge of a missing dim": (
        lambda: rf.merge_dims(x, dims=[time, out]),
        DimError,
        """
        merge_dims: no dim out=5.
          tensor  [batch=3, time<=3]
          dim     out=5
        The dim out=5 is not among the dims of tensor.
        """,
    ),
    "split_dims into other sizes": (
        lambda: rf.split_dims(randn(batch, out), axis=out, dims=[feat, Dim(2, name="two")]),
        DimError,
        """
        split_dims: the sizes do not multiply to the size of the axis.
          source  [batch=3, out=5]
          axis    out=5
          dims    feat=2 * two=2
        A split keeps the number of entries.
        """,
    ),
    "split into other sizes": (
        lambda: rf.split(randn(out), axis=out, out_dims=[feat, Dim(2, name="two")]),
        DimError,
        """
        split: the pieces do not add up to the axis.
          axis      out=5
          out_dims  feat=2, two=2
        The pieces cover the axis exactly.
        """,
    ),
    "out_dim of another size": (
        lambda: rf.merge_dims(randn(batch, feat), dims=[batch, feat], out_dim=out),
        DimError,
        """
        merge_dims: out_dim has another size.
          out_dim  out=5
          needed   6
        An out_dim fits, or has no size yet and takes it over.
            Dim(None, name="out")
        """,
    ),
    "expand by a dim that is there": (
        lambda: rf.expand_dim(x, batch),
        DimError,
        """
        expand_dim: the dim is there already.
          source  [batch=3, time<=3]
          dim     batch=3
        A dim occurs once.
        """,
    ),
    "squeeze of more than one entry": (
        lambda: rf.squeeze(x, batch),
        DimError,
        """
        squeeze: the axis is not of size 1.
          source  [batch=3, time<=3]
          axis    batch=3
        Only an axis of one entry can go without losing values.
            rf.gather(x, indices=0, axis=batch)
        """,
    ),
    "concat of other dims": (
        lambda: rf.concat((randn(batch, feat), feat), (randn(out), out)),
        DimError,
        """
        concat: the dims beside the joined ones differ.
          source 0  [batch=3, feat=2]
          source 1  [out=5]
        All sources need the same other dims; if a source should be repeated, say so:
            rf.concat(..., allow_broadcast=True)
        """,
    ),
    "concat of nothing": (
        lambda: rf.concat(),
        ValueError,
        """
        concat: of nothing.
          sources  none
        It takes (tensor, dim) pairs.
            rf.concat((a, a_dim), (b, b_dim))
        """,
    ),
    "concat_features without feature_dim": (
        lambda: rf.concat_features(x, y),
        DimError,
        """
        concat_features: source 0 has no feature_dim.
          source 0  [batch=3, time<=3]
        Mark the dim to join along, or name it:
            rf.concat((a, a_dim), (b, b_dim))
        """,
    ),
    "stack of other dims": (
        lambda: rf.stack([x, y]),
        DimError,
        """
        stack: the dims differ.
          source 0  [batch=3, time<=3]
          source 1  [batch=3, source<=2]
        Stacked tensors have the same dims.
        """,
    ),
    "stack of nothing": (
        lambda: rf.stack([]),
        ValueError,
        """
        stack: of nothing.
          sources  none
        The dims come from the first tensor.
        """,
    ),
    "gather along which axis": (
        lambda: rf.gather(x, indices=ints([0, 0, 0], batch)),
        DimError,
        """
        gather: which axis?
          source   [batch=3, time<=3]
          indices  [batch=3]
        The indices have no sparse_dim, so name the axis:
            rf.gather(x, indices=i, axis=...)
        """,
    ),
    "gather by an int without axis": (
        lambda: rf.gather(x, indices=0),
        TypeError,
        """
        gather: an int index needs the axis.
            rf.gather(x, indices=0, axis=time)
        """,
    ),
    "gather beyond the end": (
        lambda: rf.gather(x, indices=3, axis=batch),
        IndexError,
        """
        gather: there is no index 3 of batch=3.
          source   [batch=3, time<=3]
          axis     batch=3
          allowed  -3 to 2
        Indices count from 0, or as -1, -2, ... from the end:
            rf.gather(source, indices=2, axis=batch)
        """,
    ),
    "gather before the first frame": (
        lambda: rf.gather(x, indices=-4, axis=time),
        IndexError,
        """
        gather: there is no index -4 of time<=3.
          source   [batch=3, time<=3]
          axis     time<=3
          allowed  -3 to 2
        Indices count from 0, or as -1, -2, ... from the end of the longest sequence:
            rf.gather(source, indices=0, axis=time)
            rf.gather(source, indices=rf.last_frame_position_of_dim(time), axis=time)    # the last of each sequence
        """,
    ),
    "gather along a missing dim": (
        lambda: rf.gather(x, indices=ints([0, 0, 0], batch), axis=out),
        DimError,
        """
        gather: no dim out=5.
          source  [batch=3, time<=3]
          dim     out=5
        The dim out=5 is not among the dims of source.
        """,
    ),
    "split_dims with padding": (
        lambda: rf.split_dims(randn(out), axis=out, dims=[feat, Dim(None, name="rest")], pad_to_multiples=True),
        NotImplementedError,
        """
        split_dims: padding to a multiple of the sizes.
          source     [out=5]
          axis       out=5
          pad_value  None
        It splits an axis as it is. Pad it first:
            source, (axis,) = rf.pad(source, axes=[axis], padding=[(0, missing)], value=pad_value)
        """,
    ),
    "pad with a mirror": (
        lambda: rf.pad(x, axes=[time], padding=[(1, 1)], mode="reflect"),
        DimError,
        """
        pad: mode "reflect" of a ragged axis.
          source  [batch=3, time<=3]
          axis    time<=3
        Frames of the sequence itself are repeated only where all sequences have the same length.
            rf.pad(..., mode="constant")
        """,
    ),
    "pad with an unknown mode": (
        lambda: rf.pad(x, axes=[time], padding=[(1, 1)], mode="mirror"),
        ValueError,
        """
        pad: unknown mode "mirror".
          known  constant, reflect, replicate, circular
        A mode is one of these.
        """,
    ),
    "pad with more of a mirror than there is": (
        lambda: rf.pad(randn(batch, feat), axes=[feat], padding=[(2, 0)], mode="reflect"),
        ValueError,
        """
        pad: mode "reflect" needs more frames.
          source   [batch=3, feat=2]
          axis     feat=2
          padding  (2, 0)
        There is nothing more to repeat.
        """,
    ),
    "pad with ragged frames on the left": (
        lambda: rf.pad(x, axes=[time], padding=[(source, 0)]),
        DimError,
        """
        pad: other numbers of frames on the left for each sequence.
          source  [batch=3, time<=3]
          axis    time<=3
          left    source<=2
        What is put before all sequences has one size; frames of several lengths are joined:
            rf.concat((frames, frames_dim), (source, axis))
        """,
    ),
    "slice with end and size": (
        lambda: rf.slice(x, axis=time, end=2, size=2),
        ValueError,
        """
        slice: which frames?
          source  [batch=3, time<=3]
          axis    time<=3
          end     2
          size    2
          step    None
        Either end or size; a step is positive: frames backwards are those of rf.reverse_sequence.
        """,
    ),
    "slice to a dim of source": (
        lambda: rf.slice(x, axis=time, start=ints([0, 0, 0], batch), size=batch),
        DimError,
        """
        slice: out_dim is a dim of source already.
          source   [batch=3, time<=3]
          out_dim  batch=3
        The frames that were picked are another dim than all frames.
            size = Dim(3, name="batch")
        """,
    ),
    "dense labels without classes": (
        lambda: rf.one_hot(ints([0, 0, 0], batch)),
        DimError,
        """
        sparse_to_dense: into which dim?
          labels  [batch=3]
        The labels have no sparse_dim.
            rf.set_sparse_dim(labels, vocab)
        """,
    ),
    "reverse under other lengths": (
        lambda: rf.reverse_sequence(randn(batch, time, _char()), axis=time),
        DimError,
        """
        reverse_sequence: the lengths of char<=1 are over time<=3.
          tensor   [batch=3, time<=3, char<=1]
          axis     time<=3
          lengths  [batch=3, time<=3]
        Frames that change places would leave their lengths behind. Work on a copy of the axis with its own lengths, or without char.
        """,
    ),
}


@pytest.mark.parametrize(("call", "error", "text"), ERRORS.values(), ids=ERRORS)
def test_error(call, error, text):
    with raises_message(error, text):
        call()
