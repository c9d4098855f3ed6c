"""The state of a run as text: the same in a page, in a terminal, and in a saved notebook."""

from __future__ import annotations

import os
import traceback
from pathlib import Path
from types import TracebackType
from typing import Any

from rfnb.control.held_step import Length
from rfnb.control.run import Run

_OURS = str(Path(__file__).parents[2]) + os.sep
_MOST = 300  # characters of an error


def state_of(run: Run) -> str:
    """The state of a run; in addition to those of `run.state`: "pausing" and "stopping", until its current step is done."""
    mode, state = run._gate.mode, run.state
    if state == "running" and mode in ("paused", "stopping"):
        return "pausing" if mode == "paused" else mode
    return state


def words_of(run: Run, state: str) -> str:
    """The state as a sentence, constant over steps so that a screen reader can read it."""
    begun = run._holder.steps
    steps = count(len(begun), "step")
    if state == "paused":
        at, why = run._gate.at, run.reason
        if at is not None:
            return _sentence(f"Paused {at.words()}", why)
        state = "running"
    if state == "failed":
        where = f'in step {begun[-1][1]} of "{begun[-1][0]}"' if begun else "before its first step"
        return _sentence(f"Failed {where}", error_text(run._error, run._traceback))
    return {
        "running": "Running.",
        "pausing": "Pauses after the current step.",
        "stopping": "Stops after the current step.",
        "done": f"Done after {steps}." if begun else "Done, without a step to hold.",
        "stopped": f"Stopped after {count(max(0, len(begun) - 1), 'step')}, without a result.",
    }[state]


def counter(last: tuple[str, int] | None, of: Length | None) -> str:
    """The step counter: "step 3 of 14" of the current loop; steps count from 0, as in code and in all views."""
    if last is None:
        return "no step yet"
    end = "" if of is None or of.steps is None else f" of {of.steps}" if of.exact else f" of at most {of.steps}"
    return f"step {last[1]}{end}"


def error_text(error: BaseException | None, frames: TracebackType | None) -> str:
    """An error in one line: its message, and its location in the user's code."""
    said = "".join(traceback.format_exception_only(error)).strip() if error is not None else ""
    said = said if len(said) <= _MOST else said[: _MOST - 1] + "…"
    summary: Any = traceback.extract_tb(frames)
    own = [frame for frame in summary if not frame.filename.startswith(_OURS) and "site-packages" not in frame.filename]
    where = (own or list(summary))[-1:]
    return said + "".join(f"\nin {frame.name}, line {frame.lineno}: {frame.line or ''}".rstrip(": ") for frame in where)


def count(number: int, word: str) -> str:
    """A count with its noun."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def _sentence(begin: str, why: str) -> str:
    return f"{begin}: {why}" + ("" if why.endswith((".", "!", "?")) or "\n" in why else ".") if why else f"{begin}."
