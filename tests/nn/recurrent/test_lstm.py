"""LSTM against torch.nn.LSTM on every sequence alone."""

import numpy as np
import pytest
import torch
from asserting import assert_same, ragged, raises_message, randn, with_nan_padding

import rfnb as rf
from rfnb import Dim, DimError
from rfnb.trace.probe import listen

batch, d_in, d_out = Dim(4, name="batch"), Dim(2, name="in"), Dim(3, name="out")
LENGTHS = [6, 3, 1, 0]


@pytest.fixture
def time():
    return ragged(LENGTHS, batch)


def make(*, with_bias=True, dtype="float32"):
    rf.set_random_seed(3)
    lstm = rf.LSTM(d_in, d_out, with_bias=with_bias)
    if with_bias:
        lstm.bias.initial = rf.Normal(1.0)
    lstm.to(dtype=dtype)
    return lstm


def torch_lstm(lstm):
    """torch's LSTM with the same weights."""
    other = torch.nn.LSTM(2, 3, bias=lstm.bias is not None, dtype=lstm.ff_weight.raw_tensor.dtype)
    values = {"weight_ih_l0": lstm.ff_weight, "weight_hh_l0": lstm.rec_weight, "bias_ih_l0": lstm.bias}
    with torch.no_grad():
        for name, parameter in other.named_parameters():
            parameter.copy_(values[name].raw_tensor) if name in values else parameter.zero_()
    return other


def state_of(*dims, seed=0):
    return rf.LstmState(h=randn(*dims, d_out, seed=seed + 1), c=randn(*dims, d_out, seed=seed + 2))


def alone(lstm, x, state, seq, length):
    """torch's outputs, h and c for one sequence; x {batch, time, in}."""
    h, c = state.h.raw_tensor[seq], state.c.raw_tensor[seq]
    if not length:
        return x.raw_tensor.new_zeros((0, 3)), h, c
    y, (h, c) = lstm(x.raw_tensor[seq, :length], (h[None], c[None]))
    return y, h[0], c[0]


@pytest.mark.parametrize("with_bias", [True, False])
def test_each_sequence_is_that_of_torch_alone(time, with_bias):
    lstm, x, state = make(with_bias=with_bias), randn(batch, time, d_in), state_of(batch)
    y, final = lstm(with_nan_padding(x), state=state, spatial_dim=time)
    assert y.dims[0] is time and y.feature_dim is d_out
    values = y.copy_transpose([batch, time, d_out]).raw_tensor
    for seq, length in enumerate(LENGTHS):
        expected, h, c = alone(torch_lstm(lstm), x, state, seq, length)
        torch.testing.assert_close(values[seq, :length], expected)
        assert not values[seq, length:].any()  # what comes after is 0
        torch.testing.assert_close(final.h.copy_transpose([batch, d_out]).raw_tensor[seq], h)
        torch.testing.assert_close(final.c.copy_transpose([batch, d_out]).raw_tensor[seq], c)


def test_gradients_are_those_of_torch_alone(time):
    lstm, x, state = make(), randn(batch, time, d_in), state_of(batch)
    other, expected = torch_lstm(lstm), 0.0
    inputs = [x, state.h, state.c]
    for source in inputs:
        rf.set_requires_gradient(source)
    for seq, length in enumerate(LENGTHS):
        y, h, c = alone(other, x, state, seq, length)
        expected = expected + y.square().sum() + (h * 2).sum() + c.exp().sum()
    expected.backward()
    wanted = [source.raw_tensor.grad.clone() for source in inputs]
    for source in inputs:
        source.raw_tensor.grad = None

    dirty = with_nan_padding(x)
    rf.set_requires_gradient(dirty)
    y, final = lstm(dirty, state=state, spatial_dim=time)
    total = rf.reduce_sum(rf.square(y), axis=[time, batch, d_out])
    total = total + rf.reduce_sum(final.h * 2 + rf.exp(final.c), axis=[batch, d_out])
    total.raw_tensor.backward()
    for got, want in zip((dirty, state.h, state.c), wanted):
        torch.testing.assert_close(got.raw_tensor.grad, want)
    torch.testing.assert_close(lstm.ff_weight.raw_tensor.grad, other.weight_ih_l0.grad)
    torch.testing.assert_close(lstm.rec_weight.raw_tensor.grad, other.weight_hh_l0.grad)
    torch.testing.assert_close(lstm.bias.raw_tensor.grad, other.bias_ih_l0.grad)


