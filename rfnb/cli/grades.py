"""`rfnb grades`: what submitted notebooks hold."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rfnb.cli.failed import Failed

NAME = "grades"
HELP = "read the results of submitted notebooks"
ABOUT = """
Read what submitted notebooks of the course say of themselves: exercises passed, predictions, explanations. Nothing is run.

A file named as a lesson belongs to the student whose folder it is in, another one to whom its name says. What a notebook says can be
edited; docs/teaching.md tells how nbgrader runs the checks anew.
"""
EXAMPLES = """
examples:
  rfnb grades submitted/*/07_search.ipynb          a table, one line for each notebook
  rfnb grades --csv submitted/*/07_search.ipynb    one line for each answer

exit status: 0 if all were read, 1 if one is not there or holds no lesson, 2 for wrong usage.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The words behind `rfnb grades`."""
    parser.add_argument("notebook", metavar="NOTEBOOK", nargs="+", type=Path, help="a notebook that was handed in")
    parser.add_argument("--csv", action="store_true", help="one line for each answer, for spreadsheets")


def run(options: argparse.Namespace) -> int:
    """Print the results."""
    lacking = [str(path) for path in options.notebook if not path.is_file()]
    if lacking:
        raise Failed(f"there is no notebook {', '.join(lacking)}.")
    from rfnb.teaching.grades import read_grades

    grades = read_grades(options.notebook)
    print(grades.csv() if options.csv else grades, end="" if options.csv else "\n")
    without = [str(grade.path) for grade in grades.grades if not grade.lesson]
    for path in without:
        print(
            f"rfnb grades: {path} holds nothing of a lesson; it may not be a notebook, or was never run.",
            file=sys.stderr,
        )
    return 1 if without else 0
