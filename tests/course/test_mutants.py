"""No mutant of a solution passes its check unless it is right; each of those is listed here with the reason.

All mutants take minutes, so a part is tried by default, another one with RFNB_SEED=1 to 23. RFNB_ALL=1 tries them all,
and checks that each reason is still needed.

    PYTHONPATH=.:tests python tests/course/test_mutants.py 07_search     # figures: of these lessons, default all

prints for each exercise how many there are, how many are refused, and for those that pass the reason why they are right.
"""

from __future__ import annotations

import linecache
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from types import CodeType, FrameType
from typing import Any

import numpy as np
import pytest
import torch
from course.harness import NOTEBOOKS, Course
from course.mutants import mutants_of
from seed import ALL, SEED

import rfnb as rf
from rfnb.teaching.sources import source_with_needs

PARTS = 24
_MOST_LINES = 20_000  # of a mutant, which may never end

# By lesson and exercise: what was changed, and why that is right, too.
OTHER_ORDER = "a product does not depend on the order of its factors"
SUM = "a sum does not depend on the order"
BOTH = "where both are so"
NO_AXES_LEFT = "the last axis of two"
RIGHT: dict[str, dict[str, dict[str, str]]] = {
    "01_dims": {
        "project": {"rf.matmul(x, weight, reduce=feature) -> rf.matmul(weight, x, reduce=feature)": OTHER_ORDER},
        "sum_by_hand": {"rf.Loop(axis=letters, name='sum') -> rf.Loop(axis=letters)": "a loop needs no name"},
        "energies": {"rf.matmul(query, keys, reduce=key_dim) -> rf.matmul(keys, query, reduce=key_dim)": OTHER_ORDER},
        "telling_sizes": dict.fromkeys(
            ("(2, 3, 5, 7) -> (3, 2, 5, 7)", "(2, 3, 5, 7) -> (2, 5, 3, 7)", "(2, 3, 5, 7) -> (2, 3, 7, 5)",
             "2 -> 1", "3 -> 4", "5 -> 6", "5 -> 4", "7 -> 8", "7 -> 6"),
            "other sizes, of which those of targets and sources differ",
        ),
        "mended_attention": dict.fromkeys(("-1 -> 1", "-1 -> 1 #2"), NO_AXES_LEFT),
    },
    "02_ragged": {
        "masked_softmax": {
            **dict.fromkeys(("0.0 -> 0.05", "0.0 -> -0.05"), "in a row without anything real all exps are 0"),
            **dict.fromkeys(("1.0 -> 1.1", "1.0 -> 0.85"), "0 divided by anything"),
        },
        "make_batches": dict.fromkeys(
            ("for start in range(0, len(order), 16 * size): wind ...  size] for at in range(0, len(window), size)] -> "
             "for start in list(range(0, len(order), 16 * size)) ...  size] for at in range(0, len(window), size)] #3",
             "generator.shuffle(batches) -> pass", "generator.shuffle(batches) -> generator",
             "return batches -> return batches[::-1]", "return batches -> return sorted(batches)"),
            "the batches in another order, which is asked for only if they all come by length",
        ),
        "rate_mended": {"0 -> -1": "the one column of the output"},
    },
    "03_loops": {
        "read": {"rf.Loop(axis=time, name='read') -> rf.Loop(axis=time)": "a loop needs no name"},
        "PortedGRU": dict.fromkeys(("-1 -> 1", "-1 -> 1 #2"), NO_AXES_LEFT),
        "clipped": {"norm > limit -> norm >= limit": "at the limit the factor is 1"},
    },
    "04_encoder_decoder": {
        "trained": {
            "weight.detach() -> weight": "it is copied back without gradients",
            **dict.fromkeys(("0 -> -1", "0 -> 1"), "the first epoch is the best so far, and begins the count"),
            "for weight, best in zip(weights, kept): weight.copy_(best) -> "
            "for weight, best in list(zip(weights, kept))[::-1]: weight.copy_(best)": "each weight has its own value",
        },
        "masked_loss": dict.fromkeys(
            ("return torch.nn.functional.cross_entropy(logits[real], words[real]) -> "
             "return torch.nn.functional.cross_entropy(logits[real], words[real]).sum()",
             "return torch.nn.functional.cross_entropy(logits[real], words[real]) -> "
             "return torch.nn.functional.cross_entropy(logits[real], words[real]).flip(0)"),
            "of one number",
        )
    },
    "05_attention": {"scaled_scores": {"keys.transpose(1, 2) -> keys.transpose(2, 1)": "the same two axes"}},
    "06_explanation": {
        "total_variation": {
            "np.asarray(p) - np.asarray(q) -> np.asarray(q) - np.asarray(p)": "the absolute value follows",
            **dict.fromkeys(("np.asarray(p) -> p", "np.asarray(q) -> q"), "they are arrays"),
        },
        "move_mass": {"np.asarray(row) -> row": "it is an array", "(..., position) -> (position, ...)": "of one row"},
        "most_monotonic": {
            **dict.fromkeys(
                ("np.arange(weights.shape[1]) - (weights.shape[1] - 1) / 2 -> np.arange(weights.shape[1])",
                 "np.arange(weights.shape[1]) - (weights.shape[1] - 1) / 2 -> np.arange(weights.shape[1]) + (weights.shape[1] - 1) / 2",
                 "(weights.shape[1] - 1) / 2 -> weights.shape[1] - 1", "(weights.shape[1] - 1) / 2 -> 2",
                 "(weights.shape[1] - 1) / 2 -> (weights.shape[1] - 1) * 2", "(weights.shape[1] - 1) / 2 -> 2 / (weights.shape[1] - 1)",
                 "weights.shape[1] - 1 -> weights.shape[1]", "weights.shape[1] - 1 -> 1", "weights.shape[1] - 1 -> weights.shape[1] + 1",
                 "weights.shape[1] - 1 -> 1 - weights.shape[1]", "1 -> 2 #3", "1 -> 0 #3",
                 "1 -> 2 #4", "1 -> 0 #4", "2 -> 3 #2", "2 -> 1 #2"),
                "the positions are centred already, so nothing changes if a number is added to all rows",
            ),
            **dict.fromkeys(
                ("(apart ** 2).sum(1) * (rows ** 2).sum() -> (apart ** 2).sum(1)",
                 "(apart ** 2).sum(1) * (rows ** 2).sum() -> (apart ** 2).sum(1) / (rows ** 2).sum()",
                 "(apart ** 2).sum(1) -> (apart ** 2).mean(1)", "(rows ** 2).sum() -> (rows ** 2).mean()",
                 "(rows ** 2).sum() -> (rows ** 2).max()", "rows ** 2 -> 2 ** rows"),
                "a factor that all heads have",
            ),
            "int(np.argmax(np.where(spread > 1e-09, apart @ rows / np.maximum(spread, 1e-09), 0))) -> "
            "np.argmax(np.where(spread > 1e-09, apart @ rows / np.maximum(spread, 1e-09), 0))": "a number of NumPy",
            **dict.fromkeys(
                ("spread > 1e-09 -> spread >= 1e-09", "np.maximum(spread, 1e-09) -> spread",
                 "np.maximum(spread, 1e-09) -> np.maximum(1e-09, spread)"),
                "of a spread of 0, for which 0 is taken",
            ),
        },
    },
    "07_search": {
        "top_k": {"0 -> -1": "of one axis"},
        "nucleus": {
            "0 -> -1": "of one axis",
            **dict.fromkeys(
                ("torch.zeros_like(probs) -> probs", "torch.zeros_like(probs) -> torch.ones_like(probs)"), "all of it is overwritten"
            ),
        }
    },
    "08_errors": {
        "classify": {"max(references.values()) > output_score -> max(references.values()) >= output_score": "of equal scores"},
        "ends_in_loop": {
            "for size in range(1, len(labels) // times + 1): pi ... -size * times:] == piece * times: return True -> "
            "for size in list(range(1, len(labels) // times + 1 ... -size * times:] == piece * times: return True #3":
                "from large to small",
            "len(labels) // times -> len(labels)": "a piece that is too long is not there four times",
        },
        "check_search": {
            **dict.fromkeys(
                ("for word in ('cat', 'parachute', 'vertebrae'): fou ...  says {found.score:.3f}, the model {own:.3f}' -> "
                 "for word in list(('cat', 'parachute', 'vertebrae') ...  says {found.score:.3f}, the model {own:.3f}'" + number
                 for number in ("", " #2", " #3")),
                "parachute is still among them",
            ),
            **dict.fromkeys(
                ("('cat', 'parachute', 'vertebrae') -> ('parachute', 'cat', 'vertebrae')",
                 "('cat', 'parachute', 'vertebrae') -> ('cat', 'vertebrae', 'parachute')"), "the same words",
            ),
            **dict.fromkeys(("search(word, beam_size=4) -> search(word)", "4 -> 5", "4 -> 3"), "another size of the beam"),
            "0 -> -1": "of a list of one",
            "abs(found.score - own) < 0.001 -> abs(found.score - own) <= 0.001": "at the tolerance",
            "found.score - own -> own - found.score": "the absolute value follows",
        },
    },
    "09_ctc": {
        "collapse": {"(before, blank) -> (blank, before)": "in either"},
        "forward": {
            "for s in range(len(rows)): total = out[t - 1, s] i ... - 1, s - 2]) out[t, s] = total + scores[t, s] -> "
            "for s in list(range(len(rows)))[::-1]: total = out ... - 1, s - 2]) out[t, s] = total + scores[t, s]":
                "a cell needs those of the frame before only",
            **dict.fromkeys(
                ("torch.logaddexp(total, out[t - 1, s - 1]) -> torch.logaddexp(out[t - 1, s - 1], total)",
                 "torch.logaddexp(total, out[t - 1, s - 2]) -> torch.logaddexp(out[t - 1, s - 2], total)"), "a sum",
            ),
            **dict.fromkeys(
                ("s >= 2 and rows[s] != blank and (rows[s] != rows[s - 2]) -> s >= 2 and rows[s] != rows[s - 2]", "rows[s] -> rows"),
                "two rows before a blank is a blank",
            ),
            **dict.fromkeys(("s >= 2 -> s > 2", "2 -> 3 #3"), "row 2 is a blank"),
        },
    },
    "10_transducers": {
        "walk_score": {"return score -> return score.sum()": "of one number"},
        "forward": dict.fromkeys(("0 -> -1 #3", "0 -> -1 #4", "0 -> -1 #5"), "an entry of the same shape, or of a list of one"),
        "best_frames": {
            **dict.fromkeys(("0.0 -> 0.05", "0.0 -> -0.05"), "added to all walks"),
            "t or u -> u": "what comes before the first label are blanks",
            "return found[::-1] -> return sorted(found[::-1])": "they are in order",
        },
        "merge": {
            "for labels, log_prob in hypotheses: merged[labels] ... addexp(merged.get(labels, -np.inf), log_prob) -> "
            "for labels, log_prob in list(hypotheses)[::-1]: me ... addexp(merged.get(labels, -np.inf), log_prob)": "sorted afterwards",
            "np.logaddexp(merged.get(labels, -np.inf), log_prob) -> np.logaddexp(log_prob, merged.get(labels, -np.inf))": "a sum",
        },
        "stable": {"0 -> -1": "all letters are the same"},
    },
    "11_transformer": {
        "positions": {"np.zeros((count, size)) -> np.ones((count, size))": "all of it is overwritten"},
        "self_attention": {
            **dict.fromkeys(
                ("rf.matmul(query, keys, reduce=key_dim) -> rf.matmul(keys, query, reduce=key_dim)",
                 "rf.matmul(rf.softmax(energy, axis=earlier), values, reduce=earlier) -> "
                 "rf.matmul(values, rf.softmax(energy, axis=earlier), reduce=earlier)"), OTHER_ORDER,
            ),
            **dict.fromkeys(
                ("rf.where(seen, energy, -1e+30, allow_broadcast_all_sources=True) -> rf.where(seen, energy, -1e+30)", "True -> False"),
                "the energies have all dims of the mask",
            ),
        },
        "cached_step": {
            **dict.fromkeys(
                ("torch.zeros(0, *part.shape) -> torch.ones(0, *part.shape)", "torch.zeros(0, *part.shape) -> torch.zeros(0)",
                 "(key, value) -> (value, key)"), "it is empty",
            ),
            **dict.fromkeys(("-1 -> 1", "-1 -> 1 #2"), NO_AXES_LEFT),
        },
        "PortedAttention": {
            **dict.fromkeys(
                ("(even * angles.cos() - odd * angles.sin(), even * angles.sin() + odd * angles.cos()) -> "
                 "(even * angles.sin() + odd * angles.cos(), even * angles.cos() - odd * angles.sin())",
                 "even * angles.cos() - odd * angles.sin() -> odd * angles.sin() - even * angles.cos()",
                 "return torch.stack(turned, -1).flatten(-2) -> return -torch.stack(turned, -1).flatten(-2)", "1 -> 2 #2"),
                "queries and keys are changed alike, so their products stay",
            ),
            **dict.fromkeys(
                ("(weights @ value).transpose(1, 2) -> (weights @ value).transpose(2, 1)",
                 "part.unflatten(-1, (-1, self.size)).transpose(1, 2) -> part.unflatten(-1, (-1, self.size)).transpose(2, 1)"),
                "the same two axes",
            ),
            **dict.fromkeys(("scores.shape[2:] -> scores.shape", "2 -> 1 #7"), "a mask for each head"),
        },
        "previous_score": {"np.asarray(weights) -> weights": "it is an array", "-1 -> 1 #2": NO_AXES_LEFT},
        "looks_ahead": {
            "bool((np.triu(np.asarray(weights), 1) > 0).any()) -> (np.triu(np.asarray(weights), 1) > 0).any()": "a bool of NumPy",
            "np.asarray(weights) -> weights": "it is an array",
        },
    },
    "12_clinic": {
        "alone_or_together": {
            "for seq, length in enumerate(lengths.tolist()): al ... ther[seq, :length], atol=1e-05): return False -> "
            "for seq, length in list(enumerate(lengths.tolist() ... ther[seq, :length], atol=1e-05): return False #3": "from the last on",
            "lengths.tolist() -> lengths": "a tensor of one number is an index, too",
            "alone[0] -> alone": "it is broadcast",
            "0 -> -1": "of one sequence",
        },
        "blind_to_padding": dict.fromkeys(("100.0 -> 105.05", "100.0 -> 89.95", "100.0 -> 0.0"), "other padding than before"),
        "scores_are_true": {
            "abs(score - model.score(labels)) < 1e-06 -> abs(score - model.score(labels)) <= 1e-06": "at the tolerance",
            "score - model.score(labels) -> model.score(labels) - score": "the absolute value follows",
            **dict.fromkeys(("4 -> 5", "6 -> 7"), "another size of the search"),
        },
        "mended_attention": dict.fromkeys(
            ("rf.matmul(frames, keys, reduce=feature) -> rf.matmul(keys, frames, reduce=feature)",
             "rf.matmul(weights, keys, reduce=source) -> rf.matmul(keys, weights, reduce=source)"), OTHER_ORDER,
        ),
        "mended_step": {
            "0 -> -1": "of one axis",
            "return ((cache @ x).softmax(0) @ cache @ model.out, cache) -> "
            "return ((cache @ x).softmax(0) @ cache @ model.out, cache.flip(0))": SUM,
        },
        "mended_search": {
            "every.argsort(kind='stable') -> every.argsort()": "no two scores are equal",
            **dict.fromkeys(("float(score) -> score", "int(new) -> new"), "a number of NumPy"),
            "for _ in range(steps): ended = np.array([text[-1:] ... ates = model.advance(states[parents], labels) -> "
            "for _ in list(range(steps))[::-1]: ended = np.arra ... ates = model.advance(states[parents], labels)":
                "the number of turns counts",
            "np.array([text[-1:] == (0,) for text in texts]) -> [text[-1:] == (0,) for text in texts]": "a list of them is an index, too",
        },
    },
    "13_measures": {
        "learn_merges": {
            "for _ in range(size): pairs = Counter() for word,  ... rts, best) for word, parts in pieces.items()} -> "
            "for _ in list(range(size))[::-1]: pairs = Counter( ... rts, best) "
            "for word, parts in pieces.items()}": "the number of turns counts",
            "for pair in zip(parts, parts[1:]): pairs[pair] += counts[word] -> for pair in list(zip(parts, parts[1:]))[::-1]: "
            "pairs[pair] += counts[word]": SUM,
            "for word, parts in pieces.items(): for pair in zip(parts, parts[1:]): pairs[pair] += counts[word] -> for word, parts in "
            "list(pieces.items())[::-1]: for ... arts, parts[1:]): pairs[pair] += counts[word]": SUM,
            "list(word) -> word": "a text is a sequence of letters",
        },
        "align": {
            "(i, j) -> (j, i)": "both are asked for 0",
            **dict.fromkeys(("0 -> -1 #2", "0 -> 1 #2", "max(i, j) if 0 in (i, j) else 0 -> max(i, j)"), "these cells are filled later"),
            **dict.fromkeys(("1 -> 2", "1 -> 2 #2"), "a row or a column that nobody reads"),
            "max(i, j) -> max(j, i)": "the larger of two",
            "min(cost[i - 1][j - 1] + (said != meant), cost[i - 1][j] + 1, cost[i][j - 1] + 1) -> min(cost[i - 1][j] + 1, "
            "cost[i - 1][j - 1] + (said != meant), cost[i][j - 1] + 1)": "the least of three",
        },
        "error_rate": {"zip(outputs, references) -> zip(references, outputs)": "an edit is one from both sides"},
        "bleu": {
            **dict.fromkeys(("(1, 2, 3, 4) -> (1, 2, 4, 3)", "(1, 2, 3, 4) -> (1, 3, 2, 4)", "(1, 2, 3, 4) -> (2, 1, 3, 4)"), OTHER_ORDER),
            "for n in (1, 2, 3, 4): matched = total = 0 for out ... rn 0.0 logs.append(math.log(matched / total)) -> "
            "for n in list((1, 2, 3, 4))[::-1]: matched = total ... rn 0.0 logs.append(math.log(matched / total))": OTHER_ORDER,
            "for output, reference in zip(outputs, references): ...  (said & meant).total() total += said.total() -> for output, "
            "reference in list(zip(outputs, referen ...  (said & meant).total() total += said.total() #3": SUM,
            "min(0, 1 - wanted / long) -> min(1 - wanted / long, 0)": "the smaller of two",
            "return 0.0 -> return False": "the same number",
            "said & meant -> meant & said": "what both have",
        },
    },
    "14_linear_attention": {
        "linear_step": {"(..., :, None) -> (:, ..., None)": "the same place", "0 -> -1": "of one row"},
        "delta_step": {
            "(..., :, None) -> (:, ..., None)": "the same place",
            **dict.fromkeys(("0 -> -1", "0 -> -1 #2"), "of one row"),
        },
        "response": {
            "for _ in range(length): found.append((read * state).sum()) state = decay * state -> "
            "for _ in list(range(length))[::-1]: found.append((read * state).sum()) state = decay * state": "the number of turns counts",
            "torch.stack(found) -> found": "a list of them",
        },
    },
    "15_pretraining": {
        "mask_letters": {
            "(torch.rand(letters.shape, generator=generator) < 0.15) & (letters != 0) -> "
            "(letters != 0) & (torch.rand(letters.shape, generator=generator) < 0.15)": BOTH,
            "chosen & (fate < 0.8) -> (fate < 0.8) & chosen": BOTH,
            "chosen & (fate >= 0.9) -> (fate >= 0.9) & chosen": BOTH,
            **dict.fromkeys(
                ("fate < 0.8 -> fate <= 0.8", "fate >= 0.9 -> fate > 0.9",
                 "torch.rand(letters.shape, generator=generator) < 0.15 -> torch.rand(letters.shape, generator=generator) <= 0.15"),
                "one number of 16 million",
            ),
        },
        "masked_loss": {
            "int(chosen.sum()) -> chosen.sum()": "a tensor of one number",
            "max(int(chosen.sum()), 1) -> max(1, int(chosen.sum()))": "the larger of two",
            "return total / max(int(chosen.sum()), 1) -> return (total / max(int(chosen.sum()), 1)).flip(0)": "of one number",
            "return total / max(int(chosen.sum()), 1) -> return (total / max(int(chosen.sum()), 1)).sum()": "of one number",
        },
        "freeze": {
            "for name in frozen: model.get_submodule(name).requires_grad_(False) -> "
            "for name in list(frozen)[::-1]: model.get_submodule(name).requires_grad_(False)": "each module by itself",
            "return [parameter for parameter in model.parameters() if parameter.requires_grad] -> "
            "return [parameter for parameter in model.parameters() if parameter.requires_grad][::-1]": "an optimizer takes any order",
        },
        "pull": {
            **dict.fromkeys(
                ("return sum(((each ** 2).sum() for each in moved)) / 2 -> "
                 f"return (sum(((each ** 2).sum() for each in moved)) / 2).{call}" for call in ("flip(0)", "sum()")),
                "of one number",
            ),
            "values - start[name].detach() -> start[name].detach() - values": "squares",
        },
    },
}  # fmt: skip
LESSONS = {path.stem: Course(path.stem) for path in sorted((NOTEBOOKS / "solutions").glob("[0-9]*.py"))}
EXERCISES = [(name, exercise) for name, course in LESSONS.items() for exercise in course.exercises]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("lesson", "exercise"), EXERCISES)
def test_no_wrong_answer_that_a_machine_makes_passes(lesson, exercise):
    right = RIGHT.get(lesson, {}).get(exercise, {})
    _, alive = tried(lesson, exercise, PARTS, SEED % PARTS) if not ALL else tried(lesson, exercise)
    assert not alive - set(right), "these wrong answers pass:\n" + "\n".join(sorted(alive - set(right)))
    if ALL:
        assert alive == set(right), "these do not pass, or are not made any more:\n" + "\n".join(
            sorted(set(right) - alive)
        )


