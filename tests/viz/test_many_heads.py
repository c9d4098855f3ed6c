"""As many heads as large models have: the picture stays small beside the data, and what is stored is alive."""

from __future__ import annotations

import numpy as np
import pytest

from rfnb.viz import attention
from rfnb.viz.page.array_coding import fit
from rfnb.viz.page.budget import USUAL
from rfnb.viz.page.output import MARK
from rfnb.viz.page.page_spec import finest
from rfnb.viz.pool import largest
from rfnb.viz.spec import Spec, pack


@pytest.mark.parametrize("layers, heads", [(1, 64), (24, 32), (32, 32), (40, 50)])
def test_a_view_of_many_heads_is_alive_within_the_budget(layers, heads):
    weights = np.random.default_rng(0).dirichlet(np.ones(16) / 4, (layers, heads, 16)).astype(np.float32)
    view = attention(weights, dims=["layer", "head", "target", "source"])
    assert len(view.html()) < 60_000
    stored = view._repr_mimebundle_(include=["text/html"])["text/html"]
    assert MARK in stored and "rfnb-frame" in stored and len(stored) <= USUAL


def test_without_room_nothing_is_tried_but_the_last(monkeypatch):
    from rfnb.viz.page import array_coding

    tried = []
    monkeypatch.setattr(
        array_coding, "coded", lambda grid, rung, real=array_coding.coded: tried.append(rung) or real(grid, rung)
    )
    values = np.random.default_rng(0).random((1, 8, 8), dtype=np.float32)
    grid = array_coding.Grid("map", values, [(8, 8)], "sqrt", largest, array_coding.square(8, 8))
    rung, made = fit([grid], 0)
    assert rung == list(array_coding.ladder())[-1] and tried == [rung] and made["map"].levels.size == 1


@pytest.mark.parametrize("room", [10**6, 20_000, 2_100, 500, 0])
def test_the_finest_that_fits_is_found_with_few_tries(room):
    choices = [4**power for power in range(8, -1, -1)]
    tried = []

    def make(size: int) -> Spec:
        tried.append(size)
        return Spec("dims", {"n": size}, {"x": np.random.default_rng(0).integers(0, 256, size, np.uint8)})

    made = finest(choices, make, lambda _: room)
    assert len(tried) <= 5
    fits = [size for size in choices if len(pack(make(size))) <= room]
    assert made.head["n"] == (fits[0] if fits else 1)
