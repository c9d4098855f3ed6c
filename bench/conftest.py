"""Cost of rfnb as a ratio to raw torch, never as a time: ratios survive a busy or slow machine.

    def test_add(overhead):
        overhead("add", lambda: x + y, lambda: raw_x + raw_y)

Both sides are timed in turns in one run, so a neighbour on the machine slows both; the median over the turns is reported. Both
sides have to give the same values. The table at the end has one line per op; `--benchmark-json FILE` keeps the ratios too.

    pytest bench/test_transformer.py --device cuda --rows rows.jsonl

measures on a GPU, both sides there, and writes each ratio when it is known, with the times, as a line of JSON.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from device import choose, machine, quick
from ratio import Ratio, measure
from rows import write_row

_rows: list[Ratio] = []


def pytest_addoption(parser):
    group = parser.getgroup("rfnb")
    group.addoption(
        "--device", help='measure on "cuda", "sim" or "cpu" by the clock on the wall; limits are not checked'
    )
    group.addoption("--rows", type=Path, help="a file to which each measurement is added as a line of JSON")
    group.addoption("--quick", action="store_true", help="small and few: whether it runs, on the device")


def pytest_configure(config):
    if config.getoption("--device"):
        choose(config.getoption("--device"), quick=config.getoption("--quick"))


@pytest.fixture
def row(request):
    """`row(name, **figures)`: a line for `--rows`, written now."""
    path, part = request.config.getoption("--rows"), Path(request.node.fspath).stem.removeprefix("test_")
    return lambda name, **figures: path and write_row(path, part=part, name=name, **figures)


@pytest.fixture(autouse=True)
def one_thread():
    """Everything is measured on one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def overhead(benchmark, row):
    """`overhead(name, rfnb, raw, limit=None)`: measures, adds a line to the table, fails over the limit; returns the median."""

    def run(
        name: str, rfnb: Callable[[], Any], raw: Callable[[], Any], *, limit: float | None = None, **options: int
    ) -> float:
        if quick():
            options |= {"turns": 3, "warmup": 1}
        found = measure(name, rfnb, raw, limit=limit, **options)
        _rows.append(found)
        figures = dataclasses.asdict(found)
        row(figures.pop("name"), **figures)
        benchmark.extra_info.update(ratio=found.median, ratio_low=found.low, ratio_high=found.high)
        benchmark.pedantic(rfnb, rounds=1 if quick() else 5, iterations=min(20, options.get("warmup", 20)))
        found.check()
        return found.median

    return run


def pytest_terminal_summary(terminalreporter):
    if not _rows:
        return
    terminalreporter.section(f"rfnb / raw torch, one thread, {machine()}")
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
