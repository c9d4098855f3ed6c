"""Checks of 09_ctc: many frames, few labels."""

import math
from collections import defaultdict
from itertools import product

import numpy as np
import torch

from rfnb.teaching import call, exercise, wrong
from rfnb.teaching.exercises import Unsolved

BLANK, NAMES = 0, "-ab"


# -- From a path to labels ----------------------------------------------------------------------------------------------


def _collapse(path, blank=BLANK):
    return [label for at, label in enumerate(path) if label != blank and (at == 0 or path[at - 1] != label)]


def _blanks_first(path, blank=BLANK):
    labels = [label for label in path if label != blank]
    return [label for at, label in enumerate(labels) if at == 0 or labels[at - 1] != label]


def _not_merged(path, blank=BLANK):
    return [label for label in path if label != blank]


def _not_dropped(path, blank=BLANK):
    return [label for at, label in enumerate(path) if at == 0 or path[at - 1] != label]


def _as_set(path, blank=BLANK):
    return list(dict.fromkeys(label for label in path if label != blank))


_COLLAPSE_MISTAKES = [
    (_blanks_first, "The blanks were dropped before repetitions were merged. Then the blank between two equal labels is gone "
                    "when it is needed: merge first."),
    (_not_merged, "Repetitions are still there: the same label in frames next to each other is one label."),
    (_not_dropped, "The blanks are still there."),
    (_as_set, "A label that comes back later is another label: only neighbours are merged."),
]  # fmt: skip


@exercise(
    "From a path to labels",
    hints=[
        "A label of the path counts if it is no blank and another one than that of the frame before.",
        "Remember the label of the frame before, blanks too.",
        "At place 0 there is no frame before.",
    ],
)
def collapse(answer):
    cases = [[0, 1], [1, 1], [1, 2], [1, 0, 1], [1, 1, 0, 2], [0, 0], [1, 1, 0, 1, 2, 2, 0], [2, 1, 2], []]
    found = []
    for path in cases:
        got = call(answer, list(path))
        if isinstance(got, str):
            wrong(
                "This is a text.",
                [("path", _text(path)), ("got", repr(got)), ("expected", _collapse(path))],
                "A list of ints is wanted.",
            )
        if np.ndim(got) != 1:
            wrong("This is no list.", [("path", _text(path)), ("got", got)], "A list of ints is wanted.")
        found.append([int(label) for label in got])
    for path, got in zip(cases, found):
        if got == _collapse(path):
            continue
        rows = [("path", _text(path)), ("got", _text(got)), ("expected", _text(_collapse(path)))]
        for mistake, said in _COLLAPSE_MISTAKES:
            if found == [mistake(one) for one in cases]:
                wrong(said, rows)
        wrong("These are other labels.", rows, "First repetitions are merged, then blanks are dropped.")
    if [int(label) for label in call(answer, [2, 2, 0, 1, 2], blank=2)] != [0, 1]:
        wrong(
            "The blank is an argument: with blank=2 the label 0 is one like others.",
            [("path", "2 2 0 1 2"), ("expected", "0 1")],
        )


def _text(labels) -> str:
    return " ".join(map(str, labels)) or "nothing"


# -- The trellis --------------------------------------------------------------------------------------------------------


def _forward(log_probs, labels, blank=BLANK, *, skips="right", starts=2, joined=np.logaddexp, emits=True):
    rows = [blank, *(one for label in labels for one in (label, blank))]
    scores = np.asarray(log_probs, np.float64)[:, rows]
    out = np.full(scores.shape, -np.inf)
    out[0, :starts] = scores[0, :starts]
    for t in range(1, len(scores)):
        for s in range(len(rows)):
            total = out[t - 1, s]
            if s >= 1:
                total = joined(total, out[t - 1, s - 1])
            may = {"right": rows[s] != blank and s >= 2 and rows[s] != rows[s - 2], "never": False,
                   "equal": rows[s] != blank, "always": True}[skips]  # fmt: skip
            if s >= 2 and may:
                total = joined(total, out[t - 1, s - 2])
            out[t, s] = total + (scores[t, s] if emits else 0)
    return out


