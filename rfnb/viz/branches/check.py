"""The faults of the head of a `branches` spec: a saved page of somebody else may hold anything."""

from __future__ import annotations

from typing import Any

_NUMBERS = ("depth", "ticks")


def problem(head: Any) -> str | None:
    """The fault as a sentence; None if it can be drawn. `widgets/src/branches/check.ts` says the same."""
    branches = head.get("branches") if isinstance(head, dict) else None
    if not isinstance(branches, list) or not branches:
        return "These branches cannot be drawn: there is no list of them."
    for index, branch in enumerate(branches):
        fault = _branch(branch, index)
        if fault:
            return f"These branches cannot be drawn: branch {index} {fault}."
    pairs, parts = head.get("pairs"), head.get("parts")
    if not isinstance(pairs, list) or not isinstance(parts, list):
        return "These branches cannot be drawn: there is no list of pairs and parts."
    known = [pair.get("of") if isinstance(pair, dict) else None for pair in pairs]
    chosen = head.get("pair")
    for of in [*known, *([chosen] if chosen is not None else [])]:
        if (
            not isinstance(of, list)
            or len(of) != 2
            or not all(isinstance(n, int) and 0 <= n < len(branches) for n in of)
        ):
            return "These branches cannot be drawn: a pair is not of two of them."
    return None


def _branch(branch: Any, index: int) -> str | None:
    if not isinstance(branch, dict) or not isinstance(branch.get("name"), str):
        return "has no name"
    if not all(isinstance(branch.get(name), int) and branch[name] >= 0 for name in _NUMBERS):
        return "has no number of steps"
    parent, left = branch.get("parent"), branch.get("left")
    if parent is not None and not (isinstance(parent, int) and 0 <= parent < index):
        return "leaves one that is not above it"
    if left is not None and not (isinstance(left, int) and left >= 0):
        return "leaves at no step"
    lists = ("marks", "changes", "outcome")
    return None if all(isinstance(branch.get(name), list) for name in lists) else "has no list of changes"
