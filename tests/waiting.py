"""Waiting for what another thread, process or page does: no test depends on how fast the machine is, but none hangs for ever.

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
    """Returns True as soon as the condition holds; False if it does not after so many seconds."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True
