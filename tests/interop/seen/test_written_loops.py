"""A variable that a Python loop computes from its own earlier value is a state with steps; other carried values are not."""

import inspect

import pytest
import torch
from interop.seen.written_loop_models import BATCH, OTHERS, RECURRENCES, TIME, WIDTH, Own
from torch import nn

import rfnb as rf


def recorded(kind, **options):
    """The model, what it gives, and the recording; everything else is as without one."""
    torch.manual_seed(1)
    model, x = kind(), torch.randn(BATCH, TIME, WIDTH, requires_grad=True)
    plain, before = model(x), torch.get_rng_state()
    gradients = torch.autograd.grad(plain.sum(), x, allow_unused=True)[0] if plain.requires_grad else None
    model.own = {}
    with rf.record(model=model, **options) as trace:
        again = model(x)
    assert torch.equal(plain, again) and torch.equal(torch.get_rng_state(), before)
    if gradients is not None:
        assert torch.equal(gradients, torch.autograd.grad(again.sum(), x, allow_unused=True)[0])
    return model, trace


@pytest.mark.parametrize("kind", RECURRENCES)
def test_the_states_are_those_that_each_turn_has_made(kind):
    model, trace = recorded(kind)
    found = {}
    for event in trace.select("states"):
        for name, value in event.values.items():
            found.setdefault(name, []).append((event.step, value))
    assert set(found) == set(model.own)
    for name, own in model.own.items():
        assert [step for step, _ in found[name]] == list(range(len(own)))
        assert all(torch.equal(value.raw_tensor, raw) for (_, value), raw in zip(found[name], own))
        assert found[name][0][1].dims[0].kind == "batch" and len({value.dims for _, value in found[name]}) == 1


@pytest.mark.parametrize("kind", OTHERS)
def test_what_is_no_recurrence_has_no_states(kind):
    _, trace = recorded(kind)
    assert "states" not in {event.kind for event in trace.events}


def test_there_are_as_many_that_are_none():
    assert len(OTHERS) >= 15 and len(RECURRENCES) >= 15


def test_one_lookup_has_all_steps_and_two_loops_have_names():
    lstm, both = (next(each for each in RECURRENCES if each.__name__ == name) for name in ("LSTM", "Bi"))
    model, trace = recorded(lstm)
    assert list(trace.states) == [""] and list(trace.states[""]) == ["c", "h"]
    assert torch.equal(trace.states[""]["h"].raw_tensor, torch.stack(model.own["h"]))
    model, trace = recorded(both)
    assert list(trace.states) == ["loop0", "loop1"]
    assert torch.equal(trace.states["loop1"]["b"].raw_tensor, torch.stack(model.own["b"]))


class Outer(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.parts = nn.ModuleList(kind() for _ in range(2))

    def forward(self, x):
        for part in self.parts:
            x = torch.tanh(part(x))
        return x


def test_loops_of_parts_are_at_their_paths_and_every_call_has_its_own():
    model, x = Outer(RECURRENCES[0]), torch.randn(BATCH, TIME, WIDTH)
    with rf.record(model=model) as trace:
        model(x), model(x)
    assert list(trace.states) == ["parts.0", "parts.1"]
    assert [event.step for event in trace.select("states", path="parts.1")] == [*range(TIME)] * 2


def test_a_loop_that_raises_leaves_nothing_and_the_next_call_is_seen():
    class Raises(Own):
        def forward(self, x, bad=True):
            h = self.zeros(x)
            for t in range(TIME):
                h = torch.tanh(self.i(x[:, t]) + self.h(h))
                if bad and t == 2:
                    raise RuntimeError("no")
            return h

    model, x = Raises(), torch.randn(BATCH, TIME, WIDTH)
    with rf.record(model=model) as trace:
        with pytest.raises(RuntimeError):
            model(x)
        model(x, bad=False)
    assert [event.step for event in trace.select("states")] == list(range(TIME))


def test_a_state_that_is_changed_in_place_later_on_is_not_told_wrongly():
    class Changes(Own):
        def forward(self, x):
            h, out = self.zeros(x), []
            with torch.no_grad():
                for t in range(TIME):
                    h = torch.tanh(self.i(x[:, t]) + self.h(h))
                    out.append(h)
                for each in out:
                    each.zero_()
            return torch.stack(out)

    with rf.record(model=(model := Changes())) as trace:
        model(torch.randn(BATCH, TIME, WIDTH))
    assert not [event for event in trace.events if event.kind == "states"]


def test_code_without_a_source_runs_as_always():
    space = {"torch": torch, "Own": Own, "TIME": TIME}
    exec(inspect.getsource(RECURRENCES[0]).replace("class RNN", "class Made"), space)
    with rf.record(model=(model := space["Made"]())) as trace:
        model(torch.randn(BATCH, TIME, WIDTH))
    assert not [event for event in trace.events if event.kind == "states"]


def test_a_gate_gives_what_is_offered_its_step():
    with rf.record() as trace:
        for step in range(3):
            rf.gate(step)
            rf.probe("mine", value=rf.convert_to_tensor(step))
    assert [(event.step, int(event.values["value"].raw_tensor)) for event in trace.select("mine")] == [
        (0, 0),
        (1, 1),
        (2, 2),
    ]
    with rf.record() as trace:
        rf.probe("mine", value=rf.convert_to_tensor(1))
    assert trace.select("mine")[0].step is None
    with rf.record(), pytest.raises(ValueError, match="Steps are counted from 0"):
        rf.gate(-1)


def test_a_gate_in_a_module_ends_with_it():
    class Loops(nn.Module):
        def forward(self, x):
            for t in range(2):
                rf.gate(t)
                rf.probe("mine", value=rf.named(x, "batch time feature"))
            return x

    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.loops = Loops()

        def forward(self, x):
            x = self.loops(x)
            rf.probe("behind", value=rf.named(x, "batch time feature"))
            return x

    with rf.record(model=(model := Two())) as trace:
        model(torch.randn(BATCH, TIME, WIDTH))
    assert [(event.path, event.step) for event in trace.select("mine")] == [("loops", 0), ("loops", 1)]
    assert trace.select("behind")[0].step is None
