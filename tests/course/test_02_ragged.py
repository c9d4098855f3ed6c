"""The lesson on ragged batches: its checks name mistakes, and what its prose says is what its cells compute."""

from __future__ import annotations

import random
import re

import pytest
import torch
from course.harness import Course

from rfnb.data.cmudict import part_of
from rfnb.teaching.course import load

course = Course("02_ragged")


def real(lengths, longest):
    return torch.arange(longest) < lengths[:, None]


def weighted(energies, mask):
    powers = torch.exp(energies) * mask
    return powers / powers.sum(-1, keepdim=True).clamp(min=1e-9)


def cut(order, size):
    return [order[start : start + size] for start in range(0, len(order), size)]


def shuffled(values, seed):
    values = list(values)
    random.Random(seed).shuffle(values)
    return values


def sorted_words(lengths, seed=None):
    order = range(len(lengths)) if seed is None else shuffled(range(len(lengths)), seed)
    return sorted(order, key=lambda number: lengths[number])


def unseeded(lengths, size, seed):
    order = list(range(len(lengths)))
    random.shuffle(order)
    batches = cut(sorted(order, key=lambda number: lengths[number]), size)
    random.shuffle(batches)
    return batches


def rated(model, ids, lengths, before, after, count):
    x = torch.tanh(model.conv((model.embedding(ids) * before[..., None]).mT).mT) * after[..., None]
    return model.output((model.norm(model.gru(x)[0]) * real(lengths, ids.shape[1])[..., None]).sum(1) / count)[:, 0]


def packed(model, ids, lengths):
    x = torch.tanh(model.conv(model.embedding(ids).mT).mT)
    rows = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    h, _ = torch.nn.utils.rnn.pad_packed_sequence(model.gru(rows)[0], batch_first=True)
    mask = real(lengths, ids.shape[1])[..., None]
    return model.output((model.norm(h) * mask).sum(1) / lengths[:, None])[:, 0]


