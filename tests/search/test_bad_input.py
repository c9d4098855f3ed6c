"""Bad input as a user meets it: the whole message, and what was found before it is kept and can be shown."""
# ruff: noqa: E501

from pathlib import Path

import numpy as np
import pytest
import torch
from asserting import raises_message, tensor
from loop_faces import run_steps
from markov import Markov, hypotheses
from test_transducer import Model, encoder
from test_transducer import Run as TransducerRun

import rfnb as rf
from rfnb import Dim, DimError

TINY = Path(__file__).parents[1] / "golden" / "tiny.arpa"
FACES = pytest.mark.parametrize("face", ["for", "with"])


def search(model, face="for", *, steps=5, input_type="log_prob", of_step=None, **options):
    """labels {time, batch, beam}; `of_step`: further options from (loop, scores)."""
    loop = rf.Loop(max_seq_len=steps, name="search")
    loop.state.label = model.start()
    step_dim = Dim(model.table.shape[1], name="step")
    table = tensor(model.table, model.batch, step_dim, model.before, model.vocab)

    def body():
        frame = rf.gather(table, indices=loop.iter_idx, axis=step_dim)
        scores = rf.gather(frame, indices=rf.set_sparse_dim(loop.state.label, model.before), axis=model.before)
        if input_type == "prob":
            scores = rf.exp(scores)
        given = {"beam_size": 3, **options, **(of_step(loop, scores) if of_step else {})}
        label = rf.choice(scores, axis=model.vocab, input_type=input_type, **given)
        loop.state.label = label
        loop.end(label == 0, include_eos=True)
        return loop.stack(label)

    labels = run_steps(loop, face, body)
    return labels


def without_end(**options):
    """A model in which nothing ends."""
    model = Markov(num_seqs=2, seed=1, **options)
    model.table[..., 0] = -np.inf
    model.table -= np.log(np.exp(model.table).sum(-1, keepdims=True))
    return model


def check_kept(trace, steps, *, seqs=2, path="search"):
    """The steps before the error are in the trace, and every rendering draws them."""
    history = trace.beams[path]
    assert history.num_steps == steps and history.num_seqs == seqs
    for seq in range(seqs):
        assert history.nbest(seq) and history.verdicts(seq, steps - 1)
        assert all(len(item.tokens) <= steps for item in history.nbest(seq))
    view = rf.viz.beams(history)
    best = " ".join(history.best(0).labels)
    assert view.spec.head["seqs"][0]["result"] == best or "</s>" in best
    assert f"{steps} step" in view.text() and "<table" in view.html()
    assert "Beam search" in rf.show(trace).text()


def fails(kind, text, steps, call):
    """The call fails with this message, after so many whole steps that are kept."""
    with rf.record() as trace, raises_message(kind, text):
        call()
    if steps:
        check_kept(trace, steps)
    else:
        assert len(trace.beams) == 0


# -- NaN and sums -------------------------------------------------------------------------------------------------------------

NAN = """
    choice in loop "search", step 2: the scores contain NaN.
      scores  [batch=2, beam=3, vocab=4]
      first   batch 1, beam 0
    A NaN cannot be ranked. Find the first op that makes one, e.g. a log of 0 or a division by 0.
    """
SUMS = """
    choice in loop "search", step 2: the probabilities do not sum to 1.
      scores  [batch=2, beam=3, vocab=4]
      first   batch 1, beam 0
      sum     0.5
    What a choice adds up are log probabilities over the labels.
        rf.choice(scores, input_type="logits", ...)   # normalizes
    """


@FACES
@pytest.mark.parametrize(
    "options",
    [{}, {"input_type": "prob"}, {"input_type": "logits"}, {"threshold": 5.0}, {"banned": [3]}, {"no_repeat_ngram": 3},
     {"keep_candidates": 4}, {"length_normalization": True}, {"prob_scale": 0.5}, {"sampling": True}],
    ids=lambda options: next(iter(options), "plain"),
)  # fmt: skip
def test_nan_names_the_step_the_sequence_and_the_hypothesis(face, options):
    model = without_end()
    model.table[1, 2, :, 2] = np.nan
    text = NAN.replace("batch=2, beam=3, vocab=4", "vocab=4, batch=2, beam=3") if "banned" in options else NAN
    fails(ValueError, text, 2, lambda: search(model, face, **options))


