"""Recurrent units with torch.nn's parameters: outputs, final states and gradients of every sequence alone."""

import numpy as np
import pytest
import torch
from asserting import assert_same, ragged, raises_message, randn, with_nan_padding

import rfnb as rf
from rfnb import Dim
from rfnb.interop.torch_nn import (
    convert_lstm,
    export_params_lstm_to_torch,
    import_params_torch_gru_to_rf,
    import_params_torch_lstm_to_rf,
    import_params_torch_rnn_to_rf,
    lstm_matrices,
    reorder_gates,
)

LENGTHS = [6, 3, 1, 0]
batch, d_in, out = Dim(4, name="batch"), Dim(2, name="in"), Dim(3, name="out")
LSTMS = {
    "NativeLstm2": lambda: rf.NativeLstm2(d_in, out),
    "StandardLSTMCell": lambda: rf.StandardLSTMCell(d_in, out),
    "LSTM": lambda: rf.LSTM(d_in, out),
}


def pairs():
    """name -> (unit of ours, torch's with the same weights)."""
    torch.manual_seed(1)
    lstm, gru, rnn = (kind(2, 3, dtype=torch.float64) for kind in (torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN))
    with rf.set_default_float_dtype_ctx("float64"):
        found = {
            "NativeLstm2": (rf.NativeLstm2(d_in, out), lstm),
            "StandardLSTMCell": (rf.StandardLSTMCell(d_in, out), lstm),
            "TorchGRUCell": (rf.TorchGRUCell(d_in, out), gru),
            "BasicRNNCell": (rf.BasicRNNCell(d_in, out), rnn),
        }
    for unit, model in found.values():
        importers = {
            torch.nn.LSTM: import_params_torch_lstm_to_rf,
            torch.nn.GRU: import_params_torch_gru_to_rf,
            torch.nn.RNN: import_params_torch_rnn_to_rf,
        }
        importers[type(model)](model, unit)
    return found


def alone(model, x, state, direction):
    """Outputs and final parts for one sequence; x (time, in), state of parts (out,)."""
    if not len(x):
        return x.new_zeros((0, 3)), state
    initial = tuple(part[None, None] for part in state)
    y, final = model(x.flip(0)[:, None] if direction == -1 else x[:, None], initial if len(state) == 2 else initial[0])
    final = [part[0, 0] for part in (final if isinstance(final, tuple) else (final,))]
    return (y[:, 0].flip(0) if direction == -1 else y[:, 0]), final


@pytest.mark.parametrize("direction", [1, -1])
@pytest.mark.parametrize("steps", [False, True])
@pytest.mark.parametrize("name", ["NativeLstm2", "StandardLSTMCell", "TorchGRUCell", "BasicRNNCell"])
def test_each_sequence_is_that_of_torch_alone_also_backward(name, steps, direction, monkeypatch):
    unit, model = pairs()[name]
    if steps:  # without the kernel
        monkeypatch.setattr(type(unit), "has_kernel", lambda self: False)
    time = ragged(LENGTHS, batch)
    parts = ["h", "c"][: len(unit.state_parts)]
    x = with_nan_padding(rf.cast(randn(batch, time, d_in), "float64"))
    state = {part: rf.cast(randn(batch, out, seed=seed), "float64") for seed, part in enumerate(parts, 1)}
    for value in (x, *state.values()):
        rf.set_requires_gradient(value)
    raws = [value.raw_tensor.detach().clone().requires_grad_() for value in (x, *state.values())]

    y, final = unit(x, state=state, spatial_dim=time, direction=direction)
    values = y.copy_transpose([batch, time, out]).raw_tensor
    total, expected_total = values.square().sum(), 0.0
    for part in parts:
        total = total + (final[part].copy_transpose([batch, out]).raw_tensor * 2).sum()
    for seq, length in enumerate(LENGTHS):
        expected, last = alone(model, raws[0][seq, :length], [raw[seq] for raw in raws[1:]], direction)
        torch.testing.assert_close(values[seq, :length], expected)
        assert not values[seq, length:].any()
        for part, value in zip(parts, last):
            torch.testing.assert_close(final[part].copy_transpose([batch, out]).raw_tensor[seq], value)
            expected_total = expected_total + (value * 2).sum()
        expected_total = expected_total + expected.square().sum()

    total.backward()
    expected_total.backward()
    for value, raw in zip((x, *state.values()), raws):
        torch.testing.assert_close(value.raw_tensor.grad, raw.grad)
    check_gradients(unit, model)


@pytest.mark.parametrize("direction", [1, -1])
def test_the_first_native_lstm_is_that_of_torch_from_zeros(direction):
    torch.manual_seed(1)
    model, time = torch.nn.LSTM(2, 3, dtype=torch.float64), ragged(LENGTHS, batch)
    with rf.set_default_float_dtype_ctx("float64"):
        unit = rf.NativeLstm(d_in, out)
    import_params_torch_lstm_to_rf(model, unit)
    x = rf.cast(randn(batch, time, d_in), "float64")
    y, final = unit(with_nan_padding(x), spatial_dim=time, direction=direction)
    values, total = y.copy_transpose([batch, time, out]).raw_tensor, 0.0
    for seq, length in enumerate(LENGTHS):
        zeros = [torch.zeros(3, dtype=torch.float64)] * 2
        expected, last = alone(model, x.raw_tensor[seq, :length], zeros, direction)
        torch.testing.assert_close(values[seq, :length], expected)
        torch.testing.assert_close(final.c.copy_transpose([batch, out]).raw_tensor[seq], last[1])
        total = total + expected.square().sum()
    assert list(final) == ["c"]
    values.square().sum().backward()
    total.backward()
    check_gradients(unit, model)