WRONG = {
    "mask_of": {
        "True at padding": lambda lengths, longest: ~real(lengths, longest),
        "one frame too many": lambda lengths, longest: torch.arange(longest) <= lengths[:, None],
        "one frame too few": lambda lengths, longest: torch.arange(1, longest + 1) < lengths[:, None],
        "(longest, batch)": lambda lengths, longest: real(lengths, longest).T,
        "this is no mask of bool": lambda lengths, longest: real(lengths, longest).float(),
    },
    "mean_of": {
        "over the whole rectangle": lambda x, lengths: x.mean(1),
        "divided by the longest length": lambda x, lengths: (x * real(lengths, x.shape[1])[..., None]).mean(1),
        "0 * NaN is NaN": lambda x, lengths: (x * real(lengths, x.shape[1])[..., None]).sum(1) / lengths[:, None],
        "This is the sum": lambda x, lengths: (x * real(lengths, x.shape[1])[..., None]).sum(1),
        "one mean for the whole batch": lambda x, lengths: x[real(lengths, x.shape[1])].mean(0),
    },
    "masked_softmax": {
        "The mask is not used": lambda energies, mask: torch.softmax(energies, -1),
        "What is real does not sum to 1": lambda energies, mask: torch.softmax(energies, -1) * mask,
        "Padding has the energy 0": lambda energies, mask: torch.softmax(energies * mask, -1),
        "only padding has weight": lambda energies, mask: torch.softmax(energies.masked_fill(mask, -torch.inf), -1),
        "without anything real becomes NaN": lambda energies, mask: torch.softmax(
            energies.masked_fill(~mask, -torch.inf), -1
        ),
        "exp of them is infinite": weighted,
        "filled with nan": lambda energies, mask: torch.softmax(energies.where(mask, energies - 1e9), -1) * mask,
    },
    "last_frame": {
        "the last frame of the rectangle": lambda x, lengths: x[:, -1],
        "looks past the end": lambda x, lengths: x[torch.arange(len(x)), lengths],
        "One frame too far": lambda x, lengths: x[torch.arange(len(x)), lengths.clamp(max=x.shape[1] - 1)],
        "The same position for all": lambda x, lengths: x[:, lengths.min() - 1],
        "This is the first frame": lambda x, lengths: x[:, 0],
        "0 * NaN is NaN": lambda x, lengths: (x * (torch.arange(x.shape[1]) == lengths[:, None] - 1)[..., None]).sum(1),
    },
    "waste": {
        "in percent": lambda batches, lengths: 100 * course.solutions.waste(batches, lengths),
        "the share of what is real": lambda batches, lengths: 1 - course.solutions.waste(batches, lengths),
        "the mean of the shares": lambda batches, lengths: (
            sum(course.solutions.waste([batch], lengths) for batch in batches) / len(batches)
        ),
        "divided by the letters": lambda batches, lengths: 1 / (1 - course.solutions.waste(batches, lengths)) - 1,
        "up to the longest word of all": lambda batches, lengths: 1 - sum(lengths) / (len(lengths) * max(lengths)),
    },
    "make_batches": {
        "43.5 % of the cells are padding": lambda lengths, size, seed: cut(shuffled(range(len(lengths)), seed), size),
        "share a batch with seed 1 do so with seed 2": lambda lengths, size, seed: cut(sorted_words(lengths), size),
        "100 % of the pairs": lambda lengths, size, seed: shuffled(cut(sorted_words(lengths), size), seed),
        "in the order of their lengths": lambda lengths, size, seed: cut(sorted_words(lengths, seed), size),
        "where 5 are enough": lambda lengths, size, seed: [[number] for number in range(len(lengths))],
        "are in no batch": lambda lengths, size, seed: [
            batch for batch in cut(sorted_words(lengths), size) if len(batch) == size
        ],
        "is there more than once": lambda lengths, size, seed: cut([0, *sorted_words(lengths)], size),
        "A batch has 19 words": lambda lengths, size, seed: [sorted_words(lengths)],
        "no list of lists": lambda lengths, size, seed: sorted_words(lengths),
    },
    "culprit": {
        "leaves padding out": "softmax",
        "a number that was wrong already": "lstm",
        "is no op of this model": "gather",
        "as a text": 3,
        "does not mix letters": "abs",
    },
    "rate_mended": {
        "the convolution reads padding as before": lambda model, ids, lengths: model(ids, lengths),
        "the last letter has seen the padding already": lambda model, ids, lengths: rated(
            model, ids, lengths, torch.ones_like(ids), real(lengths, ids.shape[1]), lengths[:, None]
        ),
        "Mask what goes into the convolution": packed,
        "divided by the longest length": lambda model, ids, lengths: rated(
            model, ids, lengths, real(lengths, ids.shape[1]), torch.ones_like(ids), ids.shape[1]
        ),
        "Only the letter 0 is left out": lambda model, ids, lengths: rated(
            model, ids, lengths, ids != 0, torch.ones_like(ids), lengths[:, None]
        ),
        "another shape": lambda model, ids, lengths: model(ids, lengths)[:, None],
    },
}
RIGHT = {
    "mask_of": {
        "row by row": lambda lengths, longest: torch.tensor([[i < n for i in range(longest)] for n in lengths])
    },
    "mean_of": {"row by row": lambda x, lengths: torch.stack([row[:n].mean(0) for row, n in zip(x, lengths)])},
    "masked_softmax": {
        "filled before and after": lambda energies, mask: torch.softmax(
            energies.masked_fill(~mask, -torch.inf), -1
        ).masked_fill(~mask, 0),
        "a very small energy": lambda energies, mask: torch.softmax(energies.masked_fill(~mask, -1e30), -1) * mask,
    },
    "last_frame": {
        "by gather": lambda x, lengths: x.gather(1, (lengths - 1)[:, None, None].expand(-1, 1, x.shape[2]))[:, 0]
    },
    "waste": {
        "cells of padding": lambda batches, lengths: (
            sum(max(lengths[n] for n in batch) - lengths[number] for batch in batches for number in batch)
            / sum(len(batch) * max(lengths[n] for n in batch) for batch in batches)
        )
    },
    "make_batches": {
        "sorted with chance among equals, shuffled": lambda lengths, size, seed: shuffled(
            cut(sorted_words(lengths, seed), size), seed
        )
    },
    "culprit": {"with rf": "rf.reduce_max", "as a call": "reduce_max()"},
    "rate_mended": {
        "each word alone": lambda model, ids, lengths: torch.cat(
            [model(ids[row : row + 1, :length], lengths[row : row + 1]) for row, length in enumerate(lengths)]
        )
    },
}


