import pytest

from rfnb.control.live_runs import stop_all


@pytest.fixture(autouse=True)
def no_run_is_left():
    """A run that is left paused stands in a step for ever."""
    yield
    stop_all()
