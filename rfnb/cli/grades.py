"""`rfnb grades`: the results in submitted notebooks."""

from __future__ import annotations

import argparse
import sys
from contextlib import suppress
from pathlib import Path

from rfnb.cli.command_error import CommandError

NAME = "grades"
HELP = "read the results of submitted notebooks"
ABOUT = """
Read the results stored in submitted notebooks of the course: exercises passed, predictions, explanations. Nothing is run.

Students can edit the outputs of a notebook. --check checks the answers again: it runs only the cells of exercises, each in its own
process with limits of time and memory. That is not a sandbox: answers run with your rights. Similar answers of two students are reported.

A file with the name of a lesson belongs to the student named by its folder, any other file to the student named by the file.
"""
EXAMPLES = """
examples:
  rfnb grades submitted/*/07_search.ipynb          a table, one line for each notebook
  rfnb grades --csv submitted/*/07_search.ipynb    one line for each answer
  rfnb grades --check submitted                    all notebooks in a folder, checked again, with reasons
  rfnb grades --check --csv submitted > grades.csv

exit status: 0 if all were read, 1 if a file is missing or is not a lesson, 2 for wrong usage.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rfnb grades`."""
    parser.add_argument(
        "notebook", metavar="NOTEBOOK", nargs="+", type=Path, help="a submitted notebook, or a folder of them"
    )
    parser.add_argument("--check", action="store_true", help="run the checks again, each answer in its own process")
    parser.add_argument(
        "--seconds", type=_above_0, default=30.0,
        help="limit of processor time per answer, in seconds (default 30); the limit of elapsed time is ten times as long",
    )  # fmt: skip
    parser.add_argument("--memory", type=_above_0, default=2.0, help="limit of memory per answer, in GiB (default 2)")
    parser.add_argument("--csv", action="store_true", help="one line for each answer, for spreadsheets")


def run(options: argparse.Namespace) -> int:
    """Print the results."""
    lacking = [str(path) for path in options.notebook if not path.exists()]
    if lacking:
        raise CommandError(f"there is no notebook {', '.join(lacking)}.")
    from rfnb.teaching.grades import read_grades
    from rfnb.teaching.notebook import cells_of
    from rfnb.teaching.regrade import Limits, checked, notebooks_in

    paths = notebooks_in(options.notebook)
    limits = Limits(options.seconds, int(options.memory * 2**30))
    grades = checked(paths, limits=limits) if options.check else read_grades(paths)
    print(grades.csv() if options.csv else grades, end="" if options.csv else "\n")
    without = [grade.path for grade in grades.grades if not grade.lesson or not cells_of(grade.path)]
    for path in without:
        print(
            f"rfnb grades: {path} has no results of a lesson; it may not be a notebook, or was never run.",
            file=sys.stderr,
        )
    return 1 if without else 0


def _above_0(text: str) -> float:
    with suppress(ValueError):
        if 0 < float(text) < float("inf"):
            return float(text)
    raise argparse.ArgumentTypeError(f"{text} is not a number above 0")
