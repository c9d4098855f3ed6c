"""Notebook 9, CTC: its checks tell right from wrong, and what it says is what its cells compute."""

import itertools
import re

import numpy as np
import pytest
import torch
from course.harness import Course

from rfnb.teaching.course import load

course = Course("09_ctc")


def blanks_first(path, blank=0):
    return [label for label, _ in itertools.groupby(label for label in path if label != blank)]


def by_groups(path, blank=0):
    """Right, and another way."""
    return [label for label, _ in itertools.groupby(path) if label != blank]


def trellis(log_probs, labels, blank=0, *, may=None, starts=2, joined=torch.logaddexp, emits=True):
    """A trellis with one thing done otherwise."""
    rows = [blank] + [one for label in labels for one in (label, blank)]
    out = torch.full((len(log_probs), len(rows)), -torch.inf)
    out[0, :starts] = log_probs[0, rows][:starts]
    right = lambda rows, s: rows[s] != blank and rows[s] != rows[s - 2]  # noqa: E731
    for t, s in itertools.product(range(1, len(log_probs)), range(len(rows))):
        out[t, s] = out[t - 1, s]
        if s >= 1:
            out[t, s] = joined(out[t, s], out[t - 1, s - 1])
        if s >= 2 and (may or right)(rows, s):
            out[t, s] = joined(out[t, s], out[t - 1, s - 2])
        if emits:
            out[t, s] = out[t, s] + log_probs[t, rows[s]]
    return out


def other(**options):
    return lambda log_probs, labels, blank=0: trellis(log_probs, labels, blank, **options)


def in_probabilities(log_probs, labels, blank=0):
    """Right, and another way: vectors of probabilities, and the log in the end."""
    rows = np.array([blank] + [one for label in labels for one in (label, blank)])
    probs = np.exp(log_probs.double().numpy())[:, rows]
    jumps = (rows[2:] != blank) & (rows[2:] != rows[:-2])
    before = np.where(np.arange(len(rows)) < 2, probs[0], 0)
    out = [before]
    for row in probs[1:]:
        now = before.copy()
        now[1:] += before[:-1]
        now[2:] += np.where(jumps, before[:-2], 0)
        before = now * row
        out.append(before)
    with np.errstate(divide="ignore"):
        return np.log(out)


WRONG = {
    "collapse": {
        "The blanks were dropped before repetitions were merged": blanks_first,
        "Repetitions are still there": lambda path, blank=0: [label for label in path if label != blank],
        "The blanks are still there": lambda path, blank=0: [label for label, _ in itertools.groupby(path)],
        "A label that comes back later": lambda path, blank=0: list(dict.fromkeys(one for one in path if one != blank)),
        "This is a text": lambda path, blank=0: "".join(map(str, by_groups(path, blank))),
        "The blank is an argument": lambda path, blank=0: by_groups(path),
        "These are other labels": lambda path, blank=0: by_groups(path)[::-1],
    },
    "forward": {
        "The blank between two equal labels was left out": other(may=lambda rows, s: rows[s] != 0),
        "A blank row was reached over the label above it": other(may=lambda rows, s: True),
        "may be left out: that cell is reached": other(may=lambda rows, s: False),
        "A path may begin with its first label": other(starts=1),
        "A path begins in one of the first two rows": other(starts=99),
        "This is the best path, not the sum": other(joined=torch.maximum),
        "own label in the frame is missing": other(emits=False),
        "The blank is an argument: with blank=3": lambda log_probs, labels, blank=0: trellis(log_probs, labels),
        "It is turned: frames first": lambda log_probs, labels, blank=0: trellis(log_probs, labels).T,
        "These are probabilities; a cell is a log": lambda log_probs, labels, blank=0: trellis(log_probs, labels).exp(),
    },
    "differ": {
        "Here greedy decoding finds the most probable labels": [[0.1, 0.9, 0.0], [0.1, 0.0, 0.9]],
        "sum to 1": [[0.6, 0.5, 0.0], [0.6, 0.4, 0.0]],
        "two labels are equally probable": [[0.5, 0.5, 0.0], [0.6, 0.4, 0.0]],
        "A probability is below 0": [[1.1, -0.1, 0.0], [0.6, 0.4, 0.0]],
        "a column for the blank, a and b": [[0.6, 0.4], [0.6, 0.4]],
        "a list of rows of the same length": [[0.6, 0.4, 0.0], [0.6, 0.4]],
        "It is a table": 0.6,
    },
    "victim": {
        "no key twice in a row, so both orders give the same": "9653",
        "A key that comes back later is kept apart": "9209",
        "none of the numbers that were dialled": "1100",
        "The answer is one of the numbers": "seven",
    },
}
RIGHT = {
    "collapse": {"groups": by_groups, "a tuple": lambda path, blank=0: tuple(by_groups(path, blank))},
    "forward": {"probabilities in NumPy": in_probabilities},
    "differ": {
        "a tensor": torch.tensor([[0.6, 0.4, 0.0], [0.6, 0.4, 0.0]]),
        "three frames": [[0.5, 0.3, 0.2], [0.5, 0.3, 0.2], [0.5, 0.3, 0.2]],
    },
    "victim": {"another one": "8872", "a number": 11006},
}


