"""04_encoder_decoder: its checks tell right from wrong, and what the notebook says is what its cells compute."""

from __future__ import annotations

import copy
import re

import pytest
import torch
from course.harness import Course

import rfnb as rf
from rfnb.teaching.course import load

course = Course("04_encoder_decoder")
checks = load(course.folder / "checks/04_encoder_decoder.py")


def shifted(words, begin):
    return torch.cat([torch.full_like(words[:, :1], begin), words[:, :-1]], dim=1)


def step(model, label, state):
    h, after = model.decoder(model.words(label), state=state, spatial_dim=rf.single_step_dim)
    return model.output(h), after


def each_and_mask(logits, words, lengths):
    each = torch.nn.functional.cross_entropy(logits.transpose(1, 2), words, reduction="none")
    return each, torch.arange(words.shape[1]) < lengths[:, None]


def mean_of_all(logits, words, lengths):
    return each_and_mask(logits, words, lengths)[0].mean()


def zeros_counted(logits, words, lengths):
    each, real = each_and_mask(logits, words, lengths)
    return (each * real).mean()


def summed(logits, words, lengths):
    each, real = each_and_mask(logits, words, lengths)
    return (each * real).sum()


def mean_of_means(logits, words, lengths):
    each, real = each_and_mask(logits, words, lengths)
    return ((each * real).sum(1) / lengths).mean()


def multiplied(logits, words, lengths):
    each, real = each_and_mask(logits, words, lengths)
    return (each * real).sum() / lengths.sum()


def sorted_only(logits, words, lengths):
    real = [torch.nn.utils.rnn.pack_padded_sequence(each, lengths, batch_first=True).data for each in (logits, words)]
    return torch.nn.functional.cross_entropy(*real)


def overwritten(logits, words, lengths):
    padding = torch.arange(words.shape[1]) >= lengths[:, None]
    logits[padding], words[padding] = 0.0, -100
    return torch.nn.functional.cross_entropy(logits.transpose(1, 2), words)


def by_hand(logits, words, lengths):
    rows = [-logits[i, :n].log_softmax(-1)[torch.arange(n), words[i, :n]] for i, n in enumerate(lengths.tolist())]
    return torch.cat(rows).mean()


def loop_but(**mistake):
    return lambda *args: checks.looped(*args, **mistake)


def loop_by_reference(weights, epochs, loss_of, validate, optimizer, patience):
    """Keeps the weights themselves, which go on to change."""
    kept, best, train, valid, waited = list(weights), float("inf"), [], [], 0
    for batches in epochs:
        losses = []
        for batch in batches:
            optimizer.zero_grad()
            loss = loss_of(batch)
            loss.backward()
            optimizer.step()
            losses.append(float(loss))
        train.append(sum(losses) / len(losses))
        valid.append(validate())
        waited += 1
        if valid[-1] < best:
            best, kept, waited = valid[-1], list(weights), 0
        if waited == patience:
            break
    weights[:] = kept
    return train, valid


def loop_with_tensors(weights, epochs, loss_of, validate, optimizer, patience):
    train, valid = checks.looped(weights, epochs, loss_of, validate, optimizer, patience)
    return [torch.tensor(one, requires_grad=True) for one in train], valid


def loop_over_all(weights, epochs, loss_of, validate, optimizer, patience):
    return checks.looped(weights, epochs, loss_of, validate, optimizer, 0)


def loop_that_asks_for_more(weights, epochs, loss_of, validate, optimizer, patience):
    epochs = iter(epochs)
    curves = checks.looped(weights, epochs, loss_of, validate, optimizer, patience)
    next(epochs, None)
    return curves


def loop_with_deepcopy(weights, epochs, loss_of, validate, optimizer, patience):
    """In other words: a counter that begins anew, values in a dict, the best by index."""
    history, values = [], {}
    for epoch, batches in enumerate(epochs):
        total = 0.0
        for batch in batches:
            loss = loss_of(batch)
            for weight in weights:
                weight.grad = None
            loss.backward()
            optimizer.step()
            total += loss.detach().item()
        history.append((total / len(batches), validate()))
        values[epoch] = copy.deepcopy([weight.data for weight in weights])
        best = min(range(len(history)), key=lambda at: history[at][1])
        if epoch - best == patience:
            break
    for weight, value in zip(weights, values[best]):
        weight.data.copy_(value)
    return [train for train, _ in history], [valid for _, valid in history]


