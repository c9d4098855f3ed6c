"""Threads of a lesson: what the machine gives, not what it has."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

import rfnb as rf
from rfnb.teaching import threads


@pytest.fixture(autouse=True)
def eight_cores(monkeypatch):
    for name in (*threads.VARIABLES, "CPU_LIMIT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)), raising=False)


@pytest.mark.parametrize(
    ("files", "count"),
    [
        ({}, 8),
        ({"cpu.max": "max 100000"}, 8),
        ({"cpu.max": "200000 100000"}, 2),
        ({"cpu.max": "50000 100000"}, 1),
        ({"cpu/cpu.cfs_quota_us": "300000", "cpu/cpu.cfs_period_us": "100000"}, 3),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 8),
        ({"cpu.max": "garbage"}, 8),
    ],
)
def test_a_quota_of_a_container_counts(tmp_path, files, count):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text + "\n")
    assert threads.cores(tmp_path) == count


def test_what_a_hub_says_counts(tmp_path, monkeypatch):
    monkeypatch.setenv("CPU_LIMIT", "1.5")
    assert threads.cores(tmp_path) == 1


def test_affinity_counts(tmp_path, monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 3}, raising=False)
    assert threads.cores(tmp_path) == 2


def test_a_lesson_takes_them_unless_somebody_has_decided(folder, monkeypatch):
    before = torch.get_num_threads()
    try:
        monkeypatch.setattr(threads, "for_a_kernel", lambda: 1)
        torch.set_num_threads(3)
        monkeypatch.setenv("OMP_NUM_THREADS", "3")
        rf.lesson("99_small")
        assert torch.get_num_threads() == 3
        monkeypatch.delenv("OMP_NUM_THREADS")
        rf.lesson("99_small")
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


def test_a_lesson_that_is_begun_before_torch_is_loaded_takes_them_too(folder):
    env = {name: value for name, value in os.environ.items() if name not in threads.VARIABLES} | {"CPU_LIMIT": "1"}
    begun = "import sys, rfnb as rf; rf.lesson('99_small'); assert 'torch' not in sys.modules"
    found = subprocess.check_output(
        [sys.executable, "-c", f"{begun}; import torch; print(torch.get_num_threads())"], env=env
    )
    assert found.strip() == b"1"
