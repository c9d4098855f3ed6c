"""Every view draws every value: a view fails least when what it shows has failed."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb.viz.show import view_of
from rfnb.viz.spec import from_json, pack, to_json, unpack

HUGE, TINY = 3e38, 1e-45
VALUES = {
    "NaN": [np.nan] * 6,
    "some NaN": [np.nan, 1, 2, np.nan, 0, -1],
    "infinity": [np.inf] * 6,
    "minus infinity": [-np.inf] * 6,
    "both infinities": [np.inf, -np.inf, 1, 0, np.nan, 2],
    "up to infinity": [1, 1e10, 1e20, 1e30, 3e38, np.inf],
    "huge": [HUGE, -HUGE, HUGE, 0, 1, -1],
    "denormal": [TINY, 2 * TINY, 0, -TINY, TINY, TINY],
    "tiny and huge": [TINY, HUGE, 1, -1, 0, 2],
    "all equal": [0.25] * 6,
    "zeros": [0.0] * 6,
    "minus zeros": [-0.0] * 6,
}
DTYPES = ["float16", "bfloat16", "float32", "float64", "int8", "int32", "int64", "uint8", "bool"]


def drawn(view) -> str:
    """All that can be made of a view; its text."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        text, html = view.text(), view.html()
    frame = unpack(pack(view.spec))
    again = from_json(json.loads(json.dumps(to_json(view.spec), allow_nan=False)))
    for name, block in view.spec.blocks.items():
        assert np.array_equal(frame.blocks[name], block, equal_nan=True)
        assert np.array_equal(again.blocks[name], block, equal_nan=True)
    assert "<script" not in html and view._repr_mimebundle_()["text/plain"] == text
    return text


def views_of(values: np.ndarray):
    """A view of each kind whose values are these six numbers."""
    array = np.asarray(values)
    yield rf.viz.attention(array.reshape(2, 3))
    yield rf.viz.attention(array.reshape(1, 2, 3), dims=["batch", "target", "source"], source_lengths=[2])
    yield rf.viz.states({"h": array.reshape(3, 2)})
    yield rf.viz.states({"h": np.concatenate([array, array]).reshape(1, 12, 1)}, lengths=[6])
    yield rf.viz.dims(array.reshape(2, 3), names=["a", "b"])
    yield rf.viz.curves({"loss": array.tolist(), "rate": array[:2].tolist()}, log=["rate"])
    scores = array.astype(np.float64).reshape(3, 2)
    yield rf.viz.beams(tokens=[[0, 1]] * 3, parents=[[0, 0]] * 3, scores=list(scores))


@pytest.mark.parametrize("name", VALUES)
def test_no_value_is_too_much(name):
    values = np.array(VALUES[name], np.float32)
    for view in views_of(values):
        text = drawn(view)
        if view.kind != "beams":  # there a score that is no number is a slot without hypothesis
            if np.isnan(values).any():
                assert "NaN" in text or "?" in text, text
            if np.isinf(values).any():
                assert "inf" in text, text


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["numpy", "torch", "Tensor"])
def test_no_dtype_is_foreign(dtype, kind):
    if kind == "numpy" and dtype == "bfloat16":
        return
    values = torch.tensor([1, 0, 1, 1, 0, 0]).to(getattr(torch, dtype))
    given = values.numpy() if kind == "numpy" else values
    dims = [rf.Dim(2, name="target"), rf.Dim(3, name="source")]
    steps = [rf.Dim(3, name="step"), rf.Dim(2, name="unit")]
    wrap = lambda x, dims: rf.convert_to_tensor(x, dims=dims) if kind == "Tensor" else x  # noqa: E731
    views = [
        rf.viz.attention(wrap(given.reshape(2, 3), dims)),
        rf.viz.states({"h": wrap(given.reshape(3, 2), steps)}),
        view_of(wrap(given.reshape(2, 3), dims), **({} if kind == "Tensor" else {"names": ["a", "b"]})),
        rf.viz.curves({"loss": given}),
        rf.viz.beams(tokens=[[0, 1]] * 3, parents=[[0, 0]] * 3, scores=list(given.reshape(3, 2))),
    ]
    for view in views:
        drawn(view)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
def test_nothing_is_drawn_too(shape):
    array = np.zeros(shape, np.float32)
    for view in (
        rf.viz.attention(array),
        rf.viz.states({"h": array}),
        rf.viz.dims(array, names=["a", "b"]),
        rf.viz.curves({"loss": []}),
        rf.viz.beams([]),
    ):
        drawn(view)


def test_a_state_that_explodes_is_shown():
    batch = rf.Dim(2, name="batch")
    time = rf.ragged_dim([30, 20], over=batch, name="time")
    with rf.record() as trace:
        loop = rf.Loop(axis=time, name="decoder")
        loop.state.h = rf.ones([batch])
        for _ in loop:
            loop.state.h = loop.state.h * 1e3
    text = drawn(view_of(trace))
    assert "▲" in text and "! h, sequence 0: infinity from step 12 on." in text
