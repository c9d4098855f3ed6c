"""The law of the protocol as a function: nothing is asked of a raw array but through its backend, neither in the first call nor in those
that find a plan."""

from __future__ import annotations

from contextvars import ContextVar

import pytest
from asserting import assert_same, on_selected_backend, using_backend
from backends.closed_backend import Box, ClosedBackend
from laws import Run

import rfnb as rf
from rfnb.backends import registry


def check_closed(run: Run) -> None:
    """Arrays that tell nothing give what those of NumPy give. Their backend is registered here, and unknown afterwards."""
    run = Run(run.name, run.case, run.make)  # a module may keep what it is given
    expected = run.on_numpy
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "_selected", ContextVar("selected", default=registry.selected()))  # noqa: B039
        patch.setattr(registry, "BY_TYPE", type(registry.BY_TYPE)(registry.BY_TYPE))
        patch.setattr(registry, "_chosen", [True])
        rf.register_backend_by_tensor_type(Box, ClosedBackend)
        with using_backend("boxes"):
            inputs = [on_selected_backend(x) for x in run.inputs]
            assert_same(run.call(*inputs), expected)
            run.call(*inputs)
