"""The dim that an op is given for its result: with other lengths, or with one size where there is padding, frames would be lost or made."""

import warnings

import pytest
from asserting import assert_same, ragged, raises_message, randn, tensor

import rfnb as rf
from rfnb import Dim, DimError

batch, feat, out, width, two = (
    Dim(size, name=name) for size, name in ((3, "batch"), (2, "feat"), (3, "out"), (3, "width"), (2, "two"))
)
time = ragged([5, 2, 4], batch)
x = randn(batch, time, feat)
_filter = {"filter": randn(width, feat, out), "filter_size": [width], "in_dim": feat, "out_dim": out}
OPS = {
    "slice": lambda dim: rf.slice(x, axis=time, start=1, out_dim=dim),
    "slice of frames": lambda dim: rf.slice(x, axis=time, start=1, end=4, out_dim=dim),
    "slice from the end": lambda dim: rf.slice(x, axis=time, start=-3, out_dim=dim),
    "slice of every second": lambda dim: rf.slice(x, axis=time, step=2, out_dim=dim),
    "pad": lambda dim: rf.pad(x, axes=[time], padding=[(1, 0)], out_dims=[dim]),
    "concat": lambda dim: rf.concat((x, time), (x, time), out_dim=dim),
    "conv": lambda dim: rf.conv(x, in_spatial_dims=[time], padding="valid", out_spatial_dims=[dim], **_filter),
    "transposed_conv": lambda dim: rf.transposed_conv(
        x, in_spatial_dims=[time], padding="valid", strides=1, out_spatial_dims=[dim],
        **{**_filter, "filter": randn(feat, out, width)},
    ),
    "pool": lambda dim: rf.pool(
        x, mode="max", pool_size=2, strides=1, padding="valid", in_spatial_dims=[time], out_spatial_dims=[dim]
    ),
    "stft": lambda dim: rf.stft(x, in_spatial_dim=time, frame_step=1, frame_length=2, out_spatial_dim=dim),
    "masked_select": lambda dim: rf.masked_select(x, mask=rf.expand_dim(rf.range_over_dim(time) > 0, batch), dims=[time], out_dim=dim),
    "repeat": lambda dim: rf.repeat(x, in_spatial_dim=time, repeats=2, out_spatial_dim=dim),
    "range_over_dim_strided": lambda dim: rf.range_over_dim_strided(time, stride=2, out_dim=dim),
    "merge_dims": lambda dim: rf.merge_dims(rf.expand_dim(x, two), dims=[time, two], out_dim=dim),
}  # fmt: skip


def _lengths(op):
    """The lengths that the op gives to a dim without size."""
    op(new := Dim(None, name="new"))
    return new.lengths.tolist()


@pytest.mark.parametrize("op", OPS.values(), ids=OPS)
def test_a_dim_of_the_same_lengths_fits(op):
    lengths = _lengths(op)
    assert len(set(lengths)) > 1
    op(ragged(lengths, batch, "fits"))


@pytest.mark.parametrize("op", OPS.values(), ids=OPS)
def test_a_dim_of_the_same_extent_and_other_lengths_is_refused(op):
    first, second, third = _lengths(op)
    for other in ([first, second + 1, third], [first, second, third - 1]):
        if max(other) == first:
            with pytest.raises(DimError, match=r"has another size.*\n.*\n.*needed"):
                op(ragged(other, batch, "other"))


@pytest.mark.parametrize("name", sorted(set(OPS) - {"merge_dims"}))
def test_a_dim_of_one_size_is_refused_where_there_is_padding(name):
    with pytest.raises(DimError, match="has another size"):
        OPS[name](Dim(max(_lengths(OPS[name])), name="static"))


def test_a_slice_from_the_end_is_that_of_each_sequence():
    x = tensor(
        [[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 0.0], [8.0, 0.0, 0.0, 0.0]], batch, (t := ragged([4, 3, 1], batch))
    )
    last, dim = rf.slice(x, axis=t, start=-2)
    assert dim.lengths.tolist() == [2, 2, 1]
    assert_same(last, tensor([[3.0, 4.0], [6.0, 7.0], [8.0, 0.0]], batch, dim))
    before, dim = rf.slice(x, axis=t, start=-3, end=-1)
    assert_same(before, tensor([[2.0, 3.0], [5.0, 6.0], [0.0, 0.0]], batch, dim))
    first_of_them, dim = rf.slice(x, axis=t, start=-3, size=1)
    assert_same(first_of_them, tensor([[2.0], [5.0], [8.0]], batch, dim))


