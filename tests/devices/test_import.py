"""Imported parameters and models are put on the model's device; foreign models compute there, without further synchronizations."""

import numpy as np
import pytest
import torch
from golden_nets import GoldenNet, names
from golden_search import check_output
from simulated import NAME, values, watched
from torch import nn

import rfnb as rf
from rfnb.interop import torch_nn
from rfnb.interop.torch_module import pt_module_to_rf_module

IN, OUT = rf.Dim(3, name="in"), rf.Dim(4, name="out")
BATCH = rf.Dim(3, name="batch")
TIME = rf.ragged_dim([4, 2, 3], over=BATCH, name="time")
PLACES = [(NAME, "cpu"), ("cpu", NAME), (NAME, NAME)]
KIND = torch.device(NAME).type


def kind_of(x):
    """The kind of device of a Tensor."""
    return torch.device(x.device).type


# -- parameters --------------------------------------------------------------------------------------------------------
IMPORTS = {
    "Linear": (lambda: nn.Linear(3, 4), lambda: rf.Linear(IN, OUT), torch_nn.import_params_torch_linear_to_rf),
    "Conv1d": (
        lambda: nn.Conv1d(3, 4, 5),
        lambda: rf.Conv1d(IN, OUT, 5, padding="valid"),
        torch_nn.import_params_torch_conv1d_to_rf,
    ),
    "LayerNorm": (lambda: nn.LayerNorm(3), lambda: rf.LayerNorm(IN), torch_nn.import_params_torch_layer_norm_to_rf),
    "LSTM": (lambda: nn.LSTM(3, 4), lambda: rf.LSTM(IN, OUT), torch_nn.import_params_torch_lstm_to_rf),
    "GRU": (lambda: nn.GRU(3, 4), lambda: rf.TorchGRUCell(IN, OUT), torch_nn.import_params_torch_gru_to_rf),
}


@pytest.mark.parametrize(("source", "target"), PLACES)
@pytest.mark.parametrize("name", IMPORTS)
def test_parameters_of_torch_are_copied_to_where_the_model_is(name, source, target):
    make, make_rf, load = IMPORTS[name]
    theirs, expected, ours = make(), make_rf(), make_rf()
    load(theirs, expected)
    ours.to(device=target)
    load(theirs.to(source), ours)
    for (path, one), (_, other) in zip(ours.named_parameters(), expected.named_parameters(), strict=True):
        assert kind_of(one) == torch.device(target).type, path
        np.testing.assert_array_equal(one.numpy(), other.numpy(), err_msg=path)
    assert {each.device.type for each in theirs.parameters()} == {torch.device(source).type}


@pytest.mark.parametrize(("source", "target"), PLACES)
def test_parameters_are_given_to_torch_where_its_module_is(source, target):
    ours, theirs = rf.LSTM(IN, OUT), nn.LSTM(3, 4).to(target)
    expected = ours.ff_weight.numpy()
    ours.to(device=source)
    torch_nn.export_params_lstm_to_torch(ours, theirs)
    weight = theirs.weight_ih_l0.detach()
    assert weight.device.type == torch.device(target).type
    np.testing.assert_array_equal(weight.cpu().numpy(), expected)


@pytest.mark.parametrize("device", ["cpu", NAME])
def test_a_checkpoint_that_was_written_on_the_device_is_read_without_one_and_loaded_to_either(tmp_path, device):
    module = nn.Linear(3, 4).to(NAME).to(torch.bfloat16)
    state = {name: value.detach().cpu().float().numpy() for name, value in module.state_dict().items()}
    torch.save({"model": module.state_dict(), "epoch": 2, "step": 7}, tmp_path / "model.pt")
    with watched() as seen:
        params = rf.load_torch_checkpoint(tmp_path / "model.pt")
    assert seen == [] and (params.epoch, params.step) == (2, 7)
    for name, value in state.items():
        np.testing.assert_array_equal(params[name], value)
    model = rf.Linear(IN, OUT)
    model.to(device=device)
    rf.set_params(model, {"weight": params["weight"].T.copy(), "bias": params["bias"]})
    assert kind_of(model.weight) == torch.device(device).type
    np.testing.assert_array_equal(model.weight.numpy(), state["weight"].T)


