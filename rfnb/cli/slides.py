"""`rfnb slides`: a notebook as slides."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rfnb.cli.command_error import CommandError

NAME = "slides"
HELP = "make slides of a notebook"
ABOUT = """
Make slides of a notebook: one offline page with interactive views, controlled by keys and mouse, printed with one slide per page.

The notebook is run, unless an unchanged version was run before. Each heading and each picture starts a slide. Checks and solutions
are left out; the answer to a prediction is behind a button. For a page of theory, each slide has one formula, picture, table or
list, with its prose as notes (N shows them); its lesson is run to make its pictures.
"""
EXAMPLES = """
examples:
  rfnb slides notebooks/07_search.ipynb                      writes 07_search.slides.html
  rfnb slides notebooks/07_search.ipynb -o search.html
  rfnb slides docs/theory/07_search.md -o board.html         for the board

exit status: 0 on success, 1 if the notebook fails, 2 for wrong usage.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rfnb slides`."""
    parser.add_argument(
        "notebook", metavar="NOTEBOOK", type=Path, help="a notebook of the course or any other, or a page of theory"
    )
    parser.add_argument(
        "-o", "--output", metavar="PAGE", type=Path, help="the page to write (default: NAME.slides.html here)"
    )


def run(options: argparse.Namespace) -> int:
    """Make the slides."""
    if not options.notebook.is_file():
        raise CommandError(f"there is no notebook {options.notebook}.")
    from rfnb.site.slides import slides

    page = slides(options.notebook, options.output or Path(options.notebook.with_suffix(".slides.html").name))
    print(f"rfnb slides: wrote {page}. Open it in a browser.", file=sys.stderr)
    return 0
