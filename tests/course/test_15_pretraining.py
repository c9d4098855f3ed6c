"""Notebook 15, pretraining and fine-tuning: its checks tell right from wrong, and what it says is what its cells compute."""

from __future__ import annotations

import math
import re

import pytest
import torch
from course.harness import Course

from rfnb.data.cmudict import part_of
from rfnb.teaching.course import load

course = Course("15_pretraining")
right = course.solutions


def masking(*, share=0.15, hide=0.8, keep=0.1, low=2, high=29, padding=True, chance=None, draw=None, fate=None):
    """A masking with one thing changed."""

    def mask_letters(letters, generator):
        rand = lambda shape: torch.rand(shape, generator=generator)  # noqa: E731
        chosen = chance(letters, rand) if chance else rand(letters.shape) < share
        chosen = chosen & (letters != 0) if padding else chosen
        at = fate(letters, rand) if fate else rand(letters.shape)
        drawn = torch.randint(low, high, draw(letters) if draw else letters.shape, generator=generator)
        shown = torch.where(chosen & (at < hide), 1, letters)
        return torch.where(chosen & (at >= hide) & (at < 1 - keep), drawn.expand(letters.shape), shown), chosen

    return mask_letters


def in_place(letters, generator):
    shown, chosen = right.mask_letters(letters, generator)
    letters[:] = shown
    return letters, chosen


def fifteen_percent_of_each_word(letters, generator):
    ranks = torch.where(letters != 0, torch.rand(letters.shape, generator=generator), 2.0).argsort(1).argsort(1)
    return right.mask_letters(letters, generator)[0], ranks < (0.15 * (letters != 0).sum(1, keepdim=True)).round()


def agreeing(choose):
    """A masking whose shown letters follow the places that `choose` returns."""

    def mask_letters(letters, generator):
        chosen = choose(letters, generator)
        fate = torch.rand(letters.shape, generator=generator)
        drawn = torch.randint(2, 29, letters.shape, generator=generator)
        return torch.where(chosen & (fate < 0.8), 1, torch.where(chosen & (fate < 0.9), drawn, letters)), chosen

    return mask_letters


def unseeded(letters, generator):
    return right.mask_letters(letters, torch.Generator().manual_seed(int(torch.randint(10**6, (1,)))))


def another(letters, generator):
    """A letter that is never the one that stood there."""
    shown, chosen = masking()(letters, generator)
    apart = torch.randint(1, 27, letters.shape, generator=generator)
    fate = torch.rand(letters.shape, generator=generator)
    other = torch.where(chosen & (fate < 0.1), (letters - 2 + apart) % 27 + 2, letters)
    return torch.where(chosen & (fate >= 0.2), 1, other), chosen


def every(logits, letters):
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), letters.flatten(), reduction="none").view(
        letters.shape
    )


def times(factor):
    return lambda model, start: factor * right.pull(model, start)


def frozen_by(match):
    def freeze(model, frozen):
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(not any(match(name, each) for each in frozen))
        return [parameter for parameter in model.parameters() if parameter.requires_grad]

    return freeze


def only_listed(model, frozen):
    for name in frozen:
        model.get_submodule(name)
    model.requires_grad_(True)
    under = {id(one) for name in frozen for one in model.get_submodule(name).parameters()}
    return [one for one in model.parameters() if id(one) not in under]


def still_frozen(model, frozen):
    for name in frozen:
        model.get_submodule(name).requires_grad_(False)
    return [one for one in model.parameters() if one.requires_grad]