# -- networks in the dict notation -------------------------------------------------------------------------------------
SEARCHES = names(search=True)


@pytest.mark.parametrize("default", [NAME, None])
@pytest.mark.parametrize("name", [*names(), *SEARCHES])
def test_a_network_gives_the_golden_numbers_where_its_parameters_are(name, default):
    """Also where that is not the default device: first states, ends and constants are made with the parameters."""
    golden = GoldenNet(name)
    options = {"search": True} if name in SEARCHES else {"loop": "with"}
    with rf.set_default_device_ctx(default):
        net = golden.net(**options)
        if default is None:
            net.to(device=NAME)
        out = golden.run(net)
    for key in golden.outputs:
        if name in SEARCHES:
            check_output(golden.arrays, key, out[key])
    if name not in SEARCHES:
        golden.check(out)
    there = default is not None or any(True for _ in net.parameters())  # arrays of NumPy alone say nothing
    assert {kind_of(value) for value in out.values()} == {KIND if there else "cpu"}


def test_arrays_of_the_device_are_cut_and_cast_there():
    net = rf.net_from_dict({"output": {"class": "linear", "n_out": 4, "from": "data"}}, {"data": {"dim": 3}})
    net.to(device=NAME)
    array = np.random.default_rng(1).standard_normal((2, 6, 3))
    expected = net({"data": (array[:, :5].astype("float32"), [5, 3])})["output"].numpy()
    given = torch.from_numpy(array).to(NAME).requires_grad_()  # float64, and longer than the longest sequence
    net({"data": (given, [5, 3])})
    with watched() as seen:
        out = net({"data": (given, [5, 3])})["output"]
    assert seen.waits == [] and all("dim_mask.py" in each for each in seen.moved)
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-5, atol=1e-6)
    out.raw_tensor.sum().backward()
    assert given.grad[0, :5].abs().min().item() > 0 and given.grad[0, 5].abs().max().item() == 0


# -- modules of torch with Tensors, and the other way ------------------------------------------------------------------
MODULES = {
    "LSTM": lambda: nn.LSTM(3, 4, 2, bidirectional=True),
    "LSTM with projection": lambda: nn.LSTM(3, 4, proj_size=2),
    "GRU": lambda: nn.GRU(3, 4, batch_first=True),
    "TransformerEncoderLayer": lambda: nn.TransformerEncoderLayer(3, 1, 4, dropout=0.0, batch_first=True),
    "Linear": lambda: nn.Linear(3, 4),
}


@pytest.mark.filterwarnings("ignore:LSTM with projections")
@pytest.mark.parametrize("name", MODULES)
def test_a_module_of_torch_is_called_with_tensors_of_the_device_and_waits_for_nothing(name):
    torch.manual_seed(0)
    module, raw = MODULES[name](), torch.randn(3, 4, 3)
    model = rf.from_torch(module)
    options = {} if name == "Linear" else {"spatial_dim": TIME}

    def run(device):
        x = rf.Tensor("x", [BATCH, TIME, IN], raw_tensor=raw.to(device), feature_dim=IN)
        result = model(x, **options)
        result, state = result if isinstance(result, tuple) else (result, {})
        return [result.copy_masked(0), *state.values()]

    expected = run("cpu")
    module.to(NAME)
    run(NAME)
    raw = raw.to(NAME)
    with watched() as seen:
        actual = run(NAME)
    assert seen.waits == []
    for one, other in zip(actual, expected, strict=True):
        assert kind_of(one) == KIND
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-4, atol=1e-5)


