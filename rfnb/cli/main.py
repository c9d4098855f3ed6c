"""The command line: arguments, errors in one sentence, exit statuses.

0: success; 1: failure, also partial; 2: wrong usage; 130: stopped by Ctrl+C.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Sequence
from io import TextIOWrapper
from pathlib import Path

from rfnb.cli import doctor, g2p, grades, lab, site, slides, view
from rfnb.cli.command_error import CommandError
from rfnb.cli.doctor import version

COMMANDS = (lab, g2p, view, site, slides, grades, doctor)
ABOUT = "See inside sequence models while they run: a course in notebooks, pronunciations, pages of recordings."
EXAMPLES = """
examples:
  rfnb lab                             open the course in JupyterLab
  rfnb g2p phonetics                   how is a word pronounced?
  rfnb g2p phonetics --view page.html  the same, with the search and the attention as a page
  rfnb view run.rfnb -o page.html      a recording (trace.save) as a page that needs no kernel and no network
  rfnb site -o pages                   course, guides and reference as pages
  rfnb grades submitted/*.ipynb        the results of submitted notebooks
  rfnb doctor                          what is installed, what is missing, what works without it

rfnb COMMAND --help explains each command.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns its exit status.

    Args:
        arguments: The arguments of `rfnb`; default those of this process.
    """
    if arguments is None and isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a pipe on Windows cannot encode ↓ and ▒
    words = list(sys.argv[1:] if arguments is None else arguments)
    cut = words.index("--") if "--" in words else len(words)
    options = parser().parse_args(words[:cut])
    options.further = words[cut + 1 :]
    if options.further and options.command != "lab":
        options.parser.error(f"no arguments are accepted after --, got: {' '.join(options.further)}")
    return _run(options)


def parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    top = argparse.ArgumentParser(
        prog="rfnb", description=ABOUT, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    top.add_argument("--version", action="version", version=f"rfnb {version()}")
    top.add_argument("--traceback", action="store_true", help="after an error, print its traceback")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", dest="command", required=True)
    for command in COMMANDS:
        added = commands.add_parser(
            command.NAME,
            help=command.HELP,
            description=command.ABOUT,
            epilog=command.EXAMPLES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.add_arguments(added)
        added.set_defaults(run=command.run, parser=added)
    return top


def _run(options: argparse.Namespace) -> int:
    try:
        status: int = options.run(options)
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        # The reader of our output has gone, as with `head`. Python would complain again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        if options.traceback:
            traceback.print_exc()
        else:
            print(f"rfnb {options.command}: {_sentence(error)}", file=sys.stderr)
        return 1


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{Path(os.fsdecode(error.filename))}: {error.strerror}."
    if isinstance(error, ModuleNotFoundError) and error.name and error.name.partition(".")[0] != "rfnb":
        missing = error.name.partition(".")[0]
        return f"the package {missing} is not installed.\n`rfnb doctor` lists what is missing, with the lines to type."
    if isinstance(error, (CommandError, OSError, ValueError, ImportError)) and str(error):
        return str(error)
    return f"{type(error).__name__}: {error}\nThis is a bug in rfnb. `rfnb --traceback ...` shows where."
