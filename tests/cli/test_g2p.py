"""rfnb g2p: what it prints is what the model finds; words it cannot read are named, the others pronounced."""

import re
import subprocess

from cli.command import rfnb
from waiting import LONG
from warm import warm

from rfnb.models.g2p_checkpoint import load_g2p
from rfnb.models.g2p_search import pronounce


def lines(text: str) -> list[tuple[str, float, str]]:
    """The printed lines as (word, score, phonemes)."""
    found = [re.fullmatch(r"(\S+) +(-?\d+\.\d{3})  ([A-Z ]+)", line) for line in text.splitlines()]
    assert all(found), text
    return [(match[1], float(match[2]), match[3]) for match in found]


def test_it_prints_what_the_model_finds(tmp_path):
    run = rfnb("g2p", "phonetics", "cat", "--beam", 3, cwd=tmp_path)
    assert (run.returncode, run.stderr) == (0, "")
    model = load_g2p()
    wanted = [
        (word, found.score, str(found))
        for word in ("phonetics", "cat")
        for found in pronounce(model, word, beam_size=3)
    ]
    printed = lines(run.stdout)
    assert [(word, phonemes) for word, _, phonemes in printed] == [(word, phonemes) for word, _, phonemes in wanted]
    assert all(abs(a - b) < 0.002 for (_, a, _), (_, b, _) in zip(printed, wanted))


def test_words_come_from_standard_input_and_the_best_are_printed(tmp_path):
    run = rfnb("g2p", "--best", 1, cwd=tmp_path, stdin="hat\n\nBicycle sheep\n")
    assert run.returncode == 0
    assert [(word, phonemes) for word, _, phonemes in lines(run.stdout)] == [
        ("hat", "HH AE T"), ("Bicycle", "B AY S IH K AH L"), ("sheep", "SH IY P"),
    ]  # fmt: skip


def test_a_word_that_cannot_be_read_is_named_and_the_others_are_pronounced(tmp_path):
    run = rfnb("g2p", "naïve", "cat", "w0rd", "--best", 1, cwd=tmp_path)
    assert run.returncode == 1
    assert [word for word, _, _ in lines(run.stdout)] == ["cat"]
    assert run.stderr == (
        'rfnb g2p: The word "naïve" has a character that the model does not know: '
        '"ï" (LATIN SMALL LETTER I WITH DIAERESIS) at position 3.\n'
        'The letters are a to z and the apostrophe \'. Write "i" for "ï".\n'
        'rfnb g2p: The word "w0rd" has a character that the model does not know: "0" (DIGIT ZERO) at position 2.\n'
        "The letters are a to z and the apostrophe '.\n"
    )


def test_no_word_in_standard_input_is_no_error(tmp_path):
    run = rfnb("g2p", cwd=tmp_path, stdin="\n")
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


def test_a_wrong_beam_is_wrong_usage(tmp_path):
    none = rfnb("g2p", "cat", "--beam", 0, cwd=tmp_path)
    assert none.returncode == 2
    assert none.stderr.endswith("rfnb g2p: error: argument --beam: a number from 1 to 1000, not '0'\n")
    more = rfnb("g2p", "cat", "--beam", 2, "--best", 3, cwd=tmp_path)
    assert more.returncode == 2
    assert more.stderr.endswith("rfnb g2p: error: --best 3 is more than the beam size 2; add --beam 3\n")


def test_the_page_has_the_search_of_each_word_and_asks_for_nothing(tmp_path):
    run = rfnb("g2p", "cat", "dog", "--beam", 2, "--view", "page.html", cwd=tmp_path)
    assert run.returncode == 0 and len(lines(run.stdout)) == 4
    assert run.stderr == "rfnb g2p: wrote page.html. Open it in a browser.\n"
    page = (tmp_path / "page.html").read_text()
    assert "<title>Pronunciations of cat, dog</title>" in page and page.count('class="rfnb-frame"') == 2
    assert "K AE T" in page.replace("\n", " ") or "Beam search" in page
    assert "http://" not in page.replace("http://www.w3.org/", "") and "https://" not in page


def test_a_page_that_cannot_be_written_is_a_sentence(tmp_path):
    run = rfnb("g2p", "cat", "--best", 1, "--view", "no/such/page.html", cwd=tmp_path)
    assert run.returncode == 1
    assert run.stderr == "rfnb g2p: no/such/page.html: No such file or directory.\n"


def test_a_reader_that_has_gone_is_no_traceback(tmp_path):
    script = "import sys\nfrom rfnb.cli.main import main\nsys.exit(main(['g2p', 'cat', 'dog', '--beam', '2']))"
    process = subprocess.Popen([*warm(), "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path)
    process.stdout.close()
    assert (process.stderr.read(), process.wait(LONG)) == (b"", 1)
    process.stderr.close()


def test_a_page_with_the_model_in_it_goes_with_one_word(tmp_path):
    run = rfnb("g2p", "cat", "--view", "page.html", "--runs", cwd=tmp_path)
    assert run.returncode == 0
    page = (tmp_path / "page.html").read_text()
    assert 'class="rfnb-program"' in page
    assert "CMUdict" in page.partition("<summary>")[2]
    run = rfnb("g2p", "cat", "dog", "--view", "page.html", "--runs", cwd=tmp_path)
    assert run.returncode == 2
    assert "--runs needs --view and one word" in run.stderr
