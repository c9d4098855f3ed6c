"""The axes of every parameter of every public module, in order, as files have them: what torch or the documentation says.

Where the sides of a weight are of one size, nothing but this tells a checkpoint of another layout from a right one.
"""

import re

import numpy as np
import pytest
import torch
from asserting import assert_same, public, raises_message, randn

import rfnb as rf
from rfnb import CheckpointError, Dim
from rfnb.interop.torch_module import rf_module_to_pt_module
from rfnb.nn.module import checkpoint

IN, OUT, KEY, VALUE, ENC = (Dim(8, name=name) for name in "in out key value enc".split())
BATCH, TIME = Dim(2, name="batch"), Dim(5, name="time")
_HEADS = {"key_dim_total": KEY, "value_dim_total": VALUE, "num_heads": 2}
_NORM = "scale: in, bias: in"
_UNIT = "W: in 4*out, b: 4*out, W_re: out 4*out"
_CELL = "kernel: in+out 4*out, bias: 4*out"
_REL_POS = "pos_bias_u: heads key_per_head, pos_bias_v: heads key_per_head"


def _conv(num, sides):
    return f"filter: {sides} {' '.join(f'size{axis}' for axis in range(num))}, bias: out"


def _blocksparse(name, in_dim, out_dim, with_bias=False):
    blocks = f"blocks of {in_dim.rstrip(chr(39))}, blocks of {out_dim}".replace(" of ", "_of_").replace(",", "")
    rows = [f"{name}.W: {in_dim} {out_dim}", f"{name}.mask: {blocks}", f"{name}.g: {out_dim}"]
    return ", ".join([*rows, f"{name}.b: {out_dim}"] if with_bias else rows)