def test_what_is_recorded_of_such_a_module_is_over_the_batch_in_its_order():
    torch.manual_seed(0)
    module = nn.LSTM(3, 4)
    x = rf.Tensor("x", [BATCH, TIME, IN], raw_tensor=torch.randn(3, 4, 3).to(NAME), feature_dim=IN)
    model = rf.from_torch(module.to(NAME))
    with rf.record(model=module) as trace:
        out, _ = model(x, spatial_dim=TIME)
    states = trace.states[""]
    time = next(dim for dim in states["h"].dims if dim.name == "time")
    batch = next(dim for dim in states["h"].dims if dim.kind == "batch")
    assert time.lengths.tolist() == [4, 2, 3]
    got = states["h"].copy_transpose([batch, time, states["h"].dims[-1]]).numpy()
    expected = out.copy_transpose([BATCH, TIME, out.feature_dim]).numpy()
    for row, length in enumerate([4, 2, 3]):
        np.testing.assert_allclose(got[row, :length], expected[row, :length], rtol=1e-5)


class Tagger(rf.Module):
    """A recurrent layer that makes its first state itself."""

    def __init__(self):
        self.in_dim = IN
        self.lstm = rf.LSTM(IN, OUT)

    def __call__(self, x, *, spatial_dim: rf.Dim):
        state = self.lstm.default_initial_state(batch_dims=x.remaining_dims([spatial_dim, IN]))
        return self.lstm(x, spatial_dim=spatial_dim, state=state)[0]


def test_a_model_of_rfnb_is_a_module_of_torch_that_is_moved_and_trained_there():
    module = rf.as_torch(Tagger(), inputs="batch time in_dim")
    x, lengths = torch.randn(3, 4, 3), torch.tensor([4, 2, 3])
    expected = module(x, lengths)
    module.to(NAME)
    optimizer = torch.optim.SGD(module.parameters(), 0.1)
    x = x.to(NAME)

    def step():
        optimizer.zero_grad()
        out = module(x, lengths)
        out.square().sum().backward()
        optimizer.step()
        return out.detach()

    first = step()
    torch.testing.assert_close(values(first), expected.detach(), rtol=1e-4, atol=1e-5)
    with watched() as seen:
        step()
    assert seen.waits == []
    assert {each.device.type for each in module.parameters()} == {KIND}


def test_a_torch_module_in_a_model_of_rfnb_is_moved_with_it():
    model = pt_module_to_rf_module(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)))
    model.to(device=NAME)
    assert {kind_of(each) for each in model.parameters()} == {KIND}
    assert model(torch.randn(5, 3).to(NAME)).device.type == KIND


# -- searches over models of transformers ------------------------------------------------------------------------------
def _gpt2():
    from interop.seen.generating import make

    return make("gpt2"), {
        "input_ids": torch.tensor([[2, 5, 7], [6, 3, 9]]), "attention_mask": torch.tensor([[0, 1, 1], [1, 1, 1]])
    }  # fmt: skip


def test_a_search_over_a_model_of_transformers_is_that_of_the_cpu_and_reads_the_mask_of_prompts_once():
    pytest.importorskip("transformers", reason="runs a model of an installed transformers")
    model, given = _gpt2()
    model.lm_head._forward_hooks.clear()  # of the CPU
    search = {"beam_size": 3, "max_seq_len": 5}
    expected = rf.beam_search(**rf.hf_search_options(model, **given), **search)
    model.to(NAME)
    given = {name: value.to(NAME) for name, value in given.items()}
    with watched() as seen:
        options = rf.hf_search_options(model, **given)
    assert len(seen.waits) == 2  # whether prompts are padded, and on which side
    forward, of_model = model.forward, []

    def counted(*args, **kwargs):
        with watched() as seen:
            out = forward(*args, **kwargs)
        of_model.extend(seen.waits)
        return out

    model.forward = counted
    with watched() as seen:
        actual = rf.beam_search(**options, **search)
    assert len([wait for wait in seen.waits if "hf_search.py" in wait]) == len(of_model)
    for seq in range(2):
        got, wanted = (
            [(each.tokens, each.ended) for each in one.nbest(seq, unfinished=True)] for one in (actual, expected)
        )
        assert got == wanted