WRONG = {
    "decoder_inputs": {
        "The inputs are the words themselves": lambda words, begin: words,
        "moved the wrong way": lambda words, begin: torch.cat([words[:, 1:], torch.full_like(words[:, :1], begin)], 1),
        "the first input is not the begin label": lambda words, begin: words.roll(1, 1),
        "one step too many": lambda words, begin: torch.cat([torch.full_like(words[:, :1], begin), words], 1),
        "The first word is overwritten": lambda words, begin: words.index_fill(1, torch.tensor([0]), begin),
        "The result is no torch tensor": lambda words, begin: shifted(words, begin).tolist(),
        "The labels have another dtype": lambda words, begin: shifted(words, begin).float(),
        "the words themselves were changed": lambda words, begin: words.copy_(shifted(words, begin)),
        "decoder_inputs raises": lambda words, begin: [begin, *words[:, :-1] + "a"],
    },
    "decoder_step": {
        "It returns one thing": lambda model, label, state: step(model, label, state)[0],
        "the state that comes back is the one that went in": lambda model, label, state: (
            step(model, label, state)[0],
            state,
        ),
        "these are no logits yet": lambda model, label, state: model.decoder(
            model.words(label), state=state, spatial_dim=rf.single_step_dim
        ),
        "These are probabilities": lambda model, label, state: (
            rf.softmax(step(model, label, state)[0], axis=model.output.out_dim),
            step(model, label, state)[1],
        ),
        "These are log probabilities": lambda model, label, state: (
            rf.log_softmax(step(model, label, state)[0], axis=model.output.out_dim),
            step(model, label, state)[1],
        ),
        "The logits are no Tensor of rf": lambda model, label, state: (
            step(model, label, state)[0].raw_tensor,
            step(model, label, state)[1],
        ),
        "It returns 3 things": lambda model, label, state: (*step(model, label, state), label),
        "The second result is no state": lambda model, label, state: step(model, label, state)[::-1],
    },
    "masked_loss": {
        "This is the mean over all cells": mean_of_all,
        "Padding is set to 0, and still counted": zeros_counted,
        "This is the sum over the real words": summed,
        "This is a mean of means": mean_of_means,
        "changes with what is in the padding": multiplied,
        "must be sorted": sorted_only,
        "The sign is wrong": lambda *given: -by_hand(*given),
        "The result is no tensor": lambda *given: by_hand(*given).item(),
    },
    "trained": {
        "without the gradients of the one before": loop_but(zero=False),
        "It stops one epoch too early": loop_but(early=-1),
        "It stops one epoch too late": loop_but(early=1),
        "not those in a row": loop_but(total=True),
        "compares each epoch with the one before it": loop_but(least="before"),
        "An epoch as good as the best one counts as better": loop_but(least="as low"),
        "It gives the loss of the last batch": loop_but(mean=False),
        "It never stops before the epochs end": loop_over_all,
        "It begins an epoch after the last one": loop_that_asks_for_more,
        "the weights are those of the last epoch, not of the best one": loop_but(back="last"),
        "those of the last epoch": loop_by_reference,
        "A curve holds tensors": loop_with_tensors,
        "It returns two lists": lambda *args: checks.looped(*args)[0],
    },
    "last_output": {
        "at the last position of the array": lambda outputs, lengths: outputs[:, -1],
        "one position too far": lambda outputs, lengths: outputs[
            torch.arange(len(outputs)), lengths.clamp(max=outputs.shape[1] - 1)
        ],
        "the positions of all sequences from each of them": lambda outputs, lengths: outputs[:, lengths - 1],
        "This is the first output": lambda outputs, lengths: outputs[:, 0],
        "shape mismatch": lambda outputs, lengths: outputs[torch.arange(3), lengths - 1],
    },
}

