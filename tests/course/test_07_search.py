"""Notebook 7, searching: its checks tell right from wrong, and what it says is what its cells compute."""

import copy
import math
import re

import nbformat
import numpy as np
import pytest
import torch
from course.harness import Course
from waiting import SLOWNESS

import rfnb as rf
from rfnb.models import beam_search, load_g2p, pronounce
from rfnb.site.notebook_runs import executed

course = Course("07_search")


def flat(scores, log_probs, beam_size, **options):
    return (scores[:, None] + log_probs).flatten().topk(beam_size, **options)


def own_lanes(scores, log_probs, beam_size):
    best, labels = (scores[:, None] + log_probs).max(1)
    best, parents = best.sort(descending=True)
    return best, parents, labels[parents]


def without_scores(scores, log_probs, beam_size):
    best, place = log_probs.flatten().topk(beam_size)
    return best, place // log_probs.shape[1], place % log_probs.shape[1]


def worst(scores, log_probs, beam_size):
    best, place = flat(scores, log_probs, beam_size, largest=False)
    return best, place // log_probs.shape[1], place % log_probs.shape[1]


def multiplied(scores, log_probs, beam_size):
    best, place = (scores[:, None] * log_probs).flatten().topk(beam_size)
    return best, place // log_probs.shape[1], place % log_probs.shape[1]


def by_beam(scores, log_probs, beam_size):
    best, place = flat(scores, log_probs, beam_size)
    return best, place // len(scores), place % len(scores)


def swapped(scores, log_probs, beam_size):
    best, place = flat(scores, log_probs, beam_size)
    return best, place % log_probs.shape[1], place // log_probs.shape[1]