# Class of a layer -> the parameters that it has itself; "in" is what it gets, "out" what it gives. Gates of an LSTM are in the
# documented order, which tests/nn/recurrent compares by numbers.
LAYOUTS = {
    "Linear": "weight: in out, bias: out",
    "Embedding": "weight: in out",
    **dict.fromkeys(["LSTM", "ZoneoutLSTM"], "ff_weight: 4*out in, rec_weight: 4*out out, bias: 4*out"),
    **dict.fromkeys(["NativeLstm", "NativeLstm2", "VanillaLSTMCell"], _UNIT),
    **dict.fromkeys(["BasicLSTMCell", "StandardLSTMCell"], _CELL),
    "BasicRNNCell": "kernel: in+out out, bias: out",
    "TorchGRUCell": "W: in 3*out, W_re: out 3*out, b: 3*out, b_re: 3*out",
    "GRUCell": ("gates.kernel: in+out 2*out, gates.bias: 2*out, candidate.kernel: in+out out, candidate.bias: out"),
    "RHNCell": "W: in 2*out, b: 2*out, depth_0.W: out 2*out, depth_1.W: out 2*out",
    "BlocksparseLSTMCell": ", ".join(
        [_blocksparse("x", "in", "4*out", with_bias=True), _blocksparse("h", "out", "4*out")]
    ),
    "BlocksparseMultiplicativeMultistepLSTMCell": ", ".join(
        [_blocksparse(name, "in", "out", with_bias=True) for name in ("x1", "x2")]
        + [_blocksparse(name, "out'", "out") for name in ("step0", "step1")]
        + [_blocksparse(name, "out'", "out", with_bias=True) for name in "cell_in gate_in gate_forget gate_out".split()]
    ),
    "LayerNormVariantsLSTMCell": (
        "W_ff: in 4*out, W_re: out 4*out, gamma_input_below: 4*out, beta_input_below: 4*out, gamma_state_below: 4*out,"
        " gamma_new_c: out, beta_new_c: out"
    ),
    "GatedDeltaNet": "conv.weight: qkv window, conv.bias: qkv, log_rate: heads, decay_bias: heads",
    "Mamba": "conv.weight: value window, conv.bias: value, log_rate: value key, skip: value",
    "Mamba2": "conv.weight: uBC window, conv.bias: uBC, log_rate: heads, skip: heads",
    "RGLRU": "rate: in",
    "TwoDLSTM": "W_re: in+key 5*out, Vh_re: out 5*out, Vv_re: out 5*out",
    **dict.fromkeys(["LayerNorm", "GroupNorm", "GroupNormSpatial", "Normalize"], _NORM),
    "RMSNorm": "scale: in",
    "BatchNorm": "gamma: in, beta: in, running_mean: in, running_variance: in",
    "RunningMean": "mean: in",
    **{f"Conv{num}d": _conv(num, "out in") for num in (1, 2, 3)},
    **{f"TransposedConv{num}d": _conv(num, "in out") for num in (1, 2, 3)},
    **dict.fromkeys(["RelPosSelfAttention", "RelPosCausalSelfAttention"], _REL_POS),
    "QKVSelfAttention": "QKV: in qkv",
    "ConcatAttention": "v: key",
    "LearnedRelativePositionalEncoding": "pos_emb: clipped_distance in",
    "RelativePositionalEncoding": "encoding_matrix: clipped_distance in",
}
_FF = {"ff_dim": IN}
MADE = {
    **{name: (IN, OUT, {}) for name in "Linear Embedding LSTM ZoneoutLSTM BasicLSTMCell BasicRNNCell GRUCell".split()},
    **{name: (IN, OUT, {}) for name in "LayerNormVariantsLSTMCell NativeLstm NativeLstm2 StandardLSTMCell".split()},
    **{name: (IN, OUT, {}) for name in "TorchGRUCell VanillaLSTMCell ZoneoutLSTMCell".split()},
    "RHNCell": (IN, OUT, {"depth": 2}),
    **dict.fromkeys(
        ["BlocksparseLSTMCell", "BlocksparseMultiplicativeMultistepLSTMCell"],
        (IN, OUT, {"block_size": 4, "connectivity": 1}),
    ),
    **{name: (IN, {}) for name in "LayerNorm RMSNorm BatchNorm".split()},
    **{name: (IN, {"num_groups": 2}) for name in "GroupNorm GroupNormSpatial".split()},
    "Normalize": ({"param_dims": IN},),
    "RunningMean": (IN, {"alpha": 0.1}),
    **{f"{kind}{num}d": (IN, OUT, 3, {"padding": "valid"}) for kind in ("Conv", "TransposedConv") for num in (1, 2, 3)},
    **{
        f"{kind}{causal}SelfAttention": (IN, OUT, _HEADS)
        for kind in ("", "RelPos", "RotaryPos")
        for causal in ("", "Causal")
    },
    "CrossAttention": (ENC, IN, OUT, _HEADS),
    "QKVSelfAttention": (IN, _HEADS),
    "ConcatAttention": (KEY, {}),
    "DotAttention": (KEY, {}),
    "PositionalEncoding": (OUT, {}),
    **{name: (IN, {"clipping": 2}) for name in ("LearnedRelativePositionalEncoding", "RelativePositionalEncoding")},
    **dict.fromkeys("FeedForward FeedForwardGated FeedForwardConvGated ConformerPositionwiseFeedForward".split(), (OUT, _FF)),
    "ConformerConvBlock": (OUT, {"kernel_size": 3, "norm": rf.BatchNorm(OUT)}),
    "ConformerConvSubsample": (IN, {"out_dims": [OUT], "filter_sizes": [(3, 3)]}),
    "ConformerFrontend": (IN, OUT, {"input_layer": None}),
    "Merge": ({"in_dim1": IN, "in_dim2": KEY, "out_dim": OUT},),
    "TwoDLSTM": (IN, KEY, OUT, {}),
    "PiecewiseLinear": ({0.0: 1.0, 1.0: 2.0}, {}),
    "PiecewiseLinearStepwiseScheduler": ({0.0: 1.0, 1.0: 2.0}, {}),
    **{name: (OUT, {"num_heads": 2, **_FF}) for name in "TransformerEncoderLayer ConformerEncoderLayer EBranchformerLayer".split()},
    "TransformerDecoderLayer": (ENC, OUT, {"num_heads": 2, **_FF}),
    "TransformerEncoder": (IN, OUT, {"num_layers": 1, "num_heads": 2, "ff_dim": KEY}),
    "TransformerDecoder": (ENC, IN, OUT, {"num_layers": 1, "num_heads": 2, "ff_dim": KEY}),
    "ConformerEncoder": (IN, OUT, {"num_layers": 1, "num_heads": 2, "ff_dim": KEY, "input_layer": None}),
    "ConformerEncoderV2": (OUT, {"num_layers": 1, "num_heads": 2, "ff_dim": KEY}),
    "Rec": ("lstm", IN, OUT, {}),
    "GatedDeltaNet": (IN, OUT, _HEADS),
    "Mamba": (IN, OUT, {"inner_dim": VALUE, "state_dim": KEY}),
    "Mamba2": (IN, OUT, {"inner_dim": VALUE, "state_dim": KEY, "num_heads": 2}),
    "RGLRU": (IN, {}),
    "RnnCell": ("lstm", IN, OUT, {}),
}  # fmt: skip
NO_PARAMETERS = {
    "holds what it is given": "Module ModuleList ParameterList Sequential Functional MaskedComputation",
    "a base without a call": (
        "IEncoder ISeqFramewiseEncoder ISeqDownsamplingEncoder RecUnit SelfAttentionBase GlobalAttentionContextBase"
    ),
    "reads labels": "EditDistanceTable KenLmState",
}


