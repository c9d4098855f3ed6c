"""Stopping early, the bar, and what is left of a search that failed."""

import random

import numpy as np
import pytest
import torch
from asserting import raises_message
from markov import Markov
from test_beam_search import raw_step, run

import rfnb as rf
from rfnb.search.progress import Bar, SearchProgress


def with_attention(step, size):
    """The same step function; it attends a bit to the position of the label that it gets."""

    def attending(labels, state):
        scores, state = step(labels, state)
        return scores, state, 0.7 * torch.nn.functional.one_hot(labels, size)[:, 1:].float()

    return attending


def random_search(kind, trial):
    """(model, other model, options) of a search with an option of this kind."""
    draw = random.Random(f"{kind} {trial}")
    size = draw.choice([2, 3, 4])
    model = Markov(num_seqs=draw.choice([1, 2]), seed=trial, size=size, sharpness=draw.choice([0.5, 1, 3]))
    model.table[..., 0] += draw.choice([-2, 0, 2])
    model.table -= np.log(np.exp(model.table).sum(-1, keepdims=True))
    options = {
        "beam_size": draw.choice([1, 2, 5]), "num_best": draw.choice([1, 2]), "max_seq_len": draw.choice([3, 6, 8]),
        "length_exponent": draw.choice([0.0, 0.6, 1.0, 3.0, -0.5]), "ended": draw.choice(["stay", "leave"]),
        **{
            "plain": {}, "prob_scale": {"prob_scale": draw.choice([0.5, 2.0, -1.0])},
            "base_scale": {"base_beam_score_scale": draw.choice([0.5, 0.9, 1.2])},
            "coverage": {"coverage": draw.choice([0.2, 1.0, 5.0, -1.0])}, "ngram": {"no_repeat_ngram": 2},
            "custom": {"custom_score_combine": lambda *, scores_in, scores_base, **_: scores_in + 0.6 + scores_base},
            "normalized": {"length_normalization": True}, "threshold": {"threshold": 1.0}, "fusion": {},
        }[kind],
    }  # fmt: skip
    other = Markov(num_seqs=model.batch.size, seed=trial + 1, size=size)
    if draw.random() < 0.5:
        other.table = other.table * 0 + 0.5  # a bonus for each label
    return model, other, options, draw.choice([0.5, -0.5, 0.0, 1.0])


def search(model, other, options, scale, **more):
    step, state = raw_step(model)
    if "coverage" in options:
        step = with_attention(step, model.table.shape[-1])
    fusion = {"other": (*raw_step(other), scale)} if other is not None else None
    return rf.beam_search(
        step, batch=model.batch.size, state=state, vocab=model.vocab.vocab, fusion=fusion, **{**options, **more}
    )


KINDS = ["plain", "prob_scale", "base_scale", "coverage", "ngram", "custom", "normalized", "threshold", "fusion"]


@pytest.mark.parametrize("kind", KINDS)
def test_running_on_finds_nothing_better_whatever_the_scores_are_made_of(kind):
    for trial in range(25):
        model, other, options, scale = random_search(kind, trial)
        given = model, other if kind == "fusion" else None, options, scale
        early, late = search(*given), search(*given, early_stopping=False)
        for seq in range(model.batch.size):
            count = options["num_best"]
            wanted = [(row.tokens, row.score) for row in late.nbest(seq)[:count]]
            assert [(row.tokens, row.score) for row in early.nbest(seq)[:count]] == wanted


@pytest.mark.parametrize("kind", ["plain", "coverage", "fusion"])
def test_a_sequence_gets_the_same_list_alone_as_in_a_batch_that_goes_on(kind):
    for trial in range(15):
        model, other, options, scale = random_search(kind, trial)
        given = other if kind == "fusion" else None
        together = search(model, given, options, scale)
        for seq in range(model.batch.size):
            alone, beside = Markov(size=model.table.shape[-1]), Markov(size=model.table.shape[-1])
            alone.table, beside.table = model.table[seq : seq + 1], other.table[seq : seq + 1]
            found = search(alone, None if given is None else beside, options, scale)
            wanted = [(row.tokens, pytest.approx(row.score, abs=1e-4)) for row in found.nbest()]
            assert [(row.tokens, row.score) for row in together.nbest(seq)] == wanted


def test_it_does_stop():
    model = Markov(num_seqs=3, seed=1, sharpness=3.0)
    result = run("raw", model, beam_size=3, max_seq_len=9)
    assert result.stopped_early and result.steps < 9
    assert max(result.decided) == result.steps and min(result.decided) < result.steps


