"""ZoneoutLSTM against the LSTM without zoneout, and the formulas in raw torch."""

import math

import pytest
import torch
from asserting import assert_same, ragged, raises_message, randn, tensor, with_nan_padding

import rfnb as rf
from rfnb import Dim, single_step_dim

batch, d_in, out = Dim(3, name="batch"), Dim(2, name="in"), Dim(5, name="out")


def make(**options):
    lstm = rf.ZoneoutLSTM(d_in, out, **options)
    rf.set_random_seed(4)
    for parameter in lstm.parameters():
        parameter.initial = rf.Normal(1.0)
    return lstm


def some_state():
    return rf.LstmState(h=randn(batch, out, seed=1), c=randn(batch, out, seed=2))


def formula(lstm, x, h, c):
    """(h, c) of an LSTM without zoneout."""
    gates = x @ lstm.ff_weight.raw_tensor.T + h @ lstm.rec_weight.raw_tensor.T + lstm.bias.raw_tensor
    parts = dict(zip(lstm.parts_order.replace("g", "c").replace("j", "c"), gates.chunk(4, -1)))
    c = torch.sigmoid(parts["f"] + lstm.forget_bias) * c + torch.sigmoid(parts["i"]) * torch.tanh(parts["c"])
    return torch.sigmoid(parts["o"]) * torch.tanh(c), c


def test_without_zoneout_it_is_the_lstm():
    zoneout, lstm, time = make(), rf.LSTM(d_in, out), ragged([7, 4, 1], batch)
    for ours, theirs in zip(zoneout.parameters(), lstm.parameters()):
        theirs.assign(ours)
    x = with_nan_padding(randn(batch, time, d_in))
    got, end = zoneout(x, state=some_state(), spatial_dim=time)
    expected, expected_end = lstm(x, state=some_state(), spatial_dim=time)
    assert_same(got, expected)
    assert_same(dict(end), dict(expected_end))
    assert got.feature_dim is out


@pytest.mark.parametrize("parts_order", ["ifco", "jifo", "igfo", "ofic", "jofi"])
def test_the_gates_stand_in_the_order_of_their_letters(parts_order):
    """With weights 0 the biases are all there is; each gate has another one."""
    sizes = {"i": 0.3, "f": -0.7, "o": 1.1, "c": 0.5, "g": 0.5, "j": 0.5}
    one = Dim(1, name="one")
    lstm = rf.ZoneoutLSTM(d_in, one, parts_order=parts_order)
    lstm.ff_weight.initial = lstm.rec_weight.initial = 0.0
    lstm.bias.assign(tensor([sizes[letter] for letter in parts_order], *lstm.bias.dims))
    old = tensor([2.0], one)
    _, new = lstm(tensor([1.0, 1.0], d_in), state=rf.LstmState(h=old, c=old), spatial_dim=single_step_dim)
    sigmoid = lambda x: 1 / (1 + math.exp(-x))  # noqa: E731
    c = sigmoid(-0.7) * 2 + sigmoid(0.3) * math.tanh(0.5)
    assert_same(dict(new), {"h": tensor([sigmoid(1.1) * math.tanh(c)], one), "c": tensor([c], one)})


@pytest.mark.parametrize("use_zoneout_output", [True, False])
def test_outside_of_training_old_and_new_values_are_mixed(use_zoneout_output):
    lstm = make(
        zoneout_factor_cell=0.2,
        zoneout_factor_output=0.3,
        forget_bias=1.0,
        parts_order="cifo",
        use_zoneout_output=use_zoneout_output,
    )
    x, state = randn(batch, d_in), some_state()
    got, new = lstm(x, state=state, spatial_dim=single_step_dim)
    h, c = formula(lstm, x.raw_tensor, state.h.raw_tensor, state.c.raw_tensor)
    mixed = 0.7 * h + 0.3 * state.h.raw_tensor
    torch.testing.assert_close(new.h.raw_tensor, mixed)
    torch.testing.assert_close(new.c.raw_tensor, 0.8 * c + 0.2 * state.c.raw_tensor)
    torch.testing.assert_close(got.raw_tensor, mixed if use_zoneout_output else h)


def test_in_training_a_unit_is_old_or_new():
    many = Dim(400, name="many")
    lstm = make(zoneout_factor_cell=0.25, zoneout_factor_output=0.5)
    x, state = randn(many, d_in), rf.LstmState(h=randn(many, out, seed=1), c=randn(many, out, seed=2))
    h, c = formula(lstm, x.raw_tensor, state.h.raw_tensor, state.c.raw_tensor)
    rf.init_train_step_run_ctx()
    try:
        _, new = lstm(x, state=state, spatial_dim=single_step_dim)
    finally:
        rf.init_forward_step_run_ctx()
    for got, old, fresh, factor in ((new.h, state.h, h, 0.5), (new.c, state.c, c, 0.25)):
        kept = (got.raw_tensor - old.raw_tensor).abs() < 1e-6
        assert (kept | ((got.raw_tensor - fresh).abs() < 1e-5)).all()
        assert abs(kept.float().mean() - factor) < 0.05


def test_a_factor_of_1_keeps_everything():
    state = some_state()
    _, new = make(zoneout_factor_cell=1.0, zoneout_factor_output=1.0)(
        randn(batch, d_in), state=state, spatial_dim=single_step_dim
    )
    assert_same(dict(new), dict(state))


def test_a_factor_that_is_no_probability():
    with raises_message(ValueError, """
        ZoneoutLSTM: no probability to keep a value.
          zoneout_factor_cell  1.5
        A probability is from 0 to 1.
            rf.ZoneoutLSTM(..., zoneout_factor_cell=0.1)
    """):  # fmt: skip
        make(zoneout_factor_cell=1.5)


@pytest.mark.parametrize("order", ["ifcc", "ifgj", "ifo", "ifcox"])
def test_an_order_that_lacks_a_gate_or_has_one_twice(order):
    with raises_message(ValueError, f"""
        ZoneoutLSTM: no order of the gates.
          parts_order  {order}
        Each of the four gates has its letter once: i, f, o, and c, g or j for the input of the cell.
            rf.ZoneoutLSTM(..., parts_order="ifco")
    """):  # fmt: skip
        make(parts_order=order)


def test_no_frames_keep_the_state():
    time, state = Dim(0, name="time"), some_state()
    got, end = make()(randn(batch, time, d_in), state=state, spatial_dim=time)
    assert set(got.dims) == {batch, time, out} and end is state and got.feature_dim is out
