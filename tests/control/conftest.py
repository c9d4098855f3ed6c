import pytest

from rfnb.control.live_runs import stop_all


@pytest.fixture(autouse=True)
def no_run_is_left():
    """Stop runs that a test leaves paused: they would stay in a step forever."""
    yield
    stop_all()
