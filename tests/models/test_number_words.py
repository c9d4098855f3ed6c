"""The models that notebooks train while one looks on: they learn, and what they are given is what they say."""

import pytest
import torch

import rfnb as rf
from rfnb.data.dates import random_dates
from rfnb.data.number_words import split, words_of
from rfnb.models import dates
from rfnb.models.number_words import NumberModel, NumberTransformer, batch_of, loss, right_words, say, train

NUMBERS, OTHERS = split(limit=100, test=20)


@pytest.fixture(scope="module")
def learned():
    rf.set_random_seed(1)
    model = NumberModel(attention=True, start="zeros", units=48)
    losses = list(train(model, NUMBERS, steps=150, learning_rate=1e-2))
    assert losses[0] > 3 and losses[-1] < 0.2
    return model


def test_it_says_numbers_and_goes_on_from_words_that_it_is_given(learned):
    right = [say(learned, [number])[0] == " ".join(words_of(number)) for number in NUMBERS[:40]]
    assert sum(right) > 36
    assert say(learned, [42], begin="seventy")[0].startswith("seventy ")


def test_words_that_there_are_not_are_refused(learned):
    with pytest.raises(ValueError) as error:
        say(learned, [42], begin="four score")
    assert str(error.value) == (
        'say: begin="four score".\n  unknown  score\n  words    2, at most 11\n'
        "It begins with words of numbers, with blanks between them.\n"
        '    say(model, [4217], begin="four thousand nine")'
    )


def test_all_steps_at_once_give_the_loss_of_step_by_step(learned):
    part = batch_of([42, 7, 90])
    with rf.stop_gradient_scope():
        logits_loss = loss(learned, part).raw_tensor
        torch.manual_seed(0)
        stepwise = loss(learned, part, ratio=1 - 1e-12).raw_tensor  # the loop, in which every label is the reference
    assert torch.allclose(logits_loss, stepwise, atol=1e-5)


def test_free_running_counts_what_the_search_says(learned):
    numbers = OTHERS[:10]
    all_right = [say(learned, [number])[0] == " ".join(words_of(number)) for number in numbers]
    assert (right_words(learned, numbers) == 1.0) == all(all_right)
    assert right_words(learned, numbers, teacher=True) >= 0.8


def test_words_before_and_in_the_wrong_step_do_not_count():
    rf.set_random_seed(2)
    untrained = NumberModel(units=12)
    share = right_words(untrained, [21, 32], wrong_at=1)  # one word each is left, the end
    assert share in (0.0, 0.5, 1.0)


def test_zeros_without_attention_are_refused():
    with pytest.raises(ValueError) as error:
        NumberModel(start="zeros")
    assert str(error.value) == (
        'NumberModel: start="zeros".\n  start      zeros\n  attention  False\n'
        'The decoder starts from the "encoder", or from "zeros" if it has attention.\n'
        '    NumberModel(attention=True, start="zeros")'
    )


def test_a_transformer_learns_the_task_and_gives_the_same_loss_step_by_step():
    rf.set_random_seed(1)
    model = NumberTransformer(units=32, layers=1, heads=2)
    losses = list(train(model, NUMBERS, steps=60, learning_rate=5e-3))
    assert losses[-1] < 0.5 * losses[0]
    part = batch_of([42, 7, 90])
    with rf.stop_gradient_scope():
        at_once, stepwise = (loss(model, part, ratio=ratio).raw_tensor for ratio in (1.0, 1 - 1e-12))
    assert torch.allclose(at_once, stepwise, atol=1e-5)


def test_the_trained_model_of_dates_is_made_once_and_draws_from_no_generator():
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    model = dates.trained()
    assert torch.equal(torch.rand(2), expected)
    assert dates.trained() is model
    assert dates.write(model, ["3 march not 5 may 2021"]) == ["2021-03-03"]


@pytest.mark.parametrize("start", ["zeros", "encoder"])
def test_the_model_of_dates_learns(start):
    rf.set_random_seed(1)
    model = dates.DateModel(start, units=32)
    losses = list(dates.train(model, steps=60))
    assert losses[-1] < 0.75 * losses[0]
    written = dates.write(model, [" ".join(date.words) for date in random_dates(4, seed=0)])
    assert [len(text) for text in written] == [10] * 4


def test_another_start_of_the_model_of_dates_is_refused():
    with pytest.raises(ValueError) as error:
        dates.DateModel("ones")
    assert str(error.value) == (
        'DateModel: start="ones".\n  start  ones\nThe decoder starts from "zeros", or from the "encoder".\n'
        '    DateModel(start="zeros")'
    )
