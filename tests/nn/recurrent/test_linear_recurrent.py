"""Gated DeltaNet, Mamba, Mamba-2 and RG-LRU: against their papers' formulas, frame by frame, in plain torch."""

import pytest
import torch
import torch.nn.functional as F
from asserting import assert_same, raises_message, randn
from loop_faces import in_all_faces
from plain_linear_recurrences import delta_rule, diagonal

import rfnb as rf
from rfnb import Dim
from rfnb.core.dim import ragged_dim

LENGTHS = [21, 0, 13]  # more than two chunks, and parts of one
BATCH = Dim(3, name="batch")
TIME = ragged_dim(LENGTHS, over=BATCH, name="time")
IN, OUT, KEY, VALUE, STATE = (
    Dim(n, name=name) for n, name in ((5, "in"), (7, "out"), (6, "key"), (9, "value"), (4, "state"))
)
MADE = {
    "GatedDeltaNet": (IN, OUT, {"key_dim_total": KEY, "value_dim_total": VALUE, "num_heads": 3}),
    "Mamba": (IN, OUT, {"inner_dim": VALUE, "state_dim": STATE, "step_rank": 2}),
    "Mamba2": (IN, OUT, {"inner_dim": VALUE, "state_dim": STATE, "num_heads": 3}),
    "RGLRU": (IN, {}),
}


@pytest.fixture(params=MADE)
def layer(request):
    """A layer in float64 whose parameters all do something."""
    *args, options = MADE[request.param]
    with rf.set_default_float_dtype_ctx("float64"):
        made = getattr(rf, request.param)(*args, **options)
    for seed, parameter in enumerate(made.parameters()):
        parameter.assign(parameter + rf.cast(randn(*parameter.dims, seed=seed), "float64") * 0.3)
    return made


def frames():
    return rf.cast(randn(BATCH, TIME, IN, seed=50), "float64")


# -- the papers, for one sequence x [time, in] -------------------------------------------------------------------------------------------
def _weights(layer):
    return {name: parameter.raw_tensor.detach() for name, parameter in layer.named_parameters()}


def _conv(x, weight, bias):
    size = weight.shape[1]
    padded = torch.cat([x.new_zeros(size - 1, x.shape[1]), x])
    return torch.stack([sum(weight[:, i] * padded[t + i] for i in range(size)) + bias for t in range(len(x))])


def _rms(x, scale):
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-6) * scale


def gated_delta_net(w, x):
    q, k, v = F.silu(_conv(x @ w["qkv.weight"], w["conv.weight"], w["conv.bias"])).split([6, 6, 9], -1)
    q, k, v = (part.unflatten(-1, (3, -1)) for part in (q, k, v))
    q, k = (part / torch.sqrt((part * part).sum(-1, keepdim=True) + 1e-6) for part in (q, k))
    alpha = torch.exp(-w["log_rate"].exp() * F.softplus(x @ w["decay.weight"] + w["decay_bias"]))
    beta = torch.sigmoid(x @ w["write.weight"])
    read, state = delta_rule(q, k, v, alpha, beta)
    return (_rms(read, w["norm.scale"]).flatten(-2) * F.silu(x @ w["gate.weight"])) @ w["out.weight"], state


def mamba(w, x):
    u = F.silu(_conv(x @ w["input.weight"], w["conv.weight"], w["conv.bias"]))
    r, b, c = (u @ w["select.weight"]).split([2, 4, 4], -1)
    d = F.softplus(r @ w["step.weight"] + w["step.bias"])
    decay = torch.exp(-d[..., None] * w["log_rate"].exp())
    states = diagonal(decay, (d * u)[..., None] * b[:, None])
    read = (states * c[:, None]).sum(-1)
    return ((read + w["skip"] * u) * F.silu(x @ w["gate.weight"])) @ w["out.weight"], states


def mamba2(w, x):
    u, b, c = F.silu(_conv(x @ w["uBC.weight"], w["conv.weight"], w["conv.bias"])).split([9, 4, 4], -1)
    u = u.unflatten(-1, (3, 3))
    d = F.softplus(x @ w["step.weight"] + w["step.bias"])
    a = torch.exp(-d * w["log_rate"].exp())
    states = diagonal(a[..., None, None], d[..., None, None] * b[:, None, :, None] * u[..., None, :])
    read = torch.einsum("thnp,tn->thp", states, c) + w["skip"][:, None] * u
    return _rms(read.flatten(-2) * F.silu(x @ w["gate.weight"]), w["norm.scale"]) @ w["out.weight"], states


def rg_lru(w, x):
    r, i = (torch.sigmoid(x @ w[f"{name}.weight"] + w[f"{name}.bias"]) for name in ("forget", "input"))
    a = torch.exp(-8 * F.softplus(w["rate"]) * r)
    states = diagonal(a, torch.sqrt(1 - a * a) * i * x)
    return states, states


