"""Annotations and einops patterns of functions that a model calls: names for the axes of maps and states, and nothing else."""
# ruff: noqa: F722

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import rfnb as rf

einops, jaxtyping = pytest.importorskip("einops"), pytest.importorskip("jaxtyping")
Float, einsum, rearrange = jaxtyping.Float, einops.einsum, einops.rearrange


def told(q: Float[Tensor, "batch head query dim"], k: Float[Tensor, "batch head key dim"]) -> Tensor:
    return torch.softmax(q @ k.transpose(-2, -1), -1)


def returned(q, k) -> Float[Tensor, "batch head query key"]:
    return torch.softmax(q @ k.transpose(-2, -1), -1)


def kept(weights: Float[Tensor, "... query key"]):
    return weights


def by_pattern(q, k):
    return einsum(q, k, "b head query d, b head key d -> b head query key").softmax(-1)


def by_letters(q, k):
    return einops.einsum(q, k, "b h i d, b h j d -> b h i j").softmax(-1)


class Attends(nn.Module):
    def __init__(self, weights):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(6, 6) for _ in range(3))
        self.weights = weights

    def forward(self, x):
        q, k, v = (rearrange(each(x), "b t (h d) -> b h t d", h=2) for each in (self.q, self.k, self.v))
        return self.weights(q, k) @ v


class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(6, 5), nn.Linear(5, 5)

    def cell(self, x: Float[Tensor, "speaker band"], h: Float[Tensor, "speaker unit"]) -> Float[Tensor, "speaker unit"]:
        return torch.tanh(self.inner(x) + self.outer(h))

    def forward(self, x):
        h = x.new_zeros(len(x), 5)
        for t in range(x.shape[1]):
            h = self.cell(x[:, t], h)
        return h


def recorded(model):
    x = torch.randn(3, 7, 6)
    wanted = model(x)
    with rf.record(model=model, values=True) as trace:
        assert torch.equal(model(x), wanted)
    return trace


def names(dims):
    return [dim.name for dim in dims]


class ByName(Attends):
    """A function is heard where the code has its name."""

    def forward(self, x):
        q, k, v = (each(x).unflatten(-1, (2, 3)).transpose(1, 2) for each in (self.q, self.k, self.v))
        return WAYS[self.weights](q, k) @ v


WAYS = {
    "told": lambda q, k: told(q, k),
    "returned": lambda q, k: returned(q, k),
    "kept": lambda q, k: kept(torch.softmax(q @ k.transpose(-2, -1), -1)),
    "pattern": by_pattern,
}


@pytest.mark.parametrize("way", WAYS)
def test_a_map_has_the_words_of_the_tensors_that_it_is_made_of(way):
    trace = recorded(ByName(way))
    (path,) = trace.attention
    dims = trace.attention[path].dims
    assert names(dims) == ["batch", "head", "query", "key"]
    (call,) = (event for event in trace.select(kind="module") if not event.path)
    ((_, x),) = call.values["inputs"]
    assert names(x.dims) == ["batch", "time", "feature"]  # nothing else is renamed
    assert dims[0] is x.dims[0] and dims[2].twin_of is dims[3].twin_of is x.dims[1]


def test_letters_tell_axes_apart_and_are_no_names():
    trace = recorded(Attends(by_letters))
    assert names(trace.attention[""].dims) == ["batch", "head", "time", "time"]


def test_what_somebody_has_said_of_the_data_is_kept():
    model, x = ByName("told"), torch.randn(3, 7, 6)
    with rf.record(model=model, dims={"": "speaker frame band"}) as trace:
        model(x)
    assert names(trace.attention[""].dims) == ["speaker", "head", "frame", "frame"]


def test_a_state_has_the_words_of_the_method_that_makes_it_and_is_found_through_it():
    trace = recorded(Cell())
    assert names(trace.states[""]["h"].dims) == ["step", "batch", "unit"]


class Twice(ByName):
    def forward(self, x):
        q, k, v = (each(x).unflatten(-1, (2, 3)).transpose(1, 2) for each in (self.q, self.k, self.v))
        first = told(q, k)
        second = told(k, q)
        return first @ v + second @ v


def test_two_calls_of_one_function_are_two_maps_by_their_variables_and_functions_are_as_before():
    before = told
    trace = recorded(Twice(None))
    assert list(trace.attention) == ["first", "second"] and told is before


def test_patterns_are_heard_in_a_recording_inside_of_another_one_too():
    model, x = ByName("pattern"), torch.randn(3, 7, 6)
    with rf.record(model=Attends(by_letters)), rf.record(model=model) as trace:
        model(x)
    assert names(trace.attention[""].dims) == ["batch", "head", "query", "key"] and einops.einsum is einsum
