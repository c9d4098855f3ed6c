"""The parts that the scores of a step over alignments are made of, for the `beams` event.

The log probability of a step is by how much the log of the sum over the alignments has changed from the prefix before: so over all steps
they add up to that sum, also where alignments of two prefixes were added.
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
    """Put `base`, `log_probs` and `part:NAME` into a step, and those of its candidates.

    Args:
        step: With candidates.
        before: The scores that the prefixes were ranked by in the step before [batch, beam].
        total_before: Log of the sum over their alignments.
        totals: The same of each candidate [batch, beam, labels]; -inf where it was merged.
        merged: Flat places in `totals` of what was merged, and what it has brought.
        parts: Of other models, by name: unscaled score of each label after each prefix, [batch, beam, labels] or less to the left.
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
    """values [batch, beam, labels] of parents and tokens [batch, n]."""
    return values[np.arange(len(values))[:, None], parents, tokens]