def test_gradients_pass_gradcheck_in_float64(time):
    lstm, x, state = make(dtype="float64"), randn(batch, time, d_in), state_of(batch)

    def fn(raw_x, raw_h, raw_c, *weights):
        for parameter, weight in zip((lstm.ff_weight, lstm.rec_weight, lstm.bias), weights):
            parameter._raw = weight
        initial = rf.LstmState(
            h=rf.convert_to_tensor(raw_h, dims=[batch, d_out]), c=rf.convert_to_tensor(raw_c, dims=[batch, d_out])
        )
        y, final = lstm(rf.convert_to_tensor(raw_x, dims=[batch, time, d_in]), state=initial, spatial_dim=time)
        return y.raw_tensor, final.h.raw_tensor, final.c.raw_tensor

    sources = [x, state.h, state.c, lstm.ff_weight, lstm.rec_weight, lstm.bias]
    assert torch.autograd.gradcheck(fn, [s.raw_tensor.detach().double().requires_grad_() for s in sources])


def test_the_order_of_dims_does_not_matter(time):
    lstm, x, state = make(), randn(batch, time, d_in), state_of(batch)
    expected = lstm(x, state=state, spatial_dim=time)
    turned = rf.LstmState(h=state.h.copy_transpose([d_out, batch]), c=state.c.copy_transpose([d_out, batch]))
    assert_same(lstm(x.copy_transpose([d_in, time, batch]), state=turned, spatial_dim=time), expected)


def test_further_dims_are_as_if_each_ran_alone(time):
    heads, beam = Dim(2, name="heads"), Dim(3, name="beam")
    lstm, x, state = make(), randn(heads, batch, time, d_in), state_of(batch, beam)
    y, final = lstm(x, state=state, spatial_dim=time)
    assert set(y.dims) == {heads, batch, beam, time, d_out}
    for head in range(2):
        for k in range(3):
            one = rf.LstmState(h=rf.gather(state.h, indices=k, axis=beam), c=rf.gather(state.c, indices=k, axis=beam))
            expected = lstm(rf.gather(x, indices=head, axis=heads), state=one, spatial_dim=time)
            got = (y, final.h, final.c)
            got = [rf.gather(rf.gather(value, indices=head, axis=heads), indices=k, axis=beam) for value in got]
            assert_same(got, [expected[0], expected[1].h, expected[1].c])


def test_no_batch_dim_at_all():
    frames = Dim(5, name="frames")
    lstm, x = make(), randn(frames, d_in)
    y, final = lstm(x, state=lstm.default_initial_state(batch_dims=[]), spatial_dim=frames)
    expected, (h, c) = torch_lstm(lstm)(x.raw_tensor)
    torch.testing.assert_close(y.copy_transpose([frames, d_out]).raw_tensor, expected)
    torch.testing.assert_close(final.h.raw_tensor, h[0])


@pytest.mark.parametrize("dims", [(batch,), (), (batch, Dim(2, name="heads"))])
def test_without_frames_the_state_stays(dims):
    empty = Dim(0, name="empty")
    lstm, state = make(), state_of(*dims)
    y, final = lstm(rf.zeros([*dims, empty, d_in]), state=state, spatial_dim=empty)
    assert_same([final.h, final.c], [state.h, state.c])
    assert set(y.dims) == {*dims, empty, d_out} and y.numpy().size == 0


