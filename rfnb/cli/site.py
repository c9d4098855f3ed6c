"""`rfnb site`: the course, the guides and the reference as pages."""

from __future__ import annotations

import argparse
from pathlib import Path

NAME = "site"
HELP = "make pages of the course, the guides and the reference"
ABOUT = """
Make static pages of the whole course, the guides and the API reference, with views that are alive.

Students may have them: what is asked is not answered, and the pages for teachers are left out. With --teacher they are there.

The pages need no kernel, no server and nothing of a network: open index.html, or put the folder on any web server. Notebooks are run
once, with all predictions revealed, and not again until they change. It needs Sphinx: pip install 'rfnb[site]'
"""
EXAMPLES = """
examples:
  rfnb site -o pages                 all of it; the first time that takes as long as the notebooks do
  rfnb site -o mine --teacher        the same with answers
  rfnb site -o pages --live 'https://HUB/v2/gh/OWNER/REPOSITORY/HEAD?labpath={notebook}'
  rfnb site -o pages --quick         run no notebook: what was not run before is shown as it is stored

exit status: 0 if the pages are there, 1 if a notebook fails or a link leads nowhere, 2 for wrong usage.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rfnb site`."""
    parser.add_argument(
        "-o", "--output", metavar="FOLDER", type=Path, default=Path("site"), help="where the pages go (default ./site)"
    )
    parser.add_argument("--teacher", action="store_true", help="with answers, and with the pages for teachers")
    parser.add_argument("--quick", action="store_true", help="run no notebook")
    parser.add_argument(
        "--live",
        metavar="ADDRESS",
        default="",
        help="a link on each lesson to run it, as on Binder; {notebook} is its path",
    )


def run(options: argparse.Namespace) -> int:
    """Build the pages."""
    from rfnb.site.build import build
    from rfnb.site.notebook_runs import is_kept

    first = build(options.output, run=is_kept if options.quick else None, teacher=options.teacher, live=options.live)
    print(f"Open {first} in a browser.")
    return 0
