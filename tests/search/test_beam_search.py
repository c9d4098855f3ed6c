"""rf.beam_search: step functions of rfnb and of plain torch, against brute force and against searches without early stopping."""

import numpy as np
import pytest
import torch
from asserting import raises_message, tensor
from markov import Markov

import rfnb as rf
from rfnb import Dim, ShapeError

STEPS = 6


def raw_step(model):
    """Plain torch; the state is what a model of the whole past has: all labels so far."""
    table = torch.from_numpy(model.table)

    def step(labels, state):
        past = torch.cat([state["past"], labels[:, None]], 1)
        seqs = state["nested"][0]
        return table[seqs, past.shape[1] - 1, labels], {"past": past, "nested": (seqs, "text")}

    return step, {
        "past": torch.zeros(model.batch.size, 0, dtype=torch.long),
        "nested": (torch.arange(model.batch.size), "text"),
    }


def rf_step(model):
    steps = Dim(model.table.shape[1], name="step")
    table = tensor(model.table, model.batch, steps, model.before, model.vocab)

    def step(label, state):
        frame = rf.gather(table, indices=state["index"], axis=steps)
        scores = rf.gather(frame, indices=rf.set_sparse_dim(label, model.before), axis=model.before)
        return scores, {"index": state["index"] + 1}

    return step, {"index": rf.zeros([], dtype="int32")}


def run(kind, model, **options):
    step, state = {"raw": raw_step, "rf": rf_step}[kind](model)
    batch = model.batch.size if kind == "raw" else model.batch
    more = {"axis": model.vocab} if kind == "rf" else {"vocab": model.vocab.vocab}
    return rf.beam_search(step, state=state, **{"batch": batch, "max_seq_len": STEPS, **more, **options})


@pytest.mark.parametrize("kind", ["raw", "rf"])
@pytest.mark.parametrize("exponent", [0.0, 0.7, 1.0])
def test_a_beam_of_everything_finds_the_best(kind, exponent):
    model = Markov(num_seqs=2, seed=1)
    result = run(kind, model, beam_size=400, max_seq_len=4, length_exponent=exponent, num_best=3)
    for seq in range(2):
        finished = [(row, score / len(row) ** exponent) for row, score in model.everything(seq) if row[-1] == 0]
        expected = sorted(finished, key=lambda item: -item[1])[:3]
        got = result.nbest(seq)[:3]
        assert [row.tokens for row in got] == [row for row, _ in expected]
        np.testing.assert_allclose([row.score for row in got], [score for _, score in expected], atol=1e-5)
        assert all(row.ended for row in got)


@pytest.mark.parametrize("kind", ["raw", "rf"])
@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0, 1.5])
@pytest.mark.parametrize("num_best", [1, 2])
def test_stopping_early_never_changes_the_best(kind, exponent, num_best):
    stopped = 0
    for seed in range(6):
        model = Markov(num_seqs=2, seed=seed)
        options = {"beam_size": 3, "length_exponent": exponent, "num_best": num_best}
        early, late = run(kind, model, **options), run(kind, model, early_stopping=False, **options)
        stopped += early.steps < late.steps
        for seq in range(2):
            if late.nbest(seq)[0].ended:
                wanted = [(row.tokens, row.score) for row in late.nbest(seq)[:num_best]]
                assert [(row.tokens, row.score) for row in early.nbest(seq)[:num_best]] == wanted
        assert early.stopped_early or early.steps == late.steps
    assert stopped or exponent >= 1


def test_scores_that_may_grow_are_searched_to_the_end():
    model, bonus = Markov(seed=1), Markov(seed=1)
    bonus.table = np.full_like(bonus.table, 3.0)
    fusion = {"bonus": (*raw_step(bonus), 1.0)}
    assert not run("raw", model, beam_size=3, fusion=fusion).stopped_early


@pytest.mark.parametrize("kind", ["raw", "rf"])
def test_fusion_with_another_model_and_its_state(kind):
    model, other, both = Markov(seed=2), Markov(seed=3), Markov(seed=2)
    both.table = model.table + 0.5 * other.table
    make = raw_step if kind == "raw" else rf_step
    other.batch, other.vocab, other.before = model.batch, model.vocab, model.before
    fusion = {"lm": (*make(other), 0.5)}
    got, wanted = run(kind, model, beam_size=3, fusion=fusion), run(kind, both, beam_size=3)
    assert [row.tokens for row in got.nbest()] == [row.tokens for row in wanted.nbest()]
    for row in got.nbest():
        assert row.score == pytest.approx(both.score(0, row.tokens), abs=1e-4)
        assert row.parts["log_prob"] == pytest.approx(model.score(0, row.tokens), abs=1e-4)
        assert row.parts["lm"] == pytest.approx(other.score(0, row.tokens), abs=1e-4)