@FACES
def test_nan_of_a_model_that_is_fused_in(face):
    model = without_end()
    bad = np.zeros((2, 4), np.float32)
    bad[1, 2] = np.nan

    def fusion(loop, scores):
        late = rf.cast(loop.iter_idx, "float32") == 2
        lm = rf.where(late, tensor(bad, model.batch, model.vocab), 0.0, allow_broadcast_all_sources=True)
        return {"fusion": {"lm": (lm, 0.5)}}

    fails(ValueError, NAN, 2, lambda: search(model, face, of_step=fusion))


@FACES
@pytest.mark.parametrize("input_type", ["log_prob", "prob"])
def test_probabilities_that_do_not_sum_to_one(face, input_type):
    model = without_end()
    model.table[1, 2] += np.log(0.5)
    fails(ValueError, SUMS, 2, lambda: search(model, face, input_type=input_type, check=True))


def test_probabilities_in_the_first_step():
    model = without_end()
    model.table[:, 0] = np.nan
    text = """
        choice in loop "search", step 0: the scores contain NaN.
          scores  [batch=2, vocab=4]
          first   batch 0
        A NaN cannot be ranked. Find the first op that makes one, e.g. a log of 0 or a division by 0.
        """
    fails(ValueError, text, 0, lambda: search(model))


# -- nothing is left ----------------------------------------------------------------------------------------------------------

PRUNED = """
    choice in loop "search", step 2: no hypothesis is left.
      scores  [batch=2, beam=3, vocab=4]
      first   batch 1
    All labels of all hypotheses have probability 0, or are banned. What was found so far is in a trace:
        with rf.record() as trace: ...   # the same search; then rf.show(trace)
    """


@FACES
@pytest.mark.parametrize("why", ["impossible", "banned", "prefix", "n-grams"])
def test_all_hypotheses_pruned(face, why):
    model, options, text = without_end(), {}, PRUNED
    if why == "impossible":
        model.table[1, 2] = -np.inf
    elif why == "banned":  # in step 2 of sequence 1
        mask, steps = np.zeros((2, 10, 4), bool), Dim(10, name="step")
        mask[1, 2] = True
        mask = tensor(mask, model.batch, steps, model.vocab)
        options["of_step"] = lambda loop, _: {"banned": rf.gather(mask, indices=loop.iter_idx, axis=steps)}
    elif why == "prefix":
        labels = tensor(np.asarray([[-1, -1, -1], [-1, -1, 1]]), model.batch, Dim(3, name="prefix"))
        options = {"prefix": labels, "banned": [1]}
        text = PRUNED.replace("beam=3, vocab=4", "vocab=4, beam=3")
    else:
        model.table[1, :, :, 3] = -np.inf  # two labels are left, and each comes once
        model.table[0, :, :, 0] = -1.0
        options["no_repeat_ngram"] = 1
    fails(ValueError, text, 2, lambda: search(model, face, **options))


def test_a_threshold_of_zero_keeps_the_best():
    model = Markov(num_seqs=2, seed=1)
    greedy = [found[0] for found in hypotheses(search(model, beam_size=1), model.batch)]
    kept = hypotheses(search(model, beam_size=4, threshold=0.0), model.batch)
    assert [[item for item in found if item[1] > -np.inf] for found in kept] == [[item] for item in greedy]


# -- the model, the loop ------------------------------------------------------------------------------------------------------


def test_an_error_of_the_model():
    def broken(loop, scores):
        if loop.num_steps == 3:
            raise ArithmeticError("in the model")
        return {}

    fails(ArithmeticError, "in the model", 2, lambda: search(without_end(), of_step=broken))


def test_an_error_of_the_model_in_a_recorded_loop():
    model, rows = without_end(), Dim(2, name="rows")
    table = tensor(np.zeros((2, 4), np.float32), rows, model.vocab)

    def lookup(loop, scores):  # step 2 has no row
        return {"fusion": {"lm": (rf.gather(table, indices=loop.iter_idx, axis=rows), 1.0)}}

    with rf.record() as trace, pytest.raises(IndexError):
        search(model, "with", of_step=lookup)
    check_kept(trace, 2)


@FACES
def test_a_reference_label_that_is_none(face):
    model, axis = without_end(), Dim(5, name="reference")
    target = tensor(np.asarray([[1, 2, 3, 1, 1], [1, 2, 7, 1, 1]]), model.batch, axis, sparse_dim=model.vocab)
    text = """
        choice in loop "search", step 2: a reference label is none.
          labels  vocab=4
          found   3 to 7
        Reference labels are counted from 0, also past the end of a sequence.
        """

    def options(loop, scores):
        return {"target": rf.gather(target, indices=loop.iter_idx, axis=axis), "add_to_beam_scores": True}

    fails(ValueError, text, 2, lambda: search(model, face, of_step=options))


