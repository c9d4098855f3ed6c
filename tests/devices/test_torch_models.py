"""Models of torch that are recorded on a device: what is seen is that of the CPU, and the device does and waits as if nobody looked."""

import copy
import functools
import warnings
from collections import Counter

import pytest
import torch
from devices.torch_models import LENGTHS, MODELS, Dotted, Packed, content, made, on, raws_of, run
from simulated import BACKEND, NAME, values, watched
from torch import nn

import rfnb as rf

# A GPU draws other numbers than the CPU.
RUNS = [(name, training) for name in MODELS for training in (False, True) if NAME == "sim" or not training]


def assert_same_content(actual, expected):
    assert [place for place, _ in actual] == [place for place, _ in expected]
    for (place, one), (_, other) in zip(actual, expected):
        assert list(one) == list(other), place
        for name in one:
            assert one[name][0] == other[name][0], (place, name)
            assert len(one[name][1]) == len(other[name][1])
            for raw, like in zip(one[name][1], other[name][1]):
                torch.testing.assert_close(raw, like, rtol=1e-4, atol=1e-5, equal_nan=True, msg=str((place, name)))


@functools.cache
def runs(name, training):
    """One run of a model on the device that nobody looks at, and one that is recorded: results, events and generators of both."""
    model, given = made(name, training)
    plain, _, alone = run(*on(NAME, model, given))
    state = BACKEND.get_rng_state()
    recorded, trace, seen = run(*on(NAME, model, given), recorded=True)
    return (plain, alone, state), (recorded, seen, BACKEND.get_rng_state()), trace


@pytest.mark.parametrize(("name", "training"), RUNS)
def test_what_is_seen_is_that_of_the_cpu_and_stays_on_the_device(name, training):
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of what cannot be known on the device
        warnings.filterwarnings("ignore", message="LSTM with projections|enable_nested_tensor")
        expected = content(run(*made(name, training), recorded=True)[1])
        trace = runs(name, training)[2]
        raws = [raw for event in trace.events for value in event.values.values() for raw in raws_of(value)]
        assert {raw.device.type for raw in raws} == {torch.device(NAME).type}
        assert_same_content(content(trace), expected)
    assert rf.show(trace).text()


@pytest.mark.parametrize(("name", "training"), RUNS)
def test_the_model_computes_draws_and_waits_as_if_nobody_looked(name, training):
    (plain, alone, state), (recorded, seen, after), _ = runs(name, training)
    assert all(torch.equal(values(one), values(other)) for one, other in zip(recorded, plain, strict=True))
    assert torch.equal(after, state)
    more = Counter(each.op for each in seen if each.waits) - Counter(each.op for each in alone if each.waits)
    assert more.total() == (name == "lengths by a mask")  # they are known by its values, which are waited for once


@pytest.mark.parametrize("name", [name for name, training in RUNS if training and "dropout" in name])
def test_who_looks_at_what_is_drawn_again_leaves_the_generator_of_the_device(name):
    trace = run(*on(NAME, *made(name, True)), recorded=True)[1]
    torch.rand(3, device=NAME)
    state, of_host = BACKEND.get_rng_state(), torch.get_rng_state()
    content(trace)
    assert torch.equal(BACKEND.get_rng_state(), state) and torch.equal(torch.get_rng_state(), of_host)


class Stack(nn.Module):
    """Several layers over what was packed before the model."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.GRU(5, 4, batch_first=True), nn.LSTM(4, 4, batch_first=True), nn.RNN(4, 4)])

    def forward(self, packed):
        for layer in self.layers:
            packed = layer(packed)[0]
        return packed.data


def test_lengths_of_a_packing_are_waited_for_once_and_not_at_all_if_it_is_made_in_the_model():
    x = torch.randn(3, 7, 5).to(NAME)
    model = Stack().to(NAME)
    packed = nn.utils.rnn.pack_padded_sequence(x, LENGTHS, batch_first=True, enforce_sorted=False)
    with watched() as alone:
        model(packed)
    with rf.record(model=model) as trace, watched() as seen:
        model(packed)
    assert len(seen.waits) == len(alone.waits) + 1
    states = [event for event in trace.events if event.kind == "states"]
    assert len(states) == 3
    for event in states:
        assert event.values["axis"].lengths.tolist() == LENGTHS.tolist()
    whole = Packed().to(NAME)
    with watched() as alone:
        whole(x)
    with rf.record(model=whole) as trace, watched() as seen:
        whole(x)
    assert len(seen.waits) == len(alone.waits)
    assert [event.values["axis"].lengths.tolist() for event in trace.events if event.kind == "states"] == [
        [7, 4, 6]
    ] * 4


class Parts(nn.Module):
    """A model of which a part is elsewhere, as one that does not fit on one device."""

    def __init__(self):
        super().__init__()
        self.first = nn.GRU(5, 6, 2, dropout=0.4, batch_first=True)
        self.attention = Dotted()
        self.attention.project = nn.Linear(6, 64)
        self.last = nn.TransformerEncoderLayer(64, 2, 8, batch_first=True, dropout=0.0)

    def forward(self, x):
        hidden = self.first(x)[0]
        hidden = self.attention(hidden.to(self.attention.project.weight.device))
        return self.last(hidden.transpose(1, 2).flatten(2).to(self.last.linear1.weight.device))


@pytest.mark.parametrize("places", [("cpu", NAME, "cpu"), (NAME, "cpu", NAME), (NAME, NAME, "cpu")])
def test_a_model_on_two_devices_is_seen_where_its_parts_are(places):
    torch.manual_seed(1)
    model, x = Parts().train(NAME == "sim"), torch.randn(3, 7, 5)
    expected = content(run(copy.deepcopy(model), (x,), recorded=True)[1])

    def placed():
        apart = copy.deepcopy(model)
        for part, place in zip((apart.first, apart.attention, apart.last), places):
            part.to(place)
        return apart, (x.to(places[0]),)

    plain, _, alone = run(*placed())
    recorded, trace, seen = run(*placed(), recorded=True)
    host = lambda raw: raw if raw.device.type == "cpu" else values(raw)  # noqa: E731
    assert all(torch.equal(host(one), host(other)) for one, other in zip(recorded, plain, strict=True))
    assert (len(seen.moved), len(seen.waits)) == (len(alone.moved), len(alone.waits))
    found = {}
    for event in trace.events:
        if event.kind != "module":
            raws = [raw for value in event.values.values() for raw in raws_of(value)]
            found.setdefault(event.path.split(".")[0], set()).update(raw.device.type for raw in raws)
    assert found == {part: {torch.device(place).type} for part, place in zip(("first", "attention", "last"), places)}
    assert_same_content(content(trace), expected)
    assert rf.show(trace).text()
