"""Views as text: 80 columns, several heads included, and no more work than what is shown."""

from __future__ import annotations

import subprocess

import numpy as np
import pytest
from viz.odd_views import cases, search, weights
from warm import warm

import rfnb as rf
from rfnb.viz import terminal
from rfnb.viz.terminal import aligned, brief, fit, shortened, tokens_of

CASES = dict(cases())


@pytest.mark.parametrize("case", CASES)
def test_no_line_is_wider_than_a_terminal(case):
    for spec in CASES[case]():
        text = rf.viz.View(spec).text()
        assert text and max(terminal.columns_of(line) for line in text.split("\n")) <= 80, spec.kind
        assert tokens_of(short := rf.viz.View(spec).text(short=True)) <= 1500, spec.kind
        assert short == text or ("more lines: view.text()" in short and short.split("\n")[0] == text.split("\n")[0])


def test_a_short_text_keeps_both_ends_and_something_of_each_section():
    made = ["title", *(line for number in range(9) for line in (f"part {number}", *["  " + "x" * 60] * 40)), "the end"]
    short = brief("\n".join(made)).split("\n")
    assert [line for line in short if line[0] != " "] == [line for line in made if line[0] != " "]
    assert (
        short[3] == made[3]
        and f"... {40 - short.index('part 1') + 3} more lines: view.text()" in short[short.index("part 1") - 1]
    )
    many = brief("\n".join(f"row {number}" for number in range(3000))).split("\n")
    assert many[0] == "row 0" and many[-1] == "row 2999" and sum("more lines" in line for line in many) == 1
    assert brief("a\n  b") == "a\n  b"


def test_tokens_are_counted_from_above():
    assert [tokens_of(text) for text in ("word words", "1234", "▁▂", "a, b", "\n")] == [4, 2, 4, 4, 1]


@pytest.mark.parametrize("case", ["many", "long labels"])
def test_the_work_is_bounded_by_what_is_shown(case, monkeypatch):
    letters = []
    columns = terminal.columns_of
    monkeypatch.setattr(terminal, "columns_of", lambda text: letters.append(len(text)) or columns(text))
    for spec in CASES[case]():
        letters.clear()
        text = rf.viz.View(spec).text()
        assert sum(letters) < 250_000 and text.count("\n") < 400, spec.kind


def test_wide_letters_count_twice_and_marks_nothing():
    lines = aligned([["日本", "1"], ["ab", "2"], ["e\u0301", "3"]])
    assert [terminal.columns_of(line) for line in lines] == [7, 7, 7]
    assert shortened("日本語", 5) == "日本…" and shortened("日本語", 6) == "日本語"
    assert all(terminal.columns_of(line) <= 10 for line in fit("日本語" * 9, 10).split("\n"))


def test_a_long_line_goes_on_further_in():
    assert fit("  one two three four", 14) == "  one two\n      three\n      four"
    assert fit("short\nlines", 14) == "short\nlines"
    huge = fit("a" * 10**6, 80).split("\n")
    assert len(huge) == 6 and huge[-1].endswith(" …")


def test_every_head_has_its_bars_and_what_it_looks_at():
    array = np.zeros((2, 3, 4, 5), np.float32)
    for layer in range(2):
        for head in range(3):
            array[layer, head, :, layer + head] = 1
    tokens = ["the", "quick", "brown", "fox", "jumps"]
    text = rf.viz.attention(array, dims=["layer", "head", "target", "source"], source=tokens).text()
    for layer in range(2):
        for head in range(3):
            bars = "".join("█" if col == layer + head else "▁" for col in range(5))
            assert f"layer {layer}, head {head} {bars}  100 % on {tokens[layer + head]}" in text


def test_scores_have_numbers_that_fit_and_no_shares():
    array = np.array([[-113.4, 85.2, -0.06], [9.456, -9.456, 0.5]], np.float32)
    text = rf.viz.attention({"scores": array, "weights": np.eye(2, 3, dtype=np.float32)}, source=["a", "b", "c"]).text()
    assert [line.split() for line in text.splitlines()[2:4]] == [
        ["0", "·-113", "█85.2", "·-.06"],
        ["1", "░9.46", "·-9.5", "·0.50"],
    ]
    assert "  scores  ▁█▁  37.9 on average on b" in text and "  weights ██▁  50 % on a" in text


def test_a_step_has_as_many_slots_as_fit():
    lines = rf.viz.View(search(3, 16)).text().splitlines()
    head = next(line for line in lines if line.startswith("step"))
    shown = head.count("slot")
    assert 3 <= shown < 16 and head.endswith(f"(+{16 - shown})")


def test_many_curves_are_named_and_counted():
    text = rf.viz.curves({f"layer {index}": [1.0, 2.0] for index in range(500)}).text()
    assert text.endswith("... and 476 more series")


def test_show_in_a_terminal_prints_once():
    code = "import rfnb as rf, numpy as np\nview = rf.show(rf.viz.attention(np.eye(2, dtype='float32'), title='Once'))"
    run = subprocess.run([*warm(), "-c", code], capture_output=True, text=True)
    assert run.stdout.count("Once") == 1 and run.stderr == ""
    code = f"from IPython.testing.globalipapp import start_ipython\nshell = start_ipython()\nshell.run_cell({code!r} + '\\nview')"
    run = subprocess.run([*warm(), "-c", code], capture_output=True, text=True)
    assert run.stdout.count("Once: ") == 1


def test_a_mean_over_weights_is_not_that_of_infinities():
    values = weights(4, 3)
    values[0, 0] = np.inf
    text = rf.viz.attention({"a": values, "b": np.full((4, 3), np.nan, np.float32)}).text()
    assert "Weight on each source, in all 2 maps:" in text