_FORWARD_MISTAKES = [
    ({"skips": "equal"}, "The blank between two equal labels was left out: without it they would be merged into one."),
    (
        {"skips": "always"},
        "A blank row was reached over the label above it: only labels may be reached from two rows above.",
    ),
    (
        {"skips": "never"},
        "The blank between two different labels may be left out: that cell is reached from two rows above, too.",
    ),
    ({"starts": 1}, "A path may begin with its first label, not only with the blank."),
    ({"starts": 99}, "A path begins in one of the first two rows: the others have -inf in the first frame."),
    ({"joined": np.maximum}, "This is the best path, not the sum: use logaddexp instead of max."),
    ({"emits": False}, "The log-probability of the row's own label in the frame is missing: it is added to each cell."),
]


@exercise(
    "The trellis of the forward algorithm",
    hints=[
        "The labels of the rows: rows = [blank, label 1, blank, label 2, ..., blank]. The scores of all cells: log_probs[:, rows].",
        "First frame: all -inf but the first two rows. Then frame by frame, row by row: logaddexp of what may come before, plus the score.",
        "Two rows above counts if s >= 2 and rows[s] != blank and rows[s] != rows[s - 2].",
    ],
    points=2,
)
def forward(answer):
    generator = torch.Generator().manual_seed(3)
    cases = []
    for frames, classes, labels in (
        (2, 2, [1]),
        (3, 3, [1, 2]),
        (4, 2, [1, 1]),
        (6, 4, [1, 2, 2, 3]),
        (9, 4, [3, 1, 3]),
    ):
        cases.append((torch.randn(frames, classes, generator=generator).log_softmax(-1), labels))
    found = []
    for log_probs, labels in cases:
        got = torch.as_tensor(call(answer, log_probs.clone(), list(labels))).detach().double().numpy()
        found.append((got, _forward(log_probs, labels)))
    for (log_probs, labels), (got, want) in zip(cases, found):
        rows = [("frames", len(log_probs)), ("labels", _text(labels))]
        if got.shape != want.shape:
            turned = " It is turned: frames first." if got.shape == want.T.shape else ""
            wrong(f"The trellis has another shape.{turned}", [*rows, ("got", got.shape), ("expected", want.shape)])
        if _near(got, want):
            continue
        for options, said in _FORWARD_MISTAKES:
            if all(_near(one, _forward(*case, **options)) for case, (one, _) in zip(cases, found)):
                wrong(said, [*rows, *_first(got, want)])
        if all(_near(one, np.exp(other)) for one, other in found):
            wrong("These are probabilities; a cell is a log.", [*rows, *_first(got, want)])
        wrong(
            "A cell is different.",
            [*rows, *_first(got, want)],
            "The sum over what may come before, times the probability of its label.",
        )
    log_probs, labels = 10 * torch.rand(12, 4, generator=generator).log_softmax(-1) - 8, [1, 2, 2, 3]
    got = torch.as_tensor(call(answer, log_probs.clone(), list(labels))).detach().double().numpy()
    if not _near(got, _forward(log_probs, labels)):
        wrong(
            "Where frames are improbable, sums become 0, and their logs minus infinity.",
            [("frames", len(log_probs)), ("labels", _text(labels)), *_first(got, _forward(log_probs, labels))],
            "Stay with logs all the way: torch.logaddexp adds what is given as logs.",
        )
    log_probs, labels = cases[3]
    labels = [0 if label == 3 else label for label in labels]  # 3 is the blank
    got = torch.as_tensor(call(answer, log_probs.clone(), labels, blank=3)).detach().double().numpy()
    if not _near(got, _forward(log_probs, labels, blank=3)):
        wrong(
            "The blank is an argument: with blank=3 the label 0 is one like others.",
            [("labels", _text(labels)), ("blank", 3)],
        )


def _near(got, want) -> bool:
    return (
        got.shape == want.shape
        and np.array_equal(np.isneginf(got), np.isneginf(want))
        and np.allclose(np.where(np.isneginf(got), 0, got), np.where(np.isneginf(want), 0, want), atol=1e-4)
    )


