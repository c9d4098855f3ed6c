"""Checks of 12_clinic: a student's check is tried on healthy models, on the patient, and on models that are broken in another way."""

from __future__ import annotations

from pathlib import Path

import torch

from rfnb.teaching import exercise, truth_of, wrong
from rfnb.teaching.course import load

clinic = vars(load(Path(__file__).parents[1] / "data/clinic.py"))


def tried(number, cases, ask):
    """Says which model a student's check judges wrongly.

    Args:
        number: Of the patient.
        cases: (what it is about, data) for each try; the check has to be right in each.
        ask: Of a model and data, what the check says.
    """
    veiled = clinic["Veiled"]
    healthy = {"the healthy model": clinic["HEALTHY"][number], **clinic["OTHERS"][number]}
    ill = {"the patient": clinic["PATIENTS"][number], **clinic["VARIANTS"][number]}
    accused, missed = [], []
    for about, data in cases:
        accused += [(name, about) for name, model in healthy.items() if not ask(veiled(model), data)]
        missed += [(name, about) for name, model in ill.items() if ask(veiled(model), data)]
    if not accused and len(missed) == len(ill) * len(cases):
        wrong(
            "Your check passes every model, the patient too.",
            [("tried on", cases[0][0])],
            "It is to be False where something is wrong.",
        )
    if len(accused) == len(healthy) * len(cases) and not missed:
        wrong(
            "Your check fails every model, the healthy one too.",
            [("tried on", cases[0][0])],
            "It is to be True where nothing is wrong.",
        )
    for name, about in accused:
        wrong(
            "Your check fails a healthy model.",
            [("which one", name), ("tried on", about)],
            "Compare only what has to be the same, up to rounding.",
        )
    for name, about in missed:
        if name == "the patient":
            wrong(
                "Your check passes the patient.",
                [("tried on", about)],
                "Look again at where it differs: is that place compared?",
            )
    for name, about in missed:
        wrong(
            "Your check finds the patient, but passes another model with the same disease.",
            [("what is wrong with it", name), ("tried on", about)],
            "A check is for the rule that is broken, not for one way of breaking it.",
        )


def call(answer, *given):
    """Calls a check; one that stops by an assertion has found something."""
    try:
        return truth_of(answer, *given)
    except AssertionError:
        return False


@exercise(
    "Alone or in a batch",
    hints=[
        "One call with the batch, then one for each sequence alone: cut to its length, with an axis for a batch of one.",
        "Compare alone[0] with together[seq, : lengths[seq]], for every seq: the first one may be right by luck.",
    ],
    points=2,
)
def alone_or_together(answer):
    cases = [
        (f"sequences of {', '.join(map(str, lengths))} frames", clinic["batch"](lengths, seed))
        for seed, lengths in enumerate(((6, 4, 3), (5, 5, 4), (2, 7, 1)))
    ]
    tried(1, cases, lambda model, data: call(answer, model, *(part.clone() for part in data)))


@exercise(
    "Blind to padding",
    hints=[
        "Put other numbers into the padding of a copy, x.clone(): it begins at the length of each sequence.",
        "Compare what the model makes of both: only real frames, and those of all sequences.",
    ],
    points=2,
)
def blind_to_padding(answer):
    cases = [
        (f"sequences of {', '.join(map(str, lengths))} frames", clinic["batch"](lengths, seed))
        for seed, lengths in enumerate(((6, 4, 3), (2, 7), (3, 5, 5)))
    ]
    tried(2, cases, lambda model, data: call(answer, model, *(part.clone() for part in data)))


@exercise(
    "Whole and step by step",
    hints=[
        "Go through the tokens with model.step, hand the cache on, and compare each row with that of model.whole(tokens).",
        "Logits are compared, not the best labels: these may be the same by luck. torch.allclose(logits, whole[place], atol=1e-5)",
    ],
    points=2,
)
def steps_agree(answer):
    texts = ([1, 4, 2, 5, 3, 1, 2], [0, 0, 0, 0, 0, 0], [5, 1, 5, 1, 5, 1, 5, 1])
    cases = [(f"the text {' '.join(map(str, text))}", torch.tensor(text)) for text in texts]
    tried(3, cases, lambda model, data: call(answer, model, data.clone()))


@exercise(
    "Nothing is left of the last call",
    hints=[
        "Two models: used = make(), which has heard `first`; and a new one, make().",
        "used(first), and then used(second) has to be make()(second).",
    ],
    points=2,
)
def forgets(answer):
    made = clinic["made"]
    cases = [
        (f"two sequences of {size} frames", (made((size, 3), 2 * size), made((size, 3), 2 * size + 1)))
        for size in (5, 1, 60)  # in the long one nothing of it is left at the end
    ]
    tried(4, cases, lambda make, data: call(answer, make, *(part.clone() for part in data)))


@exercise(
    "Scores are true",
    hints=[
        "For each pair (labels, score) of search(model, 4, 6) compare the score with model.score(labels).",
        "Each hypothesis counts, not only the best one, and up to rounding: two sums of the same numbers may differ by 1e-6.",
    ],
    points=2,
)
def scores_are_true(answer):
    cases = [(f"the model clinic.Speller({seed})", clinic["Speller"](seed)) for seed in (0, 1, 5)]
    tried(5, cases, lambda search, model: call(answer, search, model))
