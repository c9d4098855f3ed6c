"""Two more sets, by authors who had not read the rules: what each model keeps of its own is what a recording has, and nothing else."""

import itertools

import pytest
import torch
from interop.seen import fourth_models, third_models
from interop.seen.third_models import MAPS, STATES

import rfnb as rf

MODELS = third_models.MODELS | fourth_models.MODELS
NEGATIVES = third_models.NEGATIVES | fourth_models.NEGATIVES
SAID = {"Linformer"}  # sources that a parameter makes of positions: named, and not taken
# A loop with the same weights in each turn is a recurrence, whatever it is for.
LOOPS = {"CapsuleRouting": {"b"}, "MixedOperations": {"x"}}
NAMES = {"c": {"c", "c_t"}, "h": {"h", "h_t"}, "h0": {"hx"}, "h1": {"hx"}, "forwards": {"h"}, "backwards": {"h"}}


def recorded(make):
    """A recording of a call that gives the same bits, the maps that the model made, and its states by name."""
    torch.manual_seed(1)
    model, inputs = make()
    model.eval()
    torch.manual_seed(2)
    plain, after = model(*inputs), torch.get_rng_state()
    MAPS.clear()
    STATES.clear()
    torch.manual_seed(2)
    with rf.record(model=model) as trace:
        again = model(*inputs)
    assert all(map(torch.equal, leaves(plain), leaves(again))) and torch.equal(torch.get_rng_state(), after)
    return trace, list(MAPS), {name: list(steps) for name, steps in STATES.items()}


def leaves(out):
    return [out] if isinstance(out, torch.Tensor) else [leaf for each in out for leaf in leaves(each)]


def is_same(found, wanted):
    """Whether two arrays are one, but for the order of axes and heads that are merged with the batch."""
    return found.numel() == wanted.numel() and any(
        torch.equal(found.permute(order).reshape(wanted.shape).to(wanted.dtype), wanted)
        for order in itertools.permutations(range(found.ndim))
    )


@pytest.mark.parametrize("name", MODELS)
def test_what_a_model_makes_is_what_is_recorded(name):
    trace, maps, states = recorded(MODELS[name])
    events = trace.select("attention")
    found = [event.values["weights"] for event in events]
    for event in events:
        weights = event.values["weights"]
        assert torch.allclose(weights.raw_tensor.sum(weights.dims.index(event.values["axis"])), torch.ones(()))
    if name in SAID:
        assert not found and "softmax was not taken" in str(trace.left_out)
    elif len(found) < len(maps):  # heads of one map
        assert len(found) == 1 and is_same(found[0].raw_tensor, torch.stack(maps))
    else:
        assert len(found) == len(maps)
        assert all(is_same(one.raw_tensor, wanted) for one, wanted in zip(found, maps))
        assert [event.step for event in events] in ([None] * len(maps), [0], list(range(len(maps))))
    steps, dims = {}, {}
    for event in trace.select("states"):
        for label, value in event.values.items():
            if isinstance(value, rf.Tensor):
                steps.setdefault((event.path, label), []).append((event.step, value.raw_tensor))
                assert dims.setdefault((event.path, label), value.dims) == value.dims
    for state, wanted in states.items():
        own = [each for (_, label), each in steps.items() if label in NAMES.get(state, {state})]
        assert any(
            [number for number, _ in each] == list(range(len(wanted)))
            and all(map(torch.equal, [raw for _, raw in each], wanted))
            for each in own
        )


@pytest.mark.parametrize("name", NEGATIVES)
def test_what_is_neither_is_not_taken(name):
    trace, _, _ = recorded(NEGATIVES[name])
    assert not trace.select("attention")
    assert {label for event in trace.select("states") for label in event.values} == LOOPS.get(name, set())
    assert bool(trace.left_out) == (name not in ("WaveNet", "FeaturePyramid"))  # which have no softmax


def test_chunks_of_queries_are_no_heads():
    trace, maps, _ = recorded(MODELS["ChunkedAttention"])
    assert [event.step for event in trace.select("attention")] == [0, 1, 2] == list(range(len(maps)))


def test_there_are_enough_of_both():
    assert len(MODELS) >= 32 and len(NEGATIVES) >= 28
