"""`rfnb view`: a recording as a page, or as text."""

from __future__ import annotations

import argparse
import contextvars
import sys
from pathlib import Path
from typing import Any

from rfnb.backends.registry import select_backend_numpy
from rfnb.trace.file import load_trace
from rfnb.trace.trace import Trace

NAME = "view"
HELP = "show a recording as a page or as text"
ABOUT = """
Show a recording written by trace.save: attention, beams, states, a training, branches of a held run.

The page is one interactive file, which works without Python, kernel and network, and can be mailed. In Python,
`with rf.record() as trace: ...` and `trace.save("run.rfnb")` write a recording, and `rf.load_trace` reads it.
"""
EXAMPLES = """
examples:
  rfnb view run.rfnb                          as text, here in the terminal
  rfnb view run.rfnb -o page.html             as a page
  rfnb view run.rfnb -o page.html --title "Epoch 12"

exit status: 0 on success, 1 if the file is damaged or of another kind, 2 for wrong usage.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rfnb view`."""
    parser.add_argument("file", metavar="FILE", type=Path, help="a recording, written by trace.save")
    parser.add_argument(
        "-o", "--output", metavar="PAGE", type=Path, help="the page to write; an existing one is replaced"
    )
    parser.add_argument("--text", action="store_true", help="also print it as text (the default without -o)")
    parser.add_argument("--title", metavar="TEXT", help="the title of the page (default: the name of the file)")


def run(options: argparse.Namespace) -> int:
    """Show the file."""
    if options.title is not None and options.output is None:
        options.parser.error("--title needs a page: add -o PAGE")
    if options.output is not None and options.output.exists() and options.file.exists():
        if options.output.samefile(options.file):
            options.parser.error(f"the page would replace the recording: {options.file}")
    # NumPy, and only here: nothing is computed, and importing torch would take longer than everything else.
    contextvars.copy_context().run(_show, options)
    return 0


def _show(options: argparse.Namespace) -> None:
    select_backend_numpy()
    from rfnb.viz.save import save_html
    from rfnb.viz.show import view_of

    views = [view_of(value) for value in _parts(load_trace(options.file))]
    if options.output is None or options.text:
        print("\n\n".join(view.text() for view in views))
    if options.output is not None:
        save_html(options.output, views, title=options.title or options.file.name)
        print(f"rfnb view: wrote {options.output}. Open it in a browser.", file=sys.stderr)


def _parts(trace: Trace) -> list[Any]:
    """The contents of a file: a training, the branches of a run, or one run."""
    first = [part for part in (trace.training, trace.tree) if part is not None]
    return first if first and not trace.events else [*first, trace]
