"""docs/gpu.md runs on the device: its code, and its statements about synchronization."""

import re

import pytest
from contracts.test_guides import BLOCK, DOCS, run
from simulated import NAME, watched

import rfnb as rf


@pytest.fixture(autouse=True)
def default_device():
    before = rf.get_default_device()
    yield
    rf.set_default_device(before)


def test_it_runs_from_top_to_bottom_and_prints_what_it_shows(capsys):
    with watched() as seen:
        names, shown = run("gpu.md", capsys, cuda=NAME)
    assert shown == 4
    assert names["x"].raw_tensor.device.type == NAME
    # Its own reads: `tolist()` of the losses, and the comparison at the end.
    places = {re.sub(r"\s.*", "", wait.partition(" at ")[2]) for wait in seen.waits}
    assert len(seen.waits) <= 3, places


def test_all_code_of_it_is_for_cuda():
    """So that a device that is written in another way is none of those that are tried."""
    code = "".join(block for block, _ in BLOCK.findall((DOCS / "gpu.md").read_text()))
    assert set(re.findall(r'device(?:_ctx)?\((?:\w+, )?"(\w+)"', code)) == {"cuda"}
    assert set(re.findall(r'device="(\w+)"', code)) == {"cpu"}
