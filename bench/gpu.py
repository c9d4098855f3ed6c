"""All that needs a GPU, the most important first: tests, waits, times, memory, training; and a report of it.

    make gpu                                          # on a machine with CUDA; ARGS="--out gpu --seconds 560"
    python bench/gpu.py --only waits,on_device        # some parts
    python bench/gpu.py --device sim --quick          # whether it runs, on the simulated device

Each part is a process with a time limit of its own. In `--out` (default: ./gpu): rows.jsonl, each measurement when it is known;
log.txt, what the tests print; report.md, made anew after each part. What is ended in the middle keeps what it has.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import platform
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rows import read_rows, write_row

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Part:
    """One process of pytest: what it runs, and how long it may take (seconds)."""

    name: str
    seconds: int
    paths: tuple[str, ...]
    is_bench: bool = True


def parts() -> list[Part]:
    """In the order in which they are run."""
    texts = {
        path.relative_to(ROOT).as_posix(): path.read_text() for path in sorted((ROOT / "tests").rglob("test_*.py"))
    }
    marked = [name for name, text in texts.items() if "pytest.mark.gpu" in text]
    elsewhere = [
        name for name, text in texts.items() if "\nfrom simulated import" in text and "tests/devices" not in name
    ]
    return [
        Part("tests", 150, tuple(marked), is_bench=False),
        Part("devices", 200, ("tests/devices", *elsewhere), is_bench=False),
        Part("waits", 60, ("bench/test_waits.py",)),
        Part("on_device", 150, ("bench/test_on_device.py",)),
        Part("training", 60, ("bench/test_training_on_device.py",)),
        Part("encoder", 60, ("bench/test_transformer.py",)),
        Part("search", 90, ("bench/test_search.py",)),
        Part("ops", 90, ("bench/test_op_overhead.py",)),
        Part("decoder", 90, ("bench/test_decoder_loop.py",)),
    ]


def main(arguments: list[str] | None = None) -> int:
    """The command line; 1 if a part failed or was not done, 2 without a GPU."""
    options = _parser().parse_args(arguments)
    if options.device.startswith("cuda") and not _has_cuda():
        print(
            "make gpu: torch sees no GPU here (torch.cuda.is_available() is False).\n"
            "To try what it does on a simulated one:\n    make gpu ARGS='--device sim --quick'"
        )
        return 2
    options.out.mkdir(parents=True, exist_ok=True)
    rows = options.out / "rows.jsonl"
    write_row(rows, part="machine", name="machine", **machine(options.device))
    chosen = [part for part in parts() if not options.only or part.name in options.only]
    end = time.monotonic() + options.seconds
    for part in chosen:
        left = end - time.monotonic()
        begin = time.monotonic()
        state, last = ("no time left", "") if left < 10 else run(part, options, min(part.seconds, left))
        seconds = round(time.monotonic() - begin, 1)
        write_row(rows, part="parts", name=part.name, state=state, seconds=seconds, last=last)
        print(f"{part.name}: {state}, {seconds} s. {last}", flush=True)
        (options.out / "report.md").write_text(report(read_rows(rows), (options.out / "log.txt")))
    done = {row["name"] for row in read_rows(rows) if row["part"] == "parts" and row["state"] == "passed"}
    return 0 if all(part.name in done for part in chosen) else 1


def _has_cuda() -> bool:
    import torch

    return torch.cuda.is_available()


def machine(device: str) -> dict[str, Any]:
    """What the figures belong to."""
    import torch

    figures = {"device": device, "torch": torch.__version__, "python": platform.python_version()}
    if torch.cuda.is_available():
        index = torch.cuda.current_device()
        figures |= {
            "gpu": torch.cuda.get_device_name(index),
            "cuda": torch.version.cuda,
            "memory": torch.cuda.get_device_properties(index).total_memory,
            "capability": ".".join(map(str, torch.cuda.get_device_capability(index))),
        }
    return figures


def run(part: Part, options: argparse.Namespace, seconds: float) -> tuple[str, str]:
    """ "passed", "failed" or "out of time", and the last line that was printed."""
    command = [
        sys.executable,
        "-u",
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "--continue-on-collection-errors",
        "-v",
        "--tb=short",
        *part.paths,
    ]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    if part.is_bench:
        command += [
            "--benchmark-disable",
            "--device",
            options.device,
            "--rows",
            str(options.out.resolve() / "rows.jsonl"),
        ]
        command += ["--quick"] if options.quick else []
    else:
        command += ["-m", "gpu"] if part.name == "tests" else []
        if options.device != "sim":
            environment["RFNB_TEST_DEVICE"] = options.device
        if importlib.util.find_spec("xdist") and not options.quick:
            command += ["-n", "6"]
    if options.keyword:
        command += ["-k", options.keyword]
    with (options.out / "log.txt").open("a") as log:
        log.write(f"\n== {part.name}: {' '.join(command[1:])}\n")
        log.flush()
        begin = log.tell()
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log, start_new_session=True)
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # its own session
            process.wait()
            status = None
    lines = (options.out / "log.txt").read_bytes()[begin:].decode(errors="replace").strip().splitlines()
    # 5: nothing was selected.
    state = "out of time" if status is None else "passed" if status in (0, 5) else "failed"
    return state, lines[-1].strip("= ") if lines else ""


# -- the report ------------------------------------------------------------------------------------------------------------------


def report(rows: list[dict[str, Any]], log: Path | None = None) -> str:
    """The measurements as tables of Markdown; of what was measured twice the later one."""
    latest = {(row["part"], row["name"]): row for row in rows}.values()
    of = lambda part: [row for row in latest if row["part"] == part]  # noqa: E731
    lines = ["# On a device", ""]
    lines += [f"- {name}: {value}" for row in of("machine") for name, value in _figures(row).items()]
    lines += ["", "| part | | seconds | |", "|---|---|---|---|"]
    lines += [f"| {row['name']} | {row['state']} | {row['seconds']} | {row['last']} |" for row in of("parts")]
    ratios = [row for row in latest if "median" in row]
    lines += ["", "| | rfnb | the other side | ratio | 10 % | 90 % |", "|---|---|---|---|---|---|"]
    lines += [
        f"| {row['name']} | {_time(row['rfnb'])} | {_time(row['raw'])} | {row['median']:.2f} | {row['low']:.2f} | {row['high']:.2f} |"
        for row in ratios
    ]
    lines += ["", "| host waits | steps | without | waits | where |", "|---|---|---|---|---|"]
    lines += [
        f"| {row['name']} | {row.get('steps', '')} | {row.get('without', '')} | {row['waits']} | {'<br>'.join(row['places'])} |"
        for row in of("waits")
    ]
    lines += ["", "| other | |", "|---|---|"]
    others = [row for row in latest if row["part"] not in ("machine", "parts") and not {"median", "waits"} & set(row)]
    lines += [f"| {row['name']} | {', '.join(f'{k} {v:.4g}' for k, v in _figures(row).items())} |" for row in others]
    failed = (
        re.findall(r"^(?:FAILED|ERROR) .*$", log.read_text(errors="replace"), re.MULTILINE)
        if log and log.exists()
        else []
    )
    lines += ["", "## What failed", "", *(f"- `{line}`" for line in dict.fromkeys(failed))] if failed else []
    return "\n".join(lines) + "\n"


def _figures(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in ("part", "name")}


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.2f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.1f} µs"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make gpu", description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cuda", help='"cuda"; or "sim", "cpu", to try it')
    parser.add_argument("--out", type=Path, default=Path("gpu"), help="folder of rows.jsonl, log.txt and report.md")
    parser.add_argument("--seconds", type=float, default=560, help="for all parts together")
    parser.add_argument("--only", type=lambda text: text.split(","), help=", ".join(part.name for part in parts()))
    parser.add_argument("--quick", action="store_true", help="small and few: whether it runs")
    parser.add_argument("-k", "--keyword", help="only tests of this name, as for pytest")
    return parser


if __name__ == "__main__":
    sys.exit(main())