@FACES
def test_no_end_within_the_limit(face):
    model = without_end()
    with rf.record() as trace:
        labels = search(model, face, steps=3)
    assert all(len(row) == 3 for found in hypotheses(labels, model.batch) for row, _ in found)
    assert rf.decide(labels).dims[0].extent == 3
    history = trace.beams["search"]
    assert not any(item.ended for seq in range(2) for item in history.nbest(seq)) and not history.finished(0)
    assert "not complete" in rf.viz.beams(history).text()
    assert [item.tokens for item in history.rerank(0, length_exponent=1.0)] == [
        item.tokens for item in history.nbest(0)
    ]


def test_no_end_within_the_limit_of_a_step_function():
    table = torch.from_numpy(without_end().table)
    result = rf.beam_search(
        lambda labels, step: (table[0, step, labels], step + 1), batch=1, state=0, max_seq_len=3, beam_size=2
    )
    assert [(len(row.tokens), row.ended) for row in result.nbest()] == [(3, False)] * 2 and not result.stopped_early


def test_a_loop_that_never_ends():
    text = """
        Loop "search", step 0: end without max_seq_len.
          axis         None
          max_seq_len  None
        A loop that never ends has to be cut somewhere:
            loop = rf.Loop(max_seq_len=50)
            for _ in loop:
                loop.end(ended, include_eos=True)
        """
    fails(ValueError, text, 0, lambda: search(Markov(num_seqs=2), steps=None))


# -- beams and vocabularies ---------------------------------------------------------------------------------------------------


@FACES
@pytest.mark.parametrize(
    "options", [{}, {"length_normalization": True}, {"no_repeat_ngram": 2}, {"base_beam_score_scale": 0.5}]
)
def test_a_beam_larger_than_the_vocabulary(face, options):
    """Free places have score -inf, in no list and no view."""
    model = Markov(num_seqs=2, size=2, seed=3)
    with rf.record() as trace:
        labels = search(model, face, steps=3, beam_size=9, **options)
    history = trace.beams["search"]
    for seq, found in enumerate(hypotheses(labels, model.batch)):
        real = [row for row, score in found if score > -np.inf]
        assert 2 <= len(real) < 9 and len(set(real)) == len(real)
        assert [item.tokens for item in history.nbest(seq)] == real
        assert [row.tokens for row in rf.nbest(labels)[seq]] == real
    assert [len(one["steps"][0]["scores"]) for one in rf.viz.beams(history).spec.head["seqs"]] == [9, 9]
    assert rf.viz.beams(history).spec.head["seqs"][0]["steps"][0]["scores"].count(None) == 7


@pytest.mark.parametrize("beam_size", [None, 0, -1, 2.5, "4", True])
def test_a_beam_size_that_is_none(beam_size):
    what = "no beam_size" if beam_size is None else f"beam_size {beam_size!r}"
    text = f"choice: {what}.\n  beam_size  {beam_size!r}\nAt least one hypothesis must survive.\n    rf.choice(scores, beam_size=5)"
    fails(ValueError, text, 0, lambda: search(Markov(num_seqs=2), beam_size=beam_size))


def test_a_language_model_with_another_vocabulary():
    model = Markov(num_seqs=2)
    lm = rf.NGramLM(TINY, ["the", "cat", "sat", "dog", "</s>"])
    scores = lm.next_scores(lm.default_initial_state(batch_dims=[model.batch]))
    text = f"""
        choice: fusion "lm" is over other labels.
          scores  [batch=2, vocab=4]
          lm      [batch=2, {lm.out_dim.name}=5]
          labels  vocab=4
        The model has to have the labels of the choice, in the same order: they are the same dim.
        """
    fails(DimError, text, 0, lambda: search(model, fusion={"lm": (scores, 0.5)}))


def test_a_language_model_over_another_dim_of_the_same_size():
    model = Markov(num_seqs=2)
    words = Dim(4, name="words")
    text = """
        choice: fusion "lm" is over other labels.
          scores  [batch=2, vocab=4]
          lm      [words=4]
          labels  vocab=4
        The model has to have the labels of the choice, in the same order: they are the same dim.
        If they are the same labels, replace one dim by the other:
            log_prob, _ = rf.replace_dim(log_prob, in_dim=words, out_dim=vocab)
        """
    fails(DimError, text, 0, lambda: search(model, fusion={"lm": (rf.zeros([words]), 0.5)}))


