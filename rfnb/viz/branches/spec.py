"""The `branches` view: the runs of a tree, and any two of them side by side.

    rf.show(run.tree())                     # all of them; the newest beside its parent
    rf.show(rf.compare_runs(run, branch))        # these two first

The spec has all runs, and as many pairs as a page has room for. A pair has notes, results with their edits, and views:
both searches in one; A, B and A - B for attention and states. The widget draws the same spec in
`widgets/src/branches/`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

from rfnb.control.run import Run
from rfnb.core.errors import type_error, value_error
from rfnb.core.strict_json import JsonObject
from rfnb.core.whole_number import whole
from rfnb.trace.compare_runs import Comparison
from rfnb.trace.compare_text import columns, folded, said
from rfnb.trace.run_tree import Branch, Outcome, Tree, changes_words, outcome_words, story
from rfnb.viz.branches.sides import missing, of_both, sides_of
from rfnb.viz.group.spec import join
from rfnb.viz.spec import Spec

MOST_PAIRS = 6  # enough for all pairs of four runs
_MANY = 4000  # events of two recordings: beyond, comparing values takes seconds, and is done only for the first pair
_MOST_SEQS, _MOST_COLUMNS, _MOST_TICKS = 16, 200, 400


def spec(value: Any, *, title: str | None = None, pairs: int = MOST_PAIRS) -> Spec:
    """The spec of a tree of branches, or of two runs.

    Args:
        value: A `Tree` or a `Comparison`.
        pairs: Maximal number of pairs that are available without a kernel.

    Raises:
        TypeError: If it is something else.
        ValueError: If `pairs` is not a valid number.
    """
    if (whole(pairs) or 0) < 1:
        raise value_error(
            "branches: this is no number of pairs.",
            {"pairs": repr(pairs)},
            "One pair or more can be looked at without a kernel.",
            f"rf.viz.branches(tree, pairs={MOST_PAIRS})",
        )
    chosen: tuple[str, str] | None
    if isinstance(value, Comparison):
        rows, chosen = _in_rows(value.branches), (value.a.name, value.b.name)
    elif isinstance(value, Tree):
        rows, chosen = value.rows(), _newest(value)
    else:
        raise type_error(
            "branches: this is no tree of branches.",
            {"given": type(value).__name__},
            "A tree is that of a run, a comparison that of two.",
            "rf.viz.branches(run.tree())",
        )
    branches = [branch for _, branch in rows]
    numbers = {branch.name: index for index, branch in enumerate(branches)}
    first = (numbers[chosen[0]], numbers[chosen[1]]) if chosen else None
    live = any(branch.state in ("running", "paused") for branch in branches)
    head: JsonObject = {
        "title": title or _title(branches),
        "live": False,
        "branches": [_entry(branch, depth, numbers) for depth, branch in rows],
        "pair": list(first) if first else None,
        "pairs": [],
    }
    if live:
        head["remark"] = "As it was when this was made: some of these runs are not over."
    sides, link = cache(lambda index: sides_of(branches[index].trace)), "branches " + "|".join(numbers)[:200]
    parts: list[Spec] = []
    for i, j in _pairs(branches, numbers, first, pairs):
        is_first = isinstance(value, Comparison) and (i, j) == first
        comparison = value if is_first else Comparison(branches[i], branches[j], branches)
        values = (i, j) == first or len(branches[i].trace) + len(branches[j].trace) <= _MANY
        head["pairs"].append(_pair(comparison, i, j, sides, values=values))
        both = of_both(sides(i), sides(j), [branches[i].name, branches[j].name])
        parts += [_with(part, link=link, pair=[i, j]) for part in both]
    for index in sorted({index for pair in head["pairs"] for index in pair["of"]}):
        parts += [_with(part, link=link, side=index) for part in sides(index) if part.kind != "beams"]
    return join(head, parts, kind="branches")


def beside_each_other(a: Run, b: Run) -> Spec:
    """The views of two runs of one tree combined: a tree of both searches, maps and strips A - B."""
    tree = a.tree()
    one, other = (sides_of(tree[run.name].trace) for run in (a, b))
    head: JsonObject = {"title": "", "live": False, "link": f"{a.name} | {b.name}", "batch": ""}
    return join(head, of_both(one, other, [a.name, b.name]))


def _with(part: Spec, **more: Any) -> Spec:
    """A part with more fields in its head."""
    return Spec(part.kind, {**part.head, **more}, part.blocks)


def _in_rows(branches: Sequence[Branch]) -> list[tuple[int, Branch]]:
    if sum(branch.parent is None for branch in branches) == 1:
        return Tree(branches).rows()
    return [(0, branch) for branch in branches]


def _newest(tree: Tree) -> tuple[str, str] | None:
    last = list(tree.values())[-1]
    return None if last.parent is None else (last.parent, last.name)


def _title(branches: Sequence[Branch]) -> str:
    if len(branches) == 1:
        return f"Run: {branches[0].name}"
    if sum(branch.parent is None for branch in branches) > 1:
        return "Runs: " + " and ".join(branch.name for branch in branches)
    more = len(branches) - 1
    return f"Branches: {branches[0].name} and {more} branch{'es' * (more > 1)}"


def _entry(branch: Branch, depth: int, numbers: dict[str, int]) -> JsonObject:
    left = branch.left
    return {
        "name": branch.name,
        "depth": depth,
        "parent": None if branch.parent is None else numbers[branch.parent],
        "left": None if left is None else left.tick,
        "ticks": len(branch.steps),
        "marks": sorted({change.tick for change in branch.own_changes})[:_MOST_TICKS],
        "state": branch.state,
        "story": story(branch),
        "changes": changes_words(branch),
        "outcome": outcome_words(branch.outcome),
        "score": _score(branch.outcome),
    }


def _score(outcome: Outcome) -> float | None:
    """The sum of the scores of all sequences, if known."""
    known = [score for score in outcome.scores if score is not None]
    return round(sum(known), 5) if known and len(known) == len(outcome.scores) else None


def _pairs(
    branches: Sequence[Branch], numbers: dict[str, int], first: tuple[int, int] | None, most: int
) -> Iterator[tuple[int, int]]:
    """The pairs to include: the chosen one in its order, each branch with its parent, then neighbours."""
    wanted = [first] if first else []
    wanted += [(numbers[branch.parent], index) for index, branch in enumerate(branches) if branch.parent is not None]
    wanted += [(i, i + gap) for gap in range(1, len(branches)) for i in range(len(branches) - gap)]
    done: dict[frozenset[int], tuple[int, int]] = {}
    for pair in wanted:
        if len(done) < most:
            done.setdefault(frozenset(pair), pair)
    yield from done.values()


def _pair(comparison: Comparison, i: int, j: int, sides: Callable[[int], list[Spec]], *, values: bool) -> JsonObject:
    results = []
    for result in comparison.results[:_MOST_SEQS]:
        entry: JsonObject = {"label": f"sequence {result.seq}", "same": result.same, "scores": list(result.scores)}
        if result.a is not None and result.b is not None and result.edits is not None:
            cells = folded(columns(result.a, result.b, result.edits))
            entry["counts"] = {letter: result.edits.count(letter) for letter in "sid" if letter in result.edits}
            entry["columns"] = [list(cell) for cell in cells[:_MOST_COLUMNS]]
            entry["more"] = max(0, len(cells) - _MOST_COLUMNS)
        else:
            entry["counts"], entry["columns"], entry["more"] = None, [], max(len(result.a or ()), len(result.b or ()))
            if result.a is None or result.b is None:
                entry["only"] = "A" if result.b is None else "B"
        results.append(entry)
    lines = [*said(comparison, values=values), *missing(sides(i), sides(j))]
    return {"of": [i, j], "said": lines, "results": results, "rest": max(0, len(comparison.results) - _MOST_SEQS)}
