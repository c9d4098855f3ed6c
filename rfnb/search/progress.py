"""The progress of a search: passed to a user function after each step, or drawn as a bar on the terminal."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass

_WIDTH = 20


@dataclass(frozen=True)
class SearchProgress:
    """The progress after a step.

    Attributes:
        step, max_steps: Number of steps done, and their limit.
        finished: For each sequence, the number of complete hypotheses.
        decided: The number of sequences whose result is certain.
        best: The best text of each sequence so far.
    """

    step: int
    max_steps: int
    finished: tuple[int, ...]
    decided: int
    best: tuple[str, ...]

    def __str__(self) -> str:
        done = round(_WIDTH * self.step / max(self.max_steps, 1))
        return (
            f"[{'#' * done}{'.' * (_WIDTH - done)}] step {self.step}/{self.max_steps}, decided {self.decided}/{len(self.best)}: "
            f"{self.best[0] if self.best else ''}"
        )


class Bar:
    """Draws the progress on stderr: one line that is overwritten, or, in a file, a line after each tenth of the steps."""

    def __init__(self) -> None:
        self._tenths, self._length = -1, 0
        # The stream of a notebook is no terminal, but goes back to the begin of a line as one does.
        self._writes_over = sys.stderr.isatty() or type(sys.stderr).__module__.startswith("ipykernel")

    def __call__(self, progress: SearchProgress) -> None:
        """Draw it."""
        if self._writes_over:
            text = str(progress)[: shutil.get_terminal_size().columns - 1]
            print(f"\r{text:<{self._length}}", end="", file=sys.stderr, flush=True)
            self._length = len(text)
            return
        tenths = 10 * progress.step // max(progress.max_steps, 1)
        if tenths > self._tenths:
            self._tenths = tenths
            print(progress, file=sys.stderr, flush=True)

    def close(self) -> None:
        """End the bar; the search is done or has failed."""
        if self._writes_over and self._length:
            print(file=sys.stderr)
