"""A recording of what runs on a device: no wait more than without, the trace that the CPU gives, and a file that needs no device."""

from collections import Counter

import numpy as np
import pytest
from devices.programs import PROGRAMS
from simulated import NAME, watched

import rfnb as rf
from rfnb.trace.event import named_tensors

DETAILS = {
    "probes": {},
    "ops": {"ops": True},
    "values": {"values": True},
    "ops and values": {"ops": True, "values": True},
    "some": {"kinds": "states", "steps": slice(1, 3)},
}


def recorded(name, device, **detail):
    """The trace of the second call, what the device was asked meanwhile, and what a call without a recording asks."""
    with rf.set_default_device_ctx(device):
        call = PROGRAMS[name]()
        call()
        with watched() as plain:
            call()
        with rf.record(**detail):
            call()
        with watched() as seen, rf.record(**detail) as trace:
            call()
    return trace, seen, plain


def arrays(event):
    """All values of an event that are arrays, by name, without what lies in padding."""
    tensors = named_tensors(event.values.items())
    found = {name: x.copy_masked(0).numpy() for name, x in tensors if x.raw_tensor is not None}
    return found | {name: x for name, x in event.values.items() if isinstance(x, np.ndarray)}


def assert_same_events(one, other):
    assert [(event.kind, event.path, event.steps) for event in one.events] == [
        (event.kind, event.path, event.steps) for event in other.events
    ]
    for here, there in zip(one.events, other.events, strict=True):
        expected = arrays(there)
        assert list(arrays(here)) == list(expected)
        for name, array in arrays(here).items():
            np.testing.assert_allclose(array, expected[name], rtol=1e-4, atol=1e-5, err_msg=f"{here} {name}")


@pytest.mark.parametrize("detail", DETAILS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_recording_adds_no_wait(name, detail):
    _, seen, plain = recorded(name, NAME, **DETAILS[detail])
    assert len(seen.waits) <= len(plain.waits), Counter(seen.waits) - Counter(plain.waits)
    assert len(seen.moved) <= len(plain.moved)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_trace_is_that_of_the_cpu(name, tmp_path):
    here = recorded(name, NAME, **DETAILS["ops and values"])[0]
    there = recorded(name, "cpu", **DETAILS["ops and values"])[0]
    assert len(here) and here.truncated is None
    assert_same_events(here, there)
    here.save(tmp_path / "trace")
    with watched() as seen:
        loaded = rf.load_trace(tmp_path / "trace")
        assert_same_events(loaded, there)
    assert seen == []
    assert {x.device for event in loaded.events for _, x in named_tensors(event.values.items())} <= {"cpu", None}


def test_values_stay_on_the_device_without_a_copy():
    made = []
    with rf.set_default_device_ctx(NAME), rf.record() as trace:
        made.append(rf.ones([rf.Dim(2)]) * 2)
        rf.probe("own", made=made[0])
    kept = trace.events[0].values["made"]
    assert kept.device == f"{NAME}:0"
    assert kept.raw_tensor.untyped_storage()._cdata == made[0].raw_tensor.untyped_storage()._cdata
