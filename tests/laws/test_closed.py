"""The law of the protocol, for every public op: nothing is asked of a raw array but through its backend, neither in the first call nor
in those that find a plan."""

from contextvars import ContextVar

import pytest
from asserting import assert_same, on_selected_backend, using_backend
from backends.closed_backend import Box, ClosedBackend
from marks import worlds
from table import CASES, read_entries

import rfnb as rf
from rfnb.backends import registry

read_entries()


@pytest.fixture(autouse=True)
def boxes(monkeypatch):
    """ClosedBackend is registered in the test, and unknown afterwards."""
    monkeypatch.setattr(registry, "_selected", ContextVar("selected", default=registry.selected()))  # noqa: B039
    monkeypatch.setattr(registry, "BY_TYPE", type(registry.BY_TYPE)(registry.BY_TYPE))
    monkeypatch.setattr(registry, "_chosen", [True])
    rf.register_backend_by_tensor_type(Box, ClosedBackend)


@pytest.mark.parametrize("name", CASES)
def test_ops_ask_the_backend(name):
    for world in worlds():
        with using_backend("numpy"):
            call, inputs = CASES[name](world)
            inputs = [on_selected_backend(x) for x in inputs]
            expected = call(*inputs)
        with using_backend("boxes"):
            inputs = [on_selected_backend(x) for x in inputs]
            assert_same(call(*inputs), expected)
            call(*inputs)


def test_a_box_tells_nothing():
    for name in ("dtype", "shape", "device", "nbytes", "requires_grad"):
        with pytest.raises(AssertionError, match=f"asked for {name}"):
            getattr(Box([1]), name, None)