RIGHT = {
    "decoder_inputs": {"with pad": lambda words, begin: torch.nn.functional.pad(words[:, :-1], (1, 0), value=begin)},
    "decoder_step": {"by the model's own call": lambda model, label, state: model(
        label, None, state=state, spatial_dim=rf.single_step_dim
    ), "as a list": lambda *given: list(step(*given))},
    "masked_loss": {
        "by hand": by_hand,
        "in float64": lambda logits, words, lengths: by_hand(logits.double(), words, lengths),
        "overwritten in place": overwritten,
    },
    "trained": {"in other words": loop_with_deepcopy},
    "last_output": {"in float64": lambda outputs, lengths: outputs.double()[torch.arange(len(outputs)), lengths - 1],
    "with gather": lambda outputs, lengths: outputs.gather(
        1, (lengths - 1)[:, None, None].expand(-1, 1, outputs.shape[2])
    ).squeeze(1)},
}  # fmt: skip


@pytest.mark.parametrize("exercise", course.exercises)
def test_the_check_tells_right_from_wrong(exercise):
    course.assert_judges(exercise, WRONG[exercise], right=RIGHT[exercise])


def text_of(ran, cell: str, number: int = -1) -> str:
    return ran.shown(cell)[number]


@pytest.mark.notebook
def test_it_runs_without_problems(ran):
    assert ran.problems() == []


@pytest.mark.notebook
def test_the_predictions_of_the_solutions_are_what_is_computed(ran):
    assert {name: ran.truth(name) for name in course.solutions.PREDICTIONS} == course.solutions.PREDICTIONS


@pytest.mark.notebook
def test_the_model_with_attention_goes_on_where_it_was(ran):
    assert "F AH N EH T IH K S" in ran.prose() and "F AH N EH T IH K S" in "".join(ran.shown("04-play-branches"))
    assert "It says F AH N S EH T IH K S" in "".join(ran.shown("04-play-reveal"))


@pytest.mark.notebook
def test_the_loss_begins_near_that_of_equal_probabilities(ran):
    (first,) = re.findall(r"loss .*first (\S+),", text_of(ran, "04-build-train-cell"))
    assert "ln 30 = 3.4" in ran.prose()
    assert float(first) == pytest.approx(3.4, abs=0.05)


@pytest.mark.notebook
def test_free_running_says_the_number(ran):
    assert "four thousand two hundred seventeen" in text_of(ran, "04-build-greedy-cell")


@pytest.mark.notebook
def test_few_numbers_are_learned_by_heart_and_the_training_stops_after_the_turn(ran):
    said = "".join(ran.shown("04-loop-reveal"))
    turn, low, last, own, epochs = re.search(
        r"lowest in epoch (\d+), (\S+) nats, and (\S+) in the last one, .* is (\d\.\d+)\. With a patience of 5 .* after (\d+) epochs",
        said,
        re.DOTALL,
    ).groups()
    assert int(turn) < 50 and float(last) > 1.1 * float(low) > 10 * float(own) and int(epochs) < 60
    assert "Learning curves" in said


@pytest.mark.notebook
def test_what_follows_the_wrong_word_is_no_longer_seventeen(ran):
    said = "".join(ran.shown("04-bias-reveal"))
    assert re.search(r"It says four thousand nine hundred (?!seventeen)\w+", said)


@pytest.mark.notebook
def test_the_two_upper_lines_come_together_as_the_ratio_falls(ran):
    text = ran.shown("04-ratio-view")[0]
    lines = {
        label: re.search(rf"{label}.*first (\S+), last (\S+)", text) for label in ("given ref", "free run", "after a w")
    }
    assert None not in lines.values(), text
    (taught_0, taught_1), (free_0, free_1), (after_0, after_1) = (
        tuple(map(float, found.groups())) for found in lines.values()
    )
    assert abs(taught_0 - free_0) < abs(taught_1 - free_1)
    assert taught_0 < taught_1 and free_0 < free_1 and after_0 > after_1 + 10


@pytest.mark.notebook
def test_the_diff_says_that_padding_is_read_and_the_mended_model_returns_the_same(ran):
    assert "may read padding" in text_of(ran, "04-bug")
    assert re.search(r"module .*largest 0\.\d*[1-9]", text_of(ran, "04-bug"))
    assert not re.search(r"^ +module .*largest", text_of(ran, "04-bug-after"), re.MULTILINE)
    assert re.search(r"^ +lstm .*largest", text_of(ran, "04-bug-after"), re.MULTILINE)