def made(name, **given):
    *args, options = MADE[name]
    args = [given.get(getattr(arg, "name", None), arg) for arg in args]
    return getattr(rf, name)(*args, **options)


def axes(parameter, name):
    """The dims of a parameter as text; a twin has a prime, and sizes of filters are by number."""
    texts = [
        re.sub("[()]| ", lambda m: "_" * (m[0] == " "), dim.name) + "'" * bool(dim.match_priority)
        for dim in parameter.dims
    ]
    if name == "filter":
        texts[2:] = [f"size{axis}" for axis in range(len(texts) - 2)]
    return " ".join(texts)


def own(module):
    """The parameters of a module without those of layers in it that have an entry of their own."""
    covered = [path for path, part in module.named_modules() if path and type(part).__name__ in LAYOUTS]
    return {
        name: axes(parameter, name)
        for name, parameter in module.named_parameters()
        if not any(name.startswith(f"{path}.") for path in covered)
    }


def expected(name):
    rows = [row.split(": ") for row in LAYOUTS.get(name, "").split(", ") if row]
    return dict(rows)


@pytest.mark.parametrize("name", MADE)
def test_the_axes_are_the_documented_ones(name):
    got = own(made(name))
    assert got == expected(name)


def test_every_public_module_is_in_the_table():
    modules = {name for name, value in public().items() if isinstance(value, type) and issubclass(value, rf.Module)}
    listed = {*MADE, *(name for names in NO_PARAMETERS.values() for name in names.split())}
    assert modules == listed


# -- numbers, with in = out --------------------------------------------------------------------------------------------
def _of_lstm(state):
    return {
        "ff_weight": state["weight_ih_l0"],
        "rec_weight": state["weight_hh_l0"],
        "bias": state["bias_ih_l0"] + state["bias_hh_l0"],
    }


def _of_gru(state):
    return {
        "W": state["weight_ih_l0"].T, "W_re": state["weight_hh_l0"].T, "b": state["bias_ih_l0"], "b_re": state["bias_hh_l0"]
    }  # fmt: skip


def _along(*spatial):
    def call(module, x):
        if len(spatial) == 1:
            return module(x, in_spatial_dim=spatial[0])[0]
        return module(x, in_spatial_dims=spatial)[0]

    return call


def _steps(module, x):
    return module(x, state=module.default_initial_state(batch_dims=[BATCH]), spatial_dim=TIME)[0]


