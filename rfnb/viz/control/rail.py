"""The rail: the branches of a run as lines over steps, each with its change, and what has come of it."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from rfnb.control.branch_tree import runs_of
from rfnb.control.ghosts import forced_in, history_at, lane_of, once_only, plain, result_of, verdict
from rfnb.control.run import Run
from rfnb.control.run_steps import StepPlace
from rfnb.viz.control.words import state_of

_MOST_SEQS = 16
_kept: weakref.WeakKeyDictionary[Run, tuple[Any, dict[str, Any]]] = weakref.WeakKeyDictionary()


def entries(root: Run, changed: Callable[[], None] = lambda: None) -> list[dict[str, Any]]:
    """Describe each run of a tree for a page.

    Args:
        changed: Called, in any thread, when there is more to tell than now.
    """
    return [_entry(run, changed) for run in runs_of(root)]


def _entry(run: Run, changed: Callable[[], None]) -> dict[str, Any]:
    parent, at = run.parent, run.left
    state = state_of(run)
    entry = {"number": run.number, "name": run.name, "from": "", "state": state, "steps": len(run.steps)}
    if parent is not None and at is not None:
        entry |= {
            "from": f'from step {at.step} of "{at.path}" of {parent.name}',
            "parent": parent.number,
            "step": at.step,
            "tick": at.tick,
            "moves": bool(run.then),
        }
    return entry | _results(run, state, changed)


def _results(run: Run, state: str, changed: Callable[[], None]) -> dict[str, Any]:
    """Give the results of a run, sequence by sequence, beside those of its parent; {}: there are none yet."""
    if state != "done":
        return {}
    base = None if run.parent is None or state_of(run.parent) == "failed" else _plain(run.parent)
    key = None if base is None else (id(base), base.run.state)
    there = _kept.get(run)
    if there is not None and there[0] == key:
        return there[1]
    if base is not None and base.run.state not in ("done", "failed", "stopped"):
        base.on_change(changed)
        return {}
    place = _place(run)
    path, nth = (place.path, place.nth) if place is not None else ("", 0)
    outcome = result_of(run, path, nth)
    before = None if base is None or base.run.state != "done" else base.outcome
    history = history_at(run, path, nth)
    results, lanes = [], []
    for seq in range(min(max(len(outcome.seqs), 1), _MOST_SEQS)):
        lane = None
        if history is not None and place is not None and run.left is not None:
            lane = lane_of(history, seq, place.step, forced_in(run.then))
        lanes.append(None if lane is None else lane._asdict())
        told = verdict(run.name, before or outcome, outcome, seq, lane)
        results.append(told if before is not None else {**told, "difference": None, "same": False, "words": ""})
    made = {"text": "" if outcome.seqs else outcome.text[:200], "results": results} | (
        {"lanes": lanes} if any(lanes) else {}
    )
    _kept[run] = key, made
    return made


def _plain(run: Run) -> Any:
    try:
        once_only(run)
    except RuntimeError:  # it would do more than to tell
        return None
    return plain(run)


def _place(run: Run) -> StepPlace | None:
    """Find the step where a branch leaves, else the last one."""
    if run.left is not None:
        return run._holder.places[run.left.tick] if run.left.tick < len(run.steps) else None
    return run._holder.places[len(run.steps) - 1] if run.steps else None
