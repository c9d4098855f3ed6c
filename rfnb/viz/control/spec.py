"""The `control` view: the state of a held run, as data and as text, and the commands available.

    rf.show(run)

Its head is the state of the run as plain data: `ctx.run.state` in a page. The widget draws it in `widgets/src/control/`.
"""

from __future__ import annotations

import itertools
import os
import traceback
import weakref
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any

from rfnb.control.branch_tree import runs_of
from rfnb.control.ghosts import forced_in, history_at, lane_of, last_place, once_only, plain_end, result_of, verdict
from rfnb.control.held_step import Length
from rfnb.control.run import Run
from rfnb.control.run_steps import StepPlace
from rfnb.core.strict_json import JsonObject
from rfnb.viz.spec import Spec

_serial = itertools.count(1)
OVER = ("done", "failed", "stopped")


def spec(run: Run, *, beside: Run | None = None, note: str = "", changed: Callable[[], None] = lambda: None) -> Spec:
    """The spec of a run in its current state.

    Args:
        beside: Another run of its tree to compare with.
        note: The limitations of the host, as text.
        changed: Called, in any thread, when its branches change.
    """
    number = next(_serial)  # before anything is read: a higher number is newer
    state = state_of(run)
    at, steps = run._gate.at, run._holder.steps
    tick = at.tick if at is not None else len(steps) - 1
    here = run._holder.places[tick] if tick >= 0 else None
    lengths = run._holder.lengths
    of = None if here is None else lengths.get(here.path)
    runs, more = entries(run.root, [run, *([] if beside is None else [beside])], changed)
    return Spec(
        "control",
        {
            "title": run.name,
            "live": state not in OVER,
            "serial": number,
            "run": run.number,
            "state": state,
            "words": words_of(run, state),
            "counter": counter(here and (here.path, here.step), of),
            "at": here
            and {"path": here.path, "step": here.step, "nth": here.nth, "of": None if of is None else of.steps},
            "changed": [change.words for change in run.changes if at is not None and change.tick == at.tick],
            "steps": len(steps),
            "speed": run.speed,
            "loops": [
                {"path": path, "last": last, "runs": runs, "axis": lengths[path].axis if path in lengths else ""}
                for path, (last, runs) in run.counted.loops().items()
            ],
            "points": [{"number": p.number, "text": p.text, "hits": p.hits} for p in run.breakpoints],
            "runs": runs,
            "beside": beside and beside.number,
            "note": " ".join(filter(None, [note, more])),
        },
    )


_MOST_SEQS = 16
_MOST_RUNS = 200
_MOST_ABOVE = 50  # ancestors of a shown run
_kept: weakref.WeakKeyDictionary[Run, tuple[Any, JsonObject]] = weakref.WeakKeyDictionary()


def entries(root: Run, shown: Iterable[Run], changed: Callable[[], None]) -> tuple[list[JsonObject], str]:
    """Describe each run of a tree for a page; in a very large tree the newest, with a note on where the others are.

    Args:
        shown: Runs that are always described, with their ancestors.
        changed: Called, in any thread, when the description changes.
    """
    runs, note = list(runs_of(root)), ""
    if len(runs) > _MOST_RUNS:
        note = f"The newest {_MOST_RUNS:,} of {len(runs):,} runs are in the rail; `run.tree()` and `run.find(name)` give all."
        wanted = {run.number for run in sorted(runs, key=lambda run: -run.number)[:_MOST_RUNS]}
        for run in (root, *shown):
            above: Run | None = run
            for _ in range(_MOST_ABOVE):
                if above is not None:
                    wanted.add(above.number)
                    above = above.parent
        runs = [run for run in runs if run.number in wanted]
    return [_entry(run, changed) for run in runs], note


def _entry(run: Run, changed: Callable[[], None]) -> JsonObject:
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


def _results(run: Run, state: str, changed: Callable[[], None]) -> JsonObject:
    """The results of a run, sequence by sequence, beside those of its parent; {} before there are any."""
    if state != "done":
        return {}
    base = None if run.parent is None or state_of(run.parent) == "failed" else _plain(run.parent)
    if base is not None:
        base.on_change(changed)  # before it is asked whether it has ended
    key = None if base is None else (base.run.number, base.run.state)
    there = _kept.get(run)
    if there is not None and there[0] == key:
        return there[1]
    if base is not None and base.run._gate.mode != "over":
        return {}
    place = last_place(run) if run.left is None else _where_it_leaves(run, run.left.tick)
    history = history_at(run, place)
    outcome = result_of(run, history)
    before = None if base is None or base.run.state != "done" else base.outcome
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
    except RuntimeError:  # the call would do more than read
        return None
    return plain_end(run)


def _where_it_leaves(run: Run, tick: int) -> StepPlace | None:
    """The step in which a branch diverges from its parent; None if it has not reached it."""
    return run._holder.places[tick] if tick < len(run.steps) else None


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
