"""The reference of a search: where and why it was pruned, and its alignment with each hypothesis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rfnb.trace.beam_analysis import verdicts
from rfnb.trace.edits import edits
from rfnb.viz.beams.text import is_mark, tokens_of
from rfnb.viz.beams.tree import BeamTree

_ALIGNED = 20  # hypotheses of the n-best list


def told(history: Any, seq: int, reference: Sequence[Any], tree: BeamTree) -> dict[str, Any]:
    """The fields of a spec about the reference of one sequence.

    Args:
        history: A BeamHistory.
        reference: Its labels, numbers or texts, including the end label.
    """
    numbers = [history.labels_of(None).index(item) if isinstance(item, str) else int(item) for item in reference]
    labels = [history.label(number, min(step, history.num_steps - 1)) for step, number in enumerate(numbers)]
    try:
        found = history.diagnose(seq, reference)
    except ValueError as error:
        return {"labels": labels, "path": [], "text": str(error).splitlines()[0], "aligned": _aligned(tree, labels)}
    last = history.num_steps - 1 if found.step is None else found.step - 1
    one = {"labels": labels, "path": _path(history, seq, numbers, last), "kind": found.kind, "text": found.text}
    if found.step is not None:
        one["fell"] = found.step
        rank = _rank(history, seq, found, numbers, one["path"])
        if rank is not None:
            one["rank"] = rank
    return {**one, "aligned": _aligned(tree, labels)}


def _path(history: Any, seq: int, numbers: Sequence[int], last: int) -> list[list[int]]:
    """(step, slot) of the longest prefix of the reference in the beam after step `last`, until it ends."""
    if last < 0:
        return []
    goal = tuple(numbers)
    slots = range(history.beam_size(last))
    real = [slot for slot in slots if history.steps[last]["scores"][seq, slot] > float("-inf")]
    begins = [
        (len(prefix), slot) for slot in real if (prefix := history.prefix(seq, slot, last)) == goal[: len(prefix)]
    ]
    if not begins:
        return []
    path = history.path(seq, max(begins)[1], last)
    for place, (step, slot) in enumerate(path):
        if history.steps[step]["ended"][seq, slot]:
            return [list(item) for item in path[: place + 1]]
    return [list(item) for item in path]


def _rank(history: Any, seq: int, found: Any, numbers: Sequence[int], path: list[list[int]]) -> int | None:
    """The rank of the reference among the candidates of the step in which it was pruned, from 1; None if it was not stored."""
    if history.blank is not None or found.step >= len(numbers):
        return None
    for item in verdicts(history, seq, found.step):
        if item.token == numbers[found.step] and (not path or item.parent == path[-1][1]):
            return item.rank + 1
    return None


def _aligned(tree: BeamTree, labels: Sequence[str]) -> dict[str, str]:
    """The edits from the reference to each of the first hypotheses: "=" equal, "s" substituted, "i" inserted, "d" deleted."""
    goal = list(labels[:-1] if len(labels) > 1 and is_mark(labels[-1]) else labels)
    return {f"{node.step},{node.slot}": edits(goal, tokens_of(node.path())) for node in tree.nbest[:_ALIGNED]}
