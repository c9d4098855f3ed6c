"""One sequence that was picked out of a batch: what needs its lengths says which line cuts its frames out, and that line mends it."""

import numpy as np
import pytest
from asserting import assert_same, ragged, raises_message, randn, tensor

import rfnb as rf
from rfnb import Dim, DimError

batch, feat, other, window = Dim(3, name="batch"), Dim(4, name="feat"), Dim(5, name="other"), Dim(3, name="window")
time = ragged([5, 2, 3], batch)
x = randn(batch, time, feat)
i, real = 1, 2  # the picked sequence, and its length
attention = rf.SelfAttention(feat, proj_dim=None, key_dim_total=feat, value_dim_total=feat, num_heads=2)
relative = rf.RelPosSelfAttention(feat, proj_dim=None, key_dim_total=feat, value_dim_total=feat, num_heads=2)
lstm, zoneout, conv, linear = (
    rf.LSTM(feat, other),
    rf.ZoneoutLSTM(feat, other),
    rf.Conv1d(feat, other, 3, padding="same"),
    rf.Linear(feat, other),
)


def collected(x, time, kind):
    loop = rf.Loop(axis=time)
    loop.state.h = rf.zeros([feat])
    if kind == "with":
        with loop:
            loop.state.h = loop.state.h + loop.unstack(x)
            out = loop.stack(loop.state.h)
    else:
        for _ in loop:
            loop.state.h = loop.state.h + loop.unstack(x)
            out = loop.stack(loop.state.h)
    return out


def loss(x):
    with rf.init_train_step_run_ctx() as run:
        x.mark_as_loss("loss")
        return run.total_loss()


def ids(time):
    return rf.range_over_dim(time) % 2


