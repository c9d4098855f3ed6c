"""PER and WER, and the edit distance against an independent implementation."""

import random

import pytest
from rapidfuzz.distance import Levenshtein

from rfnb.data.error_rate import ErrorRate, edit_distance, error_rate


def test_edit_distance_equals_rapidfuzz():
    rng = random.Random(1)
    for _ in range(2000):
        a = [rng.randrange(4) for _ in range(rng.randrange(9))]
        b = [rng.randrange(4) for _ in range(rng.randrange(9))]
        assert edit_distance(a, b) == Levenshtein.distance(a, b)


@pytest.mark.parametrize(("a", "b", "distance"), [("", "", 0), ("abc", "", 3), ("", "ab", 2), ("kitten", "sitting", 3)])
def test_edit_distance_of_known_pairs(a, b, distance):
    assert edit_distance(a, b) == distance


def test_word_is_right_if_any_reference_matches():
    assert error_rate([("AB", ["XY", "AB"])]) == ErrorRate(edits=0, phonemes=2, wrong=0, words=1)


def test_nearest_reference_counts():
    # "AB" is 1 from "ABC" and 3 from "XYZ"; the reference length is that of the nearest one.
    assert error_rate([("AB", ["XYZUV", "ABC"])]) == ErrorRate(edits=1, phonemes=3, wrong=1, words=1)


def test_of_equally_near_references_the_shortest_counts():
    assert error_rate([("AB", ["ABC", "A"])]) == ErrorRate(edits=1, phonemes=1, wrong=1, words=1)


def test_rates_are_percent_of_pooled_counts():
    rate = error_rate([("AB", ["AB"]), ("ABCD", ["ABXD"]), ("", ["AB"])])
    assert rate == ErrorRate(edits=3, phonemes=8, wrong=2, words=3)
    assert rate.per == pytest.approx(37.5)
    assert rate.wer == pytest.approx(66.6667, abs=1e-3)
    assert str(rate) == "PER 37.50 % WER 66.67 %"


def test_no_words_give_zero():
    assert error_rate([]).per == error_rate([]).wer == 0


def test_word_without_reference_is_refused():
    with pytest.raises(ValueError, match="word number 2 has no reference"):
        error_rate([("A", ["A"]), ("B", [])])