def tried(lesson: str, exercise: str, parts: int = 1, part: int = 0) -> tuple[int, set[str]]:
    """How many mutants of a solution there are in one of so many parts, and which of them pass."""
    course = LESSONS[lesson]
    source = source_with_needs((NOTEBOOKS / "solutions" / f"{lesson}.py").read_text("utf-8"), exercise)
    assert _passes(course, exercise, "solution", source), f"the solution of {exercise} does not pass"
    every = list(mutants_of(source, exercise))[part::parts]
    return len(every), {said for said, text in every if _passes(course, exercise, said, text)}


def figures(lessons: Iterable[str]) -> Iterator[str]:
    """Lines of a table: of each exercise its mutants, those that are refused, and why the others are right."""
    all_made = all_refused = 0
    yield f"{'lesson':<20}{'exercise':<20}{'mutants':>8}{'refused':>9}{'right':>7}{'wrong':>7}  why they are right"
    for lesson, exercise in EXERCISES:
        if lesson in lessons:
            made, alive = tried(lesson, exercise)
            why = Counter(RIGHT.get(lesson, {}).get(exercise, {}).get(said, "?") for said in alive)
            reasons = "; ".join(f"{count}: {reason}" for reason, count in why.most_common())
            refused = made - len(alive)
            yield f"{lesson:<20}{exercise:<20}{made:8}{refused:9}{len(alive) - why['?']:7}{why['?']:7}  {reasons}"
            all_made, all_refused = all_made + made, all_refused + refused
    yield f"{all_refused} of {all_made} are refused."


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("lesson", "exercise"), EXERCISES)
@pytest.mark.parametrize("which", ["first", "last"])
def test_an_answer_that_gives_always_the_same_does_not_pass(lesson, exercise, which):
    course, solution = LESSONS[lesson], getattr(LESSONS[lesson].solutions, exercise)
    if not callable(solution) or exercise == "check_search":  # this one says what it found by an exception
        return
    given: list[Any] = []

    def watched(*args: Any, **kwargs: Any) -> Any:
        given.append(solution(*args, **kwargs))
        return given[-1]

    assert course.judged(exercise, watched).passed
    constant = given[0 if which == "first" else -1]
    assert not course.judged(exercise, lambda *args, **kwargs: constant).passed