@pytest.mark.parametrize("kind", ["raw", "rf"])
def test_no_ngram_twice(kind):
    model = Markov(num_seqs=2, seed=4)
    model.table[..., 0] -= 4
    for seq in range(2):
        for row in run(kind, model, beam_size=3, no_repeat_ngram=2).nbest(seq):
            pairs = list(zip(row.tokens, row.tokens[1:]))
            assert len(set(pairs)) == len(pairs)


def test_the_number_of_sequences_may_be_an_integer_of_numpy():
    model = Markov(num_seqs=2)
    tokens = [row.tokens for row in run("raw", model, beam_size=3).nbest()]
    assert [row.tokens for row in run("raw", model, batch=np.int64(2), beam_size=3).nbest()] == tokens


def test_coverage_ranks_what_attends_to_everything_first():
    """Attention looks at the position of the label; 0.5 for label 1, 2 each; GNMT equation 14."""
    logits = np.log(np.asarray([[0.2, 0.45, 0.35], [0.2, 0.45, 0.35], [0.4, 0.35, 0.25]], np.float32))

    def step(labels, state):
        weights = torch.nn.functional.one_hot(labels, 3)[:, 1:].float() + 0.0
        return torch.from_numpy(logits)[labels], state, weights

    plain = rf.beam_search(step, batch=1, beam_size=50, max_seq_len=4, early_stopping=False)
    covered = rf.beam_search(step, batch=1, beam_size=50, max_seq_len=4, early_stopping=False, coverage=0.2)
    assert {1, 2} <= set(covered.best().tokens) and not {1, 2} <= set(plain.best().tokens)
    for row in covered.nbest():
        counts = [min(max(row.tokens[:-1].count(label), 1e-10), 1) for label in (1, 2)]
        assert row.parts["coverage"] == pytest.approx(0.2 * np.log(counts).sum(), abs=1e-4)


def test_coverage_without_weights():
    with raises_message(
        ValueError,
        """
        beam_search: coverage without attention weights.
        The step function gives them as third value.
            return log_prob, state, weights
        """,
    ):
        run("raw", Markov(), coverage=0.1)


def test_a_step_function_of_another_shape():
    with raises_message(
        ShapeError,
        """
        beam_search: the step function gives scores of another shape.
          labels  (2,)
          scores  (1, 4)
          needs   (2, labels)
        One row for each label it was given: batch times hypotheses.
        """,
    ):
        rf.beam_search(lambda labels, state: (torch.zeros(1, 4), state), batch=2, max_seq_len=3)


def test_no_step():
    with raises_message(
        ValueError, "beam_search: max_seq_len 0.\nAt least one step is made, and the search ends some time."
    ):
        rf.beam_search(lambda labels, state: (torch.zeros(1, 4), state), batch=1, max_seq_len=0)


def test_progress_is_told_after_each_step(capsys):
    model = Markov(num_seqs=2, seed=1)
    told = []
    result = run("raw", model, progress=told.append)
    assert [item.step for item in told] == list(range(1, result.steps + 1))
    assert told[-1].decided == 2 and told[0].max_steps == STEPS
    assert told[-1].best == tuple(result.best(seq).text for seq in range(2))  # without the end label
    run("raw", model, progress=True)
    assert "step 1/6, decided" in capsys.readouterr().err


def test_the_table_of_the_best():
    model = Markov(seed=1)
    result = run("raw", model, beam_size=2)
    lines = repr(result.nbest()).splitlines()
    assert lines[0].split() == ["rank", "score", "log_prob", "tokens", "text"]
    assert len(lines) == 1 + len(result.nbest())
    row = result.best()
    assert row.text == " ".join(model.vocab.vocab[i] for i in row.tokens[:-1])


def test_what_has_not_ended_is_given_only_if_nothing_has():
    model = Markov(seed=1)
    model.table[..., 0] = -np.inf
    assert [row.ended for row in run("raw", model, beam_size=2).nbest()] == [False, False]