def _first(got, want):
    differs = ~np.isclose(np.where(np.isneginf(got), -1e9, got), np.where(np.isneginf(want), -1e9, want), atol=1e-4)
    frame, row = np.argwhere(differs)[0]
    return [
        ("cell", f"frame {frame}, row {row}"),
        ("got", f"{got[frame, row]:.3f}"),
        ("expected", f"{want[frame, row]:.3f}"),
    ]


# -- The best path and the best labels ----------------------------------------------------------------------------------


@exercise(
    "Where greedy decoding is not the best",
    hints=[
        "Let the blank win each frame, by little: greedy writes nothing.",
        "a has several paths: aa, a-, -a. Make their sum larger than the one path of blanks.",
        "Two frames are enough, both the same; b may have nothing.",
    ],
)
def differ(answer):
    rows = answer.tolist() if hasattr(answer, "tolist") else answer
    if (
        not isinstance(rows, (list, tuple))
        or len({len(row) if isinstance(row, (list, tuple)) else 0 for row in rows}) != 1
    ):
        wrong(
            "It is a table: a list of rows of the same length.",
            [("got", repr(rows)[:80])],
            "differ = [[0.2, 0.5, 0.3], [0.2, 0.5, 0.3]]",
        )
    if any(value is Ellipsis for row in rows for value in (row if isinstance(row, (list, tuple)) else [row])):
        raise Unsolved
    probs = np.asarray(rows, float)
    if probs.ndim != 2 or probs.shape[1] != 3 or not 1 <= len(probs) <= 8:
        wrong("It has a row per frame, one to eight, and a column for the blank, a and b.", [("got", probs.shape)])
    if probs.min() < 0:
        wrong("A probability is below 0.", [("frame", int(probs.min(1).argmin()))])
    sums = probs.sum(1)
    if abs(sums - 1).max() > 1e-3:
        frame = int(abs(sums - 1).argmax())
        wrong("Probabilities of a frame sum to 1.", [("frame", frame), ("sum", f"{sums[frame]:.3f}")])
    ordered = np.sort(probs, 1)
    if (ordered[:, -1] - ordered[:, -2]).min() < 1e-6:
        wrong("In a frame two labels are equally probable: then greedy may take either. Let one be ahead.", [])
    totals = defaultdict(float)
    for path in product(range(3), repeat=len(probs)):
        totals[tuple(_collapse(list(path)))] += math.prod(probs[frame, label] for frame, label in enumerate(path))
    greedy = tuple(_collapse(probs.argmax(1).tolist()))
    best = max(totals, key=totals.__getitem__)
    given = [
        ("greedy", f"{_spelled(greedy)} with {totals[greedy]:.3f}"),
        ("best", f"{_spelled(best)} with {totals[best]:.3f}"),
    ]
    if totals[best] <= totals[greedy] + 1e-9:
        wrong(
            "Here greedy decoding finds the most probable labels.",
            given,
            "Its probability is the sum over all its paths.",
        )


def _spelled(labels) -> str:
    return "".join(NAMES[label] for label in labels) or "nothing"


# -- The other order ----------------------------------------------------------------------------------------------------


NUMBERS = (
    "905860 8383 552 9615 461003 5763 21307 9653 788834 635545 2280 5376 006 657763 0693 706388 1395 28294 5737 689487 486 548 "
    "11006 5986 353345 297870 89903 394814 691723 756379 8872 354 61469 016697 054633 547888 2877 034 733 073912 9209 31540 "
    "9503 03022 225647 816685 55752 996 92823 6403"
).split()  # of the notebook, `unseen`


@exercise(
    "A number that the broken decoder gets wrong",
    hints=[
        "In which paths does the blank between two labels matter?",
        "It matters between equal labels.",
        "Look for a number with the same key twice in a row.",
    ],
)
def victim(answer):
    number = answer if isinstance(answer, str) else str(answer)
    if not number.isdigit():
        wrong("The answer is one of the numbers, as text.", [("got", repr(answer))], 'victim = "17024"')
    if number not in NUMBERS:
        wrong(f"{number} is none of the numbers that were dialled.", rule="They are printed above the exercise.")
    if not any(one == other for one, other in zip(number, number[1:])):
        again = (
            " A key that comes back later is kept apart by the keys between." if len(set(number)) < len(number) else ""
        )
        wrong(f"{number} has no key twice in a row, so both orders give the same.{again}")
