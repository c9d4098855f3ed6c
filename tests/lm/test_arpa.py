"""The reader of ARPA files: what it reads, and the whole message for each way in which a file can be malformed."""

import gzip
from pathlib import Path

import pytest

from rfnb.lm.arpa import is_kenlm_binary, read_arpa

TINY = Path(__file__).parents[1] / "golden" / "tiny.arpa"

GOOD = """\
a comment

\\data\\
ngram 1=3
ngram 2=1

\\1-grams:
-0.5 <s> -0.3
-0.7 a
-1 \\b\\

\\2-grams:
-0.2 <s> a

\\end\\
"""


def test_reads_words_and_ngrams():
    arpa = read_arpa(TINY)
    assert arpa.order == 3
    assert arpa.words == ["<unk>", "<s>", "</s>", "the", "cat", "sat", "dog", "hello"]
    assert [len(ngrams) for ngrams in arpa.ngrams] == [8, 7, 3]
    assert arpa.ngrams[1][1, 3] == (-0.4, -0.2) and arpa.ngrams[2][4, 5, 2] == (-0.1, 0.0)


def test_reads_gzip_whatever_it_is_called(tmp_path):
    path = tmp_path / "model"
    path.write_bytes(gzip.compress(TINY.read_bytes()))
    assert read_arpa(path) == read_arpa(TINY)


def test_what_is_before_the_data_and_a_missing_weight_do_not_matter(tmp_path):
    path = tmp_path / "model.arpa"
    path.write_text(GOOD)
    arpa = read_arpa(path)
    assert arpa.words == ["<s>", "a", "\\b\\"] and arpa.ngrams[0][1,] == (-0.7, 0.0)
    assert not is_kenlm_binary(path)


BAD = [
    ("\\data\\", "\\dat\\", "no line \\data\\.", "15, the last one",
     "An ARPA file begins with \\data\\ and the number of n-grams of each order."),
    ("ngram 1=3", "ngram 1=x", "no count of n-grams.", "4: ngram 1=x",
     "There is a line like this for each order from 1 on:\n    ngram 1=5000"),
    ("ngram 2=1", "ngram 3=1", "no count of n-grams.", "5: ngram 3=1",
     "There is a line like this for each order from 1 on:\n    ngram 2=5000"),
    ("ngram 1=3\nngram 2=1\n", "", "no counts.", "5: \\1-grams:",
     "After \\data\\ there is a line like this for each order:\n    ngram 1=5000"),
    ("\\2-grams:", "\\3-grams:", "\\2-grams: is missing.", "12: \\3-grams:",
     "The header names 2 orders, and they come one after the other."),
    ("ngram 1=3", "ngram 1=4", "another number of 1-grams than in the header.", "12: \\2-grams:",
     "The header names 4, there are 3."),
    ("-0.2 <s> a", "-0.2 a", "2 fields.", "13: -0.2 a",
     "A line of \\2-grams: has a log10 probability, 2 words."),
    ("-0.2 <s> a", "-0.2 <s> a -0.1", "4 fields.", "13: -0.2 <s> a -0.1",
     "A line of \\2-grams: has a log10 probability, 2 words."),
    ("-0.7 a", "-0.7", "1 fields.", "9: -0.7",
     "A line of \\1-grams: has a log10 probability, 1 word and maybe a back-off weight."),
    ("-0.7 a", "x a", 'the probability "x" is not a number.', "9: x a",
     "Probability and back-off weight are log10 values, as -1.2345."),
    ("-0.7 a", "-0.7 a nan", 'the back-off weight "nan" is not a number.', "9: -0.7 a nan",
     "Probability and back-off weight are log10 values, as -1.2345."),
    ("-0.7 a", "-0.7 a inf", 'the back-off weight "inf" is not a number.', "9: -0.7 a inf",
     "Probability and back-off weight are log10 values, as -1.2345."),
    ("-0.7 a", "0.7 a", "a probability above 1.", "9: 0.7 a", "The first field is a log10 probability: 0 or below."),
    ("-0.7 a", "-0.7 <s>", "this n-gram was there before.", "9: -0.7 <s>", "Each n-gram is listed once."),
    ("<s> a", "<s> c", '"c" is not among the 1-grams.', "13: -0.2 <s> c", "The 1-grams list all words."),
    ("\\end\\", "", "\\end\\ is missing.", "15, the last one",
     "The last line of an ARPA file is \\end\\; this one seems to be cut off."),
]  # fmt: skip