def worst_first(scores, log_probs, beam_size):
    best, place = flat(scores, log_probs, beam_size)
    return best.flip(0), (place // log_probs.shape[1]).flip(0), (place % log_probs.shape[1]).flip(0)


def as_probabilities(scores, log_probs, beam_size):
    best, place = flat(scores, log_probs, beam_size)
    return best.exp(), place // log_probs.shape[1], place % log_probs.shape[1]


def float_places(scores, log_probs, beam_size):
    best, place = flat(scores, log_probs, beam_size)
    return best, torch.floor(place / log_probs.shape[1]), place % log_probs.shape[1]


def divided(scores, log_probs, beam_size):
    best, place = flat(scores, log_probs, beam_size)
    return best, place / log_probs.shape[1], place % log_probs.shape[1]


def one_of_each_label(scores, log_probs, beam_size):
    best, parents = (scores[:, None] + log_probs).max(0)
    best, labels = best.topk(min(beam_size, len(best)))
    return best, parents[labels], labels


def halved(scores, log_probs, beam_size):
    best, parents, labels = course.solutions.beam_step(scores, log_probs, beam_size)
    return best / 2, parents, labels


def labels_alone(scores, log_probs, beam_size):
    _, parents, labels = course.solutions.beam_step(scores, log_probs, beam_size)
    return log_probs[parents, labels], parents, labels


def plain_python(scores, log_probs, beam_size):
    """Right, and another way: lists and a sort."""
    rows = [
        (float(score + log_prob), parent, label)
        for parent, score in enumerate(scores)
        for label, log_prob in enumerate(log_probs[parent])
    ]
    return tuple(list(one) for one in zip(*sorted(rows, key=lambda row: -row[0])[:beam_size]))


def in_numpy(scores, log_probs, beam_size):
    total = np.asarray(scores)[:, None] + np.asarray(log_probs)
    order = np.argsort(-total, axis=None, kind="stable")[:beam_size]
    parents, labels = np.unravel_index(order, total.shape)
    return total[parents, labels], parents, labels


def crossing_left_out(probs, p):
    ordered, labels = probs.sort(descending=True)
    kept = ordered.cumsum(0) <= p + 1e-6
    kept[0] = True
    out = torch.zeros_like(probs)
    out[labels[kept]] = ordered[kept]
    return out / out.sum()


def not_divided(probs, p):
    right = course.solutions.nucleus(probs, p)
    return torch.where(right > 0, probs, 0)


def by_threshold(probs, p):
    kept = torch.where(probs >= probs[course.solutions.nucleus(probs, p) > 0].min(), probs, 0)
    return kept / kept.sum()


def shorter(probs, p):
    right = course.solutions.nucleus(probs, p)
    return right[right > 0]


def in_a_loop(probs, p):
    """Right, and another way: label by label."""
    out, mass = np.zeros(len(probs)), 0.0
    for label in np.argsort(-probs.numpy()):
        out[label] = probs[label]
        mass += float(probs[label])
        if mass >= p - 1e-6:
            break
    return out / out.sum()


WRONG = {
    "beam_step": {
        "Each hypothesis went on by its own best label": own_lanes,
        "The scores so far were left out": without_scores,
        "These are the worst continuations": worst,
        "were multiplied": multiplied,
        "divided by the number of hypotheses": by_beam,
        "Parents and labels have changed places": swapped,
        "the best one comes first": worst_first,
        "These are probabilities": as_probabilities,
        "Parents are indices, and these are floats": float_places,
        "Divide by //": divided,
        "Each label is at most once among these": one_of_each_label,
        "The right hypotheses go on, and their scores are other ones": halved,
        "The score of the parent was left out": labels_alone,
        "Each of the three has one entry for each": lambda *given: [one[None] for one in course.solutions.beam_step(*given)],
        "Three tensors come out": lambda scores, log_probs, beam_size: scores,
    },
    "normalised": {
        "divides by length ** α": lambda score, length, alpha: score / length**alpha,
        "multiplied by the penalty": lambda score, length, alpha: score * ((5 + length) / 6) ** alpha,
        "The division by 6 ** α is missing": lambda score, length, alpha: score / (5 + length) ** alpha,
        "has its exponent α, too": lambda score, length, alpha: score / ((5 + length) ** alpha / 6),
        "The rating is different": lambda score, length, alpha: score,
    },
    "alpha_flip": {
        "the short one still wins": 0.2,
        "the long one wins already": 0.9,
        "for score / length ** α": 0.37,
        "if the end label is not counted": 0.565,
        "This is no number": math.nan,
    },
    "nucleus": {
        "The label that crosses p is missing": crossing_left_out,
        "has to sum to 1 again": not_divided,
        "More labels are kept than are needed": by_threshold,
        "came back sorted": lambda probs, p: course.solutions.nucleus(probs, p).sort(descending=True).values,
        "those outside of the nucleus are 0": shorter,
        "p is no threshold": lambda probs, p: torch.where(probs >= p, probs, 0) / probs[probs >= p].sum().clamp(min=1e-9),
    },
    "top_k": {
        "The temperature is not used": lambda logits, temperature, k: course.solutions.top_k(logits, 1.0, k),
        "not multiplied": lambda logits, temperature, k: course.solutions.top_k(logits, 1 / temperature, k),
        "All labels are left": lambda logits, temperature, k: (logits / temperature).softmax(0),
        "One label too many": lambda logits, temperature, k: course.solutions.top_k(logits, temperature, min(k + 1, len(logits))),
        "divides probabilities": lambda logits, temperature, k: course.solutions.top_k(logits.softmax(0), temperature, k),
        "has to sum to 1 again": lambda logits, temperature, k: (
            (logits / temperature).softmax(0) * (course.solutions.top_k(logits, 1.0, k) > 0)
        ),
        "came back sorted": lambda *given: course.solutions.top_k(*given).sort(descending=True).values,
        "Logits of 0": lambda logits, temperature, k: torch.where(
            course.solutions.top_k(logits, 1.0, k) > 0, logits / temperature, 0
        ).softmax(0),
        "the k worst labels": lambda logits, temperature, k: course.solutions.top_k(-logits, temperature, k),
        "those of other labels are 0": lambda logits, temperature, k: (logits.topk(k).values / temperature).softmax(0),
        "exp of a large logit": lambda logits, temperature, k: (
            lambda powers: powers / powers.sum()
        )(torch.exp(logits / temperature) * (course.solutions.top_k(logits, 1.0, k) > 0)),
    },
    "beaten_word": {
        "both are equally far": "abducting",
        "the beam of 8 is nearer": "loraine",
        "is not one of the words": "parachute",
        "The answer is a word": 3,
    },
    "lying_word": {
        "is not furthest from the truth": "cas",
        "is not among the first 200 words": "nguyen",
        "is not one of the words": "parachute",
    },
}  # fmt: skip
RIGHT = {
    "beam_step": {"plain Python": plain_python, "NumPy": in_numpy},
    "normalised": {"one power": lambda score, length, alpha: score * (6 / (5 + length)) ** alpha},
    "alpha_flip": {"exact": math.log(1.3089733 / 1.3748655) / math.log(12 / 13), "rounded up": 0.62},
    "nucleus": {"a loop in NumPy": in_a_loop},
    "top_k": {
        "a threshold": lambda logits, temperature, k: (
            (logits / temperature).masked_fill(logits < logits.sort().values[-k], -torch.inf).softmax(0)
        )
    },
    "beaten_word": {"another one": "sagas"},
}


@pytest.mark.parametrize("exercise", course.exercises)
def test_the_check_tells_right_from_wrong(exercise):
    course.assert_judges(exercise, WRONG[exercise], right=RIGHT.get(exercise))


def test_the_beam_is_played_by_its_sums_and_not_by_single_labels():
    model = load_g2p()
    with rf.record(model=model, kinds="beams") as trace:
        pronounce(model, "whiplash", beam_size=3)
    asked = course.lesson.be_the_beam("be_the_beam", trace, steps=3)
    right = course.solutions.PREDICTIONS["be_the_beam"]
    asked.answer = right
    assert asked.passed
    asked.answer = [right[0], [[0, "IH"], [1, "W"], [2, "IH"]]]  # what each of the three would write
    assert not asked.passed


@pytest.mark.notebook
def test_it_runs_and_every_prediction_has_its_truth(ran):
    ran.assert_truths(course.solutions.PREDICTIONS, but=("why", "be_the_beam"))


@pytest.mark.notebook
def test_greedy_search_takes_ch_where_the_beam_of_four_ends_with_sh(ran):
    (view,) = ran.shown("beam_view = ")
    assert re.search(r"winner +P EH R AH SH UW T", view)
    assert re.search(r"^4 +0>CH -1\.533 +0>SH -1\.556 \*", view, re.M)  # the fifth step


@pytest.mark.notebook
def test_the_beam_by_hand_has_the_survivors_of_the_search(ran):
    revealed = "".join(ran.shown("by_hand.reveal()"))
    found = [re.findall(r"■ (\w+)", line) for line in revealed.splitlines() if "lane" in line or "start" in line]
    assert [label for lane in found for label in lane] == ["W", "HH", "V", "IH", "W", "HH", "P", "IH", "W"]


@pytest.mark.notebook
def test_the_search_of_the_exercise_is_that_of_the_model(ran):
    own, models = ran.shown("my_view = ")[0], ran.shown("07-whiplash-view")[0]
    lines = re.compile(r"^\d +(-\d\.\d+) +(?:winner +)?((?:[A-Z]+ ?)+)$", re.M)
    assert lines.findall(own) == lines.findall(models) and len(lines.findall(own)) == 3
    assert [text for _, text in lines.findall(own)][:2] == ["W IH P L AE SH", "HH W IH P L AE SH"]


@pytest.mark.notebook
def test_the_winner_flips_where_the_solution_says(ran):
    (view, _) = ran.shown("rating_view = ")
    assert re.search(r"first -0\.06\d+, last 0\.0", view)  # the long one is behind at first, and ahead in the end
    assert (ran.truth("alpha_0"), ran.truth("alpha_1")) == ("W IH P L AE SH", "HH W IH P L AE SH")


@pytest.mark.notebook
def test_a_larger_nucleus_draws_more_pronunciations(ran):
    (view,) = ran.shown("draws_view = ")
    assert "p = 0.3" in view and "p = 1.0" in view
    drawn = [int(count) for count in re.findall(r"(\d+) different", ran.printed("draws_view = "))]
    assert len(drawn) == 4 and drawn == sorted(drawn) and drawn[0] == 1 and drawn[-1] > 20


@pytest.mark.notebook
def test_a_beam_of_one_beats_a_beam_of_eight_on_a_few_words(ran):
    (why,) = re.findall(r"(\d+: .* nearer for .*)", "".join(ran.shown("greedy_better = ")))
    count, nearer, lower = map(int, re.findall(r"^(\d+): .* nearer for (\d+)\. .* for (\d+)\.$", why)[0])
    assert 1 <= count <= 20 and nearer > count and lower == 0
    assert course.solutions.beaten_word in why


@pytest.mark.notebook
def test_what_wins_was_mostly_in_the_first_slot_all_along():
    """As the notebook says: the result of greedy search, whose one slot is the first."""
    words = [line.split("\t")[0] for line in course.lesson.file("data/cmudict_test_words.tsv").read_text().splitlines()]
    model, some = load_g2p(), sorted(words[:200], key=len)
    same = [
        one[0].phonemes == four[0].phonemes
        for one, four in zip(beam_search(model, some, beam_size=1), beam_search(model, some, beam_size=4))
    ]
    assert sum(same) > 180


@pytest.mark.notebook
def test_the_broken_search_claims_another_score_than_the_model(ran):
    claimed, own = map(float, re.findall(r"-\d+\.\d+", ran.printed("it claims")))
    assert abs(claimed - own) > 0.01


@pytest.mark.notebook
def test_rfnb_names_the_state_that_does_not_follow(ran):
    cell = ran.cell("def broken_loop(word)")
    warned = "".join(output.text for output in cell.outputs if output.get("name") == "stderr")
    assert "decoder_state" in warned and "is carried by Python" in warned
    assert "the operands are of different steps of a search" in ran.printed("def broken_loop(word)")


@pytest.mark.notebook
def test_checks_are_unsolved_and_the_solutions_go_on(ran):
    checks = {data["exercise"]: data["status"] for data in ran.records("check")}
    assert checks == dict.fromkeys(course.exercises, "unsolved")
    assert "Going on with the solution of beam_step: yours is not solved yet." in ran.printed("my_view = ")


@pytest.mark.notebook
def test_no_view_tells_the_survivors_before_the_beam_by_hand_is_answered(ran, tmp_path):
    def telling(notebook):
        shown = [
            (cell.id, str(output.get("data", {}))) for cell in notebook.cells for output in cell.get("outputs", [])
        ]
        return {name for name, text in shown if "0>P -0.883" in text}

    assert telling(ran.notebook) == {"07-whiplash-view", "07-search"}
    first = copy.copy(course.stored)  # up to the last cell that tells
    first.cells = first.cells[: 1 + max(at for at, cell in enumerate(first.cells) if cell.id in telling(ran.notebook))]
    nbformat.write(first, tmp_path / course.path.name)
    unanswered = executed(tmp_path / course.path.name, env={}, seconds=300 * SLOWNESS, cache=tmp_path)
    assert len(unanswered.cells) == len(first.cells) and telling(unanswered) == set()