# Of no sizes, or of ops that name dims, in which no size is to be written.
ONE_SIZE = {
    ("03_loops", "rnn_step"), ("03_loops", "lstm_step"), ("03_loops", "gru_step"), ("03_loops", "read"),
    ("04_encoder_decoder", "decoder_step"), ("07_search", "normalised"), ("08_errors", "check_search"),
    ("11_transformer", "positions"), ("12_clinic", "scores_are_true"), ("12_clinic", "mended_search"),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("lesson", "exercise"), EXERCISES)
def test_an_answer_that_is_right_for_one_size_only_does_not_pass(lesson, exercise):
    solution = getattr(LESSONS[lesson].solutions, exercise)
    first: list[list[Any]] = []

    def for_one_size(*args: Any, **kwargs: Any) -> Any:
        sizes = [_sizes(value) for value in (*args, *kwargs.values())]
        first.append(sizes)
        if sizes != first[0]:
            raise ValueError("another size")
        return solution(*args, **kwargs)

    if callable(solution):
        assert LESSONS[lesson].judged(exercise, for_one_size).passed == ((lesson, exercise) in ONE_SIZE)


def _sizes(value: Any) -> Any:
    if isinstance(value, torch.nn.Module):
        return [list(each.shape) for each in value.parameters()]
    if isinstance(value, rf.Tensor):
        return [dim.extent for dim in value.dims]
    if isinstance(value, (torch.Tensor, np.ndarray)):
        return list(value.shape)
    return len(value) if isinstance(value, (list, tuple, str, dict)) else None


