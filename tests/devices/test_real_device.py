"""The replacement for the simulated device on a real GPU sees the waits that torch reports, and has the same names."""

import ast
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import real_device
import simulated
import torch

TESTS = Path(__file__).parents[1]
SYNCHRONIZING = "called a synchronizing CUDA operation (Triggered internally at CUDAFunctions.cpp:151.)"


class Driver:
    """The sync debug mode of torch."""

    def __init__(self, monkeypatch):
        self.mode = 0
        monkeypatch.setattr(real_device, "NAME", "cuda")
        monkeypatch.setattr(torch.cuda, "get_sync_debug_mode", lambda: self.mode)
        monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", self.set)

    def set(self, mode):
        self.mode = mode

    def read(self):
        """A read of a value on the device."""
        if self.mode == "warn":
            warnings.warn(SYNCHRONIZING, stacklevel=2)


@pytest.fixture
def driver(monkeypatch):
    return Driver(monkeypatch)


def test_each_read_is_noted_with_its_line_and_not_shown(driver, recwarn):
    with real_device.watched() as seen:
        for _ in range(3):  # a warning from one line is usually given once
            driver.read()
    driver.read()
    assert len(seen.waits) == 3 and seen.moved == seen.waits and len(recwarn) == 0
    assert all("tests/devices/test_real_device.py" in wait for wait in seen.waits)


def test_other_warnings_are_shown(driver):
    with pytest.warns(UserWarning, match="something else"):
        with real_device.watched() as seen:
            warnings.warn("something else", stacklevel=1)
    assert seen == []


def test_the_mode_is_what_it_was(driver):
    driver.mode = 2
    with pytest.raises(ZeroDivisionError):
        with real_device.watched():
            1 / 0
    assert driver.mode == 2


def test_synchronize_is_noted_once(driver, monkeypatch):
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: driver.read())
    with real_device.watched() as seen:
        torch.cuda.synchronize()
    assert [wait.partition(" at ")[0] for wait in seen.waits] == ["wait: torch.cuda.synchronize"]


def test_of_a_block_in_another_one_both_see_what_is_asked(driver, monkeypatch):
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    with real_device.watched() as outer:
        driver.read()
        with real_device.watched() as inner:
            driver.read()
            torch.cuda.synchronize()
        driver.read()
    assert (len(outer), len(inner)) == (4, 2)


def test_values_are_read_unseen(driver):
    with real_device.watched() as seen:
        assert real_device.values(torch.ones(2)).tolist() == [1, 1]
    assert (seen, driver.mode) == ([], 0)


def names_taken(path):
    return {
        alias.name
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module == "simulated"
        for alias in node.names
    }


def test_it_has_every_name_that_tests_take_from_the_simulated_one():
    taken = {path.name: names_taken(path) for path in TESTS.rglob("*.py")}
    assert taken["test_simulated.py"] == {"BACKEND", "NAME", "values", "watched"}
    missing = {name: names - set(vars(real_device)) for name, names in taken.items() if names - set(vars(real_device))}
    assert missing == {}
    assert simulated.watched is not real_device.watched


def test_the_tests_run_on_another_device():
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(TESTS / "devices/test_simulated.py")]
    only = "modules_of_torch or does_not_wait_is_not or scalar or moved or copy_only"
    run = subprocess.run(
        [*command, "-k", only], env=os.environ | {"RFNB_TEST_DEVICE": "cpu"}, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stdout
    assert re.search(r"\d\d passed, 1 skipped", run.stdout)  # the skipped one is of the simulated device alone