def test_fusion_without_a_scale():
    model = Markov(num_seqs=2)
    text = """
        choice: fusion "lm" has no scores.
          lm  Tensor
        Each entry is the log probabilities of a model and their scale.
            fusion={"lm": (log_prob, 0.5)}
        """
    fails(TypeError, text, 0, lambda: search(model, fusion={"lm": rf.zeros([model.vocab])}))
    text = 'choice: fusion "lm" has the scale nan.\nA scale is a finite number.'
    fails(ValueError, text, 0, lambda: search(model, fusion={"lm": (rf.zeros([model.vocab]), float("nan"))}))


def test_scores_that_are_no_tensor():
    vocab = Dim(4, name="vocab")
    with raises_message(
        TypeError,
        """
        choice: the scores are no Tensor.
          scores  ndarray
        A choice has to know which dim has the labels.
            rf.convert_to_tensor(scores, dims=[batch, vocab])
        """,
    ):
        for _ in rf.Loop(axis=Dim(1, name="time")):
            rf.choice(np.zeros((2, 4)), axis=vocab, beam_size=2)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"threshold": -1.0}, "choice: threshold -1.0.\nIt is how much worse than the best hypothesis another one may be, 0 or more.\n    rf.choice(scores, beam_size=8, threshold=5.0)"),
        ({"threshold": float("nan")}, "choice: threshold nan.\nIt is how much worse than the best hypothesis another one may be, 0 or more.\n    rf.choice(scores, beam_size=8, threshold=5.0)"),
        ({"no_repeat_ngram": -1}, "choice: no_repeat_ngram -1.\nIt is a number of labels in a row, or 0.\n    rf.choice(scores, no_repeat_ngram=3, ...)"),
        ({"no_repeat_ngram": 1.5}, "choice: no_repeat_ngram 1.5.\nIt is a number of labels in a row, or 0.\n    rf.choice(scores, no_repeat_ngram=3, ...)"),
        ({"keep_candidates": -5}, "choice: keep_candidates -5.\nIt is a number of candidates, 0 or more."),
        ({"length_normalization": True, "length_normalization_exponent": float("nan")}, "choice: length_normalization_exponent=nan.\nAn exponent is a finite number."),
        ({"end_label": 1.0}, "choice: end_label 1.0.\nIt is the index of a label.\n    rf.choice(scores, end_label=0, ...)"),
        ({"banned": [1.5]}, "choice: a banned label is none.\n  banned  1.5\n  labels  vocab=4\nLabels are whole numbers, counted from 0.\n    banned=[0, 2]"),
        ({"banned": [-1]}, "choice: a banned label is none.\n  banned  -1\n  labels  vocab=4\nLabels are whole numbers, counted from 0.\n    banned=[0, 2]"),
    ],
)  # fmt: skip
def test_limits_that_mean_nothing(options, text):
    fails(ValueError, text, 0, lambda: search(Markov(num_seqs=2), **options))


def test_a_mask_of_banned_labels_over_other_dims():
    model, words = Markov(num_seqs=2), Dim(5, name="words")
    text = """
        choice: the mask of banned labels is over other dims.
          scores  [batch=2, vocab=4]
          banned  [words=5]
          labels  vocab=4
        It says of each label whether it is banned: {..., labels}.
        """
    fails(DimError, text, 0, lambda: search(model, banned=rf.zeros([words], dtype="bool")))
    text = """
        choice: the mask of banned labels is no bool.
          banned  [vocab=4] float32
        It is True for labels that are not chosen.
            banned=mask > 0
        """
    fails(TypeError, text, 0, lambda: search(model, banned=rf.zeros([model.vocab])))


# -- step functions -----------------------------------------------------------------------------------------------------------


def beam_search(step=None, **options):
    table = torch.from_numpy(without_end().table)
    step = step or (lambda labels, index: (table[0, index, labels], index + 1))
    return rf.beam_search(step, **{"batch": 1, "state": 0, "max_seq_len": 5, "beam_size": 2, **options})


