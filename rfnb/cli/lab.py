"""`rfnb lab`: JupyterLab on the table of contents of the course."""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
from pathlib import Path

from rfnb.cli import course
from rfnb.cli.command_error import CommandError
from rfnb.teaching.threads import VARIABLES, for_a_kernel

NAME = "lab"
HELP = "open the course in JupyterLab"
ABOUT = """
Open the course in JupyterLab at its table of contents: a tour, and lessons with self-checking exercises.

You work on a copy, in which checks and solutions are sealed: lessons use them, but nobody reads an answer by accident. With
--teacher they are readable, and the pages for teachers are included. Existing files in the folder are never changed, so your answers
survive another run of this command, and an update of rfnb. In a checkout of rfnb without FOLDER, the notebooks of the checkout are
opened, without a copy.
"""
EXAMPLES = """
examples:
  rfnb lab                        copy the course into ./rfnb-course, unless it is there, and open it
  rfnb lab ~/seq2seq              the same in a folder of your own
  rfnb lab ~/seq2seq --copy       only copy it
  rfnb lab --teacher teaching     for teachers: with solutions and docs/teaching/
  rfnb lab --no-browser           for a machine without a screen: open the address that is printed
  rfnb lab -- --port 9999         arguments after -- are passed to JupyterLab

Stop it with Ctrl+C. Exit status: that of JupyterLab; 1 if there is nothing to open, 2 for wrong usage.
"""
FOLDER = Path("rfnb-course")
# Settings for this JupyterLab only: tables of contents are rendered, not edited; widget state is saved; no news is fetched.
SETTINGS = Path(__file__).parent / "jupyter"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rfnb lab`."""
    parser.add_argument(
        "folder", metavar="FOLDER", nargs="?", type=Path, help=f"your working folder (default ./{FOLDER})"
    )
    parser.add_argument("--teacher", action="store_true", help="include readable solutions, and the pages for teachers")
    parser.add_argument("--copy", action="store_true", help="copy the course without opening it")
    parser.add_argument("--no-browser", action="store_true", help="start JupyterLab without opening a page")


def run(options: argparse.Namespace) -> int:
    """Copy missing files, and exec JupyterLab."""
    folder: Path = options.folder or FOLDER
    root = course.checkout()
    if root is None or options.folder or options.copy:
        print(_said(folder, course.copy(folder, teacher=options.teacher)), flush=True)
        root = folder
    if options.copy:
        return 0
    if importlib.util.find_spec("jupyterlab") is None:
        raise CommandError(
            f"JupyterLab is not installed here, so {root / course.CONTENTS} cannot be opened.\n"
            "The notebooks also run in Jupyter Notebook 7, VS Code and Colab. To install JupyterLab:\n    pip install jupyterlab"
        )
    further = [*(["--no-browser"] if options.no_browser else []), *options.further]
    return _become_lab(root, further)


def command(root: Path, further: list[str]) -> list[str]:
    """The command that starts JupyterLab on the course in this folder."""
    # JupyterLab refuses to run as root (a container) without this flag; for other users it is omitted.
    as_root = ["--allow-root"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    # Not as a positional file: the printed URL would then lack it.
    page = [f"--ServerApp.root_dir={root.resolve()}", f"--LabApp.default_url=/lab/tree/{course.CONTENTS}"]
    return [sys.executable, "-m", "jupyterlab", *as_root, *page, *further]


def surroundings() -> dict[str, str]:
    """The environment for JupyterLab: this one, with our settings overridden by the user's."""
    paths = [os.environ.get("JUPYTER_CONFIG_PATH", ""), str(SETTINGS)]
    threads = {} if any(name in os.environ for name in VARIABLES) else {"OMP_NUM_THREADS": str(for_a_kernel())}
    startup = {"PYTHONSTARTUP": str(SETTINGS / "startup.py")}  # unless the user has one
    return {**startup, **os.environ, **threads, "JUPYTER_CONFIG_PATH": os.pathsep.join(path for path in paths if path)}


def _become_lab(root: Path, further: list[str]) -> int:
    words = command(root, further)
    print(
        f"Starting JupyterLab on {root / course.CONTENTS}. If no browser opens, open the address printed below. Stop with Ctrl+C."
    )
    sys.stdout.flush()
    if os.name == "nt":  # exec would return the terminal at once there
        import subprocess

        return subprocess.call(words, env=surroundings())
    os.execve(words[0], words, surroundings())


def _said(folder: Path, copied: course.CopyResult) -> str:
    """A description of what a copy did."""
    if not copied.same and not copied.kept:
        return f"Copied the course into {folder}: {len(copied.new)} files. This is your working copy."
    said = [f"The course is in {folder} already."]
    if copied.new:
        said.append(f"{_files(len(copied.new))} added that {_was(len(copied.new))} missing.")
    if copied.kept:
        said.append(
            f"{_files(len(copied.kept))} kept as you have {'it' if len(copied.kept) == 1 else 'them'}: "
            f"{', '.join(path.as_posix() for path in copied.kept[:3])}{', ...' if len(copied.kept) > 3 else ''}."
        )
        said.append("For a fresh copy, take another folder: rfnb lab OTHER-FOLDER")
    return "\n".join(said)


def _files(count: int) -> str:
    return f"{count} file{'' if count == 1 else 's'} {_was(count)}"


def _was(count: int) -> str:
    return "was" if count == 1 else "were"
