"""Numbers in words."""

import numpy as np
import pytest

from rfnb.data.number_words import DIGITS, WORDS, encode_number, encode_words, split, words_of


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (7, "seven"),
        (13, "thirteen"),
        (40, "forty"),
        (99, "ninety nine"),
        (100, "one hundred"),
        (305, "three hundred five"),
        (4217, "four thousand two hundred seventeen"),
        (20_000, "twenty thousand"),
        (612_345, "six hundred twelve thousand three hundred forty five"),
    ],
)
def test_words_are_those_that_one_says(number, words):
    assert " ".join(words_of(number)) == words


@pytest.mark.parametrize("number", [0, -1, 1_000_000])
def test_a_number_without_words_is_refused(number):
    with pytest.raises(ValueError) as error:
        words_of(number)
    assert str(error.value) == f"words_of: {number} is not between 1 and 999999.\n    words_of(4217)"


def test_no_two_numbers_have_the_same_words():
    assert len({tuple(words_of(number)) for number in range(1, 20_000)}) == 19_999


def test_digits_and_words_are_encoded_with_an_end():
    assert [DIGITS[index] for index in encode_number(907)] == ["9", "0", "7"]
    assert [WORDS[index] for index in encode_words(907)] == ["nine", "hundred", "seven", "<end>"]


def test_a_split_has_each_number_once_and_is_the_same_for_the_same_seed():
    train, test = split(limit=50, test=9)
    assert sorted([*train, *test]) == list(range(1, 50)) and len(test) == 9
    assert np.array_equal(split(limit=50, test=9)[0], train)
    assert not np.array_equal(split(limit=50, test=9, seed=2)[0], train)


def test_a_split_without_training_numbers_is_refused():
    with pytest.raises(ValueError) as error:
        split(limit=50, test=49)
    assert str(error.value) == (
        "split: a limit of 50 with 49 test numbers; the limit is at most 1000000, and some numbers are for training.\n"
        "    split(limit=10_000, test=1000)"
    )
