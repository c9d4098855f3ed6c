"""Cost of rfnb as a ratio to raw torch, never as a time: ratios survive a busy or slow machine.

    def test_add(overhead):
        overhead("add", lambda: x + y, lambda: raw_x + raw_y)

Both sides are timed in turns in one run, so a neighbour on the machine slows both; the median over the turns is reported. Both
sides have to give the same values. The table at the end has one line per op; `--benchmark-json FILE` keeps the ratios too.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import pytest
import torch
from ratio import Ratio, measure

_rows: list[Ratio] = []


@pytest.fixture(autouse=True)
def one_thread():
    """Everything is measured on one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def overhead(benchmark):
    """`overhead(name, rfnb, raw, limit=None)`: measures, adds a line to the table, fails over the limit; returns the median."""

    def run(
        name: str, rfnb: Callable[[], Any], raw: Callable[[], Any], *, limit: float | None = None, **options: int
    ) -> float:
        row = measure(name, rfnb, raw, limit=limit, **options)
        _rows.append(row)
        benchmark.extra_info.update(ratio=row.median, ratio_low=row.low, ratio_high=row.high)
        benchmark.pedantic(rfnb, rounds=5, iterations=min(20, options.get("warmup", 20)))
        row.check()
        return row.median

    return run


def pytest_terminal_summary(terminalreporter):
    if not _rows:
        return
    terminalreporter.section("rfnb / raw torch, one thread")
    width = max(len(row.name) for row in _rows)
    terminalreporter.write_line(f"{'op':{width}}  ratio   10 %   90 %  rfnb us   raw us  limit")
    for row in _rows:
        limit = "" if row.limit is None else f"{row.limit:.2f}" + ("  <- over" if row.median > row.limit else "")
        times = f"{row.rfnb * 1e6:7.1f}  {row.raw * 1e6:7.1f}"
        terminalreporter.write_line(
            f"{row.name:{width}}  {row.median:5.2f}  {row.low:5.2f}  {row.high:5.2f}  {times}  {limit}".rstrip()
        )
    middle = statistics.geometric_mean(row.median for row in _rows)
    terminalreporter.write_line(f"{'all (geometric mean)':{width}}  {middle:5.2f}")
