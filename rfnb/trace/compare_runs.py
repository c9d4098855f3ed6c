"""compare_runs: two runs of a tree side by side: where they part, the first value that differs, both results with their edits.

c = rf.compare_runs(run, branch)        # or two branches of a loaded tree, or two traces
print(c)                           # as text
rf.show(c)                         # the tree, both beams with their trunk, states and attention of both and their difference
c.diff                             # all numbers: rf.diff of both recordings
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from rfnb.core.errors import type_error, value_error
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_text import shape_of
from rfnb.trace.diff import Diff, diff
from rfnb.trace.diff_dims import Planner, Sides, batch_dims, placed
from rfnb.trace.diff_numbers import Tolerance, compare
from rfnb.trace.diff_text import number, sentence
from rfnb.trace.edits import aligned
from rfnb.trace.run_tree import Branch, BranchPoint, Tree, best_so_far
from rfnb.trace.trace import Trace


@dataclass(frozen=True)
class SequenceResults:
    """The results of both runs for a sequence.

    Attributes:
        seq: Index of the sequence.
        a, b: The labels; None if there is no such sequence.
        scores: Natural-log probabilities, where known.
        edits: Edits from a to b: "=" equal, "s" substituted, "i" inserted in b, "d" deleted; None if the results are too long to
            align.
    """

    seq: int
    a: tuple[str, ...] | None
    b: tuple[str, ...] | None
    scores: tuple[float | None, float | None]
    edits: str | None

    @property
    def same(self) -> bool:
        """True if the labels are equal."""
        return self.a == self.b


class Comparison:
    """Two runs side by side; made by `rf.compare_runs`.

    Attributes:
        a, b: The branches.
        branches: All branches of the tree if both are in one tree, else these two.
    """

    def __init__(self, a: Branch, b: Branch, branches: Sequence[Branch]):
        self.a, self.b, self.branches = a, b, tuple(branches)

    @cached_property
    def parted(self) -> BranchPoint | None:
        """The step before which one of the runs left the other, or a common ancestor; None if they are from different trees."""
        known = {branch.name: branch for branch in self.branches}

        def line(branch: Branch) -> list[tuple[str, BranchPoint | None]]:
            found: list[tuple[str, BranchPoint | None]] = [(branch.name, None)]
            while branch.parent is not None and branch.left is not None:
                found.append((branch.parent, branch.left))
                branch = known[branch.parent]
            return found

        of_b = dict(line(self.b))
        for name, left in line(self.a):
            if name in of_b:
                places = [place for place in (left, of_b[name]) if place is not None]
                return min(places, default=None)
        return None

    @cached_property
    def diff(self) -> Diff:
        """All numbers of both recordings: `rf.diff`.

        Raises:
            ValueError: If they have nothing in common.
        """
        return diff(self.a.trace, self.b.trace, names=("A", "B"))

    @property
    def differs(self) -> bool:
        """True if a recorded value differs."""
        try:
            return self.diff.first is not None
        except ValueError:  # nothing in common
            return False

    @cached_property
    def first(self) -> str:
        """A sentence on the first value that differs, or that none does; "" if nothing was recorded."""
        if not len(self.a.trace) and not len(self.b.trace):
            return ""
        try:
            return sentence(self.diff)
        except ValueError as error:
            return str(error).splitlines()[0].removeprefix("diff: ").rstrip(".")

    @cached_property
    def results(self) -> list[SequenceResults]:
        """The labels of both, sequence by sequence."""
        one, other = self.a.outcome, self.b.outcome
        found = []
        for seq in range(max(len(one.seqs), len(other.seqs))):
            a, b = (side.seqs[seq] if seq < len(side.seqs) else None for side in (one, other))
            scores = tuple(side.scores[seq] if seq < len(side.scores) else None for side in (one, other))
            found.append(
                SequenceResults(seq, a, b, (scores[0], scores[1]), None if a is None or b is None else aligned(a, b))
            )
        return found

    @cached_property
    def values(self) -> list[tuple[str, str]]:
        """The Tensors of the results: pairs of name and a description of the difference; "" if all cells are bit-identical."""
        one, other = self.a.outcome.values, self.b.outcome.values
        return [(name, _apart(one.get(name), other.get(name))) for name in dict.fromkeys([*one, *other])]

    def __str__(self) -> str:
        from rfnb.trace.compare_text import text_of  # needs Comparison

        return text_of(self)

    def __repr__(self) -> str:
        return f"<Comparison: {self.a.name} and {self.b.name}>"


def compare_runs(run_a: Any, run_b: Any) -> Comparison:
    """Compare two runs: where they part, the first value that differs, and both results with their edits.

    Args:
        run_a, run_b: Runs of `rf.run`, branches of a tree (`tree["what if"]`), or recordings.

    Returns:
        A `Comparison`: `print` describes it, `rf.show` draws it.

    Raises:
        TypeError: For anything else.
        ValueError: If both are the same run.
    """
    (a, tree_a), (b, tree_b) = _branch_of(run_a, "run_a", "a"), _branch_of(run_b, "run_b", "b")
    root = getattr(run_a, "root", None)
    one = tree_a is tree_b or (root is not None and root is getattr(run_b, "root", None))
    if tree_a is not None and tree_b is not None and one and a.name != b.name:
        return Comparison(tree_b[a.name], tree_b[b.name], list(tree_b.values()))
    if run_a is run_b or a.trace is b.trace:
        raise value_error(
            "compare_runs: both are the same run.",
            {"run_a": a.name, "run_b": b.name},
            "A run is compared with another one, as with a branch of it:",
            "rf.compare_runs(run, run.branches[0])",
        )
    a, b = (replace(branch, parent=None, left=None) for branch in (a, b))
    if a.name == b.name:
        b = replace(b, name=f"{b.name} 2")
    return Comparison(a, b, [a, b])


def _branch_of(value: Any, which: str, name: str) -> tuple[Branch, Tree | None]:
    if isinstance(value, Branch):
        return value, value.tree
    if isinstance(value, Trace):
        if value.tree is not None:
            return next(branch for branch in value.tree.values() if branch.trace is value), value.tree
        return Branch(name, state="recorded", outcome=best_so_far(value), trace=value), None
    tree = getattr(value, "tree", None)
    if callable(tree) and isinstance(getattr(value, "name", None), str):
        made = tree()
        return made[value.name], made
    raise type_error(
        f"compare_runs: {which} is no run.",
        {which: type(value).__name__},
        "Runs, branches of a tree and recordings are compared.",
        "rf.compare_runs(run, run.branches[0])",
    )


def _apart(a: Tensor | None, b: Tensor | None) -> str:
    if a is None or b is None:
        return "only in " + ("A" if b is None else "B")
    plan = Planner(Sides((None, None), (batch_dims([a]), batch_dims([b])))).plan(a, b)
    arrays = [] if plan.problem else [placed(x.numpy(), plan, side, None, crop=False) for side, x in enumerate((a, b))]
    if not arrays or arrays[0].shape != arrays[1].shape or a.dtype != b.dtype:
        return f"{shape_of(a)} {a.dtype} in A, {shape_of(b)} {b.dtype} in B"
    found = compare(arrays[0], arrays[1], plan.real, Tolerance(a.dtype, 0))
    lengths = f"other lengths of {plan.lengths}" if plan.lengths else ""
    far = "" if a.dtype == "bool" else f", by up to {number(found.max_abs, 3)}"
    entries = f"{found.differing} of {found.cells} entries differ{far}" if found.differing else ""
    return "; ".join(filter(None, [lengths, entries]))