_SPATIAL = [TIME, Dim(4, name="rows"), Dim(6, name="depth")]
_AS_IT_IS = lambda state: {"filter": state["weight"], "bias": state["bias"]}  # noqa: E731
# Name -> (ours, torch's, the state of torch's in the documented layout, dims of torch's input, the call).
SQUARE = {
    "Linear": (
        lambda: rf.Linear(IN, IN), lambda: torch.nn.Linear(8, 8),
        lambda state: {"weight": state["weight"].T, "bias": state["bias"]}, (BATCH, TIME, IN), lambda module, x: module(x),
    ),
    "LSTM": (
        lambda: rf.LSTM(IN, IN), lambda: torch.nn.LSTM(8, 8, batch_first=True), _of_lstm, (BATCH, TIME, IN), _steps,
    ),
    "TorchGRUCell": (
        lambda: rf.Rec(rf.TorchGRUCell, IN, IN), lambda: torch.nn.GRU(8, 8, batch_first=True),
        lambda state: {f"unit.{name}": value for name, value in _of_gru(state).items()}, (BATCH, TIME, IN),
        lambda module, x: module(x, axis=TIME)[0],
    ),
    **{
        f"Conv{num}d": (
            lambda num=num: getattr(rf, f"Conv{num}d")(IN, IN, 2, padding="valid"),
            lambda num=num: getattr(torch.nn, f"Conv{num}d")(8, 8, 2),
            _AS_IT_IS, (BATCH, IN, *_SPATIAL[:num]), _along(*_SPATIAL[:num]),
        )
        for num in (1, 2, 3)
    },
    **{
        f"TransposedConv{num}d": (
            lambda num=num: getattr(rf, f"TransposedConv{num}d")(IN, IN, 2, padding="valid"),
            lambda num=num: getattr(torch.nn, f"ConvTranspose{num}d")(8, 8, 2, stride=2),
            _AS_IT_IS, (BATCH, IN, *_SPATIAL[:num]), _along(*_SPATIAL[:num]),
        )
        for num in (1, 2, 3)
    },
}  # fmt: skip


@pytest.mark.parametrize("name", SQUARE)
def test_a_state_of_torch_gives_the_numbers_of_torch(name, tmp_path):
    make, of_torch, documented, dims, call = SQUARE[name]
    torch.manual_seed(0)
    theirs, ours, x = of_torch(), make(), randn(*dims)
    torch.save({"model": documented(theirs.state_dict())}, tmp_path / "model.pt")
    rf.set_params(ours, rf.load_torch_checkpoint(tmp_path / "model.pt"))
    want = theirs(x.raw_tensor)
    want = want[0] if isinstance(want, tuple) else want
    got = call(ours, x)
    order = [dim for dim in dims if dim in got.dims] + [dim for dim in got.dims if dim not in dims]
    torch.testing.assert_close(got.copy_transpose(order).raw_tensor, want)


# -- files of layout 1, which say none ---------------------------------------------------------------------------------
class Up(rf.Module):
    def __init__(self, in_dim, out_dim):
        self.up = rf.TransposedConv1d(in_dim, out_dim, 3, padding="valid")
        self.conv = rf.Conv1d(out_dim, out_dim, 3, padding="valid")


def old_values(model):
    """The parameters as they were written before layout 2."""
    values = {name: parameter.numpy().copy() for name, parameter in model.named_parameters()}
    return values | {"up.filter": values["up.filter"].swapaxes(0, 1)}


def same(a, b):
    theirs = dict(b.named_parameters())
    return all(np.array_equal(value.numpy(), theirs[name].numpy()) for name, value in a.named_parameters())


@pytest.mark.parametrize("turn", [True, False])
def test_a_file_that_says_no_layout_is_brought_into_order_where_sizes_tell(turn, tmp_path):
    narrow = Dim(5, name="narrow")
    model, other = Up(IN, narrow), Up(IN, narrow)
    values = old_values(model)
    if not turn:
        values["up.filter"] = values["up.filter"].swapaxes(0, 1)
    np.savez(tmp_path / "old.npz", **values)
    rf.set_params(other, rf.load_params(tmp_path / "old.npz"))
    assert same(model, other)


def test_a_file_that_says_no_layout_is_refused_where_nothing_tells_and_the_lines_help(tmp_path):
    model, other = Up(IN, IN), Up(IN, IN)
    np.savez(tmp_path / "old.npz", **old_values(model))
    params = rf.load_params(tmp_path / "old.npz")
    rf.save_params(params, tmp_path / "again.npz")  # what is open stays open
    for file in ("old.npz", "again.npz"):
        params = {name.lower(): value for name, value in rf.load_params(tmp_path / file).items()}
        with raises_message(
            CheckpointError,
            """
            The parameters in params are not those of the model:
              layout     up.filter: (8, 8, 3), [out, in, *filter_size] or documented
            Earlier versions of rfnb wrote it with its first two axes swapped, and the file does not say whether it is theirs. Say it:
                params["up.filter"] = np.asarray(params["up.filter"]).swapaxes(0, 1)    # only if an earlier version of rfnb has written it
                params["up.filter"] = np.asarray(params["up.filter"])    # if somebody else has
            """,
        ):
            rf.set_params(other, params)
        assert not same(model, other)
    params["up.filter"] = np.asarray(params["up.filter"]).swapaxes(0, 1)
    rf.set_params(other, params)
    assert same(model, other)


