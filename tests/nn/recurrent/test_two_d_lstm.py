"""LSTM over a grid: against the equations in raw torch, row by row, poolings by hand."""

import numpy as np
import pytest
import torch
from asserting import assert_same, ragged, raises_message, randn, tensor, with_nan_padding
from loop_faces import FACES, gradients, run_face
from plain_two_d_lstm import grid

import rfnb as rf
from rfnb import Dim, DimError, single_step_dim
from rfnb.trace.probe import listen

batch, x_dim, y_dim, out_dim = (
    Dim(n, name=name) for n, name in ((3, "batch"), (4, "x_feat"), (5, "y_feat"), (2, "out"))
)
WIDTHS, HEIGHTS = [6, 2, 0], [3, 4, 1]
POOLINGS = ["last", "average", "max", "weighted"]


@pytest.fixture
def source():
    return ragged(WIDTHS, batch, "source")


@pytest.fixture
def target():
    return ragged(HEIGHTS, batch, "target")


def make(**options):
    rf.set_random_seed(2)
    lstm = rf.TwoDLSTM(x_dim, y_dim, out_dim, **options)
    for parameter in lstm.parameters():
        parameter.initial = rf.Normal(0.7)
    return lstm


def inputs(source, target):
    return randn(batch, source, x_dim), randn(batch, target, y_dim, seed=1)


def plain(lstm, x, y):
    weights = (parameter.raw_tensor for parameter in (lstm.W_re, lstm.Vh_re, lstm.Vv_re))
    return grid(x.raw_tensor, y.raw_tensor, torch.tensor(WIDTHS), *weights)


def pooled(lstm, h, y, *, masked=False):
    """h [batch, height, width, out] -> [batch, height, out]."""
    lengths = torch.tensor(WIDTHS)
    real = torch.arange(h.shape[2]) < lengths[:, None]
    if lstm.pooling == "last":
        return h[torch.arange(3), :, (lengths - 1).clamp(min=0)]
    if lstm.pooling == "average":
        return h.sum(2) / lengths.clamp(min=1)[:, None, None]
    if lstm.pooling == "max":
        if not masked:
            return h.amax(2)
        best = h.masked_fill(~real[:, None, :, None], -torch.inf).amax(2)
        return torch.where((lengths > 0)[:, None, None], best, 0.0)
    energy = torch.einsum("byi,io,byxo->byx", y.raw_tensor, lstm.W_att.raw_tensor, h)
    if masked:
        energy = energy.masked_fill(~real[:, None], -1e30)
    return torch.einsum("byx,byxo->byo", energy.softmax(-1), h)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("pooling", POOLINGS)
def test_values_and_gradients_are_those_of_the_equations(source, target, pooling, masked):
    lstm, (x, y) = make(pooling=pooling, mask_pooling=masked), inputs(source, target)

    def ours():
        return lstm(x, y, x_axis=source, y_axis=target)[0]

    def theirs():
        return rf.convert_to_tensor(pooled(lstm, plain(lstm, x, y), y, masked=masked), dims=[batch, target, out_dim])

    assert_same(ours(), theirs())
    of_ours, of_theirs = gradients(lstm, x, y, of=ours), gradients(lstm, x, y, of=theirs)
    for name, gradient in of_theirs.items():
        torch.testing.assert_close(of_ours[name], gradient, msg=name)


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("face", FACES)
def test_row_by_row_is_the_whole(source, target, pooling, face):
    lstm, (x, y) = make(pooling=pooling), inputs(source, target)

    def rows():
        def body(loop):
            out, loop.state.row = lstm(x, loop.unstack(y), x_axis=source, y_axis=single_step_dim, state=loop.state.row)
            return loop.stack(out)

        start = lstm.default_initial_state(batch_dims=[batch, source])
        out, states = run_face(face, body, axis=target, row=start)
        final.append(states.row)
        return out

    final = []
    whole, state = lstm(x, y, x_axis=source, y_axis=target)
    assert_same(rows(), whole)
    assert_same(dict(final[0]), dict(state))
    of_rows = gradients(lstm, x, y, of=rows)
    of_whole = gradients(lstm, x, y, of=lambda: lstm(x, y, x_axis=source, y_axis=target)[0])
    for name, gradient in of_whole.items():
        torch.testing.assert_close(of_rows[name], gradient, msg=name)


def test_padding_of_neither_axis_counts(source, target):
    x, y = inputs(source, target)
    for pooling in POOLINGS:
        lstm = make(pooling=pooling)
        clean, dirty = (lstm(f(x), f(y), x_axis=source, y_axis=target) for f in (lambda v: v, with_nan_padding))
        assert_same(dirty[0], clean[0])
        assert_same(dict(dirty[1]), dict(clean[1]))


