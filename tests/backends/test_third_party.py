"""A backend that somebody else writes: a few raw methods are enough for many ops, and a missing one says how to write it."""

import re
from contextvars import ContextVar
from pathlib import Path

import numpy as np
import pytest
from asserting import assert_same, on_selected_backend, ragged, raises_message, randn
from backends.list_backend import ListArray, ListBackend

import rfnb as rf
from rfnb import Dim
from rfnb.backends import registry
from rfnb.core.memo import Memo, is_kept

batch, feat, out = Dim(2, name="batch"), Dim(3, name="feat"), Dim(4, name="out")
time, other = ragged([5, 2], batch), ragged([1, 3], batch, "other")


@pytest.fixture(autouse=True)
def lists(monkeypatch):
    """ListBackend is registered and selected in the test, and unknown afterwards."""
    monkeypatch.setattr(registry, "BY_TYPE", type(registry.BY_TYPE)(registry.BY_TYPE))
    monkeypatch.setattr(registry, "_selected", ContextVar("selected", default=registry.selected()))  # noqa: B039
    monkeypatch.setattr(registry, "_chosen", [True])
    rf.register_backend_by_tensor_type(ListArray, ListBackend)
    rf.select_backend("lists")


X, Y, Z = randn(batch, time, feat), randn(feat, batch, seed=1), randn(feat, out, seed=2)  # torch
OPS = {
    "add": lambda x, y, z: x + y,
    "numbers": lambda x, y, z: (1 - x) * 2 / 3,
    "unary": lambda x, y, z: rf.tanh(-rf.relu(x)),
    "compare and where": lambda x, y, z: rf.where(x > y, x, 0.0),
    "clip": lambda x, y, z: rf.clip_by_value(x, -0.5, 0.5),
    "sum over a ragged dim": lambda x, y, z: rf.reduce_sum(x, axis=time),
    "mean over two": lambda x, y, z: rf.reduce_mean(x, axis=[time, batch]),
    "max": lambda x, y, z: rf.reduce_max(x, axis=time),
    "sum over two ragged dims": lambda x, y, z: rf.reduce_sum(rf.expand_dim(x, other), axis=[time, other]),
    "softmax over a ragged dim": lambda x, y, z: rf.softmax(x, axis=time),
    "log_softmax": lambda x, y, z: rf.log_softmax(x, axis=feat),
    "matmul": lambda x, y, z: rf.matmul(x, z, reduce=feat),
    "matmul over a ragged dim": lambda x, y, z: rf.matmul(x, x * 2, reduce=[time, feat]),
    "batched matmul": lambda x, y, z: rf.matmul(x, y, reduce=feat),
    "attention": lambda x, y, z: rf.dot_attention(y, x, x, key_dim=feat, axis=time),
    "merge and split": lambda x, y, z: rf.split_dims(rf.merge_dims(y, dims=[batch, feat])[0], axis=batch * feat, dims=[batch, feat]),
    "expand": lambda x, y, z: rf.expand_dim(y, out),
}  # fmt: skip


@pytest.mark.parametrize("name", OPS)
def test_ops_run_and_agree_with_torch(name):
    with_lists = OPS[name](*map(on_selected_backend, (X, Y, Z)))
    assert isinstance(with_lists.raw_tensor, ListArray)
    rf.select_backend("torch")
    assert_same(with_lists, OPS[name](X, Y, Z))


def test_an_array_that_is_kept_is_asked_for_nothing():
    masks = Memo()
    array = masks.keep("mask", ListArray([True], [1], "bool"), 1)
    assert is_kept(array) and not is_kept(np.ones(1))


@pytest.mark.parametrize("kind", [rf.LayerNorm, rf.RMSNorm])
def test_a_layer_runs_and_agrees_with_torch(kind):
    results = []
    weight = randn(feat, out, seed=3).numpy()
    for backend in ("lists", "torch"):
        rf.select_backend(backend)
        linear, norm = rf.Linear(feat, out), kind(out)
        linear.weight.assign(rf.convert_to_tensor(weight, dims=[feat, out]))
        results.append(norm(linear(on_selected_backend(X))))
    assert isinstance(results[0].raw_tensor, ListArray)
    assert_same(*results)


def test_parameters_are_drawn():
    values = rf.Linear(feat, out).weight.numpy()
    assert values.shape == (3, 4) and len(np.unique(values)) == 12


def test_views_show_its_tensors(capsys):
    rf.show(on_selected_backend(X))
    shown = capsys.readouterr().out
    assert "tensor  [batch=2, time<=5, feat=3]  float32  cpu" in shown and "mean -0.181" in shown


def test_it_is_known_by_type_and_by_name():
    assert rf.get_selected_backend() == "lists"
    assert rf.get_backend_by_tensor(rf.zeros([batch])) is ListBackend
    assert rf.get_backend_by_raw_tensor_type(ListArray) is ListBackend


def test_a_faster_kernel_is_what_ops_call(monkeypatch):
    calls = []

    def softmax_raw(raw, axis):
        calls.append(axis)
        return raw

    monkeypatch.setattr(ListBackend, "softmax_raw", staticmethod(softmax_raw), raising=False)
    new = Dim(3, name="new")  # what a plan holds is looked up when it is made
    rf.softmax(on_selected_backend(randn(batch, new)), axis=new)
    assert calls == [1]


def test_a_missing_method_says_how_to_write_it():
    with raises_message(
        NotImplementedError,
        """
        Backend "lists" has no cumsum_raw.
          class    backends.list_backend.ListBackend
          meaning  The running sum along an axis.
        An op needs it; a backend writes the raw methods of the ops that it is used with. Add it to ListBackend:
            @classmethod
            def cumsum_raw(cls, raw, axis):
        """,
    ):
        rf.cumsum(on_selected_backend(Y), spatial_dim=batch)
    with raises_message(
        NotImplementedError,
        """
        Backend "lists" has no sort_raw.
          class    backends.list_backend.ListBackend
          meaning  The sorted values, and the int64 indices of their former places.
        An op needs it; a backend writes the raw methods of the ops that it is used with. Add it to ListBackend:
            @classmethod
            def sort_raw(cls, raw, axis, descending, stable):
        """,
    ):
        rf.sort(on_selected_backend(Y), axis=batch)


def test_an_unknown_backend_is_told_with_those_that_are_registered():
    with raises_message(
        ValueError,
        """
        select_backend: unknown backend "tuples".
          known  torch, numpy, lists
        rfnb runs on torch, with NumPy as the readable reference.
            rf.select_backend("torch")
        """,
    ):
        rf.select_backend("tuples")


def test_the_how_to_names_methods_that_there_are():
    text = (Path(__file__).parents[2] / "docs" / "backend.md").read_text()
    names = set(re.findall(r"`(\w+)(?:\(.*?\))?`", text)) & set(re.findall(r"\w+_(?:raw|fn|numpy)\b", text))
    assert len(names) > 15
    assert [name for name in sorted(names) if not hasattr(rf.Backend, name)] == []
    least = text[text.index("## The minimum") : text.index("## Faster")]
    own = {name for name, method in vars(ListBackend).items() if isinstance(method, classmethod)}
    assert own == set(re.findall(r"^- `(\w+)", least, re.M))
