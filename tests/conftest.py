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
    """A test that leaves `rf.debug` on, which looks at all ops of the process, fails itself, and not those after it."""
    poison = sys.modules.get("rfnb.debugging.poison")
    before = poison._users[0] if poison is not None else 0
    yield
    poison = sys.modules.get("rfnb.debugging.poison")
    if poison is not None and poison._users[0] > before:
        pytest.fail("rf.debug was left on")