NEED_LENGTHS = {
    "reduce_sum": lambda x, time: rf.reduce_sum(x, axis=time),
    "reduce_mean over all": lambda x, time: rf.reduce_mean(x, axis=[time, feat]),
    "reduce_max": lambda x, time: rf.reduce_max(x, axis=time),
    "reduce_argmax": lambda x, time: rf.reduce_argmax(x, axis=time).raw_tensor.tolist(),
    "reduce_logsumexp": lambda x, time: rf.reduce_logsumexp(x, axis=time),
    "reduce_any": lambda x, time: rf.reduce_any(x > 1, axis=time),
    "top_k": lambda x, time: rf.top_k(x, axis=time, k=1)[0].raw_tensor.tolist(),
    "softmax": lambda x, time: rf.softmax(x, axis=time),
    "log_softmax": lambda x, time: rf.log_softmax(x, axis=time),
    "normalize": lambda x, time: rf.normalize(x, axis=time),
    "slice from a Tensor": lambda x, time: rf.slice(x, axis=time, start=tensor(np.int32(1)))[0],
    "slice to a number of each": lambda x, time: rf.slice(x, axis=time, start=tensor(np.int32(1)), end=-1)[0],
    "gather, clipped": lambda x, time: rf.gather(x, indices=tensor(np.int32(9)), axis=time, clip_to_valid=True),
    "matmul": lambda x, time: rf.matmul(x, x * 2, reduce=time),
    "dot of a weight": lambda x, time: rf.dot(x, rf.cast(rf.range_over_dim(time), "float32"), reduce=time),
    "dot_attention": lambda x, time: rf.dot_attention(randn(other, feat), x, x, key_dim=feat, axis=time),
    "self-attention": lambda x, time: attention(x, axis=time),
    "relative attention": lambda x, time: relative(x, axis=time),
    "for": lambda x, time: collected(x, time, "for"),
    "with": lambda x, time: collected(x, time, "with"),
    "LSTM": lambda x, time: lstm(x, state=lstm.default_initial_state(batch_dims=[]), spatial_dim=time)[0],
    "unit in steps": lambda x, time: zoneout(x, state=zoneout.default_initial_state(batch_dims=[]), spatial_dim=time)[
        0
    ],
    "concat": lambda x, time: rf.concat((x, time), (randn(other, feat), other))[0],
    "pad": lambda x, time: rf.pad(x, axes=[time], padding=[(1, 1)], value=9.0)[0],
    "shift_left": lambda x, time: rf.shift_left(x, axis=time, pad_value=9.0),
    "reverse_sequence": lambda x, time: rf.reverse_sequence(x, axis=time),
    "conv": lambda x, time: conv(x, in_spatial_dim=time)[0],
    "pool": lambda x, time: rf.pool1d(x, mode="avg", pool_size=2, strides=2, padding="same", in_spatial_dim=time)[0],
    "window": lambda x, time: rf.window(x, spatial_dim=time, window_dim=window)[0],
    "repeat": lambda x, time: rf.repeat(x, in_spatial_dim=time, repeats=2)[0],
    "scatter": lambda x, time: rf.scatter(x, indices=ids(time), indices_dim=time, out_dim=other),
    "masked_select": lambda x, time: rf.masked_select(x, mask=ids(time) == 0, dims=[time])[0].raw_tensor.tolist(),
    "pack_padded": lambda x, time: rf.pack_padded(x, dims=[time])[0].raw_tensor.tolist(),
    "random_mask": lambda x, time: (
        rf.random_mask(x, mask_axis=time, broadcast_axis=feat, min_num=1, max_num=1, max_dims=1).raw_tensor.shape
    ),
    "mask": lambda x, time: x.get_sequence_mask_tensor(time),
    "num_elements": lambda x, time: x.num_elements(),
    "mark_as_loss": lambda x, time: loss(x),
    "cross_entropy": lambda x, time: rf.cross_entropy(
        estimated=x, target=rf.set_sparse_dim(ids(time), feat), axis=feat, estimated_type="logits"
    ),
    "edit_distance": lambda x, time: rf.edit_distance(ids(time), time, rf.range_over_dim(other), other),
    "ctc_loss": lambda x, time: ctc(x, time),
}
NO_LENGTHS = {
    "elementwise": lambda x, time: rf.tanh(x) + x,
    "reduce of another dim": lambda x, time: rf.reduce_sum(x, axis=feat),
    "matmul of another dim": lambda x, time: rf.matmul(x, randn(feat, other), reduce=feat),
    "linear": lambda x, time: linear(x),
    "layer norm": lambda x, time: rf.LayerNorm(feat)(x),
    "cumsum": lambda x, time: rf.cumsum(x, spatial_dim=time),
    "shift_right": lambda x, time: rf.shift_right(x, axis=time, pad_value=9.0),
    "gather": lambda x, time: rf.gather(x, indices=rf.range_over_dim(other) % 2, axis=time),
    "where": lambda x, time: rf.where(ids(time) == 0, x, 0.0),
    "slice from the start": lambda x, time: rf.slice(x, axis=time, end=1)[0],
}


def ctc(x, time):
    label = Dim(1, name="label")
    targets = rf.set_sparse_dim(rf.range_over_dim(label), feat)
    return rf.ctc_loss(logits=x, targets=targets, input_spatial_dim=time, targets_spatial_dim=label, blank_index=3)


def picked():
    return rf.gather(x, indices=i, axis=batch)


def cut_out():
    """The line of the messages."""
    y = picked()
    y, frames = rf.slice(y, axis=time, size=rf.gather(time.dyn_size_ext, indices=i, axis=batch))
    return y, frames


def alone():
    frames = Dim(real, name="frames")
    return tensor(x.numpy()[i, :real], frames, feat), frames


def values(result):
    return result.numpy() if hasattr(result, "numpy") else np.asarray(result)


@pytest.mark.parametrize("op", NEED_LENGTHS.values(), ids=NEED_LENGTHS)
def test_an_op_that_needs_lengths_says_what_to_type(op):
    with pytest.raises(DimError) as caught:
        op(picked(), time)
    text = str(caught.value)
    assert "which is not here." in text.splitlines()[0]
    assert ", axis=time, size=rf.gather(time.dyn_size_ext, indices=i, axis=batch))" in text