@pytest.mark.parametrize("exercise", course.exercises)
def test_the_check_tells_right_from_wrong(exercise):
    course.assert_judges(exercise, WRONG[exercise], right=RIGHT.get(exercise))


def test_batches_that_no_seed_decides_are_told():
    assert "The same seed gives other batches" in course.judged("make_batches", unseeded).message


def test_the_shipped_words_are_words_of_the_train_part():
    words = [line.split("\t") for line in course.lesson.file("data/words.txt").read_text("utf-8").splitlines()]
    assert len(words) == len({word for word, _ in words}) == 2000
    assert all(part_of(word) == "train" for word, _ in words)


def test_the_script_takes_the_words_with_the_smallest_hashes_whatever_else_there_is():
    made = load(course.folder / "data/make_words.py")
    shipped = course.lesson.file("data/words.txt").read_text("utf-8").splitlines()
    train = {word: (tuple(phonemes.split()),) for word, phonemes in (line.split("\t") for line in shipped)}
    assert made.lines(train) == shipped
    assert made.lines({"the": (("DH", "AH"),), **train}) == shipped  # its hash is too large


@pytest.mark.notebook
def test_the_padding_of_a_batch_is_drawn_in_a_view(ran):
    assert [data["exercise"] for data in ran.records("mask")] == ["drawn"]


@pytest.mark.notebook
def test_it_has_no_problems(ran):
    assert ran.problems() == []


@pytest.mark.notebook
def test_the_predictions_of_the_solutions_are_what_the_cells_compute(ran):
    told = {name: str(answer) for name, answer in course.solutions.PREDICTIONS.items()}
    assert {name: ran.truth(name) for name in ran.asked()} == told


@pytest.mark.notebook
def test_the_real_model_is_the_same_alone_and_in_a_batch(ran):
    (seen,) = ran.shown("real_view = ")
    assert "alone and together are the same within the tolerance" in seen


@pytest.mark.notebook
def test_dims_give_the_same_mean(ran):
    assert ran.printed("02-by-dims").endswith("rf.reduce_mean gives the same as yours: True\n")


@pytest.mark.notebook
def test_the_word_is_another_one_in_a_batch_and_the_op_is_named(ran):
    alone, together = (float(number) for number in re.findall(r"-?\d\.\d+", ran.printed("02-planted")))
    assert abs(alone - together) > 1e-3
    said = ran.printed("02-nan")
    assert said.startswith("reduce_max, called in cell ")
    line = int(re.search(r"line (\d+)", said)[1])
    assert "use_mask=False" in ran.cell("02-planted").source.splitlines()[line - 1]


@pytest.mark.notebook
def test_the_diff_names_the_convolution_and_its_last_letter(ran):
    view = ran.shown("02-trap-view")[0]
    assert "First difference: conv, output" in view and "They differ only in time 2." in view


@pytest.mark.notebook
def test_the_mended_model_does_not_see_the_batch(ran):
    difference = ran.printed("02-trap-mended").rsplit(":", 1)[1]
    assert float(difference) < 1e-6
