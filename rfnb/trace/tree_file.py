"""A tree of branches in the description of a trace file, and back."""

from __future__ import annotations

from typing import Any

from rfnb.trace.file_values import Reader, Writer, of_type
from rfnb.trace.run_tree import AppliedChange, Branch, BranchPoint, Outcome, Tree
from rfnb.trace.trace import Trace

_STATES = ("running", "paused", "done", "failed", "stopped", "recorded")


def written(tree: Tree, own: str, writer: Writer, described: Any) -> dict[str, Any]:
    """The tree as JSON.

    Args:
        own: Name of the branch whose trace the file represents.
        described: Returns the JSON of a trace.
    """
    branches = []
    for branch in tree.values():
        outcome, where = branch.outcome, f"the result of {branch.name}"
        branches.append(
            {
                "name": branch.name,
                "parent": branch.parent,
                "left": None if branch.left is None else list(branch.left),
                "steps": _paths(branch),
                "changes": [list(change) for change in branch.changes],
                "state": branch.state,
                "reason": branch.reason,
                "text": outcome.text,
                "seqs": [list(labels) for labels in outcome.seqs],
                "scores": writer.value(list(outcome.scores), where),
                "values": {name: writer.value(value, where) for name, value in outcome.values.items()},
                "trace": None if branch.name == own else described(branch.trace),
            }
        )
    return {"own": own, "branches": branches}


def _paths(branch: Branch) -> dict[str, Any]:
    """All steps: each path once, and for each step the number of its path."""
    paths = list(dict.fromkeys(path for path, _ in branch.steps))
    numbers = {path: number for number, path in enumerate(paths)}
    return {"paths": paths, "of": [numbers[path] for path, _ in branch.steps], "at": [step for _, step in branch.steps]}


def read(given: Any, own: Trace, reader: Reader, made: Any) -> Tree:
    """The tree that `written` has described.

    Args:
        own: The trace of the file.
        made: Makes a trace from its JSON.
    """
    branches = []
    for item in given["branches"]:
        paths = [of_type(path, str) for path in item["steps"]["paths"]]
        steps = tuple(
            (paths[of_type(number, int)], of_type(step, int))
            for number, step in zip(item["steps"]["of"], item["steps"]["at"], strict=True)
        )
        left = None if item["left"] is None else BranchPoint(*_place(item["left"]))
        changes = tuple(AppliedChange(*_place(change[:3]), of_type(change[3], str)) for change in item["changes"])
        outcome = Outcome(
            of_type(item["text"], str),
            tuple(tuple(of_type(label, str) for label in labels) for labels in item["seqs"]),
            tuple(None if score is None else float(score) for score in reader.value(item["scores"])),
            {of_type(name, str): reader.value(value) for name, value in item["values"].items()},
        )
        if item["state"] not in _STATES:
            raise ValueError(f"{item['state']!r:.50} is no state of a run")
        trace = own if item["trace"] is None else made(item["trace"])
        name, parent = of_type(item["name"], str), of_type(item["parent"], str, type(None))
        reason = of_type(item["reason"], str)
        branches.append(Branch(name, parent, left, steps, changes, item["state"], reason, outcome, trace))
    tree = Tree(branches)
    if tree[of_type(given["own"], str)].trace is not own:
        raise ValueError("the trace of the file is that of no branch")
    return tree


def _place(given: Any) -> tuple[int, str, int]:
    tick, path, step = given
    return of_type(tick, int), of_type(path, str), of_type(step, int)
