"""Annotations of jaxtyping at `forward`, and as names of arrays: a model says itself what its axes are."""
# ruff: noqa: F722, F821, UP037, UP045

from __future__ import annotations

import warnings
from typing import Optional

import pytest
import torch
from torch import Tensor, nn

import rfnb as rf

jaxtyping = pytest.importorskip("jaxtyping")
Float, Int, Bool = jaxtyping.Float, jaxtyping.Int, jaxtyping.Bool


class Part(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, x: Float[Tensor, "b t d"]) -> Float[Tensor, "b t d"]:
        return self.linear(x)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.part, self.vote = Part(), nn.Linear(6, 4)

    def forward(
        self, frames: Float[Tensor, "speaker frame band=6"], keep: Optional[Bool[Tensor, "speaker frame"]] = None
    ) -> tuple[Float[Tensor, "speaker frame word"], Float[Tensor, "*more 6"]]:
        hidden = self.part(frames)
        if keep is not None:
            hidden = hidden * keep[..., None]
        return self.vote(hidden), hidden


def names(dims):
    return [dim.name for dim in dims]


def recorded(model, *inputs, **options):
    with warnings.catch_warnings(), rf.record(model=model, values=True, **options) as trace:
        warnings.simplefilter("error")
        model(*inputs)
    (call,) = (event for event in trace.select(kind="module") if not event.path)
    return trace, dict(call.values["inputs"]), dict(call.values["outputs"])


def test_inputs_and_results_have_the_words_of_their_annotations_and_sizes_have_none():
    keep = torch.ones(3, 5, dtype=torch.bool)
    trace, inputs, outputs = recorded(Model(), torch.randn(3, 5, 6), keep)
    assert names(inputs["frames"].dims) == ["speaker", "frame", "band"] and names(inputs["keep"].dims) == [
        "speaker",
        "frame",
    ]
    assert inputs["keep"].dims == inputs["frames"].dims[:2]
    assert names(outputs["0"].dims) == ["speaker", "frame", "word"]
    assert outputs["0"].dims[:2] == outputs["1"].dims[:2] == inputs["frames"].dims[:2]
    assert outputs["1"].dims[2].name != "6"


def test_a_part_with_other_words_keeps_those_of_what_is_around_it_and_the_user_has_the_last_word():
    trace, *_ = recorded(Model(), torch.randn(3, 5, 6))
    assert names(trace.modules["part"][0].values["inputs"][0][1].dims) == ["speaker", "frame", "band"]
    trace, inputs, _ = recorded(Model(), torch.randn(3, 5, 6), dims={"": {"frames": "batch time feature"}})
    assert names(inputs["frames"].dims) == ["batch", "time", "feature"]
    trace, inputs, outputs = recorded(Part(), torch.randn(3, 5, 6))
    assert names(inputs["x"].dims) == ["b", "t", "d"] and outputs[""].dims == inputs["x"].dims


def test_nothing_that_is_computed_changes_and_what_has_no_annotation_of_axes_is_as_before():
    class Plain(Model):
        def forward(self, frames: Tensor, keep: Unknown = None) -> "tuple[Tensor, Missing]":
            return super().forward(frames, keep)

    torch.manual_seed(0)
    model, x = Plain(), torch.randn(3, 5, 6)
    model.part = nn.Identity()
    wanted = model(x)
    trace, inputs, outputs = recorded(model, x)
    assert all(torch.equal(outputs[str(place)].raw_tensor, each) for place, each in enumerate(wanted))
    assert names(inputs["frames"].dims) == ["batch", "time", "feature"]


def test_what_does_not_fit_is_said_once_and_names_nothing():
    class Wrong(Part):
        def forward(self, x: Float[Tensor, "batch height width depth"]) -> Float[Tensor, "..."]:
            return self.linear(x)

    model = Wrong()
    with pytest.warns(UserWarning, match="annotation does not fit") as found, rf.record(model=model) as trace:
        model(torch.randn(3, 5, 6))
        model(torch.randn(3, 5, 6))
    assert len(found) == 1 and str(found[0].message).splitlines()[1:3] == [
        "  module  the model, a Wrong",
        "  x       (3, 5, 6)",
    ]
    assert names(trace.modules["linear"][0].values["inputs"][0][1].dims) == ["batch", "time", "feature"]


def test_an_alternative_is_the_one_that_has_as_many_axes():
    class Either(Part):
        def forward(self, x: Float[Tensor, "frame band"] | Float[Tensor, "speaker frame band"]):
            return self.linear(x)

    for shape, wanted in (((5, 6), ["frame", "band"]), ((3, 5, 6), ["speaker", "frame", "band"])):
        assert names(recorded(Either(), torch.randn(shape))[1]["x"].dims) == wanted


def test_an_annotation_is_names_for_an_array():
    x = rf.named(torch.randn(3, 5, 6), Float[Tensor, "speaker frame 6"])
    assert names(x.dims) == ["speaker", "frame", "axis2"]