PAPERS = {"GatedDeltaNet": gated_delta_net, "Mamba": mamba, "Mamba2": mamba2, "RGLRU": rg_lru}


def test_a_whole_sequence_is_what_the_paper_says(layer):
    x = frames()
    out, state = layer(x, spatial_dim=TIME)
    raw, w = x.copy_compatible_to_dims_raw([BATCH, TIME, IN]), _weights(layer)
    out = out.copy_compatible_to_dims_raw([BATCH, TIME, layer.out_dim])
    matrix = state.matrix.copy_compatible_to_dims_raw([BATCH, *layer.state_dims])
    for index, length in enumerate(LENGTHS):
        if length:
            expected, states = PAPERS[type(layer).__name__](w, raw[index, :length])
            torch.testing.assert_close(out[index, :length], expected, rtol=0, atol=1e-10)
            torch.testing.assert_close(matrix[index], states[-1], rtol=0, atol=1e-10)
        assert not out[index, length:].any()
    assert not matrix[1].any()  # of no frames


def test_steps_in_all_faces_of_a_loop_are_the_whole_sequence(layer):
    x = frames()
    expected, final = layer(x, spatial_dim=TIME)

    def body(loop):
        out, loop.state.layer = layer(loop.unstack(x), state=loop.state.layer, spatial_dim=rf.single_step_dim)
        return loop.stack(out)

    first = layer.default_initial_state(batch_dims=[BATCH])
    for out, states in in_all_faces(body, axis=TIME, layer=first):
        assert_same(out, expected, tolerance=1e-9)
        for name in final:
            assert_same(states.layer[name], final[name], tolerance=1e-9)


def test_a_frame_without_any_batch_is_one_of_a_batch_of_one(layer):
    x = rf.cast(randn(one := Dim(1, name="one"), IN, seed=5), "float64")
    batched, _ = layer(x, state=layer.default_initial_state(batch_dims=[one]), spatial_dim=rf.single_step_dim)
    alone, _ = layer(
        rf.gather(x, axis=one, indices=0),
        state=layer.default_initial_state(batch_dims=[]),
        spatial_dim=rf.single_step_dim,
    )
    assert_same(alone, rf.gather(batched, axis=one, indices=0), tolerance=1e-9)


def test_a_sequence_goes_on_from_the_state_of_another_one(layer):
    x = rf.cast(randn(BATCH, whole := Dim(20, name="time"), IN, seed=3), "float64")
    expected, final = layer(x, spatial_dim=whole)
    first, one = rf.slice(x, axis=whole, end=9)
    second, two = rf.slice(x, axis=whole, start=9)
    out_one, state = layer(first, spatial_dim=one)
    out_two, state = layer(second, state=state, spatial_dim=two)
    out, _ = rf.concat((out_one, one), (out_two, two), out_dim=whole)
    assert_same(out, expected, tolerance=1e-9)
    assert_same(state.matrix, final.matrix, tolerance=1e-9)


def test_edited_gates_count_in_a_step(layer):
    """All is forgotten and nothing is written: what is left is nothing."""
    x = rf.cast(randn(BATCH, IN), "float64")
    first = layer.default_initial_state(batch_dims=[BATCH])
    first.matrix = first.matrix + 1.0
    with rf.edit({"layer": layer}, {"layer.forget_gate": 0.0, "layer.write_gate": 0.0}):
        _, state = layer(x, state=first, spatial_dim=rf.single_step_dim)
    assert float(rf.reduce_max(rf.abs(state.matrix), axis=list(state.matrix.dims)).raw_tensor) < 1e-12
    _, state = layer(x, state=first, spatial_dim=rf.single_step_dim)
    assert float(rf.reduce_max(rf.abs(state.matrix), axis=list(state.matrix.dims)).raw_tensor) > 0.1


def test_identical_keys_lose_no_precision_in_a_chunk():
    """Powers of the triangular matrix of a chunk grow most where all keys are the same and all is written."""
    from rfnb.nn.recurrent.linear_recurrence import Writes, over

    time, heads, key, value = (Dim(n, name=name) for n, name in ((64, "time"), (1, "heads"), (2, "key"), (3, "value")))
    ones = rf.ones([time, heads, key]) * 0.5**0.5
    values = randn(time, heads, value, seed=1)
    writes = Writes(rf.zeros([time, heads]), rf.ones([time, heads]), values, ones, ones, delta=True)
    out, _ = over(writes, rf.zeros([heads, key, value]), axis=time, key_dim=key)
    assert_same(out, values, tolerance=2e-5)  # each key has just what was written last


def test_one_step_without_a_state_is_refused(layer):
    x = rf.cast(randn(BATCH, IN), "float64")
    name = type(layer).__name__
    with raises_message(
        TypeError,
        f"""{name}: one step without a state.
  source  [batch=3, in=5]
A step continues from the state of the previous step. The first state is made by:
    state = layer.default_initial_state(batch_dims=[batch])""",
    ):
        layer(x, spatial_dim=rf.single_step_dim)