def check_gradients(unit, model):
    """The gradients of the weights, brought into the layout of torch."""
    weight, recurrent, bias = (getattr(model, f"{name}_l0").grad for name in ("weight_ih", "weight_hh", "bias_ih"))
    if isinstance(unit, rf.StandardLSTMCell | rf.BasicRNNCell):
        kernel = unit.kernel.raw_tensor.grad
        own = [kernel[:2], kernel[2:], unit.bias.raw_tensor.grad]
    else:
        own = [parameter.raw_tensor.grad for parameter in (unit.W, unit.W_re, unit.b)]
    order = getattr(unit, "order", None)
    if order:
        own = [torch.from_numpy(reorder_gates(part.numpy(), source=order, target="ifjo")) for part in own]
    for got, expected in zip(own, (weight.T, recurrent.T, bias)):
        torch.testing.assert_close(got, expected)


# -- layouts -----------------------------------------------------------------------------------------------------------
def test_blocks_change_places():
    assert reorder_gates(np.array([1, 1, 2, 2, 3, 3, 4, 4]), source="jifo", target="ifjo").tolist() == [
        2, 2, 3, 3, 1, 1, 4, 4,
    ]  # fmt: skip


@pytest.mark.parametrize("target", LSTMS)
@pytest.mark.parametrize("source", LSTMS)
def test_a_converted_lstm_computes_the_same(source, target):
    one, other = LSTMS[source](), LSTMS[target]()
    for seed, parameter in enumerate(one.parameters()):
        parameter.assign(randn(*parameter.dims, seed=seed))
    convert_lstm(one, other)
    time = ragged(LENGTHS, batch)
    x, state = randn(batch, time, d_in), rf.LstmState(h=randn(batch, out, seed=7), c=randn(batch, out, seed=8))
    (y, final), (expected, expected_final) = (unit(x, state=state, spatial_dim=time) for unit in (other, one))
    assert_same(y, expected)
    assert_same([final.h, final.c], [expected_final.h, expected_final.c])


def test_there_and_back_to_torch():
    first, second = torch.nn.LSTM(2, 3, bidirectional=True), torch.nn.LSTM(2, 3)
    unit = rf.NativeLstm2(d_in, out)
    import_params_torch_lstm_to_rf(first, unit, reverse=True)
    export_params_lstm_to_torch(unit, second)
    x = torch.randn(5, 1, 2)
    torch.testing.assert_close(second(x)[0], first(x.flip(0))[0][..., 3:].flip(0))


def test_the_constant_of_the_standard_lstm_is_in_the_bias():
    bias = lstm_matrices(rf.StandardLSTMCell(d_in, out, forget_bias=2.0), order="jifo")[2]
    assert bias.tolist() == [0] * 6 + [2] * 3 + [0] * 3


def test_orders_with_other_letters():
    with raises_message(ValueError, """
        reorder_gates: invalid order.
          values  (8,)
          source  jifo
          target  ifco
        Both orders have the same letters, and the axis has a block for each.
            reorder_gates(W, source="jifo", target="ifjo")
    """):  # fmt: skip
        reorder_gates(np.zeros(8), source="jifo", target="ifco")


def test_parameters_of_another_size():
    with raises_message(ValueError, """
        NativeLstm2: the parameters have different sizes.
          needed  [in=2, 4*out=12]
          given   (5, 12)
        Both layers need parameters of the same sizes.
    """):  # fmt: skip
        import_params_torch_lstm_to_rf(torch.nn.LSTM(5, 3), rf.NativeLstm2(d_in, out))
    with raises_message(ValueError, """
        StandardLSTMCell: the parameters have different sizes.
          needed  (2, '...')
          given   (4, 12)
        Both layers need parameters of the same sizes.
    """):  # fmt: skip
        import_params_torch_lstm_to_rf(torch.nn.LSTM(4, 3), rf.StandardLSTMCell(d_in, out))
    with raises_message(ValueError, """
        torch.nn.LSTM: the parameters have different sizes.
          needed  (16, 2), (16, 4), (16,), (16,)
          given   (12, 2), (12, 3), (12,), (12,)
        Both layers need parameters of the same sizes.
    """):  # fmt: skip
        export_params_lstm_to_torch(rf.NativeLstm2(d_in, out), torch.nn.LSTM(2, 4))


def test_what_torch_has_and_the_units_have_not():
    with raises_message(ValueError, """
        import_params_torch: projections are not supported.
          proj_size  1
        The units of rfnb have no projection.
            torch.nn.LSTM(..., proj_size=0)
    """):  # fmt: skip
        import_params_torch_lstm_to_rf(torch.nn.LSTM(2, 3, proj_size=1), rf.NativeLstm2(d_in, out))
    with raises_message(ValueError, """
        import_params_torch: there is no such layer.
          layer    0
          reverse  True
          torch    GRU(2, 3)
        Layers count from 0; reverse needs bidirectional=True.
    """):  # fmt: skip
        import_params_torch_gru_to_rf(torch.nn.GRU(2, 3), rf.TorchGRUCell(d_in, out), reverse=True)
    with raises_message(ValueError, """
        import_params_torch: the activation differs.
          torch  relu
          rfnb   tanh
        BasicRNNCell uses tanh.
            torch.nn.RNN(..., nonlinearity="tanh")
    """):  # fmt: skip
        import_params_torch_rnn_to_rf(torch.nn.RNN(2, 3, nonlinearity="relu"), rf.BasicRNNCell(d_in, out))


def test_without_input_projection_there_are_no_matrices():
    gates = 4 * out
    with raises_message(ValueError, """
        lstm_matrices: no input projection.
          model  NativeLstm2
        Its input is the product already; it has no matrix of the frames.
    """):  # fmt: skip
        lstm_matrices(rf.NativeLstm2(gates, out, input_projection=False))
