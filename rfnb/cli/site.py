"""`rfnb site`: the course, the guides and the reference as pages."""

from __future__ import annotations

import argparse
from pathlib import Path

NAME = "site"
HELP = "make pages of the course, the guides and the reference"
ABOUT = """
Build static pages of the whole course, the guides and the API reference, with interactive views.

The pages are safe for students: answers to exercises and the pages for teachers are left out. --teacher includes them.

The pages need no kernel, no server and no network: open index.html, or put the folder on any web server. Each notebook is run
once, with all predictions revealed, and again only after a change. This needs Sphinx: pip install 'rfnb[site]'
"""
EXAMPLES = """
examples:
  rfnb site -o pages                 the whole site; the first build takes as long as running the notebooks
  rfnb site -o mine --teacher        the same with answers
  rfnb site -o pages --live 'https://HUB/v2/gh/OWNER/REPOSITORY/HEAD?labpath={notebook}'
  rfnb site -o pages --quick         run no notebook: those without an earlier run are shown as stored

exit status: 0 on success, 1 if a notebook fails or a link is broken, 2 for wrong usage.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rfnb site`."""
    parser.add_argument(
        "-o", "--output", metavar="FOLDER", type=Path, default=Path("site"), help="the output folder (default ./site)"
    )
    parser.add_argument("--teacher", action="store_true", help="include answers, and the pages for teachers")
    parser.add_argument("--quick", action="store_true", help="do not run notebooks")
    parser.add_argument(
        "--live",
        metavar="ADDRESS",
        default="",
        help="link each lesson to a host that runs it, such as Binder; {notebook} is its path",
    )


def run(options: argparse.Namespace) -> int:
    """Build the pages."""
    from rfnb.site.build import build
    from rfnb.site.notebook_runs import is_kept

    first = build(options.output, run=is_kept if options.quick else None, teacher=options.teacher, live=options.live)
    print(f"Open {first} in a browser.")
    return 0
