"""The tour with a device as default: all that it says of the CPU holds there, and the device is what it ran on."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import pytest
import simulated
import torch

pytest.importorskip("nbclient", reason="notebooks are run by nbclient")
pytest.importorskip("ipykernel", reason="notebooks are run in a kernel")
from notebooks.runner import execute

from notebooks import test_tour_notebook as tour

pytestmark = pytest.mark.notebook

ON_CPU = {"test_training_is_limited_to_three_minutes_unless_the_environment_says_otherwise"}
CLAIMS = {
    name: claim
    for name, claim in vars(tour).items()
    if name.startswith("test_") and name not in ON_CPU and [*inspect.signature(claim).parameters] == ["run"]
}
STEPS = 50  # of training

FIRST = f"""
import sys
sys.path.append({str(Path(__file__).parents[1])!r})
import {simulated.__name__} as device
import rfnb as rf
rf.set_default_device(device.NAME)
watching = device.watched()
seen = watching.__enter__()
"""
LAST = """
parameters = [parameter for net in (model, training.model) for parameter in net.parameters()]
tensors = [value for value in globals().values() if isinstance(value, rf.Tensor)]
print(json.dumps({
    "parameters": sorted({parameter.raw_tensor.device.type for parameter in parameters}),
    "tensors": sorted({tensor.raw_tensor.device.type for tensor in tensors}),
    "events": len(seen),
    "copies that wait": [str(event) for event in seen if event.kind == "to device" and event.waits],
}))
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RFNB_TOUR_LIMITS", json.dumps({"steps": STEPS, "seconds": 1e9}))
        patch.setenv("TMPDIR", str(home))
        return tour.Run(execute(tour.TOUR, home=home, first=FIRST, last=LAST), home)


@pytest.fixture(scope="module")
def told(run):
    """The text of the last cell about the run."""
    return json.loads(run.printed(LAST))


@pytest.mark.parametrize("claim", CLAIMS)
def test_what_holds_on_the_cpu_holds_on_the_device(run, claim):
    CLAIMS[claim](run)


def test_all_parameters_and_tensors_are_on_the_device(told):
    assert told["parameters"] == told["tensors"] == [torch.device(simulated.NAME).type]
    assert told["events"]


def test_nothing_waits_on_its_way_to_the_device(told):
    assert told["copies that wait"] == []
