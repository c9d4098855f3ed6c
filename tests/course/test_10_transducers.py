"""Transducers: each check names the mistakes that are made there, and the notebook computes what its text says."""

from __future__ import annotations

import re
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from course.harness import Course, weights_in

import rfnb as rf
from rfnb.teaching.course import load

course = Course("10_transducers")
solution = course.solutions
checks = load(course.folder / "checks/10_transducers.py")


def ctc_walk(walk, blank, label):
    t, u, score = 0, 0, 0.0
    for move in walk:
        score += blank[min(t, len(blank) - 1), u] if move == "-" else label[min(t, len(blank) - 1), u]
        u += move != "-"
        t += 1
    return score


def walk_of_row_0(walk, blank, label):
    t, u, score = 0, 0, 0.0
    for move in walk:
        score += blank[t, 0] if move == "-" else label[t, u]
        t, u = (t + 1, u) if move == "-" else (t, u + 1)
    return score


def forward_with(ways_of, add=torch.logaddexp):
    """A recursion whose ways to a place are `ways_of(alpha, blank, label, t, u)`."""

    def forward(blank, label):
        frames, places = blank.shape[:2]
        alpha = [[None] * places for _ in range(frames)]
        for t in range(frames):
            for u in range(places):
                ways = ways_of(alpha, blank, label, t, u)
                if t == u == 0:
                    alpha[t][u] = torch.zeros_like(blank[0, 0])
                elif ways:
                    alpha[t][u] = ways[0] if len(ways) == 1 else add(*ways)
                else:
                    alpha[t][u] = torch.full_like(blank[0, 0], -torch.inf)
        return alpha

    return forward


def right_ways(alpha, blank, label, t, u):
    by_blank = [alpha[t - 1][u] + blank[t - 1, u]] if t else []
    return by_blank + ([alpha[t][u - 1] + label[t, u - 1]] if u else [])


def ways_as_entered(alpha, blank, label, t, u):
    by_blank = [alpha[t - 1][u] + blank[t, u]] if t else []
    return by_blank + ([alpha[t][u - 1] + label[t, u - 1]] if u else [])


def diagonal_ways(alpha, blank, label, t, u):
    by_blank = [alpha[t - 1][u] + blank[t - 1, u]] if t else []
    return by_blank + ([alpha[t - 1][u - 1] + label[t - 1, u - 1]] if u and t else [])


def forward_in_place(blank, label):
    alpha = torch.zeros(blank.shape, dtype=blank.dtype)
    for t in range(len(blank)):
        for u in range(blank.shape[1]):
            ways = right_ways(alpha, blank, label, t, u)
            if ways:
                alpha[t, u] = torch.logaddexp(*ways) if len(ways) == 2 else ways[0]
    return alpha


def forward_read_and_assigned_again(blank, label):
    alpha = torch.full(blank.shape, -torch.inf, dtype=blank.dtype)
    alpha[0, 0] = 0.0
    for t in range(len(blank)):
        for u in range(blank.shape[1]):
            for way in right_ways(alpha, blank, label, t, u):
                alpha[t, u] = torch.logaddexp(alpha[t, u], way)
    return alpha


def forward_of_numbers(blank, label):
    return [[value.detach() for value in row] for row in solution.forward(blank, label)]


def forward_of_dicts(blank, label):
    return {t: dict(enumerate(row)) for t, row in enumerate(solution.forward(blank, label))}


def merge_by(add):
    def merge(hypotheses):
        merged = {}
        for labels, score in hypotheses:
            merged[labels] = add(merged[labels], score) if labels in merged else score
        return sorted(merged.items(), key=lambda one: -one[1])

    return merge


def merge_through_exp(hypotheses):
    merged = {}
    for labels, score in hypotheses:
        merged[labels] = merged.get(labels, 0) + np.exp(score)
    with np.errstate(divide="ignore"):
        return sorted(((labels, np.log(value)) for labels, value in merged.items()), key=lambda one: -one[1])


def unsorted_merge(hypotheses):
    merged = {}
    for labels, score in hypotheses:
        merged[labels] = np.logaddexp(merged.get(labels, -np.inf), score)
    return merged


def agreeing_anywhere(texts):
    return "".join(letters[0] for letters in zip(*texts) if len(set(letters)) == 1)


def one_cut(encode, frames):
    return not torch.allclose(encode(frames[:4]), encode(frames)[:4], atol=1e-5)


def first_nine_cuts(encode, frames):
    whole = encode(frames)
    return any(not torch.allclose(encode(frames[:n]), whole[:n], atol=1e-5) for n in range(1, min(9, len(frames))))


def largest_difference(encode, frames):
    whole = encode(frames)
    return max(float((encode(frames[:n]) - whole[:n]).abs().max()) for n in range(1, len(frames))) > 1e-4


def one_alone_is_accused(encode, frames):
    return len(frames) == 1 or by_change(encode, frames)


def two_are_let_go(encode, frames):
    return len(frames) > 2 and by_change(encode, frames)


