"""The parts of the scores of a step over alignments, for the `beams` event.

The log probability of a step is the change in the log of the sum over alignments relative to the parent prefix. So the steps add up to
that sum, even where the alignments of two prefixes were added.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rfnb.search.prefix_beam import NEVER, PrefixStep


def add_parts(
    step: PrefixStep,
    *,
    before: np.ndarray,
    total_before: np.ndarray,
    totals: np.ndarray,
    merged: tuple[np.ndarray, np.ndarray],
    parts: Mapping[str, np.ndarray],
) -> None:
    """Add `base`, `log_probs` and `part:NAME` to a step and its candidates.

    Args:
        step: A step with candidates.
        before: The scores by which the previous step ranked the prefixes [batch, beam].
        total_before: The log of the sum over their alignments.
        totals: The same for each candidate [batch, beam, labels]; -inf where it was merged.
        merged: Flat places in `totals` of merged candidates, and their contributions.
        parts: Scores of other models by name: unscaled, for each label after each prefix, [batch, beam, labels] or fewer leading
            axes.
    """
    assert step.candidates is not None
    totals = totals.copy()
    totals.reshape(-1)[merged[0]] = merged[1]
    step.parts["base"] = _at(before[:, :, None], step.parents, np.zeros_like(step.tokens))
    named = {"": (step.parents, step.tokens, step.scores)}
    found = step.candidates
    named["cand_"] = found["cand_parents"], found["cand_tokens"], found["cand_scores"]
    for prefix, (parents, tokens, scores) in named.items():
        real = scores > NEVER
        after = np.where(real, _at(totals, parents, tokens), 0.0)
        earlier = np.where(real, _at(total_before[:, :, None], parents, np.zeros_like(parents)), 0.0)
        own = {"log_probs": np.where(real, after - earlier, NEVER)}
        for name, values in parts.items():
            own[f"part:{name}"] = _at(np.broadcast_to(values, totals.shape), parents, tokens)
        (found if prefix else step.parts).update({prefix + name: values for name, values in own.items()})


def _at(values: np.ndarray, parents: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """values [batch, beam, labels] at parents and tokens [batch, n]."""
    return values[np.arange(len(values))[:, None], parents, tokens]
