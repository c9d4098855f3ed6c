"""Every module against the one of torch.nn with the same weights, in values and in all gradients.

A module that `rfnb` exports has an entry here (a function of nothing that returns a `Pair`), or is listed below with the file
that compares it, or with the reason why torch has nothing to compare with.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from asserting import public, randn, tensor
from torch.func import functional_call

import rfnb as rf
from rfnb import Dim, Tensor

ROOT = Path(__file__).parents[2]
batch, time, rows = Dim(2, name="batch"), Dim(7, name="time"), Dim(6, name="rows")
feat, out, wide = Dim(4, name="feat"), Dim(3, name="out"), Dim(5, name="wide")


class Pair(NamedTuple):
    """A module of ours and what torch computes from the same arrays."""

    module: rf.Module
    inputs: list[Tensor]
    call: Callable[..., Tensor]
    expected: Callable[..., Any]  # (raw parameters by name, *raw inputs) -> raw
    dims: Sequence[Dim]  # of the raw result


PAIRS: dict[str, Callable[[], Pair]] = {}
ELSEWHERE = {
    "tests/nn/recurrent/test_linear_recurrent.py": "GatedDeltaNet Mamba Mamba2 RGLRU",
    "tests/nn/attention/test_self_attention.py": "SelfAttention CausalSelfAttention CrossAttention",
    "tests/nn/transformer/test_transformer.py": (
        "TransformerEncoderLayer TransformerDecoderLayer TransformerEncoder TransformerDecoder FeedForwardGated"
    ),
    "tests/nn/encoders/test_conformer.py": (
        "ConformerConvBlock ConformerEncoderLayer EBranchformerLayer FeedForwardConvGated Merge"
    ),
    "tests/nn/encoders/test_conformer_encoder.py": (
        "ConformerEncoder ConformerEncoderV2 ConformerFrontend ConformerConvSubsample"
    ),
    "tests/nn/attention/test_relative.py": (
        "RelPosSelfAttention RelPosCausalSelfAttention LearnedRelativePositionalEncoding"
    ),
    "tests/nn/attention/test_rotary.py": "RotaryPosSelfAttention RotaryPosCausalSelfAttention",
    "tests/nn/recurrent/test_zoneout_lstm.py": "ZoneoutLSTM",
    "tests/nn/recurrent/test_against_torch_rnn.py": "NativeLstm NativeLstm2 StandardLSTMCell TorchGRUCell BasicRNNCell",
    "tests/nn/recurrent/test_formulas.py": (
        "GRUCell RHNCell LayerNormVariantsLSTMCell ZoneoutLSTMCell BlocksparseLSTMCell"
        " BlocksparseMultiplicativeMultistepLSTMCell"
    ),
    "tests/nn/recurrent/test_rec.py": "Rec RnnCell VanillaLSTMCell BasicLSTMCell",
    "tests/nn/recurrent/test_two_d_lstm.py": "TwoDLSTM",
    "tests/nn/test_running_mean.py": "RunningMean",
}
COMPARE = "assert_close", "assert_same", "assert_allclose"
NOTHING_TO_COMPARE = {
    "computes nothing itself": (
        "Module Functional ModuleList ParameterList Sequential SelfAttentionBase IEncoder ISeqFramewiseEncoder"
        " ISeqDownsamplingEncoder RecUnit GlobalAttentionContextBase"
    ),
    "reads labels, has no gradient: numbers of the reference in test_edit_distance_table.py and test_kenlm_state.py": (
        "EditDistanceTable KenLmState"
    ),
    "a number of the step, has no input: by hand in test_piecewise_linear.py": "PiecewiseLinearStepwiseScheduler",
}


def pair(name: str) -> Callable[[Callable[[], Pair]], Callable[[], Pair]]:
    def register(fn: Callable[[], Pair]) -> Callable[[], Pair]:
        PAIRS[name] = fn
        return fn

    return register


def of_torch(make: Callable[[], torch.nn.Module], names: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """A function of our parameters that calls the torch module with them."""

    def expected(params: dict[str, Any], *inputs: Any) -> Any:
        return functional_call(make(), names(params), inputs)

    return expected


def affine(params: dict[str, Any]) -> dict[str, Any]:
    return {"weight": params["scale"], "bias": params["bias"]}


@pair("Linear")
def _linear() -> Pair:
    expected = of_torch(lambda: torch.nn.Linear(4, 3), lambda p: {"weight": p["weight"].T, "bias": p["bias"]})
    return Pair(rf.Linear(feat, out), [randn(batch, time, feat)], lambda m, x: m(x), expected, [batch, time, out])


@pair("Embedding")
def _embedding() -> Pair:
    ids = tensor([[0, 3, 1, 1, 2, 0, 3], [1, 1, 1, 2, 3, 3, 3]], batch, time, sparse_dim=feat)
    expected = of_torch(lambda: torch.nn.Embedding(4, 3), dict)
    return Pair(rf.Embedding(feat, out), [ids], lambda m, x: m(x), expected, [batch, time, out])


@pair("LSTM")
def _lstm() -> Pair:
    module = rf.LSTM(feat, out)

    def call(module: Any, x: Tensor) -> Tensor:
        return module(x, state=module.default_initial_state(batch_dims=[batch]), spatial_dim=time)[0]

    def names(p: dict[str, Any]) -> dict[str, Any]:
        zero = torch.zeros(12, dtype=torch.float64)
        return {
            "weight_ih_l0": p["ff_weight"],
            "weight_hh_l0": p["rec_weight"],
            "bias_ih_l0": p["bias"],
            "bias_hh_l0": zero,
        }

    lstm = of_torch(lambda: torch.nn.LSTM(4, 3, batch_first=True, dtype=torch.float64), names)
    return Pair(module, [randn(batch, time, feat)], call, lambda *args: lstm(*args)[0], [batch, time, out])


@pair("LayerNorm")
def _layer_norm() -> Pair:
    expected = of_torch(lambda: torch.nn.LayerNorm(4, eps=1e-3), affine)
    return Pair(
        rf.LayerNorm(feat, eps=1e-3),
        [randn(feat, batch)],
        lambda m, x: m(x),
        lambda p, x: expected(p, x.T),
        [batch, feat],
    )


@pair("RMSNorm")
def _rms_norm() -> Pair:
    expected = of_torch(lambda: torch.nn.RMSNorm(4, eps=1e-3), lambda p: {"weight": p["scale"]})
    return Pair(rf.RMSNorm(feat, eps=1e-3), [randn(batch, feat)], lambda m, x: m(x), expected, [batch, feat])


@pair("GroupNorm")
def _group_norm() -> Pair:
    norm = of_torch(lambda: torch.nn.GroupNorm(2, 4, eps=1e-3), affine)

    def expected(params: Any, x: Any) -> Any:  # the statistics of ours are those of one frame
        return norm(params, x.flatten(0, 1)).view(x.shape)

    module = rf.GroupNorm(feat, num_groups=2, eps=1e-3)
    return Pair(module, [randn(batch, time, feat)], lambda m, x: m(x), expected, [batch, time, feat])


@pair("GroupNormSpatial")
def _group_norm_spatial() -> Pair:
    module = rf.GroupNormSpatial(feat, num_groups=2, eps=1e-3)
    expected = of_torch(lambda: torch.nn.GroupNorm(2, 4, eps=1e-3), affine)
    return Pair(
        module, [randn(batch, feat, time)], lambda m, x: m(x, spatial_dim=time), expected, [batch, feat, time]
    )  # fmt: skip


@pair("Normalize")
def _normalize() -> Pair:
    def expected(params: Any, x: Any) -> Any:  # over time, scale and bias over features
        return torch.nn.functional.layer_norm(x, (7,), eps=1e-3) * params["scale"][:, None] + params["bias"][:, None]

    module = rf.Normalize(param_dims=feat, epsilon=1e-3)
    return Pair(module, [randn(batch, feat, time)], lambda m, x: m(x, axis=time), expected, [batch, feat, time])


@pair("BatchNorm")
def _batch_norm() -> Pair:
    def call(module: Any, x: Tensor) -> Tensor:
        with rf.get_run_ctx().train_flag_ctx(True):
            return module(x)

    def expected(params: Any, x: Any) -> Any:
        return torch.nn.functional.batch_norm(x, None, None, params["gamma"], params["beta"], True, eps=1e-3)

    return Pair(rf.BatchNorm(feat), [randn(batch, feat, time)], call, expected, [batch, feat, time])


for _name, _activation in (("FeedForward", torch.relu), ("ConformerPositionwiseFeedForward", torch.nn.functional.silu)):

    @pair(_name)
    def _feed_forward(name: str = _name, activation: Any = _activation) -> Pair:
        def expected(params: Any, x: Any) -> Any:
            middle = activation(x @ params["linear_ff.weight"] + params["linear_ff.bias"])
            return middle @ params["linear_out.weight"] + params["linear_out.bias"]

        module = getattr(rf, name)(feat, ff_dim=wide)
        return Pair(module, [randn(batch, time, feat)], lambda m, x: m(x), expected, [batch, time, feat])


for _name in ("DotAttention", "ConcatAttention"):

    @pair(_name)
    def _encoder_attention(name: str = _name) -> Pair:
        def call(module: Any, query: Tensor, ctx: Tensor, base: Tensor) -> Tensor:
            return module(query, base=base, base_ctx=ctx, axis=time)

        def expected(params: Any, query: Any, ctx: Any, base: Any) -> Any:
            if name == "DotAttention":
                return torch.nn.functional.scaled_dot_product_attention(query[:, None], ctx, base, scale=1.0)[:, 0]
            energy = torch.tanh(query[:, None] + ctx) @ params["v"]
            return torch.einsum("bt,btf->bf", energy.softmax(1), base)

        inputs = [randn(batch, wide), randn(batch, time, wide, seed=1), randn(batch, time, feat, seed=2)]
        return Pair(getattr(rf, name)(wide), inputs, call, expected, [batch, feat])


@pair("QKVSelfAttention")
def _qkv_self_attention() -> Pair:
    keys, values = Dim(4, name="keys"), Dim(6, name="values")
    module = rf.QKVSelfAttention(
        feat, key_dim_total=keys, value_dim_total=values, num_heads=2, attention_left_only=True
    )  # fmt: skip

    def expected(params: Any, x: Any) -> Any:
        heads = (x @ params["QKV"]).view(2, 7, 2, 7).transpose(1, 2)
        out = torch.nn.functional.scaled_dot_product_attention(*heads.split([2, 2, 3], -1), is_causal=True)
        return out.transpose(1, 2).reshape(2, 7, 6)

    return Pair(module, [randn(batch, time, feat)], lambda m, x: m(x, time)[0], expected, [batch, time, values])


@pair("MaskedComputation")
def _masked_computation() -> Pair:
    picked = torch.tensor([[1, 0, 0, 1, 0, 0, 1], [0, 1, 1, 1, 0, 0, 0]], dtype=torch.bool)
    mask, packed = tensor(picked.numpy(), batch, time), Dim(None, name="packed")

    def call(module: Any, x: Tensor) -> Tensor:
        return module(x, mask=mask, in_spatial_dim=time, out_spatial_dim=packed)[0]

    lstm = PAIRS["LSTM"]()

    def expected(params: Any, x: Any) -> Any:
        of_unit = {key.removeprefix("unit."): raw for key, raw in params.items()}
        return lstm.expected(of_unit, x[picked].view(2, 3, 4))

    module = rf.MaskedComputation(lstm.module)
    return Pair(module, [randn(batch, time, feat)], call, expected, [batch, packed, out])


@pair("PositionalEncoding")
def _positional_encoding() -> Pair:
    def expected(params: Any, x: Any) -> Any:
        angles = torch.arange(7, dtype=torch.float64)[:, None] * torch.tensor([1.0, 1e-4])
        return x + torch.cat([angles.sin(), angles.cos()], 1)

    module = rf.PositionalEncoding(feat, add_to_input=True)
    return Pair(module, [randn(batch, time, feat)], lambda m, x: m(x, axis=time)[0], expected, [batch, time, feat])


@pair("RelativePositionalEncoding")
def _relative_positional_encoding() -> Pair:
    def expected(params: Any) -> Any:
        distance = torch.arange(6) - torch.arange(7)[:, None]
        return torch.nn.functional.embedding(distance.clamp(-2, 2) + 2, params["encoding_matrix"])

    module = rf.RelativePositionalEncoding(feat, clipping=2)
    return Pair(
        module, [], lambda m: m(query_spatial_dim=time, key_value_spatial_dim=rows), expected, [time, rows, feat]
    )  # fmt: skip


@pair("PiecewiseLinear")
def _piecewise_linear() -> Pair:
    def expected(params: Any, x: Any) -> Any:
        hat = torch.nn.functional.relu  # up by 3 in [-1, 0], down by 4 in [0, 2]
        return 1 + 3 * (hat(x + 1) - hat(x)) - 2 * (hat(x) - hat(x - 2))

    module = rf.PiecewiseLinear({-1: 1.0, 0: 4.0, 2: 0.0})
    return Pair(module, [randn(batch, time)], lambda m, x: m(x), expected, [batch, time])


_SPATIAL = (time, rows, wide)
for _ndim in (1, 2, 3):

    @pair(f"Conv{_ndim}d")
    def _conv(ndim: int = _ndim) -> Pair:
        module = getattr(rf, f"Conv{ndim}d")(feat, out, (3, 2, 2)[:ndim], padding="valid", strides=2)
        make = lambda: getattr(torch.nn, f"Conv{ndim}d")(4, 3, (3, 2, 2)[:ndim], stride=2)  # noqa: E731
        return _moving(module, make, lambda p: {"weight": p["filter"], "bias": p["bias"]}, ndim)

    @pair(f"TransposedConv{_ndim}d")
    def _transposed_conv(ndim: int = _ndim) -> Pair:
        module = getattr(rf, f"TransposedConv{ndim}d")(feat, out, (3, 2, 2)[:ndim], padding="valid", strides=2)
        make = lambda: getattr(torch.nn, f"ConvTranspose{ndim}d")(4, 3, (3, 2, 2)[:ndim], stride=2)  # noqa: E731
        return _moving(module, make, lambda p: {"weight": p["filter"], "bias": p["bias"]}, ndim)


def _moving(module: rf.Module, make: Any, names: Any, ndim: int) -> Pair:
    spatial = _SPATIAL[:ndim]
    new = tuple(Dim(None, name=f"new {dim.name}") for dim in spatial)

    def call(module: Any, x: Tensor) -> Tensor:
        if ndim == 1:
            return module(x, in_spatial_dim=spatial[0], out_spatial_dim=new[0])[0]
        return module(x, in_spatial_dims=spatial, out_spatial_dims=new)[0]

    return Pair(module, [randn(batch, feat, *spatial)], call, of_torch(make, names), (batch, out, *new))


@pytest.mark.parametrize("name", PAIRS)
def test_it_is_torchs_in_values_and_gradients(name):
    with rf.set_default_float_dtype_ctx("float64"):
        module, inputs, call, expected, dims = PAIRS[name]()
    params = dict(module.named_parameters())
    for seed, parameter in enumerate(params.values()):
        if parameter.trainable:  # biases too: zeros would hide where they go
            parameter.assign(rf.cast(randn(*parameter.dims, seed=seed), "float64"))
    inputs = [rf.cast(x, "float64") if x.dtype == "float32" else x for x in inputs]
    for x in inputs:
        if x.dtype == "float64":
            rf.set_requires_gradient(x)
    raws = {key: p.raw_tensor.detach().clone().requires_grad_(p.trainable) for key, p in params.items()}
    raw_inputs = [x.raw_tensor.detach().clone().requires_grad_(x.dtype == "float64") for x in inputs]

    got, want = call(module, *inputs).copy_transpose(dims).raw_tensor, expected(raws, *raw_inputs)
    torch.testing.assert_close(got, want)
    weights = torch.rand(want.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    (got * weights).sum().backward()
    (want * weights).sum().backward()
    ours = {
        **{key: p.raw_tensor for key, p in params.items()},
        **{f"input {i}": x.raw_tensor for i, x in enumerate(inputs)},
    }
    theirs = {**raws, **{f"input {i}": raw for i, raw in enumerate(raw_inputs)}}
    for key, raw in theirs.items():
        if raw.requires_grad:
            torch.testing.assert_close(ours[key].grad, raw.grad, msg=lambda text, key=key: f"{key}: {text}")


def modules_without_entry(names):
    known = {
        *PAIRS,
        *(name for listed in (ELSEWHERE, NOTHING_TO_COMPARE) for text in listed.values() for name in text.split()),
    }
    return sorted(set(names) - known)


def public_modules():
    return [name for name, value in public().items() if isinstance(value, type) and issubclass(value, rf.Module)]


def test_every_public_module_is_compared_with_torch():
    lacking = modules_without_entry(public_modules())
    assert not lacking, (
        f"Not compared with torch: {', '.join(lacking)}.\n"
        "Write a @pair(...) here, or compare it in a file of its own and list that in ELSEWHERE."
    )


def test_a_new_module_without_entry_is_seen():
    assert modules_without_entry([*public_modules(), "NewLayer"]) == ["NewLayer"]


def not_compared_in(text, names):
    """The names that no code of a file uses, neither as `rf.Name` nor as a string where it looks up names in `rf`."""
    nodes = list(ast.walk(ast.parse(text)))
    assert any(isinstance(node, ast.Attribute) and node.attr in COMPARE for node in nodes) or any(
        isinstance(node, ast.Name) and node.id in COMPARE for node in nodes
    )
    of_rf = [node for node in nodes if isinstance(node, ast.Attribute) and getattr(node.value, "id", None) == "rf"]
    used = {node.attr for node in of_rf}
    if any(isinstance(node, ast.Call) and ast.unparse(node).startswith("getattr(rf, ") for node in nodes):
        used |= {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return [name for name in names if name not in used]


@pytest.mark.parametrize("path", ELSEWHERE)
def test_what_is_compared_elsewhere_is_there(path):
    assert not_compared_in((ROOT / path).read_text(), ELSEWHERE[path].split()) == []


def test_a_name_in_a_comment_or_in_a_longer_name_is_no_use_of_it():
    text = "def test_rec(x):  # rf.Rec\n    \"rf.Rec\"\n    assert_close(rf.Recurrent(x), 'Rec')"
    assert not_compared_in(text, ["Rec", "Recurrent"]) == ["Rec"]
    assert not_compared_in(f"{text}\n    getattr(rf, name)", ["Rec", "Recurrent"]) == []
