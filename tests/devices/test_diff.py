"""`rf.diff` of a recording of the CPU and one of a device, in memory and from files; `rf.debug` where the values are on a device."""

import numpy as np
import pytest
from devices.programs import BATCH, MODEL, PROGRAMS, TIME, frames
from simulated import NAME, watched

import rfnb as rf
from rfnb.trace import diff_text
from rfnb.viz.spec import to_json


def recorded(name, device, **options):
    with rf.set_default_device_ctx(device):
        call = PROGRAMS[name]()
        with rf.record(values=True, **options):  # the first of a recorded body makes what others go on with
            call()
        with rf.record(values=True, **options) as trace:
            call()
    return trace


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_device_computes_what_the_cpu_does(name, tmp_path):
    here, there = recorded(name, "cpu", ops=True), recorded(name, NAME, ops=True)
    diff = rf.diff(here, there)
    assert diff.same and diff.rows, diff
    events = len(here.events)
    assert diff_text.text(diff).startswith(f"a ({events} events on cpu) and b ({events} events on {NAME}:0). ")
    there.save(tmp_path / "trace")
    assert rf.diff(here, rf.load_trace(tmp_path / "trace")).same


def summed(device, *, changed=False):
    """A sum over frames, in which one number is another one if it is `changed`."""
    with rf.set_default_device_ctx(device), rf.record() as trace:
        x = frames()
        loop = rf.Loop(axis=TIME, name="sums")
        loop.state.h = rf.zeros([BATCH, MODEL])
        for step in loop:
            h = loop.state.h * 0.5 + loop.unstack(x)
            if changed and step == 1:
                h = rf.where(rf.range_over_dim(BATCH) == 2, h + 1.0, h)
            loop.state.h = h
    return trace


def test_the_first_difference_is_found_as_on_the_cpu():
    plain, changed = summed("cpu"), summed("cpu", changed=True)
    expected, diff = rf.diff(plain, changed), rf.diff(plain, summed(NAME, changed=True))
    assert diff.first is not None and str(diff.first) == str(expected.first)
    assert diff_text.sentence(diff) == diff_text.sentence(expected)
    views = [to_json(rf.viz.diff(each).spec) for each in (diff, expected)]
    for view in views:
        view["head"].pop("link", None)
    assert views[0]["head"]["title"] == views[1]["head"]["title"] and views[0]["blocks"] == views[1]["blocks"]


def test_an_array_is_read_once():
    here, there = summed("cpu"), summed(NAME)
    arrays = sum(len(event.values) for event in there.events)
    with watched() as seen:
        assert rf.diff(here, there).same
    assert 0 < len(seen.waits) <= arrays


# -- rf.debug ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_leaves_padding_out_passes_with_padding_that_is_nan(name):
    with rf.set_default_device_ctx(NAME):
        call = PROGRAMS[name]()
        with rf.debug(padding="nan", indices=True):
            call()


def padding_gets_in():
    total = rf.reduce_sum(frames(), axis=TIME, use_mask=False)
    return total * 2.0


def wrong_index():
    return rf.gather(
        frames(), indices=rf.convert_to_tensor(np.array([1, 9, 0]), dims=[BATCH], sparse_dim=MODEL), axis=MODEL
    )


@pytest.mark.parametrize("fault", [padding_gets_in, wrong_index])
def test_a_fault_is_told_as_on_the_cpu(fault):
    said = []
    for device in (NAME, "cpu"):
        with rf.set_default_device_ctx(device):
            with pytest.raises((FloatingPointError, IndexError)) as error, rf.debug(padding="nan", indices=True):
                fault()
            said.append(str(error.value))
    assert said[0] == said[1]
