"""Probabilities or logits given where log probabilities are expected: the first score above 0 is an error."""

import numpy as np
import pytest
from asserting import raises_message, tensor
from loop_faces import run_steps

import rfnb as rf
from rfnb import Dim

BATCH, VOCAB, TIME = Dim(2, name="batch"), Dim(3, name="vocab"), Dim(4, name="time")
LOG_PROBS = rf.log(tensor([[0.7, 0.2, 0.1], [0.1, 0.5, 0.4]], BATCH, VOCAB))
GIVEN = {"prob": rf.exp(LOG_PROBS), "logits": LOG_PROBS + tensor([0.0, 3.0], BATCH)}


def choices(scores, face="for", **options):
    loop = rf.Loop(axis=TIME, name="search")
    return rf.decide(run_steps(loop, face, lambda: loop.stack(rf.choice(scores, axis=VOCAB, beam_size=2, **options))))


@pytest.mark.parametrize("face", ["for", "with"])
@pytest.mark.parametrize("kind", GIVEN)
def test_a_choice_names_the_input_type(kind, face):
    first, score = {"prob": ("batch 0, 0", "0.7"), "logits": ("batch 1, 0", "2.307")}[kind]
    with raises_message(
        ValueError,
        f"""
        choice in loop "search", step 0: a score above 0.
          scores  [batch=2, vocab=3]
          first   {first.split(",")[0]}
          score   {score}
        A log probability is 0 at most, and so is a sum of them; a bonus is fusion={{name: (scores, scale)}}.
        Say what the scores are:
            rf.choice(..., input_type="prob")        # probabilities
            rf.choice(..., input_type="logits")      # logits, to be normalized
            rf.choice(..., input_type="score")       # any numbers, added up as they are
        """,
    ):
        choices(GIVEN[kind], face)
    assert (choices(GIVEN[kind], face, input_type=kind).numpy() == choices(LOG_PROBS, face).numpy()).all()


OPTIONS = {
    "usual": {}, "end label": {"end_label": 1}, "no repeated": {"no_repeat_ngram": 4}, "banned": {"banned": [2]},
    "length": {"length_normalization": True}, "sampling": {"sampling": True}, "keep_beams": {"keep_beams": True},
    "threshold": {"threshold": 5.0}, "scaled": {"prob_scale": 0.5},
}  # fmt: skip


@pytest.mark.parametrize("name", OPTIONS)
def test_with_every_option(name):
    with pytest.raises(ValueError, match="a score above 0"):
        choices(GIVEN["prob"], **OPTIONS[name])
    choices(LOG_PROBS, **OPTIONS[name])


def test_several_sources():
    for sources, wrong in (([LOG_PROBS, LOG_PROBS], False), ([GIVEN["prob"], GIVEN["prob"]], True)):
        axis = VOCAB
        for _ in rf.Loop(axis=Dim(1, name="time")):
            if wrong:
                with pytest.raises(ValueError, match="a score above 0"):
                    rf.choice(sources, axis=[axis, axis], beam_size=2)
            else:
                rf.choice(sources, axis=[axis, axis], beam_size=2)


def test_what_is_added_on_purpose_may_be_above_0():
    bonus = rf.full(dims=[VOCAB], fill_value=2.0)
    choices(LOG_PROBS, fusion={"bonus": (bonus, 1.0)})
    choices(
        LOG_PROBS,
        custom_score_combine=lambda *, scores_in, scores_base, **_: rf.combine_bc(scores_in + 2.0, "add", scores_base),
    )
    choices(LOG_PROBS, random_sample_scale=5.0)


@pytest.mark.parametrize("face", ["for", "with"])
def test_scores_that_are_no_log_probabilities_are_added_up_as_they_are(face):
    scores = tensor([[3.0, 1.0, -2.0], [0.5, 4.0, 0.0]], BATCH, VOCAB)
    assert choices(scores, face, input_type="score").copy_transpose([TIME, BATCH]).numpy().tolist() == [[0, 1]] * 4


def test_a_search_over_scores_that_rise_does_not_stop_before_the_best_is_known():
    """An end of 1.0 is the best after one step; four labels of 2.0 and an end are better."""

    def step(labels, state):
        return np.broadcast_to(np.asarray([2.0, 1.0], "float32"), (len(labels), 2)), state

    found = rf.beam_search(
        step, batch=1, beam_size=2, max_seq_len=5, start_label=0, end_label=1, state=None, input_type="score"
    )
    best = found.nbest(0)[0]
    assert best.tokens == (0, 0, 0, 0, 1) and best.score == 9.0 and not found.stopped_early


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_rounding_is_no_mistake(dtype):
    """The sure label, computed in the dtype by the softmax: its logarithm may come out above 0."""
    sure = rf.cast(tensor([[30.0, 0.0, 0.0], [0.0, 12.0, 0.0]], BATCH, VOCAB), dtype)
    choices(rf.log_softmax(sure, axis=VOCAB))
    choices(rf.log(rf.softmax(sure, axis=VOCAB)) + {"float32": 1e-5, "float16": 1e-3, "bfloat16": 5e-3}[dtype])