@pytest.mark.parametrize("sizes", [(IN, IN), (IN, Dim(5, name="narrow"))])
def test_what_is_written_today_says_its_layout(sizes, tmp_path):
    model, others = Up(*sizes), [Up(*sizes) for _ in range(3)]
    rf.save_params(model, tmp_path / "new.npz", step=7)
    params = rf.load_params(tmp_path / "new.npz")
    assert params.step == 7 and "/layout" not in params
    rf.set_params(others[0], params)
    module = rf_module_to_pt_module(model)
    torch.save(module.state_dict(), tmp_path / "new.pt")
    rf.set_params(others[1], rf.load_torch_checkpoint(tmp_path / "new.pt"))
    rf_module_to_pt_module(others[2]).load_state_dict(torch.load(tmp_path / "new.pt"))
    assert all(same(model, other) for other in others)


def test_a_file_of_a_newer_layout_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "LAYOUT", 3)
    rf.save_params(Up(IN, IN), tmp_path / "newer.npz")
    monkeypatch.undo()
    with pytest.raises(
        CheckpointError, match="found      version 3 of layouts of parameters\n(.*\n)*A newer rfnb wrote it."
    ):
        rf.load_params(tmp_path / "newer.npz")


def old_state(model):
    """The state that a torch module of an earlier version gave."""
    state = rf_module_to_pt_module(model).state_dict()
    state["up.filter"] = state["up.filter"].swapaxes(0, 1).clone()
    for about in state._metadata.values():
        about["version"] = 1
    return state


def test_an_old_state_of_a_torch_module_is_brought_into_order_or_refused(tmp_path):
    narrow = Dim(5, name="narrow")
    model, others = Up(IN, narrow), [Up(IN, narrow), Up(IN, narrow)]
    torch.save(old_state(model), tmp_path / "old.pt")
    rf_module_to_pt_module(others[0]).load_state_dict(torch.load(tmp_path / "old.pt"))
    rf.set_params(others[1], rf.load_torch_checkpoint(tmp_path / "old.pt"))
    assert all(same(model, other) for other in others)

    square, other = Up(IN, IN), Up(IN, IN)
    state, module = old_state(square), rf_module_to_pt_module(other)
    torch.save({"model": state}, tmp_path / "square.pt")
    with pytest.raises(CheckpointError, match="layout     up.filter"):
        rf.set_params(other, rf.load_torch_checkpoint(tmp_path / "square.pt"))
    with pytest.raises(RuntimeError, match="Earlier versions of rfnb wrote it"):
        module.load_state_dict(state)
    state["up.filter"] = state["up.filter"].swapaxes(0, 1)
    module.load_state_dict(dict(state))
    assert same(square, other)


def test_a_file_of_returnn_has_the_documented_layout(tmp_path):
    model, other = Up(IN, IN), Up(IN, IN)
    state = old_state(model)
    state["up.filter"] = state["up.filter"].swapaxes(0, 1).clone()
    torch.save({"model": state, "epoch": 3, "step": 10, "returnn_version": "1.0"}, tmp_path / "epoch.003.pt")
    rf.set_params(other, rf.load_torch_checkpoint(tmp_path / "epoch.003.pt"))
    assert same(model, other)


def test_an_old_pickle_of_a_module_is_brought_into_order():
    import pickle

    model = rf.TransposedConv1d(IN, IN, 2, padding="valid")
    x = randn(BATCH, TIME, IN)
    want, dim = model(x, in_spatial_dim=TIME)
    filter, new = model.filter, model.filter.raw_tensor.detach()
    old = model.__getstate__()
    filter.dims, filter._raw = (IN, filter.dims[0], *filter.dims[2:]), torch.nn.Parameter(new.swapaxes(0, 1).clone())
    got = rf.TransposedConv1d.__new__(rf.TransposedConv1d)
    got.__setstate__(old)
    assert torch.equal(got.filter.raw_tensor, new) and got.filter.trainable
    assert_same(got(x, in_spatial_dim=TIME, out_spatial_dim=dim)[0], want)
    loaded = pickle.loads(pickle.dumps(got))
    assert torch.equal(loaded.filter.raw_tensor, new)
