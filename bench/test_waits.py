"""How often the host waits for the device: `pytest bench/test_waits.py --device cuda --rows rows.jsonl`.

On a GPU counted by torch's sync debug mode, on the simulated device by itself. A loop over a given axis never waits; a search may
once per step, where it has to know whether it has ended; a recording adds none in the loop. Ops and layers, one by one, have tests
of their own (tests/laws/test_devices.py).
"""

from __future__ import annotations

import importlib

import pytest
import test_search
import torch
from device import chosen, device
from test_decoder_loop import STEPS, World
from test_on_device import live, recorded, without_gradients
from test_transformer import Setup

import rfnb as rf

pytestmark = pytest.mark.skipif(not chosen() or device().type == "cpu", reason="counted with --device cuda or sim")


def _training(setup):
    parameters = [parameter.raw_tensor for parameter in setup.ours.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=1e-4)

    def step():
        optimizer.zero_grad()
        out = setup.ours(setup.ids, spatial_dim=setup.time)
        rf.reduce_mean(rf.square(out), axis=out.dims).raw_tensor.backward()
        optimizer.step()

    return step


def _search(beam):
    world = test_search.World(3, 6)
    return lambda: world.rfnb(beam)


def _word(face):
    word = test_search.Word()
    return lambda: word.rfnb(4, face)


# Name: what runs, and how many waits are allowed.
LOOPS = {
    "decoder, for": (lambda: without_gradients(World().stepped), 0),
    "decoder, with": (lambda: without_gradients(World().recorded), 0),
    "decoder, training step, for": (lambda: (world := World()).training_step(world.stepped), 0),
    "decoder, training step, with": (lambda: (world := World()).training_step(world.recorded), 0),
    "encoder, training step": (lambda: _training(Setup("small")), 0),
}
# Name: what runs, its steps, and waits besides those of its steps. The end: the lengths of the result, and which hypothesis is the
# first. A recorded loop compares what its body reads before and after; arrays of inference mode have no version, only values.
SEARCHES = {
    "search, greedy, for": (lambda: _search(1), 6, 2),
    "search, beam 4, for": (lambda: _search(4), 6, 2),
    "search of a word, beam 4, for": (lambda: _word("for"), 30, 2),
    "search of a word, beam 4, with": (lambda: _word("with"), 30, 10),
}


def waits_of(fn):
    """Of a second call: the first one makes plans and masks."""
    watched = importlib.import_module("simulated" if device().type == "sim" else "real_device").watched
    fn()
    with watched() as seen:
        fn()
    return seen.waits


def told(row, name, waits, **figures):
    places = {}
    for wait in waits:
        places[wait] = places.get(wait, 0) + 1
    most = sorted(places, key=places.get, reverse=True)[:4]
    row(name, waits=len(waits), **figures, places=[f"{places[place]} x {place}" for place in most])
    return len(waits)


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_over_an_axis_waits_for_nobody(row, name):
    make, allowed = LOOPS[name]
    assert told(row, name, waits_of(make()), steps=STEPS) <= allowed


@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_waits_at_most_once_per_step(row, name):
    make, steps, besides = SEARCHES[name]
    assert told(row, name, waits_of(make()), steps=steps) <= steps + besides


@pytest.mark.parametrize("look", [recorded, live])
@pytest.mark.parametrize("name", ["decoder, for", "decoder, with", "search, beam 4, for"])
def test_a_recording_adds_no_wait(row, name, look):
    fn = (LOOPS | SEARCHES)[name][0]()
    plain = len(waits_of(fn))
    waits = waits_of(lambda: look(fn))
    told(row, f"{name}, {look.__name__}", waits, without=plain)
    if look is recorded:  # a view reads what it draws, in a thread of its own
        assert len(waits) <= plain