def test_a_split_ragged_dim_has_lengths():
    pairs, t = Dim(None, name="pairs"), ragged([4, 2, 0], batch)
    x = tensor([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 0.0, 0.0], [0.0] * 4], batch, t)
    split = rf.split_dims(x, axis=t, dims=[pairs, two])
    assert pairs.lengths.tolist() == [2, 1, 0]
    assert_same(rf.reduce_sum(split, axis=[pairs, two]), tensor([10.0, 11.0, 0.0], batch))
    merged, dim = rf.merge_dims(split, dims=[pairs, two])
    assert_same(merged, tensor(x.numpy(), batch, dim))


_SPLITS = {
    "lengths that are no multiple": (
        [5, 3, 4],
        lambda: [Dim(None, name="pairs"), Dim(1, name="one"), Dim(5, name="five")],
    ),
    "one size": ([4, 2, 0], lambda: [Dim(2, name="half"), two]),
    "the minor dim without size": ([4, 2, 0], lambda: [two, Dim(None, name="half")]),
    "other lengths": ([4, 2, 0], lambda: [ragged([2, 2, 0], batch, "half"), two]),
}


@pytest.mark.parametrize("name", _SPLITS)
def test_a_split_that_would_make_padding_data_is_refused(name):
    lengths, dims = _SPLITS[name]
    with pytest.raises(DimError, match="The padding of a sequence would become its data"):
        rf.split_dims(rf.zeros([batch, t := ragged(lengths, batch)]), axis=t, dims=dims())


def test_error_of_a_split_says_how_to_pad():
    t = ragged([4, 3, 1], batch)
    with raises_message(
        DimError,
        """
        split_dims: the sizes do not multiply to the lengths of the axis.
          source  [batch=3, time<=4]
          axis    time<=4 [4, 3, 1]
          dim 0   pairs<=2 [2, 1, 0]
          dim 1   two=2
        The padding of a sequence would become its data. Of a ragged axis the first dim has lengths, and each sequence is as many
        times as long. Pad it to a multiple of the sizes, and leave the first dim without size:
            missing = rf.ceil_divide(time.dyn_size_ext, size) * size - time.dyn_size_ext    # to a multiple of size
            source, (time,) = rf.pad(source, axes=[time], padding=[(0, missing)])
        """,
    ):
        rf.split_dims(rf.zeros([batch, t]), axis=t, dims=[Dim(None, name="pairs"), two])
    missing = rf.ceil_divide(t.dyn_size_ext, 2) * 2 - t.dyn_size_ext
    padded, (longer,) = rf.pad(rf.zeros([batch, t]), axes=[t], padding=[(0, missing)])
    pairs = Dim(None, name="pairs")
    rf.split_dims(padded, axis=longer, dims=[pairs, two])
    assert pairs.lengths.tolist() == [2, 2, 1]


def test_who_reduces_over_merged_padding_is_warned():
    heads = Dim(2, name="heads")
    merged, dim = rf.merge_dims(randn(batch, heads, time), dims=[heads, time])
    with warnings.catch_warnings():  # there and back, or frame by frame, padding is no data
        warnings.simplefilter("error")
        rf.split_dims(merged * 2.0, axis=dim, dims=[heads, time])
    for reduce in (
        lambda: rf.reduce_mean(merged, axis=dim),
        lambda: rf.softmax(merged, axis=dim),
        lambda: rf.top_k(merged, axis=dim, k=2),
    ):
        with pytest.warns(UserWarning, match="there is padding among the frames of heads\\*time=10"):
            reduce()


def test_text_of_the_warning_of_merged_padding():
    heads, t = Dim(2, name="heads"), ragged([4, 3, 1], batch)
    merged, dim = rf.merge_dims(randn(batch, heads, t), dims=[heads, t])
    with pytest.warns(UserWarning) as said:
        rf.reduce_sum(merged, axis=dim)
    assert str(said[0].message) == (
        "reduce_sum: there is padding among the frames of heads*time=8.\n"
        "  tensor  [batch=3, heads*time=8]\n"
        f"  merged  heads=2, time<=4, in {dim.created}\n"
        "A dim merged of a ragged one has a plain size, and what was padding counts as data. Work on the dims as they were before, or\n"
        "join the real frames only:\n"
        "    y, frames = rf.masked_select(x, mask=rf.sequence_mask([heads, time]), dims=[heads, time])    # instead of merge_dims"
    )
