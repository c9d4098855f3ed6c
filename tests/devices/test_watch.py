"""Trainings that are watched on a device: the same training, the numbers of the CPU, and no step waits for what is seen."""

import numpy as np
import pytest
import torch
from interop.watch.watched_models import Encoder, Tagger, batches, loss_of, made, state_of
from simulated import BACKEND, NAME, values, watched
from torch import nn

import rfnb as rf
from rfnb.interop.watch.example import untouched
from rfnb.interop.watch.scalar_reads import ScalarReads

ALL = {"activations": 1, "updates": 1}


def trained(model, data, *, watch=None, clip=0.5, optimizer=None):
    """Some updates; after each what is given with `watch` is told the loss."""
    optimizer = optimizer or torch.optim.AdamW(model.parameters(), 1e-2)
    for ids in data:
        optimizer.zero_grad()
        loss = loss_of(model, ids)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        if watch is not None:
            watch.log(loss=loss)
    return optimizer


def watched_training(kind, device, count=4, **options):
    """A model that was trained while it was watched, and the watch."""
    model, data = made(kind).to(device), [ids.to(device) for ids in batches(count)]
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    torch.manual_seed(8)
    with rf.watch(model, optimizer, **options) as watch:
        trained(model, data, watch=watch, optimizer=optimizer)
    return model, watch


@pytest.mark.parametrize("kind", [Tagger, Encoder])
def test_a_watched_training_gives_the_same_bits_and_leaves_the_generator_of_the_device(kind):
    model, data = made(kind).to(NAME), [ids.to(NAME) for ids in batches(4)]
    torch.manual_seed(8)
    trained(model, data)
    state = BACKEND.get_rng_state()
    other, _ = watched_training(kind, NAME, example=lambda: torch.rand(3, device=NAME), every=2, **ALL)
    assert torch.equal(BACKEND.get_rng_state(), state)
    for name, value in model.state_dict().items():
        assert torch.equal(values(value), values(other.state_dict()[name])), name


def test_what_is_computed_beside_a_training_leaves_the_generator_of_the_device():
    state = BACKEND.get_rng_state()
    with untouched(nn.Linear(2, 3).to(NAME), evaluating=True):
        torch.rand(3, device=NAME)
        assert not torch.equal(BACKEND.get_rng_state(), state)
    assert torch.equal(BACKEND.get_rng_state(), state)


@pytest.mark.skipif(NAME != "sim", reason="a GPU draws other numbers than the CPU")
@pytest.mark.parametrize("kind", [Tagger, Encoder])
def test_all_numbers_are_those_of_the_cpu(kind):
    _, expected = watched_training(kind, "cpu", example=(batches(1)[0],), every=3, **ALL)
    _, watch = watched_training(kind, NAME, example=(batches(1)[0],), every=3, **ALL)
    assert watch.curves.keys() == expected.curves.keys()
    for name, curve in expected.curves.items():
        assert watch.curves[name].steps == curve.steps
        np.testing.assert_allclose(watch.curves[name].values, curve.values, rtol=1e-3, err_msg=name)
    assert watch.tables.keys() == expected.tables.keys()
    for name, table in expected.tables.items():
        assert (watch.tables[name].columns, watch.tables[name].steps) == (table.columns, table.steps)
        np.testing.assert_allclose(watch.tables[name].array(), table.array(), rtol=1e-3, atol=1e-5, err_msg=str(name))
    assert [one.label for one in watch.examples] == [one.label for one in expected.examples] == ["0", "3"]


class Deep(nn.Module):
    """So many layers."""

    def __init__(self, count):
        super().__init__()
        self.layers = nn.Sequential(*[nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(count)])

    def forward(self, x):
        return self.layers(x)


@pytest.mark.parametrize(
    ("options", "copies"), [({**ALL, "on_nan": "stop"}, 4), ({"activations": False, "updates": False}, 2)]
)
@pytest.mark.parametrize("count", [1, 5])
def test_no_step_waits_and_numbers_of_all_modules_come_in_the_same_few_copies(count, options, copies):
    model = Deep(count).to(NAME)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    x = torch.randn(3, 4).to(NAME)

    def step(watch=None):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        if watch is not None:
            watch.log(loss=loss)

    step()
    with rf.watch(model, optimizer, **options) as watch:
        step(watch)
        with watched() as seen:
            step(watch)
    assert seen.waits == []
    assert len(seen.moved) == (copies if NAME == "sim" else 0)
    # Gradients and losses; with what modules return and how far the parameters moved.
    assert len(watch.tables["gradient norm", ""].steps) == 2 and len(watch.curves["loss"].values) == 2


def test_nothing_is_asked_of_the_device_between_the_updates_that_are_looked_at():
    model = Deep(2).to(NAME)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    x, found = torch.randn(3, 4).to(NAME), []
    with rf.watch(model, optimizer, activations=3, updates=3, on_nan="ignore") as watch:
        watch._steps[0]._gradients.fixed = 3
        for _ in range(7):
            with watched() as seen:
                optimizer.zero_grad()
                model(x).square().mean().backward()
                optimizer.step()
            found.append(len(seen.moved))
            assert seen.waits == []
    assert watch.tables["mean", ""].steps == watch.tables["update ratio", ""].steps == [1, 4, 7]
    # The loss that is given to backward comes of each update; gradients, updates, activations of some.
    assert found == ([4, 1, 1, 4, 1, 1, 4] if NAME == "sim" else [0] * 7)


