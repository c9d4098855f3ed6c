"""What a probe costs while nobody records: a ratio to the call of a function that does nothing."""

from __future__ import annotations

import statistics
import time
import timeit

from rfnb.trace.probe import probe

CALL = "offer('attention', weights=1, axis=2)"


def nothing(kind, **values):
    pass


def test_a_probe_without_listener_costs_about_an_empty_call():
    ratios = []
    for _ in range(31):
        ours, empty = (
            timeit.timeit(CALL, globals={"offer": f}, number=20_000, timer=time.process_time) for f in (probe, nothing)
        )
        ratios.append(ours / empty)
    found = statistics.median(ratios)
    print(f"\nprobe / empty call: {found:.2f}")
    assert found < 2