def by_change(encode, frames):
    for n in range(1, len(frames)):
        other = frames.clone()
        other[n:] += 1.0
        if (encode(other)[:n] - encode(frames)[:n]).abs().max() > 1e-4:
            return True
    return False


def by_arrays_in_place(encode, frames):
    whole = encode(frames).numpy()
    for n in reversed(range(1, len(frames))):
        frames[n:] = 5.0
        if not np.allclose(encode(frames).numpy()[:n], whole[:n], atol=1e-5):
            return True
    return False


WRONG = {
    "walk_score": {
        "A label moves on in time here": ctc_walk,
        "All blanks have the score of the first row": walk_of_row_0,
        "The last move is missing": lambda walk, blank, label: solution.walk_score(walk[:-1], blank, label),
        "This is the probability": lambda walk, blank, label: np.exp(solution.walk_score(walk, blank, label)),
        "A score is one number": lambda walk, blank, label: [blank[0, 0]] * 2,
        "each with the score of the place that it leaves": lambda walk, blank, label: float(blank.sum()),
    },
    "forward": {
        "A blank has the score of the place that it enters": forward_with(ways_as_entered),
        "This is the best way to each place": forward_with(right_ways, torch.maximum),
        "A label reads a frame here": forward_with(diagonal_ways),
        "Gradients do not go through it": forward_read_and_assigned_again,
        "No gradient comes back to the scores": forward_of_numbers,
        "The entries of alpha have different shapes": lambda blank, label: [
            [0.0 if t == u == 0 else value for u, value in enumerate(row)]
            for t, row in enumerate(solution.forward(blank, label))
        ],
        "is missing": lambda blank, label: [row[:1] for row in solution.forward(blank, label)],
        "The first place that differs": forward_with(right_ways, lambda one, other: one + other),
    },
    "best_frames": {
        "Each label is where it alone is most probable": lambda blank, label: np.maximum.accumulate(
            label.argmax(0)
        ).tolist(),
        "It goes back in time": lambda blank, label: label.argmax(0).tolist(),
        "Every frame is one too late": lambda blank, label: [t + 1 for t in solution.best_frames(blank, label)],
        "not one frame per label": lambda blank, label: list(range(len(blank))),
        "A frame is a whole number": lambda blank, label: [t + 0.4 for t in solution.best_frames(blank, label)],
        "A frame for each label is wanted": lambda blank, label: 3,
        "not the most probable walk": lambda blank, label: [len(blank) - 1] * label.shape[1],
    },
    "merge": {
        "The best of equal hypotheses is kept": merge_by(max),
        "that multiplies probabilities": merge_by(lambda one, other: one + other),
        "Equal labels are there twice": lambda hypotheses: sorted(hypotheses, key=lambda one: -one[1]),
        "exp of small log probabilities is 0": merge_through_exp,
        "The most probable is not the first": unsorted_merge,
        "not the labels that were there": lambda hypotheses: merge_by(np.logaddexp)(
            [("".join(sorted(labels)), score) for labels, score in hypotheses]
        ),
    },
    "stable": {
        "The whole best text is shown": lambda texts: texts[0],
        "The shortest text is shown": lambda texts: min(texts, key=len),
        "after a place where the texts differ": agreeing_anywhere,
        "not the longest text that all of them begin with": lambda texts: max(texts, key=len),
    },
    "looks_ahead": {
        "of every encoder that it looks ahead": lambda encode, frames: (
            not torch.equal(encode(frames)[:1], encode(frames + 1.0)[:1])
        ),
        "of no encoder that it looks ahead": lambda encode, frames: not torch.equal(encode(frames), encode(frames)),
        "An encoder that looks ahead is not found": one_cut,
        "An encoder that does not look ahead is accused": lambda encode, frames: (
            not torch.equal(encode(frames[3:]), encode(frames)[3:])
        ),
        "frames   14": first_nine_cuts,
        "frames   2": two_are_let_go,
        "frames   1": one_alone_is_accused,
        "max() arg is an empty sequence": largest_difference,
    },
}

RIGHT = {
    "forward": {
        "in dicts": forward_of_dicts,
        "a tensor, each entry assigned once": forward_in_place,
        "of less precision": lambda blank, label: [
            [value.float() for value in row] for row in solution.forward(blank, label)
        ],
    },
    "best_frames": {"an array": lambda blank, label: np.array(solution.best_frames(blank, label), np.int64)},
    "merge": {"a dict": lambda hypotheses: dict(solution.merge(hypotheses))},
    "stable": {"a list of letters": lambda texts: list(solution.stable(texts))},
    "looks_ahead": {
        "by arrays, in place": by_arrays_in_place,
        "by a change of what comes later": by_change,
    },
}


@pytest.mark.parametrize("exercise", course.exercises)
def test_the_check_tells_right_from_wrong(exercise):
    course.assert_judges(exercise, WRONG[exercise], right=RIGHT.get(exercise))