class Event:
    """An event of a device that comes when it is told to."""

    come = False

    def __init__(self, device):
        self.device = device

    def record(self, stream):
        self.stream = stream

    def query(self):
        return Event.come

    def synchronize(self):
        Event.come = True


def test_numbers_are_read_when_the_device_has_them_and_in_the_order_of_their_steps(monkeypatch):
    monkeypatch.setattr(torch, "Event", Event)
    monkeypatch.setattr(Event, "come", False)
    late, got = ScalarReads(), []
    on = lambda *numbers: torch.tensor(numbers).to(NAME)  # noqa: E731
    with watched() as seen:
        late.put([torch.tensor(1.0)], got.append)
        assert [each.tolist() for each in got] == [[1]]
        late.put([on(2.0).sum(), on(3.0, 4.0)], got.append)
        late.put([torch.tensor(5.0), on(6).sum(), on(7.0).sum()], got.append)  # of both, and of two dtypes
        late.put([torch.tensor(8.0)], got.append)
        late.fetch()
        assert len(got) == 1
        Event.come = True
        late.fetch()
    assert [each.tolist() for each in got] == [[1], [2, 3, 4], [5, 6, 7], [8]]
    assert all("scalar_reads.py" not in wait for wait in seen.waits)


def test_the_end_waits_for_what_has_not_come(monkeypatch):
    monkeypatch.setattr(torch, "Event", Event)
    monkeypatch.setattr(Event, "come", False)
    late, got = ScalarReads(), []
    late.put([torch.ones((), device=NAME)], got.append)
    late.finish()
    assert [each.tolist() for each in got] == [[1]]


def test_what_changes_after_it_was_asked_for_is_read_as_it_was():
    late, got, x = ScalarReads(), [], torch.ones(2, device=NAME)
    late.put([x], got.append)
    late.put([x.sum(), x], got.append)
    x.zero_()
    late.finish()
    assert [each.tolist() for each in got] == [[1, 1], [2, 1, 1]]


def test_what_is_not_finite_is_said_a_step_later_with_the_batch_it_was_in():
    model, data = made(Tagger).to(NAME), [ids.to(NAME) for ids in batches(5)]
    optimizer = torch.optim.SGD(model.parameters(), 1e-2)
    with pytest.raises(FloatingPointError) as error, rf.watch(model, optimizer, activations=1) as watch:
        trained(model, data[:2], watch=watch, optimizer=optimizer)
        model.norm.eps = float("nan")
        trained(model, data[2:], watch=watch, optimizer=optimizer)
    assert str(error.value) == (
        'watch: the output of "norm" is NaN or infinite.\n'
        "  module      norm: the first whose output is not finite\n"
        "  gradients   NaN or infinite in 9 of 9 parameters\n"
        "  parameters  9 not finite\n"
        "  update      3\n"
        "  batch       3\n"
        "  optimizer   has used it: parameters are no longer finite\n"
        "It is the first module, in the order of the calls, whose output is not finite.\n"
        "    rf.watch(model, optimizer, activations=1)    # looks at the outputs of all modules in each update"
    )


def test_a_loss_that_is_not_finite_is_said_before_the_optimizer_uses_what_comes_of_it():
    model, data = made(Tagger).to(NAME), [ids.to(NAME) for ids in batches(2)]
    optimizer = torch.optim.SGD(model.parameters(), 1e-2)
    with pytest.raises(FloatingPointError) as error, rf.watch(model, optimizer) as watch:
        trained(model, data[:1], optimizer=optimizer)
        watch.log(loss=torch.full((), torch.nan, device=NAME))
        before = state_of(model)
        trained(model, data[1:], optimizer=optimizer)
    assert str(error.value).splitlines()[0] == 'watch: the loss "loss" is NaN or infinite.'
    for name, _ in model.named_parameters():
        assert torch.equal(values(before[name]), values(model.state_dict()[name])), name


class TensorDifference(nn.Module):
    """Two layers on two devices."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 6), nn.Linear(6, 2)

    def forward(self, x):
        return self.last(self.first(x).tanh().to(self.last.weight.device))


def test_a_model_on_two_devices_is_watched_as_one_on_one():
    found = []
    for places in (("cpu", "cpu"), ("cpu", NAME), (NAME, "cpu")):
        torch.manual_seed(3)
        model, x = TensorDifference(), torch.randn(5, 4)
        for part, place in zip((model.first, model.last), places):
            part.to(place)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        with rf.watch(model, optimizer, example=(x,), every=2, **ALL) as watch:
            for _ in range(3):
                optimizer.zero_grad()
                loss = model(x.to(places[0])).square().mean()
                loss.backward()
                optimizer.step()
                watch.log(loss=loss)
        assert [one.label for one in watch.examples] == ["0", "2"]
        found.append(watch)
    for watch in found[1:]:
        for name, table in found[0].tables.items():
            np.testing.assert_allclose(watch.tables[name].array(), table.array(), rtol=1e-4, err_msg=str(name))
        np.testing.assert_allclose(watch.curves["loss"].values, found[0].curves["loss"].values, rtol=1e-4)
