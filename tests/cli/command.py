"""Runs the command `rfnb` as a shell does: a process of its own, in a folder of its own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from waiting import LONG
from warm import warm

ROOT = Path(__file__).parents[2]


def rfnb(
    *words: object, cwd: Path, stdin: str = "", hidden: tuple[str, ...] = (), **env: str
) -> subprocess.CompletedProcess[str]:
    """The output of `rfnb WORD...`, and its exit status.

    Args:
        hidden: Packages that this process does not find, as if they were not installed.
        env: Further variables.
    """
    surroundings = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
        "PYTHONUTF8": "1",
        "COLUMNS": "100",
        **env,
    }
    start = [*warm(), "-m", "rfnb"]
    if hidden:
        start = [
            *warm(),
            "-c",
            f"{hiding(*hidden)}\nimport sys\nfrom rfnb.cli.main import main\nsys.exit(main())",
        ]
    return subprocess.run(
        [*start, *map(str, words)], cwd=cwd, env=surroundings, input=stdin, capture_output=True, text=True, timeout=LONG
    )


def hiding(*packages: str) -> str:
    """Python lines after which these packages are not found."""
    return f"""
import sys
class _Without:
    def __init__(self, finder):
        self.finder = finder
    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in {packages!r} else self.finder.find_spec(name, path, target)
    def find_distributions(self, context):
        found = getattr(self.finder, "find_distributions", lambda context: ())
        return () if context.name in {packages!r} else found(context)
sys.meta_path[:] = [_Without(finder) for finder in sys.meta_path]
"""