@pytest.mark.parametrize(
    "options",
    [{"prob_scale": -1.0}, {"base_beam_score_scale": 0.9}, {"random_sample_scale": 0.1}, {"coverage": -0.1},
     {"custom_score_combine": lambda *, scores_in, scores_base, **_: scores_in + scores_base}],
)  # fmt: skip
def test_with_options_by_which_a_score_may_grow_it_does_not_stop(options):
    model = Markov(seed=1, sharpness=3.0)
    step, state = raw_step(model)
    result = rf.beam_search(
        with_attention(step, 4) if "coverage" in options else step,
        batch=1,
        state=state,
        max_seq_len=9,
        beam_size=3,
        **options,
    )
    assert not result.stopped_early and result.decided == ()


def test_only_the_sequence_whose_scores_grow_is_searched_to_the_end():
    model = Markov(num_seqs=2, seed=1, sharpness=3.0)
    bonus = Markov(num_seqs=2, seed=1)
    bonus.table = np.zeros_like(bonus.table)
    bonus.table[1] = 1.0
    result = run("raw", model, beam_size=3, max_seq_len=8, fusion={"bonus": (*raw_step(bonus), 1.0)})
    assert not result.stopped_early and result.decided[0] is not None and result.decided[1] in (None, 8)


def test_an_exponent_that_is_no_number():
    with raises_message(
        ValueError, "beam_search: length_exponent nan.\nA score is divided by length ** exponent, a finite number."
    ):
        run("raw", Markov(), length_exponent=float("nan"))


def test_no_result_is_asked_for():
    with raises_message(
        ValueError, "beam_search: num_best 0.\nAt least the best result has to be sure before the search stops."
    ):
        run("raw", Markov(), num_best=0)


# -- the bar ------------------------------------------------------------------------------------------------------------------


class Terminal:
    """stderr of a terminal, with the lines as they are seen."""

    def __init__(self):
        self.lines = [""]

    def isatty(self):
        return True

    def write(self, text):
        for char in text:
            if char == "\n":
                self.lines.append("")
            elif char == "\r":
                self.column = 0
            else:
                line = self.lines[-1]
                self.lines[-1] = line[: self.column] + char + line[self.column + 1 :]
                self.column += 1

    def flush(self):
        pass


def states(*best):
    return [SearchProgress(step, len(best), (0,), 0, (text,)) for step, text in enumerate(best, 1)]


def test_on_a_terminal_the_bar_is_written_over_and_nothing_is_left_of_a_longer_one(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    bar = Bar()
    for state in states("a long text", "short"):
        bar(state)
    bar.close()
    assert [line.rstrip() for line in terminal.lines] == [
        "[####################] step 2/2, decided 0/1: short", ""
    ]  # fmt: skip


def test_a_bar_is_not_wider_than_the_terminal(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("COLUMNS", "40")
    bar = Bar()
    bar(states("x" * 100)[0])
    assert len(terminal.lines[0]) == 39


def test_in_a_file_a_line_is_written_after_each_tenth_of_the_steps(capsys):
    bar = Bar()
    for state in states(*["a"] * 40):
        bar(state)
    bar.close()
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 11
    assert lines[0] == "[....................] step 1/40, decided 0/1: a"
    assert lines[-1] == "[####################] step 40/40, decided 0/1: a"


# -- errors -------------------------------------------------------------------------------------------------------------------


def test_an_error_in_a_step_tells_what_was_found_before():
    model = Markov(num_seqs=2, seed=1)
    inner, state = raw_step(model)
    calls = []

    def step(labels, state):
        calls.append(labels)
        if len(calls) == 3:
            raise ArithmeticError("in the model")
        return inner(labels, state)

    with pytest.raises(ArithmeticError, match="in the model") as caught:
        rf.beam_search(step, batch=2, state=state, max_seq_len=5, beam_size=2, vocab=model.vocab.vocab)
    history = caught.value.history
    assert history.num_steps == 2 and len(history.nbest(1)) == 2
    (note,) = caught.value.__notes__
    assert note == (
        f"\nWhat the search had found in 2 steps; all of it is error.history:\n\n{history.text(0)}\n\n{history.text(1)}"
    )


def test_an_error_in_the_first_step_has_nothing_to_tell():
    with pytest.raises(ZeroDivisionError) as caught:
        rf.beam_search(lambda labels, state: 1 / 0, batch=2, max_seq_len=5)
    assert not hasattr(caught.value, "__notes__")
