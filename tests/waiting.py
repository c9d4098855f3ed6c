"""Waiting for threads, processes and pages: no test depends on the speed of the machine, and none hangs forever.

This is the only place of the tests that looks at a clock (`contracts/test_no_clock.py`). A limit here says "it hangs", never "it is slow".
"""

import os
import time
from collections.abc import Callable

SLOWNESS = float(os.environ.get("RFNB_TEST_SLOWNESS", "1"))  # a factor on all limits
LONG = 120 * SLOWNESS  # seconds after which what should have happened will not happen any more


def ms(seconds: float) -> float:
    """Seconds as Playwright's milliseconds, times the slowness of this machine."""
    return seconds * 1000 * SLOWNESS


def wait_until(condition: Callable[[], bool], seconds: float = LONG) -> bool:
    """True as soon as the condition holds; False after the limit in seconds."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True
