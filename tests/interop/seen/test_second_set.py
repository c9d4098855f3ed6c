"""Attention in a second set of models, and what is none in as many, in styles that the first set does not have."""

import pytest
import torch
from interop.seen.second_models import BATCH, NEGATIVE, POSITIVE, TIME, WIDTH

import rfnb as rf

# By model what a loop makes: a row of weights in each step.
STEPS = {"M4": [0, 1, 2], "M14": [0, 1], "M19": [0], "M20": list(range(TIME))}
DIMS = {
    "M1": "batch head time time", "M2": "batch head time time", "M3": "batch head time time", "M5": "batch time", "M6": "batch time time",
    "M7": "batch target time",
    "M10": "batch time time", "M11": "batch head time time", "M13": "batch time time", "M16": "batch target time",
    "M17": "batch time time", "M18": "batch head time time",
}  # fmt: skip


def run(kind):
    """The model, what it keeps of its own weights, and the recording of a call that gives the same bits."""
    torch.manual_seed(2)
    model = kind()
    x = torch.randn(getattr(model, "shape", (BATCH, TIME, WIDTH)))
    torch.manual_seed(3)
    plain, state = model(x), torch.get_rng_state()
    own = [each for each in model.modules() if hasattr(each, "own")]
    for each in own:
        each.own.clear()
    torch.manual_seed(3)
    with rf.record(model=model) as trace:
        again = model(x)
    assert torch.equal(plain, again) and torch.equal(state, torch.get_rng_state())
    return [weights.float() for each in own for weights in each.own], trace


@pytest.mark.parametrize("kind", POSITIVE)
def test_maps_are_those_that_the_model_has_made(kind):
    own, trace = run(kind)
    events = trace.select("attention")
    assert [event.step for event in events] == STEPS.get(kind.__name__, [None])
    found = []
    for event in events:
        weights, axis = event.values["weights"], event.values["axis"]
        assert weights.raw_tensor.sum(weights.dims.index(axis)).allclose(torch.ones(()))
        found += weights.raw_tensor.float().unbind(1) if kind.__name__ == "M11" else [weights.raw_tensor.float()]
        if kind.__name__ in DIMS:
            assert [dim.name for dim in weights.dims] == DIMS[kind.__name__].split()
    assert len(found) == len(own)
    for one, wanted in zip(found, own):
        if kind.__name__ == "M17":  # sources in front
            wanted = wanted.mT
        assert torch.equal(one.reshape(wanted.shape), wanted)


@pytest.mark.parametrize("kind", NEGATIVE)
def test_what_is_none_is_not_taken_and_every_softmax_is_named(kind):
    _, trace = run(kind)
    assert not trace.attention
    assert bool(trace.left_out) == (kind.__name__ != "N12")  # which takes logarithms only


def test_there_are_twenty_of_each():
    assert len(POSITIVE) == len(NEGATIVE) == 20