WRONG = {
    "mask_letters": {
        "The letters that it was given have changed": in_place,
        "Padding is chosen, too": masking(padding=False),
        "Every chosen letter is hidden": masking(hide=1.1),
        "Letters are chosen with another probability": masking(share=0.2),
        "nearly as many in each word": agreeing(
            lambda letters, generator: fifteen_percent_of_each_word(letters, generator)[1]
        ),
        "in places that were not chosen": fifteen_percent_of_each_word,
        "The chosen letters are drawn for a word as a whole": masking(chance=lambda letters, rand: rand((len(letters), 1)) < 0.15),
        "the same places in all words": masking(chance=lambda letters, rand: rand((1, letters.shape[1])) < 0.15),
        "Chosen letters are hidden with another probability": masking(hide=0.85),
        "No chosen letter becomes another one": masking(keep=0.3),
        "A letter becomes padding": masking(low=0),
        "Letter 28 is never drawn": masking(high=28),
        "a number that stands for none": masking(high=30),
        "Chosen letters become another one with another probability": masking(low=1),
        "may be the one that stood there": another,
        "The random letters of a word": masking(draw=lambda letters: (len(letters), 1)),
        "The random letters of a place": masking(draw=lambda letters: (1, letters.shape[1])),
        "The hidden letters are drawn for a word": masking(fate=lambda letters, rand: rand((len(letters), 1))),
        "The same generator with the same seed": unseeded,
        "Another seed of the generator": lambda letters, _: right.mask_letters(
            letters, torch.Generator().manual_seed(1)
        ),
        "returned the wrong way round": lambda *given: right.mask_letters(*given)[::-1],
        "not True and False": lambda *given: [each.long() for each in right.mask_letters(*given)],
        "another dtype than the letters": lambda *given: (
            right.mask_letters(*given)[0].float(),
            right.mask_letters(*given)[1],
        ),
        "another form than the letters": lambda *given: [each[:, :1] for each in right.mask_letters(*given)],
    },
    "masked_loss": {
        "the mean over all places": lambda logits, letters, chosen: every(logits, letters).mean(),
        "is divided by the number of all places": lambda logits, letters, chosen: (every(logits, letters) * chosen).mean(),
        "It is a sum": lambda logits, letters, chosen: every(logits, letters)[chosen].sum(),
        "that were not chosen": lambda logits, letters, chosen: every(logits, letters)[~chosen].mean(),
        "a mean of the means of words": lambda logits, letters, chosen: torch.stack(
            [row[own].mean() for row, own in zip(every(logits, letters), chosen) if own.any()]
        ).mean(),
        "not padding": lambda logits, letters, chosen: every(logits, letters)[letters != 0].mean(),
        "The softmax is taken twice": lambda logits, letters, chosen: torch.nn.functional.cross_entropy(
            logits[chosen].softmax(-1), letters[chosen]
        ),
        "taken for log probabilities": lambda logits, letters, chosen: -logits.gather(2, letters[..., None])[..., 0][
            chosen
        ].mean(),
        "wrong sign": lambda *given: -right.masked_loss(*given),
        "It is in bits": lambda *given: right.masked_loss(*given) / math.log(2),
        "reaches the loss: there it is NaN": lambda logits, letters, chosen: (every(logits, letters) * chosen).sum()
        / chosen.sum().clamp(min=1),
        "its gradient is NaN": lambda logits, letters, chosen: torch.where(
            chosen, every(logits, letters), 0.0
        ).sum() / chosen.sum().clamp(min=1),
        "the loss is not 0": lambda logits, letters, chosen: every(logits[chosen][None], letters[chosen][None]).mean(),
        "Training cannot go on": lambda logits, letters, chosen: (
            right.masked_loss(logits, letters, chosen) if chosen.any() else torch.tensor(0.0)
        ),
    },
    "cut_out": {
        "The last marker is missing": lambda *given: (right.cut_out(*given)[0], right.cut_out(*given)[1][:-1]),
        "behind the last span is missing": lambda letters, spans: (
            right.cut_out(letters, spans)[0][: len(right.cut_out(letters, spans)[0]) - (len(letters) - (spans or [(0, 0)])[-1][1])],
            right.cut_out(letters, spans)[1],
        ),
        "counted from 1": lambda letters, spans: [
            [re.sub(r"\d+", lambda found: str(int(found[0]) + 1), one) for one in side] for side in right.cut_out(letters, spans)
        ],
        "The end of a span belongs to it": lambda letters, spans: right.cut_out(letters, [(a, b + 1) for a, b in spans]),
        "taken for a start and a length": lambda letters, spans: right.cut_out(letters, [(a, a + b) for a, b in spans]),
        "The list of letters that it was given has changed": lambda letters, spans: (
            right.cut_out(letters, spans), letters.clear()
        )[0],
        "gets no markers": lambda letters, spans: (
            [one for one in right.cut_out(letters, spans)[0] if "<" not in one], right.cut_out(letters, spans)[1]
        ),
        "writes no markers": lambda letters, spans: (
            right.cut_out(letters, spans)[0], [one for one in right.cut_out(letters, spans)[1] if "<" not in one]
        ),
        "writes the whole text": lambda letters, spans: (right.cut_out(letters, spans)[0], letters),
        "returned the wrong way round": lambda *given: right.cut_out(*given)[::-1],
        "lists of labels are wanted": lambda *given: ["".join(side) for side in right.cut_out(*given)],
        "Two values are wanted": lambda *given: right.cut_out(*given)[0],
    },
    "freeze": {
        "layers.1 is not layers.10": frozen_by(lambda name, each: name.startswith(each)),
        "A name that the model does not have": frozen_by(lambda name, each: name.startswith(each + ".") or (
            each == "guess" and name == "letters.weight")),
        "guess.weight is the same parameter under another name": frozen_by(lambda name, each: name.startswith(each + ".")),
        "A gradient is computed for what is frozen": only_listed,
        "Parameters that are not frozen are missing": still_frozen,
        "Parameters that are frozen are given": lambda model, frozen: (
            right.freeze(model, frozen), list(model.parameters())
        )[1],
        "What is to be trained gets no gradient": lambda model, frozen: (
            right.freeze(model, frozen), model.requires_grad_(False), model.say.requires_grad_("say" not in frozen),
            model.norm.requires_grad_("norm" not in frozen),
        )[0],
        "in the list twice": lambda model, frozen: right.freeze(model, frozen) * 2,
        "A list of parameters is wanted": lambda model, frozen: right.freeze(model, frozen) and model,
        "A value of the model has changed": lambda model, frozen: (
            right.freeze(model, frozen), [one.data.zero_() for one in model.parameters()]
        )[0],
    },
    "pull": {
        "It is twice as much": times(2.0),
        "It is a mean": lambda model, start: right.pull(model, start) / sum(one.numel() for one in start.values()),
        "the distance, not its square": lambda model, start: (2 * right.pull(model, start)).sqrt(),
        "There is a root in it": lambda model, start: right.pull(model, start).sqrt(),
        "a sum of means": lambda model, start: sum(
            ((one - start[name].detach()) ** 2).mean() for name, one in model.named_parameters() if name in start
        ) / 2,
        "how far the numbers are, not the squares": lambda model, start: sum(
            (one - start[name].detach()).abs().sum() for name, one in model.named_parameters() if name in start
        ) / 2,
        "It adds distances, not their squares": lambda model, start: sum(
            (one - start[name].detach()).norm() for name, one in model.named_parameters() if name in start
        ) / 2,
        "Parameters that are not in start are pulled to 0": lambda model, start: right.pull(model, start) + sum(
            (one**2).sum() for name, one in model.named_parameters() if name not in start
        ) / 2,
        "The parameters of the model have changed": lambda model, start: (
            right.pull(model, start), [one.data.zero_() for one in model.parameters()]
        )[0],
        "It pulls to 0": lambda model, start: sum((one**2).sum() for one in model.parameters()) / 2,
        "No gradient reaches the model": lambda model, start: right.pull(model, start).detach(),
        "A gradient reaches the start": lambda model, start: sum(
            ((one - start[name]) ** 2).sum() for name, one in model.named_parameters() if name in start
        ) / 2,
    },
}  # fmt: skip