def test_nan_of_a_step_function_comes_with_what_was_found_before():
    table = torch.from_numpy(without_end().table)
    table[0, 2] = torch.nan
    with pytest.raises(ValueError, match='^beam_search in loop "search", step 2: the scores contain NaN.') as caught:
        beam_search(lambda labels, index: (table[0, index, labels], index + 1))
    assert caught.value.history.num_steps == 2
    assert "sequence 0: 2 hypotheses after 2 steps" in caught.value.__notes__[0]
    assert "2 steps" in rf.viz.beams(caught.value.history).text()


@pytest.mark.parametrize(
    ("given", "text"),
    [(None, "NoneType"), (torch.zeros(1, 4), "Tensor"), ((torch.zeros(1, 4),), "tuple of 1"), ((1, 2, 3, 4), "tuple of 4")],
    ids=["None", "Tensor", "one", "four"],
)  # fmt: skip
def test_a_step_function_that_gives_no_pair(given, text):
    with raises_message(
        TypeError,
        f"""
        beam_search: the step function gives no pair.
          given  {text}
        It gives the scores of the next labels and the next state (None if there is none).
            return log_prob, state
        """,
    ):
        beam_search(lambda labels, state: given)


def test_a_vocab_of_other_labels():
    with raises_message(
        ValueError,
        """
        beam_search: vocab is of other labels than the scores.
          vocab   2 labels
          scores  (1, 4)
        It has the text of each label, in their order.
        """,
    ):
        beam_search(vocab=["a", "b"])


def test_no_limit_of_steps():
    with pytest.raises(TypeError, match="beam_search: max_seq_len is None"):
        beam_search(max_seq_len=None)
    text = "beam_search: max_seq_len 0.\nAt least one step is made, and the search ends some time."
    with raises_message(ValueError, text):
        beam_search(max_seq_len=0)


# -- searches over alignments -------------------------------------------------------------------------------------------------


def test_nan_in_a_step_of_a_transducer():
    model, calls = Model(3, 0, seed=4), []
    plain_step = model.step

    def step(frame, label, state):
        calls.append(label)
        out, state = plain_step(frame, label, state)
        return (out * float("nan") if len(calls) == 3 else out), state

    model.step = step
    with (
        rf.record() as trace,
        raises_message(
            ValueError,
            """
        transducer_beam_search, step 2: the scores contain NaN.
          scores  [batch=2, beam=4, classes=3]
          first   sequence 0, hypothesis 0, frame 2
        A NaN cannot be ranked. Find the first op that makes one, e.g. a log of 0 or a division by 0.
        """,
        ),
    ):
        TransducerRun(model, encoder(2, 3), beam_size=4)
    check_kept(trace, 2, path="transducer")


@FACES
def test_a_score_of_infinity_is_refused_in_its_step(face):
    model = Markov(num_seqs=2, seed=1)
    model.table[1, 0, :, 3] = np.inf
    text = """
        choice in loop "search", step 0: the scores contain +inf.
          scores  [batch=2, vocab=4]
          first   batch 1
        It beats everything, and the next step would be NaN. A log probability is at most 0.
        """
    with raises_message(ValueError, text):
        search(model, face)


@FACES
@pytest.mark.parametrize("prob_scale", [0.0, -1.0])
def test_what_is_impossible_stays_so_under_any_scale(face, prob_scale):
    model = Markov(num_seqs=2, seed=1)
    model.table[..., 2] = -np.inf
    labels = search(model, face, prob_scale=prob_scale)
    assert np.isfinite(rf.get_beam_scores(labels).numpy()).all()
    assert not (labels.numpy() == 2).any()


def test_a_prefix_that_is_no_tensor():
    with raises_message(
        TypeError,
        """
        choice: the prefix is no Tensor.
          prefix  list
          scores  [batch=1, vocab=4]
        It is the labels that each sequence begins with, -1 where it is free.
            prefix = rf.convert_to_tensor(labels, dims=[batch, time])
        """,
    ):
        search(Markov(), prefix=[[1, -1]])


def test_a_search_asks_for_the_dim_of_the_labels_by_its_own_name():
    batch, vocab = Dim(2, name="batch"), Dim(5, name="vocab")
    with raises_message(
        DimError,
        """
        beam_search: which dim of scores has the labels?
          scores  [batch=2, vocab=5]
        It has no feature_dim, so name the dim of the labels:
            rf.beam_search(..., axis=...)
        """,
    ):
        rf.beam_search(lambda label, state: (rf.zeros([*label.dims, vocab]), state), batch=batch, max_seq_len=3)
