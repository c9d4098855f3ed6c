"""A tree of branches as text: each with where it left, what was changed in it, and what it came to."""

from __future__ import annotations

from collections.abc import Iterator

from rfnb.trace.outcome import Outcome
from rfnb.trace.tree import Branch, Tree

_MOST_SEQS, _MOST_CHANGES, _MOST_TEXT = 4, 8, 200


def text_of(tree: Tree) -> str:
    """The tree, each branch below the one that it is made of."""
    return "\n".join(_lines(tree, tree.root, "", ""))


def _lines(tree: Tree, branch: Branch, first: str, rest: str) -> Iterator[str]:
    children = tree.children(branch.name)
    below = rest + ("│  " if children else "   ")
    yield f"{first}{one_line(branch.name)}: {story(branch)}"
    for words in (*changes_words(branch), *outcome_words(branch.outcome)):
        yield f"{below}    {words}"
    for child in children:
        last = child is children[-1]
        yield from _lines(tree, child, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  "))


def story(branch: Branch) -> str:
    """Say where a branch left, how many steps it made, and what it does now."""
    if branch.state == "recorded":
        return f"a recording of {len(branch.trace)} events"
    left = "" if branch.left is None else f"leaves {one_line(branch.parent or '')} before {branch.left}; "
    steps = f"{len(branch.steps)} step{'s' * (len(branch.steps) != 1)}"
    reason = f": {one_line(branch.reason)}" if branch.reason else ""
    return f"{left}{steps}, {branch.state}{reason}"


def changes_words(branch: Branch) -> list[str]:
    """The changes since it left; of many the first."""
    own = branch.own_changes
    more = [f"and {len(own) - _MOST_CHANGES} more changes"] if len(own) > _MOST_CHANGES else []
    return [one_line(str(change)) for change in own[:_MOST_CHANGES]] + more


def outcome_words(outcome: Outcome) -> list[str]:
    """The outcome of a run, a line for each sequence."""
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
    """A text of somebody else in a line of a list."""
    line = " ".join(text.split())
    return line if len(line) <= _MOST_TEXT else line[: _MOST_TEXT - 1] + "…"
