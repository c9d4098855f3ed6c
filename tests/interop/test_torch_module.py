"""The bridge between rf.Module and torch.nn.Module: one set of parameters, whoever changes it."""

import copy

import pytest
import torch
from asserting import assert_same, randn

import rfnb as rf
from rfnb import Dim, Tensor
from rfnb.interop.torch_module import pt_module_to_rf_module, rf_module_to_pt_module

BATCH, A, B = Dim(2, name="batch"), Dim(3, name="a"), Dim(5, name="b")


class Net(rf.Module):
    def __init__(self):
        self.type = rf.Linear(A, B)  # a name that torch.nn.Module has a method of
        self.layers = rf.ModuleList(rf.BatchNorm(B), rf.Linear(B, A))
        self.again = self.layers[1]

    def __call__(self, x):
        norm, linear = self.layers
        return linear(norm(self.type(x)))


NAMES = ["type.weight", "type.bias", "layers.0.gamma", "layers.0.beta", "layers.1.weight", "layers.1.bias"]
RUNNING = ["layers.0.running_mean", "layers.0.running_variance"]


@pytest.fixture(autouse=True)
def context():
    rf.set_random_seed(1)
    yield
    rf.init_forward_step_run_ctx()


def test_names_and_parameters_are_shared():
    model = Net()
    pt = rf_module_to_pt_module(model)
    by_name = dict(pt.named_parameters())
    assert list(by_name) == NAMES and [name for name, _ in pt.named_buffers()] == RUNNING
    assert all(by_name[name] is model.get_deep(name).raw_tensor for name in NAMES)
    assert pt.get_submodule("again") is pt.get_submodule("layers.1")
    as_params = rf_module_to_pt_module(model, aux_params_as_buffers=False)
    assert {name for name, _ in as_params.named_parameters()} == {*NAMES, *RUNNING}
    assert "Linear[rf]" in repr(pt)


def test_it_calls_the_module():
    model, x = Net(), randn(BATCH, A)
    assert_same(rf_module_to_pt_module(model)(x), model(x))


def test_a_torch_optimizer_trains_the_module():
    model, x = Net(), randn(BATCH, A)
    pt = rf_module_to_pt_module(model)
    optimizer = torch.optim.SGD(pt.parameters(), lr=0.1)
    losses = []
    with rf.init_train_step_run_ctx():
        for _ in range(5):
            optimizer.zero_grad()
            loss = rf.reduce_sum(rf.square(pt(x) - 1.0), axis=[BATCH, A])
            loss.raw_tensor.backward()
            optimizer.step()
            losses.append(loss.raw_tensor.item())
    assert losses[-1] < losses[0] / 2
    assert (pt.state_dict()["layers.0.running_mean"].numpy() == model.layers[0].running_mean.numpy()).all()
    assert model.layers[0].running_mean.numpy().any()


def test_a_state_dict_goes_from_one_to_the_other(tmp_path):
    one, two, x = Net(), Net(), randn(BATCH, A)
    one.layers[0].running_mean.assign(0.5)
    torch.save({"model": rf_module_to_pt_module(one).state_dict(), "epoch": 1, "step": 2}, tmp_path / "a.pt")
    rf_module_to_pt_module(two).load_state_dict(torch.load(tmp_path / "a.pt", weights_only=True)["model"])
    assert_same(two(x), one(x))
    three = Net()
    rf.set_params(three, rf.load_torch_checkpoint(tmp_path / "a.pt"))  # has "again.weight" too, as torch writes it
    assert_same(three(x), one(x))


def test_values_and_types_set_on_either_side_are_seen_by_the_other():
    model = Net()
    pt = rf_module_to_pt_module(model)
    model.type.bias.assign(7.0)
    assert (dict(pt.named_parameters())["type.bias"] == 7).all()
    for convert in (
        lambda: pt.double(),
        lambda: model.to(dtype="float32"),
        lambda: pt.half(),
        lambda: model.to(dtype="float64"),
    ):
        convert()
        state = {**dict(pt.named_parameters()), **dict(pt.named_buffers())}
        for name in NAMES + RUNNING:
            parameter = model.get_deep(name)
            assert parameter.raw_tensor is state[name] and parameter.dtype == str(state[name].dtype)[6:], name
        model.layers[0].running_mean.assign_add(1.0)
    assert (state["layers.0.running_mean"] == 4).all()


def test_a_deep_copy_shares_its_own_parameters():
    pt = rf_module_to_pt_module(Net())
    other = copy.deepcopy(pt)
    assert other.rf_module is not pt.rf_module
    other.rf_module.type.bias.assign(3.0)
    assert (dict(other.named_parameters())["type.bias"] == 3).all()
    assert not dict(pt.named_parameters())["type.bias"].any()


class Raw(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 5)
        self.norm = torch.nn.BatchNorm1d(5)
        self.tied = torch.nn.Linear(3, 5, bias=False)
        self.tied.weight = self.linear.weight
        self.norm.weight.requires_grad_(False)

    def forward(self, x):
        return self.norm(self.linear(x))


def test_a_torch_module_is_a_module_with_its_parameters():
    raw = Raw()
    model = pt_module_to_rf_module(raw)
    assert [name for name, _ in model.named_parameters()] == [
        "linear.weight", "linear.bias", "norm.weight", "norm.bias", "norm.running_mean", "norm.running_var",
        "norm.num_batches_tracked",
    ]  # fmt: skip
    assert (
        model.linear.weight.raw_tensor is raw.linear.weight is raw.tied.weight
        and model.tied.weight is model.linear.weight
    )
    assert not model.norm.weight.trainable and model.linear.weight.trainable and model.norm.running_mean.auxiliary
    assert [dim.name for dim in model.linear.weight.dims] == ["weight:0", "weight:1"]
    x = torch.randn(4, 3)
    torch.testing.assert_close(model(x), raw(x))
    assert model.norm.running_mean.numpy().any() and model.norm.num_batches_tracked.numpy() == 2
    assert model.get_default_name() == "Raw"


def test_a_torch_module_can_be_a_part_of_a_module_and_the_way_back_is_the_original():
    class Mixed(rf.Module):
        def __init__(self):
            self.raw = pt_module_to_rf_module(torch.nn.Linear(3, 5))

        def __call__(self, x):
            return Tensor("out", (BATCH, B), raw_tensor=self.raw(x.copy_transpose([BATCH, A]).raw_tensor))

    model, x = Mixed(), randn(BATCH, A)
    assert [name for name, _ in model.named_parameters()] == ["raw.weight", "raw.bias"]
    pt = rf_module_to_pt_module(model)
    assert pt.get_submodule("raw") is model.raw.pt_module
    assert pt_module_to_rf_module(pt) is model
    other = copy.deepcopy(model)
    other.raw.bias.assign(2.0)
    assert (other.raw.pt_module.bias == 2).all() and not (model.raw.pt_module.bias == 2).any()
    assert_same(pt(x), model(x))
    model.to(dtype="float64")
    assert model.raw.pt_module.weight.dtype is torch.float64
