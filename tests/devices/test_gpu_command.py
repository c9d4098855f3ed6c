"""`make gpu`: what needs a GPU runs as processes with time limits, and what was measured stays, whatever ends it."""

import importlib
import subprocess
from pathlib import Path

import gpu
import pytest
import torch
from rows import read_rows, write_row
from warm import warm

no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")


def test_each_part_has_its_files_and_every_marked_test_is_in_one():
    parts = {part.name: part for part in gpu.parts()}
    assert list(parts) == ["tests", "devices", "waits", "on_device", "training", "encoder", "search", "ops", "decoder"]
    assert all((gpu.ROOT / path).exists() for part in parts.values() for path in part.paths)
    assert {"tests/devices", "tests/laws/test_devices.py"} <= set(parts["devices"].paths)
    assert {"tests/laws/test_devices.py", "tests/backends/test_captured.py"} <= set(parts["tests"].paths)


@no_gpu
def test_without_a_gpu_it_says_so(capsys, tmp_path):
    assert gpu.main(["--out", str(tmp_path / "gpu")]) == 2
    assert capsys.readouterr().out == (
        "make gpu: torch sees no GPU here (torch.cuda.is_available() is False).\n"
        "To try what it does on a simulated one:\n    make gpu ARGS='--device sim --quick'\n"
    )
    assert not (tmp_path / "gpu").exists()


def test_it_runs_on_the_simulated_device(tmp_path):
    """In a process of its own: a device is chosen for good."""
    importlib.import_module("simulated")  # skips where torch has none
    command = [*warm(), "bench/gpu.py", "--device", "sim", "--quick", "--out", str(tmp_path), "--only", "waits"]
    run = subprocess.run(
        [*command, "-k", "axis_waits and decoder and for"], cwd=gpu.ROOT, capture_output=True, text=True
    )
    rows = {(row["part"], row["name"]): row for row in read_rows(tmp_path / "rows.jsonl")}
    assert run.returncode == 0, run.stdout + (tmp_path / "log.txt").read_text()
    assert rows["parts", "waits"]["state"] == "passed"
    assert rows["waits", "decoder, for"]["waits"] == 0 and rows["waits", "decoder, for"]["steps"] == 4
    assert "| decoder, for | 4 |  | 0 |  |" in (tmp_path / "report.md").read_text()


def part(name, seconds, path, code):
    path.mkdir()
    (path / "test_part.py").write_text(code)
    return gpu.Part(name, seconds, (str(path / "test_part.py"),), is_bench=False)


def test_a_part_that_takes_too_long_is_ended_and_the_next_one_begins(tmp_path, monkeypatch):
    slow = part("devices", 3, tmp_path / "one", "import time\ntime.sleep(600)\n")
    failing = part("laws", 60, tmp_path / "two", "def test_it():\n    assert 2 == 3\n")
    monkeypatch.setattr(gpu, "parts", lambda: [slow, failing])
    assert gpu.main(["--device", "cpu", "--quick", "--out", str(tmp_path)]) == 1
    text = (tmp_path / "report.md").read_text()
    assert "| devices | out of time |" in text and "| laws | failed |" in text
    assert "two/test_part.py::test_it" in text.partition("## What failed")[2]


def test_parts_for_which_no_time_is_left_are_not_begun(tmp_path, monkeypatch):
    monkeypatch.setattr(gpu, "run", lambda *_: pytest.fail("begun"))
    assert gpu.main(["--device", "cpu", "--out", str(tmp_path), "--seconds", "5", "--only", "ops"]) == 1
    assert "| ops | no time left |" in (tmp_path / "report.md").read_text()


def test_a_line_that_was_cut_off_is_left_out(tmp_path):
    path = tmp_path / "rows.jsonl"
    write_row(path, part="ops", name="add", median=1.5)
    with path.open("a") as file:
        file.write('{"part": "ops", "na')
    assert read_rows(path) == [{"part": "ops", "name": "add", "median": 1.5}]
    assert read_rows(Path("nowhere")) == []


def test_the_report_has_ratios_waits_and_other_figures():
    ratio = {"low": 1.1, "high": 1.3, "limit": None}
    rows = [
        {"part": "machine", "name": "machine", "gpu": "GPU of a test"},
        {"part": "ops", "name": "add", "median": 9.0, "rfnb": 1.0, "raw": 1.0, **ratio},
        {"part": "ops", "name": "add", "median": 1.25, "rfnb": 12.5e-6, "raw": 10e-6, **ratio},
        {"part": "waits", "name": "search", "waits": 7, "steps": 6, "places": ["6 x read: at ends.py:3"]},
        {"part": "on_device", "name": "memory of a trace", "bytes": 1024, "events": 50},
        {"part": "parts", "name": "ops", "state": "passed", "seconds": 3.5, "last": "1 passed"},
    ]
    assert (
        gpu.report(rows)
        == """# On a device

- gpu: GPU of a test

| part | | seconds | |
|---|---|---|---|
| ops | passed | 3.5 | 1 passed |

| | rfnb | the other side | ratio | 10 % | 90 % |
|---|---|---|---|---|---|
| add | 12.5 µs | 10.0 µs | 1.25 | 1.10 | 1.30 |

| host waits | steps | without | waits | where |
|---|---|---|---|---|
| search | 6 |  | 7 | 6 x read: at ends.py:3 |

| other | |
|---|---|
| memory of a trace | bytes 1024, events 50 |
"""
    )
