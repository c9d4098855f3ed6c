"""A loop of a torch model in Python is held at its steps, and a view of it follows while it runs."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import rfnb as rf


class Decoder(nn.Module):
    """A cell in a loop of its own, that says where its steps begin."""

    def __init__(self):
        super().__init__()
        self.cell, self.out = nn.GRUCell(4, 5), nn.Linear(5, 4)

    def forward(self, x, steps):
        h = torch.zeros(x.shape[0], 5)
        for step in range(steps):
            rf.gate(step)
            h = self.cell(x, h)
            x = self.out(h)
        return x


@pytest.fixture
def model():
    torch.manual_seed(1)
    return Decoder()


def test_a_run_waits_at_the_steps_of_a_model_of_torch(model):
    x = torch.randn(3, 4)
    plain = model(x, 6)
    run = rf.run(model, x, 6, record={"model": model}, paused=True)
    assert run.wait() is not None and run.state == "paused"
    run.step(2)
    states = run.trace.states["cell"]
    assert run.at.step == 2 and states["h"].dims[0].size == 2
    assert "States: cell" in rf.show(run.trace).text()
    run.resume()
    assert torch.equal(run.result, plain)
    states = run.trace.states["cell"]
    assert [dim.short_repr() for dim in states["h"].dims] == ["step=6", "batch=3", "feature=5"]
    torch.testing.assert_close(model.out(states["h"].raw_tensor[-1]), plain)


def test_a_live_view_follows(model):
    x = torch.randn(3, 4)
    with rf.record(model=model) as trace:
        view = rf.show(trace, live=True)
        model(x, 3)
    states = trace.states["cell"]
    assert states["h"].dims[0].size == 3 and set(states) == {"h", "reset_gate", "update_gate", "candidate"}
    assert "States: cell" in rf.show(trace).text()
    assert view is not None
