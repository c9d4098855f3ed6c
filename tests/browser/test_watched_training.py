"""A training that is watched in a cell shows itself while it runs, and its example with a slider."""

from __future__ import annotations

from playwright.sync_api import expect
from waiting import ms

TRAINING = (
    """
import time
from pathlib import Path
import numpy as np
import torch
import rfnb as rf

torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Embedding(11, 16), torch.nn.Linear(16, 24), torch.nn.ReLU(), torch.nn.Linear(24, 11))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
ids = torch.randint(0, 11, (3, 7))
source, target = rf.Dim(7, name="source"), rf.Dim(7, name="target")

def example():
    states = model[:2](ids[0])
    weights = (states @ states.t()).softmax(-1)
    weights = rf.convert_to_tensor(weights.detach(), dims=[target, source])
    rf.probe("attention", weights=weights, axis=source, target=target)

watch = rf.watch(model, optimizer, example=example)
watch
""",
    """
for epoch in range(500):
    for _ in range(20):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(ids).flatten(0, 1), ids.flatten())
        loss.backward()
        optimizer.step()
        watch.log(loss=loss)
    if epoch < 8:
        watch.epoch()
    time.sleep(0.02)
    if Path("stop").exists():
        break
watch.close()
""",
)


def test_a_watched_training_is_drawn_while_it_runs_and_has_a_slider_of_epochs(lab):
    (lab.server.root / "stop").unlink(missing_ok=True)
    lab.open(lab.write("training.ipynb", *TRAINING))
    lab.run_all()
    view = lab.page.locator('.rfnb-root[data-kind="group"]')
    expect(view).to_have_attribute("data-live", "true", timeout=ms(60))
    curves = view.locator('[data-kind="curves"]')
    expect(curves).to_have_count(1, timeout=ms(60))
    slider = view.locator('[data-kind="attention"] input[type="range"]').first
    expect(slider).to_be_visible(timeout=ms(60))
    assert lab.cells()[1]["state"] == "running"
    (lab.server.root / "stop").touch()
    lab.wait_cells()
    expect(view).to_have_attribute("data-live", "false", timeout=ms(60))
    expect(view).to_contain_text("epoch")
    assert lab.errors == []