def test_a_batch_gives_what_each_sequence_alone_gives():
    together = Markov(num_seqs=4, seed=5)
    result = run("raw", together, beam_size=3, early_stopping=False)
    for seq in range(4):
        alone = Markov()
        alone.table = together.table[seq : seq + 1]
        wanted = [
            (row.tokens, pytest.approx(row.score, abs=1e-5))
            for row in run("raw", alone, beam_size=3, early_stopping=False).nbest()
        ]
        assert [(row.tokens, row.score) for row in result.nbest(seq)] == wanted


def test_the_labels_of_a_search_as_a_table():
    model = Markov(num_seqs=2, seed=1)
    _, labels = model.search(3)
    for seq, table in enumerate(rf.nbest(labels)):
        for row in table:
            assert row.score == pytest.approx(model.score(seq, row.tokens), abs=1e-5)
        assert [row.score for row in table] == sorted((row.score for row in table), reverse=True)
    normalized = rf.nbest(labels, length_exponent=1.0)[0]
    assert normalized[0].score == pytest.approx(
        model.score(0, normalized[0].tokens) / len(normalized[0].tokens), abs=1e-5
    )
    assert set(normalized[0].parts) == {"log_prob", "length"}


def test_raw_prefixes_and_start_labels():
    model = Markov(num_seqs=2, seed=1)
    result = run("raw", model, beam_size=3, prefix=[[1, 3, 2], [3, 3, -1]], early_stopping=False)
    assert {row.tokens[:3] for row in result.nbest(0)} == {(1, 3, 2)}
    assert {row.tokens[:2] for row in result.nbest(1)} == {(3, 3)} and len({row.tokens for row in result.nbest(1)}) > 1
    seen = []

    def step(labels, state):
        seen.append(labels.tolist())
        return torch.zeros(len(labels), 4), state

    rf.beam_search(step, batch=2, start_label=torch.tensor([3, 2]), max_seq_len=1)
    assert seen == [[3, 2]]


def test_raw_prefixes_of_another_shape():
    with raises_message(
        ShapeError,
        """
        beam_search: the prefix does not fit the sequences.
          prefix  (3,) int64
          needs   (2, time) int64
        It is the labels that each sequence begins with, -1 where it is free.
        """,
    ):
        run("raw", Markov(num_seqs=2), prefix=[1, 2, 3])


def test_a_cache_that_reorders_itself_is_told_the_rows():
    class Cache:
        def __init__(self):
            self.past = torch.zeros(2, 0, dtype=torch.long)

        def reorder_cache(self, rows):
            self.past = self.past[rows]

    model = Markov(num_seqs=2, seed=3)
    plain, _ = raw_step(model)

    def step(labels, state):
        cache, seqs = state
        scores, new = plain(labels, {"past": cache.past, "nested": (seqs, "")})
        cache.past = new["past"]
        return scores, (cache, seqs)

    result = rf.beam_search(step, batch=2, state=(Cache(), torch.arange(2)), beam_size=3, max_seq_len=STEPS)
    expected = run("raw", model, beam_size=3)
    for seq in range(2):
        assert [(row.tokens, row.score) for row in result.nbest(seq)] == [
            (row.tokens, row.score) for row in expected.nbest(seq)
        ]


def test_results_of_a_sequence_that_is_not_there():
    with raises_message(
        IndexError,
        """
        BeamHistory: no such seq.
          seq   2 of 2
          step  0 of 3
          k     0 of 5
        All three are counted from 0; k is a slot of the beam after that step.
        """,
    ):
        run("raw", Markov(num_seqs=2, seed=1)).nbest(2)


def test_a_step_function_that_searches_by_itself_leaves_the_results_alone():
    model, other = Markov(num_seqs=2, seed=4), Markov(num_seqs=2, seed=5)
    inner, state = raw_step(model)

    def step(labels, state):
        run("raw", other, beam_size=2)
        return inner(labels, state)

    found = rf.beam_search(step, batch=2, state=state, max_seq_len=STEPS, beam_size=3)
    expected = run("raw", model, beam_size=3, vocab=None)

    assert found.nbest(0) == expected.nbest(0) and found.nbest(1) == expected.nbest(1)
    assert found.steps == expected.steps
