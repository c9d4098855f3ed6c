"""Searches of networks in the dict notation give the hypotheses, scores and decisions of golden data."""

from __future__ import annotations

import numpy as np
import pytest
from golden_nets import FOLDER, GoldenNet
from golden_search import IMPOSSIBLE, StepsCompared

import rfnb as rf

SEARCHES = [path.stem for path in sorted(FOLDER.glob("search_*.npz"))]


def _beam_first(value: rf.Tensor) -> list[rf.Dim]:
    """Batch, then hypotheses (also as a plain dim), then time."""
    ranks = [
        0 if dim.kind == "batch" else 1 if dim.kind == "beam" or dim.name in ("slot", "beam") else 2
        for dim in value.dims
    ]
    return [dim for _, dim in sorted(zip(ranks, value.dims, strict=True), key=lambda pair: pair[0])]


def _check_hypotheses(golden, name, value):
    """Labels up to the length of each hypothesis, and the lengths."""
    real = golden.arrays["beam_scores/output"] > IMPOSSIBLE
    dims = _beam_first(value)
    got = value.copy_transpose(dims).numpy()
    expected = golden.arrays[f"out/{name}"].reshape(*got.shape[:2], -1)
    lengths = golden.arrays[f"out_len/{'output' if name == 'split' else name}/1"].reshape(got.shape[:2])
    sizes = dims[2].get_size_tensor()
    sizes = np.broadcast_to(
        sizes.numpy()[:, None] if len(sizes.dims) == 1 else sizes.copy_transpose(_beam_first(sizes)).numpy(), real.shape
    )
    for place in np.argwhere(real):
        length = lengths[tuple(place)]
        assert sizes[tuple(place)] == length
        assert got[tuple(place)][:length].tolist() == expected[tuple(place)][:length].tolist(), name


def _check_decision(golden, value):
    time = next(dim for dim in value.dims if dim.kind != "batch")
    lengths = golden.arrays["out_len/decision/1"]
    assert time.lengths.tolist() == lengths.tolist()
    rows = value.copy_transpose(_beam_first(value)).numpy()
    for row, expected, length in zip(rows, golden.arrays["out/decision"], lengths, strict=True):
        assert row[:length].tolist() == expected[:length].tolist()


def _check_scores(golden, name, value):
    got = value.copy_transpose(_beam_first(value)).numpy()
    expected = golden.arrays[f"out/{name}"].reshape(got.shape)
    real = golden.arrays["beam_scores/output"] > IMPOSSIBLE
    np.testing.assert_allclose(got[real], expected[real], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("loop", ["for", "with"])
@pytest.mark.parametrize("name", SEARCHES)
def test_search_gives_the_golden_hypotheses(name, loop):
    golden = GoldenNet(name)
    net = golden.net(search=True, loop=loop)
    with StepsCompared(golden.arrays):
        out = golden.run(net)
    _check_decision(golden, out["decision"])
    for key in golden.outputs:
        if "scores" in key:
            _check_scores(golden, key, out[key])
        elif key != "decision":
            _check_hypotheses(golden, key, out[key])


def test_a_network_searches_in_one_call_and_trains_in_another():
    golden = GoldenNet("search_basic")
    net = golden.net(search=True)
    data, lengths = golden.part("in"), golden.part("in_len")
    trained = net(data, lengths=lengths, outputs=["output"], search=False)["output"]
    assert [dim.kind for dim in _beam_first(trained)] == ["batch", None]
    searched = net(data, lengths=lengths, outputs=["decision"])
    _check_decision(golden, searched["decision"])