@pytest.mark.parametrize("exercise", course.exercises)
def test_the_check_tells_right_from_wrong(exercise):
    course.assert_judges(exercise, WRONG[exercise])


def test_one_random_number_for_choice_and_fate_is_right_too():
    def mask_letters(letters, generator):
        chance = torch.rand(letters.shape, generator=generator, dtype=torch.float64)
        chosen = (chance < 0.15) & (letters != 0)
        shown = letters.masked_fill(chosen & (chance < 0.12), 1)
        count = int((chosen & (chance > 0.135)).sum())
        shown[chosen & (chance > 0.135)] = torch.randint(2, 29, (count,), generator=generator)
        return shown, chosen

    assert course.judged("mask_letters", mask_letters).passed


def test_the_shipped_spellings_are_other_words_of_the_train_part():
    words = course.lesson.file("data/spellings.txt").read_text("utf-8").split()
    labelled = {line.split("\t")[0] for line in course.lesson.file("data/words.txt").read_text("utf-8").splitlines()}
    assert len(words) == len(set(words)) == 10_000 and not labelled & set(words)
    assert all(part_of(word) == "train" and 3 <= len(word) <= 14 for word in words)
    made = load(course.folder / "data/make_words.py")
    assert made.spellings(dict.fromkeys([*words, *labelled])) == sorted(words)


@pytest.mark.notebook
def test_its_predictions_are_what_the_cells_compute(ran):
    ran.assert_truths(course.solutions.PREDICTIONS, but=("wrong_line", "no_perplexity", "when_frozen"))


@pytest.mark.notebook
def test_labels_are_worth_more_after_pretraining_and_the_answers_are_not_close(ran):
    (view,) = (text for text in ran.shown("15-curve-reveal") if "What labels are worth" in text)
    first, last = (
        [float(number) for number in re.findall(rf"{word} ([\d.]+)", " ".join(view.split()))]
        for word in ("first", "last")
    )
    scratch, frozen, trained = zip(first, last)
    assert frozen[0] + 1 < scratch[0] and trained[1] + 3 < min(scratch[1], frozen[1])


@pytest.mark.notebook
def test_the_first_module_that_differs_is_the_first_that_was_trained_and_nothing_before_it(ran):
    (view,) = (text for text in ran.shown("15-where-reveal") if "First difference" in text)
    said = " ".join(view.split())
    assert "First difference: layers.1.self_attn" in said and "Everything before it is the same, bit for bit" in said


@pytest.mark.notebook
def test_attention_is_shown_in_the_training_and_before_and_after_fine_tuning(ran):
    assert "layers.1.self_attn" in "".join(ran.shown("15-model-cell"))
    before, after = ran.shown("15-attention-cell")
    assert "Pretrained" in before and "Fine-tuned" in after and before.splitlines()[2] != after.splitlines()[2]


@pytest.mark.notebook
def test_the_loss_that_is_wonderful_has_learned_to_copy(ran):
    (view,) = (text for text in ran.shown("15-wonder-cell") if "Training: update" in text)
    assert float(re.search(r"loss .*?last ([\d.]+)", " ".join(view.split()))[1]) < 0.05
