"""PositionalEncoding and RelativePositionalEncoding: what the golden data do not say."""

import numpy as np
import pytest
from asserting import assert_same, ragged, raises_message, randn, tensor
from loop_faces import FACES, run_face

import rfnb as rf
from rfnb import Dim, DimError, single_step_dim

batch, feat, out_dim = Dim(3, name="batch"), Dim(4, name="feat"), Dim(7, name="out")


@pytest.fixture
def time():
    return ragged([5, 2, 0], batch)


def signal(positions, size=7):
    half = size // 2
    angles = np.asarray(positions)[..., None] * 1e4 ** (-np.arange(half) / max(half - 1, 1))
    zero = np.zeros((*angles.shape[:-1], size % 2))
    return np.concatenate([np.sin(angles), np.cos(angles), zero], -1).astype(np.float32)


def test_the_source_only_tells_the_dims(time):
    x = randn(batch, time, feat)
    out, state = rf.PositionalEncoding(out_dim, in_dim=feat)(x, axis=time)
    assert_same(out, np.broadcast_to(signal(np.arange(5)), (3, 5, 7)))
    assert state.index.numpy().tolist() == [4, 1, -1]
    assert set(rf.PositionalEncoding(out_dim)(axis=time)[0].dims) == {time, out_dim}
    labels = tensor(np.zeros((3, 5), np.int32), batch, time, sparse_dim=feat)
    assert set(rf.PositionalEncoding(out_dim)(labels, axis=time)[0].dims) == {batch, time, out_dim}


@pytest.mark.parametrize("size", [1, 2, 3])
def test_few_features_do_not_divide_by_zero(time, size):
    out, _ = rf.PositionalEncoding(few := Dim(size, name="few"))(axis=time)
    assert_same(out, signal(np.arange(5), size))
    assert few in out.dims


@pytest.mark.parametrize("constant", [0, 3])
def test_a_constant_position_from_0_on(time, constant):
    encoding = rf.PositionalEncoding(out_dim, in_dim=feat, constant=constant)
    out, _ = encoding(randn(batch, time, feat), axis=time)
    assert_same(out, np.broadcast_to(signal(constant), (3, 5, 7)))
    step, _ = encoding(randn(batch, feat), axis=single_step_dim)
    assert_same(step, np.broadcast_to(signal(constant), (3, 7)))


def test_an_offset_per_sequence_or_per_frame(time):
    x, encoding = randn(batch, time, out_dim), rf.PositionalEncoding(out_dim, add_to_input=True)
    shift = np.array([2, 7, 1], np.int32)
    out, _ = encoding(x, axis=time, offset=tensor(shift, batch))
    assert_same(out, x.numpy() + signal(np.arange(5) + shift[:, None]))
    each = np.arange(15, dtype=np.int32).reshape(3, 5)
    out, _ = encoding(x, axis=time, offset=tensor(each, batch, time))
    assert_same(out, x.numpy() + signal(np.arange(5) + each))


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("over", ["nothing", "batch"])
def test_steps_count_themselves(time, face, over):
    x, encoding = randn(batch, time, feat), rf.PositionalEncoding(out_dim, in_dim=feat)
    offset = tensor(np.array([2, 7, 1], np.int32), batch)

    def body(loop):
        out, loop.state.p = encoding(loop.unstack(x), axis=single_step_dim, state=loop.state.p, offset=offset)
        return loop.stack(out)

    start = encoding.default_initial_state(batch_dims=[batch] if over == "batch" else [])
    out, _ = run_face(face, body, axis=time, p=start)
    assert_same(out, encoding(x, axis=time, offset=offset)[0])


def test_parts_of_a_sequence_go_on(time):
    encoding, more = rf.PositionalEncoding(out_dim, in_dim=feat), ragged([1, 2, 3], batch, "more")
    _, state = encoding(randn(batch, time, feat), axis=time)
    out, state = encoding(randn(batch, more, feat), axis=more, state=state)
    assert_same(out, signal(np.array([5, 2, 0])[:, None] + np.arange(3)))
    assert state.index.numpy().tolist() == [5, 3, 2]


