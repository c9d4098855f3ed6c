"""Tree: runs that branch from one another, as plain data: where each one left, what was changed in it, its result, its trace.

    tree = run.tree()
    print(tree)                       # all of them, with their changes as text
    tree["what if"].trace             # one, by its name
    rf.compare_runs(tree["main"], tree["what if"])

It refers to no run and no model, so that a file can hold it (`Tree.save`, `rf.load_trace(path).tree`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, NamedTuple

from rfnb.core.errors import missing_key_error, value_error
from rfnb.trace.beams import BeamHistory, Hypothesis
from rfnb.trace.event import same_numbers
from rfnb.trace.trace import Trace


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run.

    Attributes:
        text: One line of text; "" if there is nothing yet.
        seqs: For each sequence its labels, if any: those that the function returns, else those of the best hypothesis.
        scores: Their natural-log probabilities, where known.
        values: The Tensors in the result, by name.
    """

    text: str = ""
    seqs: tuple[tuple[str, ...], ...] = ()
    scores: tuple[float | None, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Outcome):
            return NotImplemented
        one, two = dict(self.values), dict(other.values)
        said = (self.text, self.seqs, self.scores, list(one)) == (other.text, other.seqs, other.scores, list(two))
        return said and all(same_numbers(value, two[name]) for name, value in one.items())


def best_so_far(trace: Trace) -> Outcome:
    """The best hypotheses of the last search in a recording."""
    paths = list(trace.beams)
    return best_of(trace.beams[paths[-1], -1]) if paths else Outcome()


def best_of(history: BeamHistory) -> Outcome:
    """The best hypothesis of each sequence, without the label that ends it."""
    if not history.num_steps:
        return Outcome()
    found = [history.nbest(seq)[:1] for seq in range(history.num_seqs)]
    return Outcome(
        "",
        tuple(_without_end(best[0]) if best else () for best in found),
        tuple(best[0].score if best else None for best in found),
    )


def _without_end(best: Hypothesis) -> tuple[str, ...]:
    return best.labels[:-1] if best.ended else best.labels


class AppliedChange(NamedTuple):
    """A change made before a step, as text.

    Attributes:
        tick: The number of steps of any loop begun before.
        path, step: Path and step of the loop.
        words: Description of the change.
    """

    tick: int
    path: str
    step: int
    words: str

    def __str__(self) -> str:
        return f'step {self.step} of "{self.path}": {self.words}'


class BranchPoint(NamedTuple):
    """The step before which a branch leaves its parent run; attributes as in `AppliedChange`."""

    tick: int
    path: str
    step: int

    def __str__(self) -> str:
        return f'step {self.step} of "{self.path}"'


@dataclass(frozen=True)
class Branch:
    """One run of a tree, as it was when the tree was made.

    Attributes:
        name: Unique in the tree.
        parent: The name of its parent run; None for the first.
        left: Where it branches from its parent.
        steps: (path, step) of all steps that were begun, by tick.
        changes: All its changes, including those shared with its parent.
        state: "running", "paused", "done", "failed", "stopped", or "recorded" for a recording that is not a run.
        reason: Why it is paused, or the error that it raised.
        outcome: Its outcome.
        trace: Its recording; empty if nothing was recorded.
        tree: The tree that it was last added to.
    """

    name: str
    parent: str | None = None
    left: BranchPoint | None = None
    steps: tuple[tuple[str, int], ...] = ()
    changes: tuple[AppliedChange, ...] = ()
    state: str = "done"
    reason: str = ""
    outcome: Outcome = Outcome()
    trace: Trace = field(default_factory=Trace, repr=False, compare=False)
    tree: Tree | None = field(default=None, repr=False, compare=False)

    @property
    def own_changes(self) -> tuple[AppliedChange, ...]:
        """The changes since it left its parent."""
        start = 0 if self.left is None else self.left.tick
        return tuple(change for change in self.changes if change.tick >= start)