# What the notebook goes on with in torch, by gradients or by indices; the message says so.
IN_TORCH = {
    ("04_encoder_decoder", "decoder_inputs"), ("04_encoder_decoder", "masked_loss"), ("05_attention", "scaled_scores"),
    ("05_attention", "masked_scores"), ("05_attention", "dot_attention"), ("05_attention", "additive_attention"),
    ("10_transducers", "forward"), ("11_transformer", "cached_step"),
    ("11_transformer", "norm"), ("11_transformer", "block"),
    ("15_pretraining", "mask_letters"), ("15_pretraining", "masked_loss"), ("15_pretraining", "pull"),
}  # fmt: skip


def _as(form: str, value: Any) -> Any:
    """The same result in another form: of another dtype, or of another library."""
    if isinstance(value, (tuple, list)):
        return type(value)(_as(form, each) for each in value)
    if isinstance(value, rf.Tensor):
        return rf.cast(value, "float64") if form == "float64" and value.dtype == "float32" else value
    if isinstance(value, torch.nn.Parameter):
        return value  # the thing itself is asked for
    if isinstance(value, torch.Tensor):
        floats = value.is_floating_point()
        return value.double() if form == "float64" and floats else value.detach().numpy() if form == "NumPy" else value
    if isinstance(value, np.ndarray):
        return torch.as_tensor(value) if form == "torch" else value
    return value