@pytest.mark.parametrize("exercise", course.exercises)
def test_the_check_tells_right_from_wrong(exercise):
    course.assert_judges(exercise, WRONG[exercise], right=RIGHT.get(exercise))


@pytest.mark.notebook
def test_it_runs_and_every_prediction_has_its_truth(ran):
    assert ran.problems() == []
    truths = {data["exercise"]: data["truth"] for data in ran.records("reveal")}
    for question in ("paths", "blank", "first"):
        assert truths[question] == str(course.solutions.PREDICTIONS[question])


@pytest.mark.notebook
def test_the_number_has_nearly_seventy_frames_of_which_most_are_sound(ran):
    axes = {"09-sound": "pressed", "09-forward-view": "row", "09-epochs-view": "label", "09-by-hand": "number"}
    assert all(f"(rows: {row}, columns: " in ran.shown(cell)[0] for cell, row in axes.items())
    (frames,) = re.findall(r"(\d+) in all", ran.shown("09-sound")[0])
    assert "nearly seventy frames" in ran.prose() and 65 <= int(frames) < 70
    (share,) = re.findall(r"and (\d+)% are sound", "".join(ran.shown("09-blank-reveal")))
    assert "more than two thirds are sound" in ran.prose() and int(share) > 67


@pytest.mark.notebook
def test_fewer_paths_stand_for_two_equal_labels(ran):
    said = "".join(ran.shown("paths_guess.reveal("))
    assert int(ran.truth("paths")) == 15 == said.count(",") + 1 - said.split("For a a")[1].count(",")
    assert "For a a there are only 5" in said


@pytest.mark.notebook
def test_the_trellis_gives_the_loss_of_torch(ran):
    own, torchs = re.search(r"loss (\S+), torch says (\S+)", ran.printed("trellis_view = ")).groups()
    assert own == torchs


@pytest.mark.notebook
def test_the_blank_is_learned_first_and_the_labels_get_narrow(ran):
    said = "".join(ran.shown("blank_guess.reveal("))
    blank, sound, tone, width = map(
        float,
        re.search(
            r"In (\d+)% of them, and (\d+)% are sound. A tone takes (\S+) frames, and its label (\d+\.\d):", said
        ).groups(),
    )
    assert blank > 65 and sound > 66 and width < tone / 2
    assert ran.truth("first") == "the blank everywhere"


@pytest.mark.notebook
def test_it_learns_to_listen(ran):
    (curves,) = [text for text in ran.shown("watch_view = ") if "loss" in text]
    first, last = map(float, re.search(r"loss.*first (\S+), last ([\d.e-]*\d)", curves).groups())
    assert last < 0.2 < first


@pytest.mark.notebook
def test_the_slider_goes_through_all_epochs(ran):
    (view,) = ran.shown("epochs_view = ")
    assert "in all 13 maps" in view or "12 more maps" in view


@pytest.mark.notebook
def test_the_first_five_is_a_peak_in_its_tone(ran):
    said = "".join(ran.shown("five_guess.reveal("))
    start, begins, ends = map(
        int, re.search(r"From frame (\d+) on. Its tone goes from frame (\d+) to (\d+)", said).groups()
    )
    assert begins - 2 <= start <= ends
    assert 1 <= int(ran.truth("five")) <= (ends - begins) / 2


@pytest.mark.notebook
def test_the_tones_are_painted_where_they_are(ran):
    (asked,) = [data for data in ran.records() if data.get("exercise") == "by_hand" and data["kind"] != "reveal"]
    assert "A column is 40 ms" in asked["question"]
    lines = "".join(ran.shown("by_hand.reveal()")).splitlines()
    drawn = [re.findall("[■·]", line) for line in lines if "■" in line]
    painted = [[column for column, cell in enumerate(row) if cell == "■"] for row in drawn]
    assert painted == course.solutions.PREDICTIONS["by_hand"]


@pytest.mark.notebook
def test_the_broken_decoder_loses_a_key_that_comes_twice(ran):
    lines = ran.printed("victims = [").splitlines()
    pairs = [re.fullmatch(r"(\d+) becomes (\d+)", line).groups() for line in lines]
    assert len(pairs) >= 5
    assert all("".join(key for key, _ in itertools.groupby(one)) == lost for one, lost in pairs)
    listed = ran.printed("def broken_collapse").split()
    assert listed == load(course.folder / "checks/09_ctc.py").NUMBERS
    assert [one for one, _ in pairs] == [
        one for one in listed if re.search(r"(.)\1", one)
    ]  # all of these were heard right
    assert course.solutions.victim in listed and all(one in listed for one, _ in pairs)


@pytest.mark.notebook
def test_the_prefix_beam_finds_what_greedy_does_not(ran):
    said = ran.printed("differ_view = ")
    assert "greedy: '', prefix beam: 'a' with a probability of 0.64" in said
    assert "merged" in "".join(ran.shown("differ_view = "))


@pytest.mark.notebook
def test_checks_are_unsolved(ran):
    checks = {data["exercise"]: data["status"] for data in ran.records("check")}
    assert checks == dict.fromkeys(course.exercises, "unsolved")