@pytest.mark.parametrize("raw", [False, True])
def test_a_beam_search(raw):
    def step(labels, state):
        if raw:
            return np.broadcast_to(GIVEN["prob"].numpy()[0], (len(labels), 3)), state
        return rf.expand_dims(rf.gather(GIVEN["prob"], indices=0, axis=BATCH), list(labels.dims)), state

    options = {
        "step": step,
        "batch": 2 if raw else BATCH,
        "beam_size": 2,
        "max_seq_len": 4,
        "start_label": 0,
        "end_label": 1,
    }
    options |= {"state": None} if raw else {"axis": VOCAB, "state": None}
    with pytest.raises(ValueError, match=r'a score above 0(.|\n)*input_type="prob"'):
        rf.beam_search(**options)
    rf.beam_search(**options, input_type="prob")


def test_a_step_of_a_search_of_ones_own():
    beam = Dim(2, name="beam", kind="beam")
    with raises_message(
        ValueError,
        """
        beam_search_step: a score above 0.
          scores  [batch=2, vocab=3]
          first   batch 0
          score   0.7
        A log probability is 0 at most, and so is a sum of them; a bonus is fusion={name: (scores, scale)}.
        Say what the scores are:
            rf.beam_search_step(..., input_type="prob")        # probabilities
            rf.beam_search_step(..., input_type="logits")      # logits, to be normalized
            rf.beam_search_step(..., input_type="score")       # any numbers, added up as they are
        """,
    ):
        rf.beam_search_step(GIVEN["prob"], beam_size=2, axis=VOCAB)
    base = tensor([[4.0, 3.0], [1.0, -2.0]], BATCH, beam)  # with a bonus, which the caller has added
    rf.beam_search_step(LOG_PROBS, base, beam_size=2, axis=VOCAB, beam_dim=beam)
    rf.beam_search_step(GIVEN["prob"], beam_size=2, axis=VOCAB, input_type="prob")


ALIGNMENTS = {
    "probabilities": rf.expand_dim(GIVEN["prob"], dim=TIME),
    "logits": rf.expand_dim(GIVEN["logits"], dim=TIME),
}


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("kind", ALIGNMENTS)
def test_a_ctc_search(kind, recorded):
    def search(scores, **options):
        options = {"logits_normalized": True} | options
        if recorded:
            with rf.record():
                return search_plain(scores, **options)
        return search_plain(scores, **options)

    def search_plain(scores, **options):
        return rf.ctc_prefix_beam_search(
            scores, in_spatial_dim=TIME, wb_target_dim=VOCAB, blank_index=0, beam_size=3, **options
        )

    with raises_message(
        ValueError,
        """
        ctc_prefix_beam_search: a score above 0.
          scores             [batch=2, vocab=3, time=4]
          logits_normalized  True
        A log probability is 0 at most, and so is that of all alignments together. These are probabilities or logits:
            rf.ctc_prefix_beam_search(rf.log(x), ...)      # of probabilities
            rf.ctc_prefix_beam_search(..., logits_normalized=False)      # of logits
        """,
    ):
        search(ALIGNMENTS[kind])
    search(ALIGNMENTS["logits"], logits_normalized=False)
    search(rf.log(ALIGNMENTS["probabilities"]))
    search(ALIGNMENTS[kind], label_bonus=2.0)  # what is added may be anything


def test_a_transducer_search():
    encoder = rf.expand_dim(LOG_PROBS, dim=TIME)
    encoder.feature_dim = VOCAB

    def search(change, **options):
        def step(frame, label, state):
            return change(frame), state

        return rf.transducer_beam_search(
            step, encoder, in_spatial_dim=TIME, wb_target_dim=VOCAB, blank_index=0, beam_size=2, max_labels=3,
            logits_normalized=True, **options,
        )  # fmt: skip

    search(lambda frame: frame)
    with pytest.raises(ValueError, match=r"transducer_beam_search: a score above 0(.|\n)*logits_normalized=False"):
        search(rf.exp)
    search(rf.exp, label_bonus=1.0)