class Here:
    """Stands for the lesson: a student's answer is used."""

    def use(self, name, answer):
        return answer

    predict = property(lambda self: lambda *given, **options: self)

    def reveal(self, truth, why=""):
        self.truth = truth


@pytest.mark.parametrize(
    ("cell", "exercise", "given"),
    [
        ("10-forward-use", "forward", {}),
        ("10-merge-use", "merge", {"half": [("", np.log(0.49)), ("A", np.log(0.3)), ("A", np.log(0.21))]}),
        ("10-reveal-ahead", "looks_ahead", {}),
    ],
)
def test_cells_go_on_with_every_answer_that_passes(cell, exercise, given, capsys):
    source = {one.id: one.source for one in course.stored.cells}
    model = SimpleNamespace(encoder=torch.nn.LSTM(12, 12, batch_first=True))
    space = {"np": np, "torch": torch, "nn": torch.nn, "rf": rf, "model": model, "lesson": Here(), **given}
    space |= dict(zip(("blank", "label"), checks.lattice_of(1, 6, 3)))
    space |= {"lattice": SimpleNamespace(log_prob_of_all=0.0), "unseen": [("C", torch.randn(9, 12))]}
    if cell == "10-reveal-ahead":
        exec(source["10-break-build"].split("def looks_ahead")[0], space)
        space |= {"frames_of": lambda sound: sound, "ahead": Here()}
    said = []
    for answer in (getattr(solution, exercise), *RIGHT[exercise].values()):
        exec(source[cell], space | {exercise: answer})
        said.append(capsys.readouterr().out.splitlines()[:3])
    assert all(one == said[0] for one in said) and (said[0] or exercise == "looks_ahead")


def numbers(text):
    return [float(number) for number in re.findall(r"-?\d+\.\d+", text)]


@pytest.mark.notebook
def test_it_has_no_problems(ran):
    assert ran.problems() == []


@pytest.mark.notebook
def test_the_truths_are_those_of_the_solutions(ran):
    told = course.solutions.PREDICTIONS
    assert {name: ran.truth(name) for name in ("count", "when", "ahead")} == {
        name: str(told[name]) for name in ("count", "when", "ahead")
    }


@pytest.mark.notebook
def test_walks_and_sums_are_those_of_the_lattice(ran):
    best, ours, total, of_all = numbers(ran.printed("10-walk-use"))
    assert (best, total) == (ours, of_all)
    assert np.exp(best - total) < 0.5
    assert "-C-E--G--" in ran.printed("10-walk-use")
    assert len(set(numbers(ran.printed("10-forward-use")))) == 1
    assert re.findall(r"\[[\d, ]+\]", ran.printed("10-align-use")) == ["[1, 2, 4]"] * 2


@pytest.mark.notebook
def test_the_stairs_are_dark(ran):
    (text,) = ran.shown("10-lattice")
    rows = [row for row in weights_in(text) if len(row) == 6]
    assert len(rows) == 7 and rows[-1][-1] == 1
    assert all(sum(row) == pytest.approx(1, abs=0.03) for row in rows[1::2])  # each label is somewhere, once
    places = [row.index(max(row)) for row in rows]
    assert places == sorted(places) and all(max(row) > 0.5 for row in rows)


@pytest.mark.notebook
def test_the_model_learns_by_the_forward_of_the_student(ran):
    right, of = map(int, re.findall(r"(\d+) of (\d+)", ran.printed("10-heard"))[0])
    assert of == 50 and right >= 45
    assert any("transducer" in text or "Heard" in text for text in ran.shown("10-heard"))


@pytest.mark.notebook
def test_merging_changes_the_winner(ran):
    assert "most probable walk: ''    most probable text: 'A'" in ran.printed("10-merge-use")
    assert numbers(ran.printed("10-merge-use")) == [0.51, 0.49]


@pytest.mark.notebook
def test_what_is_sure_comes_later_than_the_best_guess(ran):
    (text,) = [text for text in ran.shown("10-stable-use") if "in all hypotheses" in text]
    assert "Labels that are there after each frame" in text
    assert ran.printed("10-stable-use").endswith("taken back 0 times\n")


@pytest.mark.notebook
def test_two_encoders_look_ahead_and_the_difference_says_where(ran):
    assert "{'causal_lstm': False, 'with_mean': True, 'with_window': True}" in "".join(ran.shown("10-reveal-ahead"))
    found = dict(line.split(" differs ") for line in ran.printed("10-break-see").splitlines())
    assert {name.strip(): where for name, where in found.items()} == {
        "causal_lstm": "nowhere", "with_mean": "in all frames", "with_window": "8 to 9",
    }  # fmt: skip


@pytest.mark.notebook
def test_the_walk_that_is_placed_by_hand_is_the_best_one(ran):
    rows = [line.split() for line in ran.truth("place").splitlines()[2:]]
    assert {name: cells.index("■") for name, *cells in rows} == {"C": 1, "E": 2, "G": 4}
