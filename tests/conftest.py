"""For all tests."""

import importlib
import os
import sys

import pytest
from hypothesis import settings
from seed import SEED

settings.register_profile("same examples in each run", derandomize=not SEED, database=None)
settings.load_profile("same examples in each run")

if "RFNB_TEST_DEVICE" in os.environ:
    sys.modules["simulated"] = importlib.import_module("real_device")


def pytest_runtest_setup(item):
    if item.get_closest_marker("gpu"):
        import torch

        if not torch.cuda.is_available():
            pytest.skip("needs a GPU: torch.cuda.is_available() is False")


@pytest.fixture(autouse=True)
def step_of_its_own():
    """What a test says of the running step (`rf.init_train_step_run_ctx()` without `with`) ends with it."""
    yield
    run_ctx = sys.modules.get("rfnb.nn.run.run_ctx")
    if run_ctx is not None:
        run_ctx._current.set(run_ctx._INIT)


@pytest.fixture(autouse=True)
def nothing_left_on():
    """A test that leaves something on that looks at all of the process, or hears what the thread computes, fails itself, and
    not those after it: `rf.debug`, a recording, a watch."""
    poison, probe = (sys.modules.get(name) for name in ("rfnb.debugging.poison", "rfnb.trace.probe"))
    before = poison._users[0] if poison is not None else 0
    heard = set(probe._open) if probe is not None else set()
    yield
    poison, probe = (sys.modules.get(name) for name in ("rfnb.debugging.poison", "rfnb.trace.probe"))
    if poison is not None and poison._users[0] > before:
        pytest.fail("rf.debug was left on")
    if probe is not None and (left := [item for key, item in probe._open.items() if key not in heard]):
        for item in left:
            probe._hear_no_more(item)
        pytest.fail(f"these still listen: {left}")
