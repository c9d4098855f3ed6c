"""The most probable labels of each step over the whole vocabulary, including labels that the beam did not take."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from rfnb.viz.beams.tree import BeamTree, TreeNode
from rfnb.viz.rounding import percent
from rfnb.viz.visible_text import line, visible

_ALL = 4000  # hypotheses of a search up to which all have them; in larger ones only those on the paths of the first results
_RESULTS = 10

Labels = list[tuple[Any, ...]]


def told(
    steps: Sequence[Mapping[str, np.ndarray]],
    seq: int,
    tree: BeamTree,
    label: Callable[[int, int], str],
    ids: bool = False,
) -> list[dict[str, Labels]]:
    """For each step, by slot of the previous step, the best labels with natural-log probabilities; under "all" if they are
    the same for all.

    Args:
        label: The text of a token in a step.
        ids: Whether to add the index of each label.
    """
    if not any("next_tokens" in fields for fields in steps):
        return []
    wanted = _on_paths(tree) if sum(map(len, tree.nodes)) > _ALL else None
    out = []
    for step, fields in enumerate(steps[: len(tree.nodes)]):
        one: dict[str, Labels] = {}
        tokens, log_probs = fields.get("next_tokens"), fields.get("next_log_probs")
        if tokens is not None and log_probs is not None:
            slots = {node.parent.slot for node in tree.nodes[step] if node and node.parent} if step else {0}
            slots |= {cut.parent.slot for cut in tree.cuts[step] if cut.parent}
            if wanted is not None:
                slots &= wanted[step]
            going = {slot for slot in slots if not (step and _is_complete(tree.nodes[step - 1][slot]))}
            shared = tokens.shape[1] == 1
            for slot in sorted(going)[:1] if shared else sorted(going):
                place = 0 if shared else slot
                one["all" if shared else str(slot)] = [
                    (label(int(token), step), round(float(log_prob), 4), *((int(token),) if ids else ()))
                    for token, log_prob in zip(tokens[seq, place], log_probs[seq, place])
                    if np.isfinite(log_prob)
                ]
        out.append(one)
    return out


def not_allowed(steps: Sequence[Mapping[str, np.ndarray]], seq: int, tree: BeamTree) -> list[dict[str, float]]:
    """For each step, by slot of the previous step, the total probability of disallowed labels, if any."""
    out = []
    for fields, nodes in zip(steps, tree.nodes):
        taken = fields["taken"][seq] if "taken" in fields else np.zeros(0)
        there = [node for node in nodes if node and node.slot < len(taken) and taken[node.slot] > 0]
        out.append({str(node.parent.slot if node.parent else 0): round(float(taken[node.slot]), 4) for node in there})
    return out


def words(labels: Sequence[Sequence[Any]]) -> str:
    """The labels with their probabilities, e.g. "the 43 %, a 20 %"; the plain numbers if scores are not log probabilities."""
    return ", ".join(f"{line(visible(str(label)[:20]))} {_share(float(value))}" for label, value, *_ in labels)


def _share(log_prob: float) -> str:
    if log_prob > 0:
        return f"{log_prob:.2f}"
    return percent(float(np.exp(log_prob)))


def _is_complete(node: TreeNode | None) -> bool:
    """Whether a hypothesis has ended, so that its next distribution has no meaning."""
    return node is None or node.state in ("ended", "carried", "dropped")


def taken_from_winner(step: Mapping[str, Any], node: TreeNode) -> str:
    """The probability mass disallowed for the hypothesis that a node continues, as text."""
    share = (step.get("taken") or {}).get(str(node.parent.slot if node.parent else 0))
    return f"; not allowed: {percent(share)}" if share else ""


def of_winner(step: Mapping[str, Any], node: TreeNode) -> Labels:
    """The best labels of a spec's step for the hypothesis that a node continues."""
    labels = step.get("next") or {}
    return labels.get("all") or labels.get(str(node.parent.slot) if node.parent else "0") or []


def _on_paths(tree: BeamTree) -> list[set[int]]:
    """For each step, the slots of the previous step on the paths of the first results."""
    found: list[set[int]] = [set() for _ in tree.nodes]
    for end in tree.nbest[:_RESULTS]:
        for node in end.path():
            found[node.step].add(node.parent.slot if node.parent else 0)
    return found
