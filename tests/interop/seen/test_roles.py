"""The axes of what modules of torch get and return, of each kind, without a warning and in all ways of recording."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn

import rfnb as rf

CASES = [
    (nn.Conv1d(4, 5, 3), [(2, 4, 7)], "batch feature time", "batch feature time"),
    (nn.Conv1d(4, 5, 3), [(4, 7)], "feature time", "feature time"),
    (nn.Conv2d(3, 5, 3), [(2, 3, 8, 9)], "batch feature height width", "batch feature height width"),
    (nn.Conv3d(1, 2, 2), [(2, 1, 4, 5, 6)], "batch feature depth height width", "batch feature depth height width"),
    (nn.ConvTranspose1d(4, 5, 3), [(2, 4, 7)], "batch feature time", "batch feature time"),
    (nn.BatchNorm1d(4), [(3, 4)], "batch feature", "batch feature"),
    (nn.BatchNorm1d(4), [(3, 4, 7)], "batch feature time", "batch feature time"),
    (nn.GroupNorm(2, 4), [(3, 4, 7)], "batch feature time", "batch feature time"),
    (nn.MaxPool1d(2), [(3, 4, 8)], "batch feature time", "batch feature time"),
    (nn.MaxPool2d(2, return_indices=True), [(2, 3, 4, 6)], "batch feature height width", "batch feature height width"),
    (nn.AdaptiveAvgPool1d(3), [(3, 4, 8)], "batch feature time", "batch feature time"),
    (nn.Linear(4, 5), [(4,)], "feature", "feature"),
    (nn.Linear(4, 5), [(2, 3, 4)], "batch time feature", "batch time feature"),
    (nn.LayerNorm(4), [(2, 3, 4)], "batch time feature", "batch time feature"),
    (nn.MultiheadAttention(8, 2), [(5, 3, 8)] * 3, "target batch feature", "target batch feature"),
    (nn.MultiheadAttention(8, 2, batch_first=True), [(3, 5, 8)] * 3, "batch target feature", "batch target feature"),
    (nn.Transformer(8, 2, 1, 1, 16), [(5, 3, 8), (4, 3, 8)], "source batch feature", "target batch feature"),
    (nn.LSTM(4, 5), [(7, 3, 4)], "time batch feature", "time batch feature"),
    (nn.GRUCell(4, 5), [(3, 4)], "batch feature", "batch feature"),
    (nn.Bilinear(3, 4, 5), [(2, 3), (2, 4)], "batch feature", "batch feature"),
    (nn.Identity(), [()], "", ""),
]


@pytest.mark.parametrize("options", [{}, {"values": True, "ops": True}])
@pytest.mark.parametrize(("module", "shapes", "given", "returned"), CASES)
def test_axes_of_each_kind_of_module(module, shapes, given, returned, options):
    torch.manual_seed(1)
    tensors = [torch.randn(shape) for shape in shapes]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with rf.record(model=module, **options) as trace:
            result = module(*tensors)
    event = trace.modules[""][-1]
    first, out = event.values["inputs"][0][1], event.values["outputs"][0][1]
    assert " ".join(dim.name for dim in first.dims) == given
    assert " ".join(dim.name for dim in out.dims) == returned
    raw = result[0] if isinstance(result, tuple) else result
    assert tuple(dim.extent for dim in out.dims) == tuple(raw.shape)
    assert [dim.extent == size for dim, size in zip(first.dims, shapes[0])] == [True] * len(shapes[0])


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize(
    "value",
    [
        lambda: torch.eye(3).to_sparse(),
        lambda: torch.nested.nested_tensor([torch.zeros(2, 3), torch.zeros(4, 3)]),
        lambda: "text",
    ],
)
def test_what_is_no_plain_array_is_left_out(value):
    model = nn.Sequential(nn.Identity())
    given = value()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with rf.record(model=model, values=True, ops=True) as trace:
            assert model(given) is given
    assert trace.modules["0"][0].values["inputs"] == []


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_products_of_nested_tensors_run_without_a_warning():
    model = nn.Sequential(nn.Linear(3, 5), nn.Linear(5, 2))
    given = torch.nested.nested_tensor([torch.zeros(2, 3), torch.zeros(4, 3)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with rf.record(model=model) as trace:
            model(given)
    assert len(trace.modules["0"]) == 1
