"""The tree of branches around a run: a snapshot of the runs, with unique names and the outcome of each."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Container, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rfnb.core.tensor import Tensor
from rfnb.core.tensor_text import shape_of
from rfnb.core.tree import leaves
from rfnb.trace.beams import BeamHistory
from rfnb.trace.event import keep
from rfnb.trace.run_tree import Branch, Outcome, Tree, best_of, best_so_far
from rfnb.trace.trace import Trace

if TYPE_CHECKING:
    from rfnb.control.run import Run


def runs_of(root: Run) -> Iterator[Run]:
    """A run and all its branches, each after its parent."""
    waiting = deque([root])
    while waiting:
        run = waiting.popleft()
        yield run
        waiting += run.branches


def tree_of(root: Run) -> Tree:
    """A snapshot of a run and all its branches."""
    return Tree([_branch(run) for run in runs_of(root)])


def free_name(name: str, taken: Container[str]) -> str:
    """The name, with a number appended if it is taken."""
    numbered = (f"{name} {number}" for number in itertools.count(2))
    return next(made for made in itertools.chain([name], numbered) if made not in taken)


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


_LONGEST = 500  # letters of a text


def outcome_of(result: Any, trace: Trace) -> Outcome:
    """The outcome of a finished run; its labels come from the last search if it returns none."""
    history = result if isinstance(result, BeamHistory) else getattr(result, "history", None)
    seqs = () if isinstance(history, BeamHistory) else _labels(result)
    scores: tuple[float | None, ...] = ()
    if not seqs:
        best = best_of(history) if isinstance(history, BeamHistory) else best_so_far(trace)
        seqs, scores = best.seqs, best.scores
    return Outcome(_text(result), seqs, scores, _values(result))


def _labels(result: Any) -> tuple[tuple[str, ...], ...]:
    """The labels that a function returns as such: a string, a list of strings, or a list of lists."""
    if isinstance(result, str):
        return (_words(result),)
    if isinstance(result, (list, tuple)) and result:
        if all(isinstance(item, str) for item in result):
            return (tuple(result),)
        if all(isinstance(item, (list, tuple)) and all(isinstance(one, str) for one in item) for item in result):
            return tuple(map(tuple, result))
    return ()


def _words(text: str) -> tuple[str, ...]:
    words = tuple(text.split())
    return words if len(words) > 1 else tuple(text)


def _values(result: Any) -> Mapping[str, Tensor]:
    if isinstance(result, Tensor):
        return {"result": keep(result)}
    if isinstance(result, Mapping) and not all(isinstance(key, str) for key in result):
        return {}
    if not isinstance(result, (Mapping, list, tuple)):
        return {}
    try:
        return {path: keep(leaf) for path, leaf in leaves(result, "result") if isinstance(leaf, Tensor)}
    except RecursionError:  # a list in itself
        return {}


def _text(result: Any) -> str:
    if result is None:
        return ""
    if isinstance(result, Tensor):
        return f"{shape_of(result)} {result.dtype}"
    if isinstance(result, (list, tuple)) and result and all(isinstance(item, Tensor) for item in result):
        return ", ".join(map(_text, result))[:_LONGEST]
    try:
        return (result if isinstance(result, str) else repr(result))[:_LONGEST]
    except Exception as error:  # a result of somebody else
        return f"{type(result).__name__}, whose repr fails: {type(error).__name__}"
