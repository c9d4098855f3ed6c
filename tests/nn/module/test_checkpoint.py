"""Checkpoints: what is written, what is read, and what fits a model."""

import os

import numpy as np
import pytest
from asserting import raises_message, using_backend

import rfnb as rf
from rfnb import CheckpointError, Dim

A, B = Dim(2, name="a"), Dim(3, name="b")


class Net(rf.Module):
    def __init__(self):
        self.first, self.norm = rf.Linear(A, B), rf.BatchNorm(B)
        self.count = rf.Parameter([], "int32", non_critical_for_restore=True)


def values_of(model):
    return {name: parameter.numpy().copy() for name, parameter in model.named_parameters()}


def other_values(model, seed=0):
    rng = np.random.default_rng(seed)
    return {
        name: (rng.standard_normal(value.shape) * 10).astype(value.dtype) for name, value in values_of(model).items()
    }


def same(a, b):
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize("as_given", ["model", "parameters", "raw arrays", "arrays"])
def test_what_is_saved_is_loaded(tmp_path, as_given):
    model = Net()
    rf.set_params(model, other_values(model))
    parameters = dict(model.named_parameters())
    raws = {name: parameter.raw_tensor for name, parameter in parameters.items()}
    values = {"model": model, "parameters": parameters, "raw arrays": raws, "arrays": values_of(model)}[as_given]
    rf.save_params(values, tmp_path / "model.npz", step=70, epoch=3)
    loaded = rf.load_params(tmp_path / "model.npz")
    assert same(loaded, values_of(model)) and (loaded.step, loaded.epoch) == (70, 3)
    assert os.listdir(tmp_path) == ["model.npz"]
    other = Net()
    assert rf.set_params(other, loaded) == []
    assert same(values_of(other), values_of(model))


def test_numpy_reads_the_file_and_no_name_is_special(tmp_path):
    names = {"file": np.arange(2.0), "a.b/c": np.ones((2, 0))}
    rf.save_params(names, tmp_path / "plain")
    assert same(dict(np.load(tmp_path / "plain")), names)
    loaded = rf.load_params(tmp_path / "plain")
    assert loaded.step is None and loaded.epoch is None


def test_the_numpy_backend_loads_and_saves_too(tmp_path):
    with using_backend("numpy"):
        model = Net()
        rf.set_params(model, other_values(model))
        rf.save_params(model, tmp_path / "model.npz")
        assert same(rf.load_params(tmp_path / "model.npz"), values_of(model))


def test_a_file_that_is_cut_off_or_another_kind(tmp_path):
    file = tmp_path / "model.npz"
    rf.save_params(Net(), file)
    whole = file.read_bytes()
    for data in (b"", whole[:100], whole[:-30], b"something else"):
        file.write_bytes(data)
        with pytest.raises(
            CheckpointError, match="load_params: .*model.npz is damaged, or no npz file of arrays.\n  cause  "
        ):
            rf.load_params(file)
    np.savez(tmp_path / "objects.npz", a=np.asarray([{}], object))
    with pytest.raises(CheckpointError, match="Object arrays cannot be loaded"):
        rf.load_params(tmp_path / "objects.npz")
    np.save(tmp_path / "one.npy", np.zeros(3))
    with pytest.raises(CheckpointError):
        rf.load_params(tmp_path / "one.npy")
    with pytest.raises(FileNotFoundError):
        rf.load_params(tmp_path / "nothing.npz")


def test_all_that_does_not_fit_is_listed_and_nothing_loaded():
    model = Net()
    before, params = values_of(model), other_values(model)
    params["first.weight"] = params["first.weight"].T
    params["first.scale"] = params.pop("first.bias")
    params["count"] = np.asarray(0.5)
    del params["norm.gamma"]
    text = """
        The parameters in epoch 3 are not those of the model:
          missing    first.bias
          missing    norm.gamma
          not known  first.scale
          shape      first.weight: (3, 2), needed (2, 3)
          dtype      count: float64, needed int32
        A parameter has the shape and the kind of numbers that its model was built with. Those of the model:
            {name: (parameter.dims, parameter.dtype) for name, parameter in model.named_parameters()}
        """
    params = {name: params[name] for name in ("first.scale", "first.weight", "count", *params)}
    for load in (rf.check_params_complete, rf.set_params):
        with raises_message(CheckpointError, text):
            load(model, params, source="epoch 3")
    assert same(values_of(model), before)


def test_some_may_be_missing():
    model = Net()
    params = values_of(model)
    del params["count"]
    assert rf.check_params_complete(model, params) == ["count"]
    params = {"first.bias": np.asarray([1.0, 2.0, 3.0])}
    missing = [name for name in values_of(model) if name != "first.bias"]
    assert rf.set_params(model, params, allow_missing=True) == missing
    assert model.first.bias.numpy().tolist() == [1, 2, 3] and model.first.bias.dtype == "float32"
    with pytest.raises(CheckpointError, match="not known  nothing"):
        rf.check_params_complete(model, {"nothing": np.zeros(3)}, allow_missing=True)


def test_a_prefix_too_many_is_named():
    model = rf.Linear(A, B)
    params = {f"module.{name}": value for name, value in values_of(model).items()}
    with raises_message(CheckpointError, """
        The parameters in params are not those of the model:
          missing    weight
          missing    bias
          not known  module.weight
          not known  module.bias
        All its names have the prefix "module.". Take it off:
            params = {name.removeprefix("module."): value for name, value in params.items()}
        """):  # fmt: skip
        rf.check_params_complete(model, params)


def test_many_problems_are_counted():
    with pytest.raises(CheckpointError) as caught:
        rf.check_params_complete(rf.ModuleList(), {f"p{i}": np.zeros(1) for i in range(53)})
    lines = str(caught.value).splitlines()
    assert len(lines) == 54 and lines[51] == "  ... and 3 more"


class Tied(rf.Module):
    def __init__(self):
        self.embedding, self.output = rf.Embedding(A, B), rf.Linear(A, B, with_bias=False)
        self.output.weight = self.embedding.weight


def test_a_shared_parameter_may_come_under_any_of_its_names():
    values = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    for names in (["embedding.weight"], ["output.weight"], ["output.weight", "embedding.weight"]):
        model = Tied()
        assert rf.set_params(model, dict.fromkeys(names, values)) == []
        assert model.embedding.weight.numpy().tolist() == values.tolist()
    with raises_message(CheckpointError, """
        The parameters in params are not those of the model:
          differs    output.weight: the same parameter as embedding.weight
        A parameter that is in several places has one value. Leave all but one of its names out:
            del params["output.weight"]
        """):  # fmt: skip
        rf.set_params(Tied(), {"embedding.weight": values, "output.weight": values + 1})


def test_a_parametrized_module_takes_the_checkpoint_of_a_plain_one():
    plain, noisy = rf.Linear(A, B), rf.weight_noise(rf.Linear(A, B), "weight", std=0.1)
    rf.set_params(noisy, dict(plain.named_parameters()))
    assert same(values_of(noisy), values_of(plain))


def test_loading_keeps_the_parameters_that_an_optimizer_has():
    model = Net()
    raws = [parameter.raw_tensor for parameter in model.parameters()]
    rf.set_params(model, other_values(model))
    assert all(parameter.raw_tensor is raw for parameter, raw in zip(model.parameters(), raws))
    weight = model.first.weight.raw_tensor
    assert weight.requires_grad and weight.is_leaf
