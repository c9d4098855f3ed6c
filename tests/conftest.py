"""For all tests."""

import sys

import pytest


@pytest.fixture(autouse=True)
def step_of_its_own():
    """What a test says of the running step (`rf.init_train_step_run_ctx()` without `with`) ends with it."""
    yield
    run_ctx = sys.modules.get("rfnb.nn.run.run_ctx")
    if run_ctx is not None:
        run_ctx._current.set(run_ctx._INIT)