def test_steps_are_the_whole_sequence(time):
    lstm, x, state = make(), randn(batch, time, d_in), state_of(batch)
    expected = lstm(x, state=state, spatial_dim=time)
    loop = rf.Loop(axis=time)
    loop.state.lstm = state
    for _ in loop:
        y, loop.state.lstm = lstm(loop.unstack(x), state=loop.state.lstm, spatial_dim=rf.single_step_dim)
        out = loop.stack(y)
    assert_same(out, expected[0])
    assert_same([loop.state.lstm.h, loop.state.lstm.c], [expected[1].h, expected[1].c])


def test_a_single_step_over_many_batch_dims_and_none():
    lstm, beam = make(), Dim(2, name="beam")
    for dims in ((), (batch, beam)):
        x, state = randn(*dims, d_in), state_of(*dims)
        y, final = lstm(x, state=state, spatial_dim=rf.single_step_dim)
        flat = [t.raw_tensor.reshape(-1, t.raw_tensor.shape[-1]) for t in (x, state.h, state.c)]
        expected, (h, c) = torch_lstm(lstm)(flat[0][None], (flat[1][None], flat[2][None]))
        for got, want in ((y, h), (final.h, h), (final.c, c)):
            torch.testing.assert_close(got.raw_tensor.reshape(want.shape), want)


def test_lengths_over_a_dim_that_the_source_gets_from_the_state(time):
    lstm, state = make(), state_of(batch)
    x = randn(time, d_in)
    y, final = lstm(x, state=state, spatial_dim=time)
    expected = lstm(rf.expand_dim(x, batch), state=state, spatial_dim=time)
    assert_same([y, final.h], [expected[0], expected[1].h])


def test_the_states_of_a_whole_sequence_are_offered(time):
    lstm, events = make(), []
    with listen(lambda kind, place, values: events.append((kind, values))):
        y, _ = lstm(randn(batch, time, d_in), state=state_of(batch), spatial_dim=time)
    states = [values for kind, values in events if kind == "states"]
    assert len(states) == 1 and states[0]["h"] is y and states[0]["axis"] is time


def test_the_forms_of_the_parameters():
    lstm = rf.LSTM(d_in, d_out)
    assert [(name, p.numpy().shape) for name, p in lstm.named_parameters()] == [
        ("ff_weight", (12, 2)),
        ("rec_weight", (12, 3)),
        ("bias", (12,)),
    ]
    assert not lstm.bias.numpy().any() and np.abs(lstm.ff_weight.numpy()).max() <= np.sqrt(6 / (12 + 2))


def test_a_source_without_its_dims(time):
    lstm = make()
    with raises_message(
        DimError,
        """
        LSTM: no dim in=2.
          source  [batch=4]
          dim     in=2
        The dim in=2 is not among the dims of source.
            source.dims[0]    # batch=4
        """,
    ):
        lstm(randn(batch), state=state_of(batch), spatial_dim=rf.single_step_dim)
    with raises_message(
        DimError,
        """
        LSTM: no dim time<=6.
          source  [batch=4, in=2]
          dim     time<=6
        The dim time<=6 is not among the dims of source.
            source.dims[0]    # batch=4
            source.dims[1]    # in=2
        """,
    ):
        lstm(randn(batch, d_in), state=state_of(batch), spatial_dim=time)
    with raises_message(
        DimError,
        """
        LSTM: the lengths of time<=6 are over [batch=4], which is not here.
          source      [time<=6, in=2]
          batch dims  []
          lengths     [batch=4]
        Which frames are real differs per sequence. One sequence that was picked (i) keeps its own frames if they are cut out first;
        what is the same for all sequences needs their dim:
            source, time = rf.slice(source, axis=time, size=rf.gather(time.dyn_size_ext, indices=i, axis=batch))
            source = rf.expand_dim(source, dim=batch)
        """,
    ):
        lstm(randn(time, d_in), state=state_of(), spatial_dim=time)