@pytest.mark.parametrize("fixed", [False, True])
def test_relative_vectors_are_those_of_the_clipped_distance(time, fixed):
    encoding, other = rf.RelativePositionalEncoding(out_dim, clipping=2, fixed=fixed), Dim(6, name="other")
    table = signal(np.arange(5)) if fixed else encoding.encoding_matrix.numpy()
    assert [name for name, _ in encoding.named_parameters()] == ([] if fixed else ["encoding_matrix"])
    distances = np.arange(6) - np.arange(5)[:, None]
    for offset, shift in ((None, 0), (2, 2)):
        out = encoding(query_spatial_dim=time, key_value_spatial_dim=other, query_offset=offset)
        assert_same(out, table[np.clip(distances - shift, -2, 2) + 2])
    single = table[np.clip(np.arange(6) - 5, -2, 2) + 2]
    for query in (None, single_step_dim):
        assert_same(encoding(query_spatial_dim=query, key_value_spatial_dim=other), single)
    at_3 = encoding(query_spatial_dim=None, key_value_spatial_dim=other, query_offset=tensor(np.int32(3)))
    assert_same(at_3, table[np.clip(np.arange(6) - 3, -2, 2) + 2])


@pytest.mark.parametrize("face", FACES)
def test_relative_vectors_of_a_history_in_a_loop(time, face):
    """Their sum over the history, which has one frame more in each step."""
    x, encoding = randn(batch, time, feat), rf.RelativePositionalEncoding(out_dim, clipping=2)

    def body(loop):
        _, history, loop.state.all = rf.cum_concat(loop.unstack(x), axis=single_step_dim, state=loop.state.all)
        vectors = encoding(query_spatial_dim=single_step_dim, key_value_spatial_dim=history)
        return loop.stack(rf.expand_dim(rf.reduce_sum(vectors, axis=history), dim=batch))

    out, _ = run_face(face, body, axis=time, all=rf.cum_concat_initial_state([batch, feat]))
    table = encoding.encoding_matrix.numpy()
    expected = [sum(table[max(j - t, -2) + 2] for j in range(t + 1)) for t in range(5)]
    assert_same(out.copy_transpose([time, batch, out_dim]), np.broadcast_to(np.array(expected)[:, None], (5, 3, 7)))


def test_errors(time):
    with raises_message(
        ValueError,
        """
        PositionalEncoding: which position is this step?
          axis   single_step_dim
          state  None
        A single step does not know the number of previous steps; the state counts them.
            state = encoding.default_initial_state(batch_dims=[batch])
        """,
    ):
        rf.PositionalEncoding(out_dim)(axis=single_step_dim)
    with raises_message(
        DimError,
        """
        PositionalEncoding: which dim of the source are its features?
          source  [batch=3, time<=5, feat=4]
        The encoding takes their place.
            rf.PositionalEncoding(out_dim, in_dim=in_dim)
        """,
    ):
        rf.PositionalEncoding(out_dim)(randn(batch, time, feat), axis=time)
    with raises_message(
        DimError,
        """
        PositionalEncoding: no dim out=7.
          source  [batch=3, time<=5, feat=4]
          dim     out=7
        The dim out=7 is not among the dims of source.
            source.dims[0]    # batch=3
            source.dims[1]    # time<=5
            source.dims[2]    # feat=4
        """,
    ):
        rf.PositionalEncoding(out_dim, add_to_input=True)(randn(batch, time, feat), axis=time)
    with raises_message(
        DimError,
        """
        PositionalEncoding: no dim time<=5.
          source  [batch=3, out=7]
          dim     time<=5
        The dim time<=5 is not among the dims of source.
            source.dims[0]    # batch=3
            source.dims[1]    # out=7
        """,
    ):
        rf.PositionalEncoding(out_dim)(randn(batch, out_dim), axis=time)
    with raises_message(
        ValueError,
        """
        RelativePositionalEncoding: which keys does the query see?
          query_spatial_dim      single_step_dim
          key_value_spatial_dim  None
        A single step has the keys of its history.
            encoding(query_spatial_dim=rf.single_step_dim, key_value_spatial_dim=history)
        """,
    ):
        rf.RelativePositionalEncoding(out_dim)(query_spatial_dim=single_step_dim)
