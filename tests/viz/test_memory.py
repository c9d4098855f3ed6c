"""A view of a recording keeps overviews of many maps, computes exact rows on request, and keeps nothing once it is deleted."""

from __future__ import annotations

import gc
import threading
import tracemalloc
import weakref

import numpy as np
import pytest
import torch
from waiting import LONG, wait_until

import rfnb as rf
from rfnb.trace.long_attention import LARGE
from rfnb.viz.attention import recomputed_maps
from rfnb.viz.exact_values import part
from rfnb.viz.group.spec import parts_of
from rfnb.viz.page.budget import Room
from rfnb.viz.page.page_spec import page_spec
from rfnb.viz.pump import Pump, pump
from rfnb.viz.show import view_of

LAYERS, HEADS, TIME, WIDTH = 6, 2, 480, 8


class Layer(torch.nn.Module):
    def forward(self, x):
        heads = x.unflatten(-1, (HEADS, -1)).transpose(1, 2)
        return (
            torch.nn.functional.scaled_dot_product_attention(heads, heads, heads, is_causal=True)
            .transpose(1, 2)
            .flatten(2)
        )


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(Layer() for _ in range(LAYERS))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x).roll(1, -1) * 2
        return x


@pytest.fixture
def trace():
    torch.manual_seed(3)
    net = Model()
    with torch.no_grad(), rf.record(model=net) as recorded:
        net(3 * torch.randn(1, TIME, WIDTH))
    return recorded


@pytest.fixture
def little_room(monkeypatch):
    monkeypatch.setattr(recomputed_maps, "MOST", 1 << 16)
    monkeypatch.setattr(recomputed_maps, "_OVERVIEWS", 1 << 15)


def attention_of(view):
    return next(each for each in parts_of(view.spec) if each.kind == "attention")


def test_what_is_said_of_heads_is_that_of_the_exact_weights(trace, monkeypatch):
    whole = attention_of(view_of(trace))
    monkeypatch.setattr(recomputed_maps, "MOST", 1 << 16)
    monkeypatch.setattr(recomputed_maps, "_OVERVIEWS", 1 << 15)
    few = attention_of(view_of(trace))
    assert few.head["layers"] == whole.head["layers"] and few.head["range"] == whole.head["range"]
    assert [each["looks"] for each in few.head["maps"]] == [each["looks"] for each in whole.head["maps"]]
    np.testing.assert_array_equal(few.blocks["badges"], whole.blocks["badges"])
    for name, block in whole.blocks.items():
        if name != "badges":
            np.testing.assert_array_equal(few.blocks[name][:, 3:7, 2:5], block[:, 3:7, 2:5])
            blocks = block.reshape(
                1, TIME // few.blocks[name].factor, few.blocks[name].factor, -1, few.blocks[name].factor
            )
            np.testing.assert_array_equal(few.blocks[name].overview(), blocks.max((2, 4)))


def test_a_page_gets_overviews_and_asks_for_exact_rows(trace, little_room):
    spec = view_of(trace).spec
    page = page_spec(spec, Room(100_000, 100_000))
    assert any("attention" == each.kind and "thinned" in each.head for each in parts_of(page))
    name = next(name for name in spec.blocks if name.endswith("map0"))
    (event, *_) = trace.select(kind="attention")
    exact = part(spec, {"block": name, "start": [0, 100, 0], "size": [1, 5, TIME]})
    np.testing.assert_allclose(exact[0], event.values["weights"].raw_tensor[0, 0, 100:105].numpy())
    assert "each cell shows the largest of" in view_of(trace).text()


def test_maps_do_not_stay_with_the_view_or_the_recording(trace, little_room):
    one, every = 4 * HEADS * TIME * TIME, 4 * LAYERS * HEADS * TIME * TIME

    def made():
        return sum(
            each.numel() * 4
            for each in gc.get_objects()
            if type(each) is torch.Tensor and each.shape[-2:] == (TIME, TIME)
        )

    view_of(trace).text(), view_of(trace).html()  # what is imported and cached by the first view
    gc.collect()
    tracemalloc.start()
    view = view_of(trace)
    view.text(), view.html()
    gc.collect()
    kept, peak = tracemalloc.get_traced_memory()
    assert kept < one < every / 4 and peak < every and made() <= one
    del view
    gc.collect()
    left = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert left < one / 4 and made() <= one / HEADS and trace.num_bytes < every < 4 * LARGE


def test_a_small_recording_has_its_maps_as_they_are(trace):
    spec = attention_of(view_of(trace))
    assert all(isinstance(block, np.ndarray) for block in spec.blocks.values())
    again = attention_of(view_of(trace))
    values = [event.values["weights"] for event in trace.select(kind="attention")]
    assert all(one is event.values["weights"] for one, event in zip(values, trace.select(kind="attention")))
    assert again.head["range"] == spec.head["range"]


@pytest.mark.parametrize("displayed", [False, True])
def test_a_live_view_is_kept_by_its_recording_only_where_a_page_has_it(displayed):
    with rf.record() as trace:
        view = view_of(trace)
        if displayed:
            view.as_widget()
        rf.probe("states", h=rf.zeros([rf.Dim(2, name="unit")]))
        pump.flush(view)
        seen = weakref.ref(view)
        del view
        # The thread that draws has it until its round is over.
        assert wait_until(lambda: gc.collect() is not None and (seen() is not None) == displayed)
    gc.collect()
    assert seen() is None and not trace._subscribers and not trace._on_close


def test_the_thread_that_draws_keeps_no_view_when_it_has_drawn_it():
    class Key:
        pass

    own, key, resting, go = Pump(), Key(), threading.Event(), threading.Event()
    own._rest = lambda seconds: (resting.set(), go.wait())
    seen = weakref.ref(key)
    own.put(key, lambda: None)
    assert resting.wait(LONG)
    del key
    gc.collect()
    assert seen() is None
    go.set()
    own.end(LONG)


def test_while_it_runs_a_live_view_takes_no_more_than_a_view_of_what_is_over(little_room):
    torch.manual_seed(3)
    net, taken = Model(), []
    one = 4 * HEADS * TIME * TIME
    x = 3 * torch.randn(1, TIME, WIDTH)
    with torch.no_grad(), rf.record(model=net) as trace:
        view = view_of(trace)
        view.as_widget()
        net(x), pump.flush(view)  # what is imported and cached by the first
        gc.collect()
        tracemalloc.start()
        for _ in range(3):
            net(x)
            pump.flush(view)
            gc.collect()
            taken.append(tracemalloc.get_traced_memory()[0])
        assert max(taken) < one
        assert view.spec.live and all(
            isinstance(block, np.ndarray) or block.by_rows for block in view.spec.blocks.values()
        )
    del view
    gc.collect()
    left = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert left < one / 4, (left, taken, one)
