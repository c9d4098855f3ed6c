"""`python -m rfnb.site -o FOLDER`, and `python -m rfnb.site slides NOTEBOOK -o FILE`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rfnb.site.build import build
from rfnb.site.notebook_runs import is_kept
from rfnb.site.slides import slides


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code for the shell."""
    parser = argparse.ArgumentParser(prog="python -m rfnb.site", description=__doc__)
    parser.add_argument("what", nargs="*", help="nothing: the whole site; `slides NOTEBOOK`: the slides of a notebook")
    parser.add_argument("-o", "--output", type=Path, help="folder of the site (default: site), or file of the slides")
    parser.add_argument(
        "--quick", action="store_true", help="run no notebook: those whose run is not kept are shown as they are stored"
    )
    parser.add_argument("--teacher", action="store_true", help="include answers, and the pages for teachers")
    parser.add_argument("--live", default="", help="address at which a notebook can be run; {notebook} is its path")
    given = parser.parse_args(arguments)
    if given.what and (given.what[0] != "slides" or len(given.what) != 2):
        parser.error(f"not understood: {' '.join(given.what)}")
    try:
        if given.what:
            notebook = Path(given.what[1])
            print(slides(notebook, given.output or notebook.with_suffix(".slides.html").name))
        else:
            print(
                build(
                    given.output or "site", run=is_kept if given.quick else None, teacher=given.teacher, live=given.live
                )
            )
    except (
        OSError,
        ImportError,
        RuntimeError,
        ValueError,
    ) as error:  #
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
