"""Dates in words and as ISO 8601."""

import pytest

from rfnb.data.dates import CHARACTERS, MONTHS, SOURCE_WORDS, encode_date_words, encode_iso, random_dates

DATES = random_dates(500, seed=3)


def test_the_same_seed_gives_the_same_dates():
    assert random_dates(20, seed=3) == DATES[:20] and random_dates(20, seed=4) != DATES[:20]


def test_each_is_a_date_and_each_character_comes_from_the_word_of_its_part():
    for date in DATES:
        year, month, number = (date.words[date.places[at]] for at in (0, 5, 8))
        assert date.iso == f"{year}-{MONTHS.index(month) + 1:02}-{int(number.rstrip('stndrh')):02}"
        assert date.places == (date.places[0],) * 4 + (None,) + (date.places[5],) * 2 + (None,) + (date.places[8],) * 2


def test_a_third_is_corrected_and_the_second_date_is_not_the_one_that_is_meant():
    corrected = [date for date in DATES if "not" in date.words]
    assert 0.25 < len(corrected) / len(DATES) < 0.42
    assert any(date.words.index("not") == 0 for date in corrected) and any(
        date.words[-1] != date.iso[:4] for date in corrected
    )
    assert not any("not" in date.words for date in random_dates(50, seed=3, corrected=0))


def test_ordinals_are_those_that_one_writes():
    assert {"1st", "2nd", "3rd", "11th", "12th", "13th", "21st", "22nd", "23rd", "31st"} <= set(SOURCE_WORDS)


def test_words_and_characters_are_encoded():
    assert [SOURCE_WORDS[index] for index in encode_date_words(["3", "march", "2021"])] == ["3", "march", "2021"]
    assert [CHARACTERS[index] for index in encode_iso("2021-03-03")] == list("2021-03-03")


def test_an_unknown_word_is_refused():
    with pytest.raises(ValueError) as error:
        encode_date_words(["3", "march", "1821"])
    assert str(error.value) == (
        'encode_date_words: "1821" is not a word of dates; years are from 1990 to 2029.\n'
        '    encode_date_words(["3", "march", "2021"])'
    )
