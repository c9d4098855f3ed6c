"""Units that torch.nn does not have, against their formulas in raw torch: values and all gradients over three steps."""

import numpy as np
import pytest
import torch
from asserting import randn

import rfnb as rf
from rfnb import Dim

batch, frames, d_in, out = Dim(2, name="batch"), Dim(3, name="frames"), Dim(4, name="in"), Dim(6, name="out")
sigmoid, tanh = torch.sigmoid, torch.tanh


def layer_norm(value, gain, shift=None, eps=1e-12):
    return torch.nn.functional.layer_norm(value, value.shape[-1:], gain, shift, eps)


def gru(p, x, h):
    r, u = sigmoid(torch.cat([x, h], -1) @ p["gates.kernel"] + p["gates.bias"]).chunk(2, -1)
    n = tanh(torch.cat([x, r * h], -1) @ p["candidate.kernel"] + p["candidate.bias"])
    return u * h + (1 - u) * n, (u * h + (1 - u) * n,)


def rhn(p, x, s):
    for depth in range(2):
        y = s @ p[f"depth_{depth}.W"] + (x @ p["W"] + p["b"] if depth == 0 else 0)
        proposed, transform = y.chunk(2, -1)
        s = s + sigmoid(transform) * (tanh(proposed) - s)
    return s, (s,)


def layer_norm_lstm(p, x, c, h):
    z = layer_norm(x @ p["W_ff"], p["gamma_input_below"], p["beta_input_below"])
    z = z + layer_norm(h @ p["W_re"], p["gamma_state_below"])
    i, j, f, o = z.chunk(4, -1)
    c = layer_norm(sigmoid(f) * c + sigmoid(i) * tanh(j), p["gamma_new_c"], p["beta_new_c"])
    h = sigmoid(o) * tanh(c)
    return h, (c, h)


def zoneout_lstm(p, x, c, h):
    i, j, f, o = (torch.cat([x, h], -1) @ p["lstm_cell.kernel"] + p["lstm_cell.bias"]).chunk(4, -1)
    new_c = sigmoid(f + 1) * c + sigmoid(i) * tanh(j)
    new_h = sigmoid(o) * tanh(new_c)
    return 0.7 * new_h + 0.3 * h, (0.8 * new_c + 0.2 * c, 0.7 * new_h + 0.3 * h)


def linear(p, name, x, blocks):
    mask = torch.from_numpy(np.kron(blocks[name], np.ones((2, 2))))
    return layer_norm(x @ (p[f"{name}.W"] * mask), p[f"{name}.g"], p.get(f"{name}.b"), 1e-6)


def blocksparse_lstm(p, x, c, h, blocks):
    j, i, f, o = (linear(p, "x", x, blocks) + linear(p, "h", h, blocks)).chunk(4, -1)
    c = sigmoid(f) * c + sigmoid(i) * tanh(j)
    return sigmoid(o) * tanh(c), (c, sigmoid(o) * tanh(c))


def blocksparse_multistep(p, x, c, h, blocks):
    u = linear(p, "step0", h, blocks) * linear(p, "x1", x, blocks)
    u = torch.relu(linear(p, "step1", u, blocks) + linear(p, "x2", x, blocks))
    u = torch.relu(linear(p, "step2", u, blocks))
    j, i, f, o = (linear(p, name, u, blocks) for name in ("cell_in", "gate_in", "gate_forget", "gate_out"))
    c = c * sigmoid(f) + tanh(j) * sigmoid(i)
    return tanh(c) * sigmoid(o), (c, tanh(c) * sigmoid(o))


SPARSE = {"block_size": 2, "connectivity": 1}
FORMULAS = {
    "GRUCell": (gru, {}),
    "RHNCell": (rhn, {"depth": 2}),
    "LayerNormVariantsLSTMCell": (layer_norm_lstm, {}),
    "ZoneoutLSTMCell": (zoneout_lstm, {"zoneout_factor_cell": 0.2, "zoneout_factor_output": 0.3}),
    "BlocksparseLSTMCell": (blocksparse_lstm, SPARSE),
    "BlocksparseMultiplicativeMultistepLSTMCell": (blocksparse_multistep, {**SPARSE, "depth": 3}),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_it_is_the_formula_in_values_and_gradients(name):
    formula, options = FORMULAS[name]
    in_dim = d_in if name != "BlocksparseMultiplicativeMultistepLSTMCell" else Dim(12, name="in")
    with rf.set_default_float_dtype_ctx("float64"):
        unit = getattr(rf, name)(in_dim, out, **options)
    params = {key: parameter for key, parameter in unit.named_parameters() if parameter.dtype == "float64"}
    for seed, parameter in enumerate(params.values()):
        parameter.assign(rf.cast(randn(*parameter.dims, seed=seed), "float64") * 0.5)
    x = rf.cast(randn(batch, frames, in_dim), "float64")
    state = {part: rf.cast(randn(batch, out, seed=seed), "float64") for seed, part in enumerate(unit.state_parts)}
    inputs = [x, *state.values()]
    for value in inputs:
        rf.set_requires_gradient(value)
    raws = {key: parameter.raw_tensor.detach().clone().requires_grad_() for key, parameter in params.items()}
    raw_inputs = [value.raw_tensor.detach().clone().requires_grad_() for value in inputs]

    more = {}
    if name.startswith("Blocksparse"):
        more["blocks"] = {key: child.mask.numpy() for key, child in unit.named_children()}
        assert not all(mask.all() for mask in more["blocks"].values())
    parts, outputs = raw_inputs[1:], []
    for step in range(3):
        y, parts = formula(raws, raw_inputs[0][:, step], *parts, **more)
        outputs.append(y)
    output, final = unit(x, state=state, spatial_dim=frames)

    values = [
        output.copy_transpose([batch, frames, out]),
        *(final[part].copy_transpose([batch, out]) for part in state),
    ]
    expected = [torch.stack(outputs, 1), *parts]
    for got, want in zip(values, expected):
        torch.testing.assert_close(got.raw_tensor, want)
    sum(got.raw_tensor.pow(2).sum() for got in values).backward()
    sum(want.pow(2).sum() for want in expected).backward()
    for key, raw in raws.items():
        torch.testing.assert_close(params[key].raw_tensor.grad, raw.grad, msg=lambda text, key=key: f"{key}: {text}")
    for value, raw in zip(inputs, raw_inputs):
        torch.testing.assert_close(value.raw_tensor.grad, raw.grad)
