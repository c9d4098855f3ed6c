"""The tree of branches that a run is in: made of runs as they are now, and names that are unique in it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from rfnb.control.outcome import outcome_of
from rfnb.trace.outcome import best_so_far
from rfnb.trace.trace import Trace
from rfnb.trace.tree import Branch, Tree

if TYPE_CHECKING:
    from rfnb.control.run import Run


def runs_of(root: Run) -> Iterator[Run]:
    """A run and all its branches, each after the one that it is made of."""
    waiting = [root]
    while waiting:
        run = waiting.pop(0)
        yield run
        waiting += run.branches


def tree_of(root: Run) -> Tree:
    """A run and all its branches as they are now."""
    return Tree([_branch(run) for run in runs_of(root)])


def free_name(name: str, taken: Iterable[str]) -> str:
    """The name, with a number if there is one of that name."""
    others = set(taken)
    return next(
        made
        for made in itertools.chain([name], (f"{name} {number}" for number in itertools.count(2)))
        if made not in others
    )


def _branch(run: Run) -> Branch:
    trace = run.trace if run.trace is not None else Trace()
    state, error = run.state, run.error
    if state == "done":
        outcome = outcome_of(run._result, trace)  # `result` says what was not done, to who asks for it
    else:
        outcome = best_so_far(trace)
    reason = f"{type(error).__name__}: {error}".splitlines()[0] if error is not None else run.reason
    parent = None if run.parent is None else run.parent.name
    return Branch(run.name, parent, run.left, tuple(run.steps), tuple(run.changes), state, reason, outcome, trace)
