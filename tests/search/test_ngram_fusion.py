"""n-gram models in rf.beam_search: `lm.step` with raw labels and with Tensors, against scores by the definition."""

import numpy as np
import pytest
from asserting import raises_message
from markov import VOCAB, Markov
from ngram_models import random_arpa, score
from test_beam_search import run

import rfnb as rf
from rfnb import ShapeError
from rfnb.lm import ngram as ngram_file

LN10 = np.log(10)


@pytest.fixture(params=[True, False], ids=["table", "rows"])
def lm(request, tmp_path, monkeypatch):
    """An n-gram model over the labels of the Markov model, and its scores by the definition."""
    monkeypatch.setattr(ngram_file, "_DENSE", 1 << 24 if request.param else 0)
    listed = random_arpa(tmp_path / "x.arpa", ["<unk>", "<s>", *VOCAB], order=3, seed=1)
    made = rf.NGramLM(tmp_path / "x.arpa", VOCAB)

    def by_definition(tokens):
        words = [VOCAB[token] for token in tokens]
        return sum(score(listed, word, ["<s>", *words[:place]], 3) for place, word in enumerate(words))

    return made, by_definition


@pytest.mark.parametrize("kind", ["raw", "rf"])
def test_the_step_of_an_ngram_model_scores_every_hypothesis_by_the_definition(kind, lm):
    made, by_definition = lm
    model = Markov(num_seqs=2, seed=2)
    start = None
    if kind == "rf":
        made = rf.NGramLM(made.file, model.vocab)
        start = made.default_initial_state(batch_dims=[model.batch], start_label=True)
    result = run(kind, model, beam_size=3, fusion={"lm": (made.step, start, 0.5)})
    for seq in range(2):
        for row in result.nbest(seq):
            assert row.parts["log_prob"] == pytest.approx(model.score(seq, row.tokens), abs=1e-4)
            assert row.parts["lm"] == pytest.approx(by_definition(row.tokens), abs=1e-4)
            assert row.score == pytest.approx(row.parts["log_prob"] + 0.5 * row.parts["lm"], abs=1e-4)


@pytest.mark.parametrize("kind", ["raw", "rf"])
def test_with_a_beam_of_everything_the_best_of_both_is_found(kind, lm):
    made, by_definition = lm
    model = Markov(num_seqs=2, seed=3)
    start = None
    if kind == "rf":
        made = rf.NGramLM(made.file, model.vocab)
        start = made.default_initial_state(batch_dims=[model.batch], start_label=True)
    result = run(kind, model, beam_size=400, max_seq_len=4, fusion={"lm": (made.step, start, 2.0)})
    for seq in range(2):
        ended = [(row, value + 2 * by_definition(row)) for row, value in model.everything(seq) if row[-1] == 0]
        tokens, best = max(ended, key=lambda item: item[1])
        assert result.best(seq).tokens == tokens
        assert result.best(seq).score == pytest.approx(best, abs=1e-4)


def test_a_step_on_tensors_needs_the_state_before_it(lm):
    model = Markov()
    with raises_message(
        ValueError,
        """
        NGramLM.step: no state.
          label  [batch=1]
        Of Tensors the state has to be there before the first step.
            start = lm.default_initial_state(batch_dims=[batch], start_label=True)
            rf.beam_search(step, ..., fusion={"lm": (lm.step, start, 0.3)})
        """,
    ):
        lm[0].step(model.start(), {})


def test_the_text_of_a_model_says_what_it_knows(lm):
    assert repr(lm[0]) == "<NGramLM: order 3, 4 labels>"
    assert repr(rf.NGramLM(lm[0].file, [*VOCAB, "z"])) == "<NGramLM: order 3, 5 labels, 1 of them unknown>"


@pytest.mark.parametrize(
    "fusion, text",
    [
        (
            lambda lm: [(lm.step, None, 0.5)],
            """
            beam_search: fusion names no models.
              fusion  list
            Each model has a name, under which its part of the scores is shown.
                rf.beam_search(..., fusion={"lm": (lm_step, lm_state, 0.3)})
            """,
        ),
        (
            lambda lm: {"lm": (lm.step, 0.5)},
            """
            beam_search: fusion "lm" is no step function with state and scale.
              given  (method, float)
            Without a state it is None.
                rf.beam_search(..., fusion={"lm": (lm_step, None, 0.3)})
            """,
        ),
        (
            lambda lm: {"lm": lm.step},
            """
            beam_search: fusion "lm" is no step function with state and scale.
              given  method
            Without a state it is None.
                rf.beam_search(..., fusion={"lm": (lm_step, None, 0.3)})
            """,
        ),
        (
            lambda lm: {"lm": (lm, None, 0.5)},
            """
            beam_search: fusion "lm" is an n-gram model, not its step function.
              given  <NGramLM: order 3, 4 labels>
            Its step function leaves the start label out.
                rf.beam_search(..., fusion={"lm": (lm.step, None, 0.5)})
            """,
        ),
    ],
)
def test_what_is_no_model_to_fuse(lm, fusion, text):
    with raises_message(TypeError, text):
        run("raw", Markov(), fusion=fusion(lm[0]))


def test_a_model_over_other_labels(lm):
    with raises_message(
        ShapeError,
        """
        beam_search: the step function of lm gives scores of another shape.
          labels  (1,)
          scores  (1, 5)
          needs   (1, 4)
        One row for each label it was given: batch times hypotheses.
        All models score the same labels.
        """,
    ):
        run("raw", Markov(), fusion={"lm": (rf.NGramLM(lm[0].file, [*VOCAB, "z"]).step, None, 0.5)})
