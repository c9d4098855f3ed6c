"""Alignments of a reference and a hypothesis: operations, counts and text; against rapidfuzz and jiwer."""

import random

import pytest
from asserting import raises_message
from hypothesis import given, settings
from hypothesis import strategies as st
from rapidfuzz.distance import Levenshtein

import rfnb as rf
from rfnb.data.alignment import Edit, Errors


def test_operations_of_known_words():
    found = rf.align("the cat sat down now".split(), "a cat down now here".split())
    assert found.edits == (
        Edit("S", "the", "a"),
        Edit("=", "cat", "cat"),
        Edit("D", "sat", None),
        Edit("=", "down", "down"),
        Edit("=", "now", "now"),
        Edit("I", None, "here"),
    )
    assert found.errors == Errors(correct=3, substituted=1, deleted=1, inserted=1)
    assert found.errors.rate == 60 and found.errors.edits == 3 and found.errors.length == 5
    assert str(found.errors) == "60.00 % (1 substituted, 1 deleted, 1 inserted of 5)"


def test_text_has_a_column_per_operation():
    found = rf.align("the cat sat down now".split(), "a cat down now here".split())
    assert found.text().splitlines() == [
        "reference   the  cat  sat  down  now  ****",
        "hypothesis  a    cat  ***  down  now  here",
        "            S         D               I",
    ]
    assert str(found) == found.text()


def test_long_text_is_broken_and_wide_characters_count_twice():
    found = rf.align(["aaaa", "漢字", "b"], ["aaaa", "x", " "])
    assert found.text(width=25) == (
        "reference   aaaa  漢字\nhypothesis  aaaa  x\n                  S\n\nreference   b\nhypothesis  ␣\n            S"
    )


def test_nothing():
    assert rf.align([], []).errors == Errors() and rf.align([], []).text() == "reference\nhypothesis\n"
    assert rf.align([], ["a"]).errors.rate == 100


def test_operations_are_as_few_as_those_of_another_implementation_and_lead_there():
    rng = random.Random(1)
    for _ in range(1000):
        a, b = ([rng.randrange(4) for _ in range(rng.randrange(9))] for _ in range(2))
        found = rf.align(a, b)
        assert found.errors.edits == Levenshtein.distance(a, b)
        assert [edit.reference for edit in found.edits if edit.operation != "I"] == a
        assert [edit.hypothesis for edit in found.edits if edit.operation != "D"] == b
        assert all((edit.reference == edit.hypothesis) == (edit.operation == "=") for edit in found.edits)


words = st.text(st.sampled_from("aäßé漢\u0301😀ш'"), min_size=1, max_size=4)
texts = st.lists(words, max_size=7).map(" ".join)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(texts, texts), max_size=5))
def test_counts_of_any_texts_are_those_of_other_implementations(pairs):
    jiwer = pytest.importorskip("jiwer")
    references, hypotheses = [one for one, _ in pairs], [other for _, other in pairs]
    for errors, split, rate in (
        (rf.word_errors(references, hypotheses), str.split, jiwer.wer),
        (rf.character_errors(references, hypotheses), list, jiwer.cer),
    ):
        assert errors.edits == sum(Levenshtein.distance(split(one), split(other)) for one, other in pairs)
        assert errors.length == sum(len(split(one)) for one in references)
        assert errors.correct + errors.substituted + errors.inserted == sum(len(split(one)) for one in hypotheses)
        if errors.length:
            assert errors.rate / 100 == pytest.approx(rate(references, hypotheses))


def test_rates_are_those_of_jiwer():
    jiwer = pytest.importorskip("jiwer")
    rng = random.Random(2)
    texts = [" ".join(rng.choice(["ab", "ba", "c", "abc"]) for _ in range(rng.randrange(1, 9))) for _ in range(60)]
    references, hypotheses = texts[:30], texts[30:]
    words, characters = rf.word_errors(references, hypotheses), rf.character_errors(references, hypotheses)
    assert words.rate / 100 == pytest.approx(jiwer.wer(references, hypotheses))
    assert characters.rate / 100 == pytest.approx(jiwer.cer(references, hypotheses))


def test_counts_of_texts_are_pooled():
    found = rf.word_errors(["a b c", "d"], ["a c", "d e"])
    assert found == Errors(correct=3, substituted=0, deleted=1, inserted=1)
    assert rf.character_errors(["ab"], ["ac"]) == Errors(correct=1, substituted=1)


def test_other_numbers_of_texts():
    with raises_message(
        ValueError,
        """
        word_errors: not as many hypotheses as references.
          references  2
          hypotheses  1
        The n-th hypothesis belongs to the n-th reference.
        """,
    ):
        rf.word_errors(["a", "b"], ["a"])


def test_a_single_text():
    with raises_message(
        TypeError,
        """
        character_errors: a single text.
          hypotheses  'a cat'
        There is one text per sequence.
            hypotheses = [hypotheses]
        """,
    ):
        rf.character_errors(["a cat"], "a cat")
