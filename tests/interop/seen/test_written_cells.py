"""A module that somebody has written and that is called again with what it has returned is a recurrence: its states have steps."""

import pytest
import torch
from torch import nn

import rfnb as rf

BATCH, TIME, WIDTH = 3, 5, 4


class LSTMCell(nn.Module):
    def __init__(self):
        super().__init__()
        self.x2h, self.h2h = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(WIDTH, 4 * WIDTH)

    def forward(self, x, state):
        h, c = state
        i, f, g, o = (self.x2h(x) + self.h2h(h)).chunk(4, 1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh(), c


class GRUCell(nn.Module):
    def __init__(self):
        super().__init__()
        self.x, self.h = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, x, hidden):
        (rx, zx, nx), (rh, zh, nh) = self.x(x).chunk(3, -1), self.h(hidden).chunk(3, -1)
        z = torch.sigmoid(zx + zh)
        return (1 - z) * torch.tanh(nx + torch.sigmoid(rx + rh) * nh) + z * hidden


class Recurrent(nn.Module):
    """Calls its cell for each frame."""

    def __init__(self, cell, start):
        super().__init__()
        self.cell, self.start, self.own = cell, start, []

    def forward(self, x):
        state, self.own = self.start(x), []
        for t in range(x.shape[1]):
            state = self.cell(x[:, t], state)
            self.own.append([part.detach().clone() for part in (state if isinstance(state, tuple) else (state,))])
        return state[0] if isinstance(state, tuple) else state


def zeros(x):
    return x.new_zeros(len(x), WIDTH)


CELLS = {
    "h c": (LSTMCell, lambda x: (zeros(x), zeros(x))),
    "hidden": (GRUCell, zeros),
}


@pytest.mark.parametrize("names", CELLS)
def test_the_states_of_a_cell_are_those_that_it_has_returned(names):
    torch.manual_seed(1)
    kind, start = CELLS[names]
    model, x = Recurrent(kind(), start), torch.randn(BATCH, TIME, WIDTH)
    plain = model(x)
    with rf.record(model=model) as trace:
        again = model(x)
    states = trace.states["cell"]
    assert torch.equal(plain, again) and list(states) == names.split() and list(trace.states) == ["cell"]
    for index, name in enumerate(states):
        own = torch.stack([step[index] for step in model.own])
        assert torch.equal(states[name].raw_tensor, own) and states[name].dims[1].kind == "batch"
    assert [event.step for event in trace.select("states")] == list(range(TIME))


def test_a_loop_in_each_of_two_calls_is_a_run_of_its_own():
    model, x = Recurrent(GRUCell(), zeros), torch.randn(BATCH, TIME, WIDTH)
    with rf.record(model=model) as trace:
        model(x), model(x[:, :2])
    assert [event.step for event in trace.select("states")] == [*range(TIME), 0, 1]


class Residual(nn.Module):
    """Is called twice, with something else each time."""

    def __init__(self):
        super().__init__()
        self.layer = GRUCell()

    def forward(self, x):
        return self.layer(x, x) + self.layer(x + 1, x * 2)


def test_what_does_not_go_on_from_itself_has_no_states():
    model = Residual()
    with rf.record(model=model) as trace:
        model(torch.randn(BATCH, WIDTH))
    assert not trace.states


class Wraps(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.GRUCell(WIDTH, WIDTH)

    def forward(self, x, hidden):
        return self.inner(x, hidden)


def test_a_cell_of_torch_in_another_module_is_recorded_once():
    model = Recurrent(Wraps(), zeros)
    with rf.record(model=model) as trace:
        model(torch.randn(BATCH, TIME, WIDTH))
    assert list(trace.states) == ["cell.inner"]


class Frames(nn.Module):
    """Reads frames of `(time, batch, feature)` or `(batch, time, feature)`, with a cell or in its own code."""

    def __init__(self, time_first, own):
        super().__init__()
        self.cell, self.time_first, self.own = GRUCell(), time_first, own
        self.inner, self.outer = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        frames = x if self.time_first else x.transpose(0, 1)
        h = frames.new_zeros(frames.shape[1], WIDTH)
        for t in range(len(frames)):
            h = torch.tanh(self.inner(frames[t]) + self.outer(h)) if self.own else self.cell(frames[t], h)
        return h


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("time_first", [False, True])
@pytest.mark.parametrize("batch", [BATCH, TIME])  # as many sequences as frames: sizes do not tell which axis is which
def test_a_state_is_over_the_axis_that_no_step_reads_one_entry_of(batch, time_first, own):
    torch.manual_seed(1)
    model = Frames(time_first, own)
    x = torch.randn(*((TIME, batch) if time_first else (batch, TIME)), WIDTH)
    with rf.record(model=model) as trace:
        model(x)
    states = trace.states["" if own else "cell"]
    (state,) = states.values()
    assert [dim.name for dim in state.dims[1:]] == ["batch", "feature"]
    assert "batch" in trace.guessed
    (whole,) = [event for event in trace.select(kind="module") if event.path == ""]
    (_, given), *_ = whole.values["inputs"]
    assert [dim.name for dim in given.dims] == (
        ["time", "batch", "feature"] if time_first else ["batch", "time", "feature"]
    )
    assert state.dims[1] is given.dims[1 if time_first else 0]