@pytest.mark.parametrize("old, new, what, line, rule", BAD, ids=[case[2] for case in BAD])
def test_a_malformed_file(tmp_path, old, new, what, line, rule):
    path = tmp_path / "model.arpa"
    assert old in GOOD
    path.write_text(GOOD.replace(old, new))
    with pytest.raises(ValueError) as caught:
        read_arpa(path)
    assert str(caught.value) == f"ARPA file: {what}\n  file  {path}\n  line  {line}\n{rule}"


@pytest.mark.parametrize(
    "change", [lambda text: "\ufeff" + text, lambda text: text.replace("\n", "\r\n"), lambda text: text + "and more"],
    ids=["byte order mark", "carriage returns", "text behind the end"],
)  # fmt: skip
def test_what_does_not_matter(tmp_path, change):
    path = tmp_path / "model.arpa"
    path.write_text(GOOD)
    expected = read_arpa(path)
    path.write_bytes(change(GOOD).encode())
    assert read_arpa(path) == expected


@pytest.mark.parametrize("content", ["", "\n\n"])
def test_an_empty_file(tmp_path, content):
    path = tmp_path / "model.arpa"
    path.write_text(content)
    with pytest.raises(ValueError) as caught:
        read_arpa(path)
    assert str(caught.value) == (
        f"ARPA file: no line \\data\\.\n  file  {path}\n  line  {len(content)}, the last one\n"
        "An ARPA file begins with \\data\\ and the number of n-grams of each order."
    )


@pytest.mark.parametrize("length", range(0, len(GOOD) - 7, 9))
def test_a_file_that_is_cut_off_anywhere(tmp_path, length):
    path = tmp_path / "model.arpa"
    path.write_text(GOOD[:length])
    with pytest.raises(ValueError, match=r"^ARPA file: .*\n  file  .*\n  line  \d+"):
        read_arpa(path)


def test_a_file_that_is_no_text(tmp_path):
    path = tmp_path / "model.arpa"
    path.write_bytes(b"\\data\\\n\xff\xfe\n")
    with pytest.raises(ValueError) as caught:
        read_arpa(path)
    assert str(caught.value) == f"ARPA file: not UTF-8.\n  file  {path}\n  line  2: ...\nAn ARPA file is UTF-8 text."


def test_a_gzip_file_that_is_cut_off(tmp_path):
    path = tmp_path / "model.gz"
    path.write_bytes(gzip.compress(GOOD.encode())[:-12])
    with pytest.raises(ValueError) as caught:
        read_arpa(path)
    text = str(caught.value)
    assert text.startswith(f"ARPA file: the gzip file is damaged.\n  file  {path}\n  line  ")
    assert text.endswith("\nAfter this line it cannot be unpacked; it seems to be cut off.")


def test_only_blanks_and_tabs_are_between_words(tmp_path):
    path = tmp_path / "model.arpa"
    odd = ["a\u00a0b", "\u3000", "x\u2028", "\x0c"]
    rows = [f"-{index}\t{word}\t-0.5\r" for index, word in enumerate(odd, 1)]
    path.write_bytes(
        "\n".join(["\\data\\", "ngram 1=4", "", "\\1-grams:", *rows, "", "\\end\\"]).replace("\t-0.5", "").encode()
    )
    assert read_arpa(path).words == odd


def test_a_weight_of_zero_for_the_longest_ngrams(tmp_path):
    path = tmp_path / "model.arpa"
    path.write_text(GOOD.replace("-0.2 <s> a", "-0.2\t<s> a\t0.0"))
    assert read_arpa(path).ngrams[1] == {(0, 1): (-0.2, 0.0)}
