"""The `distribution` view in words: the sentences that all its forms have."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rfnb.viz.distribution.scores import KINDS

RIGHT, WRONG = "✓ right", "✗ wrong"


class StepWords(NamedTuple):
    """One step, ready to draw.

    Attributes:
        best: Labels with their probabilities, the best first; None in a step without numbers.
        reference: The right label; None if there is none.
        prob, loss, rank: Of the reference; loss in nats.
    """

    name: str
    best: list[tuple[str, float]] | None
    rest: float
    entropy: float
    reference: str | None
    prob: float
    loss: float
    rank: int

    @property
    def verdict(self) -> str:
        """The words "✓ right" or "✗ wrong"; "" without a reference."""
        return "" if not self.rank else RIGHT if self.rank == 1 else WRONG


def label_of(head: dict[str, Any], index: int) -> str | None:
    """The label of an index; None for no index."""
    return None if index < 0 else str(head["tokens"].get(str(index), index))


def step_of(spec: Any, seq: int, step: int, most: int) -> StepWords:
    """One step, with at most so many of the best labels."""
    head, blocks = spec.head, spec.blocks
    top, logs = blocks["top"][seq, step][:most].tolist(), blocks["top_log_probs"][seq, step].astype(np.float64)
    with np.errstate(invalid="ignore"):
        probs = np.exp(logs).tolist()
    best = None if not top or top[0] < 0 else [(label_of(head, i) or "", p) for i, p in zip(top, probs) if i >= 0]
    rest = float(blocks["rest"][seq, step]) + float(sum(probs[most:]))
    words = head["seqs"][seq].get("steps") or []
    name = words[step] if step < len(words) else str(step)
    reference, log_prob, rank = None, np.nan, 0
    if head.get("reference"):
        reference = label_of(head, int(blocks["reference"][seq, step]))
        log_prob, rank = float(blocks["log_prob"][seq, step]), int(blocks["rank"][seq, step])
    entropy = float(blocks["entropy"][seq, step])
    return StepWords(str(name), best, rest, entropy, reference, float(np.exp(log_prob)), 0.0 - log_prob, rank)


def of_seq(head: dict[str, Any], seq: int) -> str:
    """The sum of a sequence: "4 of 5 right, 0.31 nats per label, perplexity 1.36"."""
    entry = head["seqs"][seq]
    if not head.get("reference"):
        return ""
    if not entry.get("known"):
        return "no reference"
    loss = entry.get("loss")
    mean = "infinite loss" if loss is None else f"{loss:.3g} nats per label, perplexity {np.exp(min(loss, 700.0)):.3g}"
    return f"{entry['right']} of {entry['known']} right, {mean}"


def of_scores(head: dict[str, Any]) -> str:
    """The kind of the scores, and whether that was said or found: "made of logits (as found)"."""
    kind = KINDS.get(str(head.get("estimated_type")), "scores")
    return f"made of {kind}{' (as their sums tell)' if head.get('found') else ''}"


def warnings(spec: Any, most: int = 4) -> list[str]:
    """The faults of each sequence, as sentences; the first ones, and how many more."""
    out = [f"{seq['label']}: {seq['note']}." for seq in spec.head["seqs"] if seq.get("note")]
    return out if len(out) <= most + 1 else [*out[:most], f"The same in {len(out) - most} more sequences."]


def shown_steps(spec: Any, seq: int, most: int) -> list[int]:
    """The first steps, and where there are more of them those with a wrong label."""
    length = min(int(spec.head["seqs"][seq]["len"]), spec.blocks["top"].shape[1])
    if length <= most:
        return list(range(length))
    first = list(range(most // 2))
    wrong = np.flatnonzero(spec.blocks["rank"][seq, :length] > 1).tolist() if spec.head.get("reference") else []
    more = [step for step in wrong if step >= len(first)][: most - len(first)]
    fill = [step for step in range(len(first), length) if step not in set(more)][: most - len(first) - len(more)]
    return sorted([*first, *more, *fill])
