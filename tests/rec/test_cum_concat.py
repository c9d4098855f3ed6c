"""Histories of loops: step by step, and outside of loops as a dim with a length for each step."""

import numpy as np
import pytest
from asserting import assert_same, ragged, raises_message, randn, tensor, with_nan_padding
from loop_faces import FACES, run_face

import rfnb as rf
from rfnb import Dim, DimError, single_step_dim

batch, feat = Dim(2, name="batch"), Dim(3, name="feat")


@pytest.fixture
def time():
    return ragged([4, 2], batch)


def test_outside_of_a_loop_frame_t_has_a_history_of_t_plus_1(time):
    x = randn(batch, time, feat)
    out, history, state = rf.cum_concat(x, axis=time)
    assert history.length_dims == (time,) and history.lengths.tolist() == [1, 2, 3, 4]
    assert out.dims == (batch, history, feat)
    np.testing.assert_array_equal(out.numpy()[0], x.numpy()[0])
    assert state.axis.lengths.tolist() == [4, 2]


def test_keys_and_values_share_the_dim(time):
    keys, history, _ = rf.cum_concat(randn(batch, time, feat), axis=time)
    values, same, _ = rf.cum_concat(randn(batch, time), axis=time)
    assert history is same and history in keys.dims and history in values.dims


def test_a_dim_that_was_made_before_gets_the_lengths(time):
    history = Dim(None, name="mine")
    out, same, _ = rf.cum_concat(randn(batch, time, feat), axis=time, out_spatial_dim=history)
    assert same is history and history in out.dims and history.lengths.tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("mode", ["sum", "max", "mean"])
@pytest.mark.parametrize("face", FACES)
def test_reductions_over_the_triangle_are_those_of_the_steps(time, mode, face):
    x = randn(batch, time, feat)

    def body(loop):
        frames, history, loop.state.all = rf.cum_concat(loop.unstack(x), axis=single_step_dim, state=loop.state.all)
        return loop.stack(rf.reduce(frames, mode=mode, axis=history))

    got, states = run_face(face, body, axis=time, all=rf.cum_concat_initial_state([batch, feat]))
    whole, history, _ = rf.cum_concat(with_nan_padding(x), axis=time)
    assert_same(got, rf.reduce(rf.expand_dim(whole, dim=time), mode=mode, axis=history))
    assert states.all.axis.extent == 4


def test_a_product_with_weights_is_a_causal_attention(time):
    x, y = randn(batch, time, feat), randn(batch, time, feat, seed=1)
    keys, history, _ = rf.cum_concat(with_nan_padding(y), axis=time)
    weights = rf.softmax(rf.matmul(x, keys, reduce=feat), axis=history)
    assert np.triu(weights.numpy(), 1).max() == 0
    expected = rf.dot_attention(x, y, y, key_dim=feat, axis=time, causal_query_spatial_dim=time, scale=1.0)
    assert_same(rf.matmul(weights, keys, reduce=history), expected)


def test_parts_of_a_sequence_go_on():
    a, b = Dim(2, name="a"), Dim(3, name="b")
    x, y = randn(batch, a, feat), randn(batch, b, feat, seed=1)
    _, _, state = rf.cum_concat(x, axis=a)
    out, history, state = rf.cum_concat(y, axis=b, state=state)
    assert history.length_dims == (b,) and history.lengths.tolist() == [3, 4, 5]
    joined = np.concatenate([x.numpy(), y.numpy()], 1)
    np.testing.assert_array_equal(out.copy_transpose([batch, history, feat]).numpy(), joined)
    frames, last, _ = rf.cum_concat(randn(batch, feat, seed=2), axis=single_step_dim, state=state)
    assert last.extent == 6 and last in frames.dims


def test_parts_of_ragged_sequences_go_on(time):
    more = ragged([1, 3], batch, "more")
    x, y = randn(batch, time, feat), randn(batch, more, feat, seed=1)
    _, _, state = rf.cum_concat(x, axis=time)
    out, history, state = rf.cum_concat(y, axis=more, state=state)
    got = rf.reduce_sum(rf.expand_dim(out, dim=more), axis=history)
    before = rf.reduce_sum(x, axis=time)
    assert_same(got, before + rf.cumsum(y, spatial_dim=more))
    assert state.axis.lengths.tolist() == [5, 5]


def test_no_frames():
    empty = ragged([0, 0], batch, "empty")
    out, history, _ = rf.cum_concat(randn(batch, empty, feat), axis=empty)
    assert history.extent == 0 and out.numpy().shape == (2, 0, 3)


def test_labels_stay_labels(time):
    labels = tensor(np.zeros((2, 4), np.int32), batch, time, sparse_dim=feat)
    assert rf.cum_concat(labels, axis=time)[0].sparse_dim is feat
    state = rf.cum_concat_initial_state([batch], dtype="int32", sparse_dim=feat)
    frame = tensor(np.zeros(2, np.int32), batch, sparse_dim=feat)
    assert rf.cum_concat(frame, axis=single_step_dim, state=state)[0].sparse_dim is feat


def test_errors(time):
    x = randn(batch, feat)
    with raises_message(
        RuntimeError,
        """
        cum_concat: a single step without state.
          source  [batch=2, feat=3]
        It appends to the frames of the previous steps, so use it in a loop that carries them:
            loop.state.keys = rf.cum_concat_initial_state([batch, feat])
            for _ in loop:
                keys, history, loop.state.keys = rf.cum_concat(
                    key, axis=rf.single_step_dim, state=loop.state.keys)
        """,
    ):
        rf.cum_concat(x, axis=single_step_dim)
    with raises_message(
        DimError,
        """
        cum_concat: no dim time<=4.
          source  [batch=2, feat=3]
          dim     time<=4
        The dim time<=4 is not among the dims of source.
            source.dims[0]    # batch=2
            source.dims[1]    # feat=3
        """,
    ):
        rf.cum_concat(x, axis=time)
    other = Dim(7, name="other")
    with raises_message(
        DimError,
        """
        cum_concat: the state is inconsistent.
          state.accum  [batch=2, feat=3]
          state.axis   other=7
        axis is the dim of the frames in accum.
        """,
    ):
        rf.cum_concat(x, axis=single_step_dim, state=rf.State(accum=x, axis=other))
    with pytest.raises(DimError, match="cum_concat"):
        rf.cum_concat(randn(batch, time, feat), axis=time, out_spatial_dim=other)