def test_the_state_goes_on_with_the_next_rows(source, target):
    lstm, (x, y) = make(), inputs(source, target)
    more = Dim(2, name="more")
    z = randn(batch, more, y_dim, seed=5)
    both, joined = rf.concat((y, target), (z, more))
    whole, end = lstm(x, both, x_axis=source, y_axis=joined)
    first, state = lstm(x, y, x_axis=source, y_axis=target)
    second, state = lstm(x, z, x_axis=source, y_axis=more, state=state)
    assert_same(rf.concat((first, target), (second, more), out_dim=joined, allow_broadcast=True)[0], whole)
    assert_same(dict(state), dict(end))


def test_labels_are_rows_of_the_weight(source, target):
    lstm, x = make(pooling="weighted"), randn(batch, source, x_dim)
    labels = tensor(np.arange(12, dtype=np.int32).reshape(3, 4) % 5, batch, target, sparse_dim=y_dim)
    dense = rf.one_hot(labels)
    assert_same(lstm(x, labels, x_axis=source, y_axis=target)[0], lstm(x, dense, x_axis=source, y_axis=target)[0])


def test_further_dims_of_one_source_ride_along(source, target):
    lstm, beam = make(), Dim(2, name="beam")
    x, y = randn(batch, source, x_dim), randn(batch, beam, target, y_dim, seed=1)
    out, _ = lstm(x, y, x_axis=source, y_axis=target)
    for k in range(2):
        one = lstm(x, rf.gather(y, indices=k, axis=beam), x_axis=source, y_axis=target)[0]
        assert_same(rf.gather(out, indices=k, axis=beam), one)


def test_all_dims_may_be_the_same_feature(source, target):
    lstm = rf.TwoDLSTM(x_dim, x_dim, x_dim, pooling="weighted")
    out, _ = lstm(randn(batch, source, x_dim), randn(batch, target, x_dim), x_axis=source, y_axis=target)
    assert set(out.dims) == {batch, target, x_dim}


@pytest.mark.parametrize("pooling", POOLINGS)
def test_no_columns_and_no_rows(target, source, pooling):
    lstm, empty = make(pooling=pooling), ragged([0, 0, 0], batch, "empty")
    x, y = inputs(source, target)
    out, _ = lstm(randn(batch, empty, x_dim), y, x_axis=empty, y_axis=target)
    assert_same(out, rf.zeros([batch, target, out_dim]))
    out, state = lstm(x, randn(batch, empty, y_dim), x_axis=source, y_axis=empty)
    assert out.numpy().size == 0
    assert_same(state.h, rf.zeros([batch, source, out_dim]))


def test_weights_of_the_pooling_and_the_rows_are_offered(source, target):
    lstm, (x, y), heard = make(pooling="weighted"), inputs(source, target), {}
    with listen(lambda kind, place, values: heard.update({kind: values})):
        out, _ = lstm(x, y, x_axis=source, y_axis=target)
    weights = heard["attention"]["weights"]
    np.testing.assert_allclose(weights.copy_transpose([batch, target, source]).numpy().sum(-1), 1, rtol=1e-5)
    assert heard["attention"]["axis"] is source
    assert_same(heard["states"]["h"], out)


def test_errors(source, target):
    lstm, x = make(), randn(batch, source, x_dim)
    with raises_message(
        ValueError,
        """
        TwoDLSTM: 1 sources.
          source 0  [batch=3, source<=6, x_feat=4]
        A grid has two axes: it takes the source of the x axis and that of the y axis.
            lstm(x, y, x_axis=source_time, y_axis=target_time)
        """,
    ):
        lstm(x, x_axis=source, y_axis=target)
    with raises_message(
        ValueError,
        """
        TwoDLSTM: pooling "first".
          known  last, max, average, weighted
        A row of the grid becomes one vector by one of these.
            rf.TwoDLSTM(..., pooling="last")
        """,
    ):
        make(pooling="first")
    with raises_message(
        DimError,
        """
        TwoDLSTM: no dim target<=4.
          y    [batch=3, source<=6, x_feat=4]
          dim  target<=4
        The dim target<=4 is not among the dims of y.
            y.dims[0]    # batch=3
            y.dims[1]    # source<=6
            y.dims[2]    # x_feat=4
        """,
    ):
        lstm(x, x, x_axis=source, y_axis=target)
    with raises_message(
        DimError,
        """
        TwoDLSTM: no dim y_feat=5.
          y    [batch=3, source<=6, x_feat=4]
          dim  y_feat=5
        The dim y_feat=5 is not among the dims of y.
            y.dims[0]    # batch=3
            y.dims[1]    # source<=6
            y.dims[2]    # x_feat=4
        """,
    ):
        lstm(x, x, x_axis=source, y_axis=source)
    with raises_message(
        DimError,
        """
        TwoDLSTM: both axes are the same dim.
          x  [batch=3, source<=6, x_feat=4]
          y  [batch=3, source<=6, y_feat=5]
        A grid has two axes. Give one of them a dim of its own:
            y, y_axis = rf.replace_dim(y, in_dim=source)
        """,
    ):
        lstm(x, randn(batch, source, y_dim), x_axis=source, y_axis=source)