@pytest.mark.parametrize("op", [*NEED_LENGTHS.values(), *NO_LENGTHS.values()], ids=[*NEED_LENGTHS, *NO_LENGTHS])
def test_what_was_cut_out_is_as_if_alone(op):
    rf.set_random_seed(3)
    got = values(op(*cut_out()))
    rf.set_random_seed(3)
    np.testing.assert_allclose(got, values(op(*alone())), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("op", NO_LENGTHS.values(), ids=NO_LENGTHS)
def test_an_op_that_needs_none_goes_on_without_the_batch(op):
    result = op(picked(), time)
    assert batch not in result.dims
    expected = values(op(*alone()))
    np.testing.assert_allclose(result.numpy()[: len(expected)], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("bounds", ["end", "size"])
def test_slice_up_to_the_length_of_the_picked_sequence(bounds):
    length = rf.gather(time.dyn_size_ext, indices=i, axis=batch)
    out, frames = rf.slice(picked(), axis=time, start=0, **{bounds: length})
    assert out.dims == (frames, feat) and not frames.need_masking() and frames.extent == real
    assert_same(out, x.numpy()[i, :real])


def test_slices_of_several_picked_sequences_have_their_lengths():
    beam = Dim(2, name="beam")
    which = tensor(np.asarray([2, 1], np.int32), beam)
    y = rf.gather(x, indices=which, axis=batch)
    y, frames = rf.slice(y, axis=time, size=rf.gather(time.dyn_size_ext, indices=which, axis=batch))
    assert frames.lengths.tolist() == [3, 2] and frames.length_dims == (beam,)
    assert_same(rf.reduce_sum(y, axis=frames), rf.gather(rf.reduce_sum(x, axis=time), indices=which, axis=batch))


def test_the_same_for_all_sequences_needs_their_dim():
    positions = rf.range_over_dim(time, dtype="float32")
    expanded = rf.expand_dim(positions, dim=batch)
    assert_same(rf.reduce_sum(expanded, axis=time), tensor([10.0, 1.0, 3.0], batch))


def test_views_say_that_padding_is_among_the_values():
    assert "lengths of time are over batch: padding is among the values" in " ".join(rf.show(picked()).text().split())
    assert "padding is among" not in rf.show(cut_out()[0]).text()


ERRORS = {
    "reduce": (
        lambda: rf.reduce_mean(picked(), axis=time),
        """
        reduce_mean: the lengths of time<=5 are over [batch=3], which is not here.
          tensor   [time<=5, feat=4]
          lengths  [batch=3]
        Which frames are real differs per sequence. One sequence that was picked (i) keeps its own frames if they are cut out first;
        what is the same for all sequences needs their dim:
            x, time = rf.slice(x, axis=time, size=rf.gather(time.dyn_size_ext, indices=i, axis=batch))
            x = rf.expand_dim(x, dim=batch)
        """,
    ),
    "a loop": (
        lambda: collected(picked(), time, "for"),
        """
        Loop "loop": the lengths of time<=5 are over [batch=3], which is not here.
          first step  [time<=5, feat=4]
          lengths     [batch=3]
        Which frames are real differs per sequence. One sequence that was picked (i) keeps its own frames if they are cut out first;
        what is the same for all sequences needs their dim:
            x, time = rf.slice(x, axis=time, size=rf.gather(time.dyn_size_ext, indices=i, axis=batch))
            x = rf.expand_dim(x, dim=batch)
        """,
    ),
    "slice": (
        lambda: rf.slice(picked(), axis=time, start=tensor(np.int32(1))),
        """
        slice: the lengths of time<=5 are over [batch=3], which is not here.
          source   [time<=5, feat=4]
          start    []
          lengths  [batch=3]
        Which frames are real differs per sequence. One sequence that was picked (i) keeps its own frames if they are cut out first;
        what is the same for all sequences needs their dim:
            source, time = rf.slice(source, axis=time, size=rf.gather(time.dyn_size_ext, indices=i, axis=batch))
            source = rf.expand_dim(source, dim=batch)
        """,
    ),
}


@pytest.mark.parametrize(("call", "text"), ERRORS.values(), ids=ERRORS)
def test_error(call, text):
    with raises_message(DimError, text):
        call()
