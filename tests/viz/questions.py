"""Small questions of each form, for the tests of their view."""

from __future__ import annotations

import numpy as np

import rfnb as rf
from rfnb.viz.question.alignment import alignment_spec
from rfnb.viz.question.beam import beam_spec
from rfnb.viz.question.mask import mask_spec
from rfnb.viz.spec import Spec

WORDS = ["the", "cat", "sat", "on"]
WEIGHTS = np.array([[0.7, 0.2, 0.1], [0.1, 0.45, 0.45], [0.0, 0.0, 0.0], [0.0, 0.25, 0.75]])
SPANS = np.array([[1, 1, 0, 0, 0, 0], [0, 0, 0, 1, 0, 0], [0, 0, 0, 0, 1, 1]])


def causal(labels: list[str] | None = None) -> Spec:
    """The positions that four words may attend to in a causal mask."""
    words = labels or WORDS
    return mask_spec("causal", np.tril(np.ones((len(words), len(words)))), target=words, source=words)


def weights(labels: list[str] | None = None) -> Spec:
    """Weights of which the third row is none."""
    return alignment_spec("attention", WEIGHTS, target=labels, source=list("abc"))


def spans() -> Spec:
    """An alignment of three labels to six frames."""
    return alignment_spec("labels", SPANS, target=list("CAT"))


def lanes(labels: list[str] | None = None) -> Spec:
    """Two steps of a search with a beam of 2 over the labels a, b, c. In the second one b of lane 1 is as good as c of lane 0."""
    return beam_spec("beam", two_steps(labels or ["a", "b", "c"]), steps=2)


def two_steps(labels: list[str]) -> Spec:
    """The search itself."""
    fields = {
        "tokens": [[0, 1], [1, 2]],
        "parents": [[0, 0], [0, 0]],
        "scores": [[-0.5, -1.0], [-0.75, -2.0]],
        "ended": [[False, False], [False, True]],
        "cand_tokens": [[0, 1, 2], [1, 2, 0, 1]],
        "cand_parents": [[0, 0, 0], [0, 0, 0, 1]],
        "cand_scores": [[-0.5, -1.0, -3.0], [-0.75, -2.0, -2.5, -2.0]],
        "cand_kept": [[True, True, False], [True, True, False, False]],
    }
    return rf.viz.beams(
        labels=labels, **{name: [np.array(step) for step in steps] for name, steps in fields.items()}
    ).spec


def all_questions(labels: list[str]) -> list[Spec]:
    """One of each form with these labels."""
    few = labels[:6]
    return [causal(few), weights((few * 4)[:4]), spans(), lanes([f"{few[at % len(few)]}{at}" for at in range(3)])]