@pytest.mark.parametrize(("lesson", "exercise"), EXERCISES)
@pytest.mark.parametrize("form", ["float64", "NumPy", "torch"])
def test_a_right_answer_in_another_form_passes(lesson, exercise, form):
    course, solution = LESSONS[lesson], getattr(LESSONS[lesson].solutions, exercise)
    # and would have to know of the other dtype, or library
    gets_its_result_back = (exercise, form) in (
        ("cached_step", "float64"),
        ("mended_step", "float64"),
        ("mended_step", "NumPy"),
    )
    if callable(solution) and not gets_its_result_back:
        result = course.judged(exercise, lambda *args, **kwargs: _as(form, solution(*args, **kwargs)))
        if form == "NumPy" and (lesson, exercise) in IN_TORCH:
            assert re.search("tensor|gradient", result.message, re.IGNORECASE), result.message
        else:
            assert result.passed, result.message


class _NeverEnds(BaseException):
    pass


def _passes(course: Course, exercise: str, name: str, source: str) -> bool:
    """Whether the answer that a source defines passes; one that cannot be made, or does not end, does not."""
    file = f"<cell of {exercise}: {name}>"
    linecache.cache[file] = len(source), None, source.splitlines(True), file
    space: dict[str, Any] = {}
    codes = compile(source, file, "exec")
    before = sys.gettrace()
    if "while " in source:  # counting takes time, and nothing else goes on forever
        sys.settrace(_counting(codes))
    try:
        exec(codes, space)
        return course.judged(exercise, space.get(exercise)).passed
    except (Exception, _NeverEnds):
        return False
    finally:
        sys.settrace(before)


def _counting(codes: CodeType) -> Callable[[FrameType, str, Any], Any]:
    """Counts the lines that run of a file, and stops it where these are too many."""
    lines = 0

    def line(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        if lines > _MOST_LINES:
            raise _NeverEnds
        return line

    return lambda frame, event, arg: line if frame.f_code.co_filename == codes.co_filename else None


if __name__ == "__main__":
    for line in figures(sys.argv[1:] or LESSONS):
        print(line, flush=True)
