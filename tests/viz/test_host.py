"""The toolbar of a run states the limitations of kernels that receive buttons late or never, and what works there."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from rfnb.viz.control import run_view

OLD = (
    "This ipykernel receives clicks only while no cell runs: end the cell with `run`, or wait with run.wait(poll=True). "
    "From ipykernel 7.1 on, it always receives them."
)
BROKEN = "ipykernel 7.0 ends a thread that displays output. Install 7.1 or newer, and restart the kernel."
COLAB = "Colab receives clicks and updates views only while no other cell runs, or in a cell with run.wait(poll=True)."


@pytest.fixture(autouse=True)
def looked_at_anew():
    run_view._note.cache_clear()
    yield
    run_view._note.cache_clear()


@pytest.mark.parametrize(
    ("version", "said"),
    [("6.29.5", OLD), ("6.31.0", OLD), ("7.0.0", BROKEN), ("7.0.1", BROKEN), ("7.1.0", ""), ("7.4.0", ""), ("8.0", "")],
)
def test_an_old_ipykernel_is_said_with_what_works(monkeypatch, version, said):
    package = ModuleType("ipykernel")
    package.__version__ = version
    monkeypatch.setitem(sys.modules, "ipykernel", package)
    monkeypatch.setitem(sys.modules, "ipykernel.kernelapp", ModuleType("ipykernel.kernelapp"))
    monkeypatch.delitem(sys.modules, "google.colab", raising=False)
    assert run_view._note() == said


def test_colab_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "google.colab", ModuleType("google.colab"))
    assert run_view._note() == COLAB


def test_without_a_kernel_nothing_is_said(monkeypatch):
    monkeypatch.delitem(sys.modules, "ipykernel.kernelapp", raising=False)
    monkeypatch.delitem(sys.modules, "google.colab", raising=False)
    assert run_view._note() == ""