class Tree(Mapping[str, Branch]):
    """Branches by name, in order of creation; the first is the root.

    Args:
        branches: Branches, each after its parent.

    Raises:
        ValueError: If two share a name, or a parent does not come before its branch.
    """

    def __init__(self, branches: Sequence[Branch]):
        self._branches: dict[str, Branch] = {}
        self._children: dict[str | None, list[Branch]] = {}
        for index, branch in enumerate(branches):
            fault = (
                "there are two of this name"
                if branch.name in self._branches
                else "its parent is not before it"
                if branch.parent not in self._branches and index
                else "the first has no parent"
                if not index and branch.parent is not None
                else None
            )
            if fault is not None:
                raise value_error(
                    f'Tree: branch "{branch.name}": {fault}.',
                    {"branches": ", ".join(other.name for other in branches), "parent": branch.parent},
                    "A branch has a name of its own, and comes after the one that it is made of.",
                )
            self._branches[branch.name] = branch
            self._children.setdefault(branch.parent, []).append(branch)
            object.__setattr__(branch, "tree", self)  # frozen for all others

    def __getitem__(self, name: str) -> Branch:
        found = self._branches.get(name) if isinstance(name, str) else None
        if found is None:
            raise missing_key_error(
                f'Tree: no branch "{name}".',
                {"branches": ", ".join(self._branches)},
                "A branch is found by its name.",
                f'tree["{next(iter(self._branches), "")}"]',
            )
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._branches)

    def __len__(self) -> int:
        return len(self._branches)

    @property
    def root(self) -> Branch:
        """The run that all others descend from."""
        return next(iter(self._branches.values()))

    def children(self, name: str) -> list[Branch]:
        """The branches of a run, in order of creation."""
        return list(self._children.get(self[name].name, ()))

    def rows(self) -> list[tuple[int, Branch]]:
        """Each branch below its parent, with its depth, 0 for the root."""
        found: list[tuple[int, Branch]] = []
        waiting = [(0, branch) for branch in list(self._branches.values())[:1]]
        while waiting:
            depth, branch = waiting.pop()
            found.append((depth, branch))
            waiting += [(depth + 1, child) for child in reversed(self.children(branch.name))]
        return found

    def save(self, path: str | PathLike[str], name: str | None = None) -> None:
        """Write all branches with their traces to one file, which `rf.load_trace` reads without the model.

        Args:
            name: The branch whose trace the file represents; the others are in its `tree`. Default: the root.

        Raises:
            TypeError: For a recorded value that is not a Tensor, Dim, NumPy array or plain data.
            OSError: If it cannot be written.
        """
        from rfnb.trace.file import save_tree  # the file format needs Tree

        save_tree(self, path, self.root.name if name is None else self[name].name)

    def __repr__(self) -> str:
        more = len(self) - 1
        return f"<Tree: {self.root.name}{f' and {more} branch' + 'es' * (more != 1) if more else ''}>"

    def __str__(self) -> str:

        return text_of(self)


_MOST_SEQS, _MOST_CHANGES, _MOST_TEXT = 4, 8, 200
_DEEPEST = 40  # branches of branches that are indented


def text_of(tree: Tree) -> str:
    """The tree as text, each branch below its parent."""
    lines, waiting = [], [(tree.root, "", "")]
    while waiting:
        branch, first, rest = waiting.pop()
        children = tree.children(branch.name)
        below = rest + ("│  " if children else "   ")
        lines.append(f"{first}{one_line(branch.name)}: {story(branch)}")
        lines += [f"{below}    {words}" for words in (*changes_words(branch), *outcome_words(branch.outcome))]
        for child in reversed(children):
            last, inner = child is children[-1], rest if len(rest) < 3 * _DEEPEST else rest[:-3]
            waiting.append((child, inner + ("└─ " if last else "├─ "), inner + ("   " if last else "│  ")))
    return "\n".join(lines)


def story(branch: Branch) -> str:
    """A sentence on where a branch left, how many steps it ran, and its state."""
    if branch.state == "recorded":
        return f"a recording of {len(branch.trace)} events"
    left = "" if branch.left is None else f"leaves {one_line(branch.parent or '')} before {branch.left}; "
    steps = f"{len(branch.steps)} step{'s' * (len(branch.steps) != 1)}"
    reason = f": {one_line(branch.reason)}" if branch.reason else ""
    return f"{left}{steps}, {branch.state}{reason}"


def changes_words(branch: Branch) -> list[str]:
    """The changes since it left its parent; only the first if there are many."""
    own = branch.own_changes
    more = [f"and {len(own) - _MOST_CHANGES} more changes"] if len(own) > _MOST_CHANGES else []
    return [one_line(str(change)) for change in own[:_MOST_CHANGES]] + more


def outcome_words(outcome: Outcome) -> list[str]:
    """The outcome of a run, one line per sequence."""
    found = []
    for seq, labels in enumerate(outcome.seqs[:_MOST_SEQS]):
        name = f"sequence {seq}: " if len(outcome.seqs) > 1 else ""
        score = outcome.scores[seq] if seq < len(outcome.scores) else None
        found.append(
            f"{name}{one_line(' '.join(labels)) or '(empty)'}" + ("" if score is None else f", score {score:.3f}")
        )
    if len(outcome.seqs) > _MOST_SEQS:
        found.append(f"and {len(outcome.seqs) - _MOST_SEQS} more sequences")
    return found or ([one_line(outcome.text)] if outcome.text else [])


def one_line(text: str) -> str:
    """Foreign text shortened to one line of a list."""
    line = " ".join(text.split())
    return line if len(line) <= _MOST_TEXT else line[: _MOST_TEXT - 1] + "…"
