"""Letters and phonemes as integers, and the messages for words that cannot be spelled."""

import numpy as np
import pytest

from rfnb.data import g2p


def test_end_symbol_is_label_zero():
    assert g2p.LABELS[0] == g2p.END
    assert g2p.END_LABEL == 0
    assert len(g2p.LABELS) == 40
    assert len(set(g2p.LABELS)) == 40
    assert len(g2p.LETTERS) == 27


def test_word_becomes_letter_indices():
    assert g2p.encode_word("cat'").tolist() == [2, 0, 19, 26]
    assert g2p.encode_word("CAT").tolist() == [2, 0, 19]


def test_phonemes_go_to_labels_and_back():
    labels = g2p.encode_phonemes(["K", "AE", "T"])
    assert labels.tolist() == [20, 2, 31]
    assert g2p.decode_labels([*labels, 0, 5, 5]) == ("K", "AE", "T")
    assert g2p.decode_labels(labels) == ("K", "AE", "T")


def test_words_are_padded_to_the_longest():
    letters, lengths = g2p.encode_words(["cat", "a", "be"])
    assert letters.tolist() == [[2, 0, 19], [0, 0, 0], [1, 4, 0]]
    assert lengths.tolist() == [3, 1, 2]
    assert letters.dtype == lengths.dtype == np.int32


def test_longest_word_is_taken():
    assert len(g2p.encode_word("a" * 64)) == 64


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("", 'The word is empty. Give at least one letter, e.g. "cat".'),
        ("a" * 200, 'The word "aaaaaaaaaaaa..." has 200 letters; at most 64 are taken.'),
        (
            "café",
            'The word "café" has a character that the model does not know: "é" (LATIN SMALL LETTER E WITH ACUTE) at position 4.\n'
            'The letters are a to z and the apostrophe \'. Write "e" for "é".',
        ),
        (
            "don’t",
            'The word "don’t" has a character that the model does not know: "’" (RIGHT SINGLE QUOTATION MARK) at position 4.\n'
            'The letters are a to z and the apostrophe \'. Write "\'" for "’".',
        ),
        (
            "two words",
            'The word "two words" has a character that the model does not know: " " (SPACE) at position 4.\n'
            "The letters are a to z and the apostrophe '. Give one word at a time.",
        ),
        (
            "a1",
            'The word "a1" has a character that the model does not know: "1" (DIGIT ONE) at position 2.\n'
            "The letters are a to z and the apostrophe '.",
        ),
        (
            "a\x00",
            'The word "a\x00" has a character that the model does not know: "\'\\x00\'" (U+0000) at position 2.\n'
            "The letters are a to z and the apostrophe '.",
        ),
    ],
)
def test_bad_word_has_a_clear_message(word, message):
    with pytest.raises(g2p.WordError) as error:
        g2p.encode_word(word)
    assert str(error.value) == message


@pytest.mark.parametrize("word", [None, 3, b"cat", ["cat"]])
def test_word_must_be_a_string(word):
    with pytest.raises(TypeError, match="A word is a str, got"):
        g2p.encode_word(word)


def test_words_must_be_several():
    with pytest.raises(TypeError, match="Several words are a list of str, got one str"):
        g2p.encode_words("cat")
    with pytest.raises(g2p.WordError, match="There are no words"):
        g2p.encode_words([])


@pytest.mark.parametrize("phoneme", ["AH0", "ah", "<end>", ""])
def test_unknown_phoneme_lists_the_known_ones(phoneme):
    with pytest.raises(ValueError, match="is not a phoneme. The 39 phonemes are:\n  AA AE AH"):
        g2p.encode_phonemes(["K", phoneme])
