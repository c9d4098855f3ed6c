"""Transducers of others: a predictor and a joiner in plain torch through search, alignment and lattice."""

import itertools

import numpy as np
import pytest
import torch
from interop.speech import brute_force
from interop.speech.rnnt import LABELS, Rnnt, Transducer
from torch import nn

import rfnb as rf
from rfnb.search.label_alignment import Span

REFERENCES, IDS = ["AB", "B A"], [[2, 3], [3, 1, 2]]


@pytest.fixture(scope="module")
def model():
    return Transducer()


@pytest.fixture(scope="module")
def encoded(model):
    features = torch.randn(2, 8, 5, generator=torch.Generator().manual_seed(4))
    with torch.no_grad():
        return model.encoder(features, torch.tensor([8, 6]))


@pytest.fixture(scope="module")
def output(model, encoded):
    return rf.transducer_output(
        *encoded, predictor=model.predict, joiner=model.join, state_axis=1, vocab=LABELS, frame_shift=0.04
    )


def log_probs(model, encoded, seq: int, labels: list[int]) -> np.ndarray:
    frames, lengths = encoded
    with torch.no_grad():
        return model.logits(frames[seq, : lengths[seq]], labels).double().log_softmax(-1).numpy()


def total(model, encoded, seq: int, labels: list[int]) -> float:
    return brute_force.transducer(log_probs(model, encoded, seq, labels), labels, 0)[1]


def test_it_says_what_it_is(output):
    assert repr(output) == (
        "<TransducerOutput: 2 sequences of 3 to 4 frames, 4 labels, blank 0 “-”, by its name, words by “|”, 40 ms per frame>"
    )


def test_the_alignment_and_the_lattice_are_those_of_all_alignments(output, model, encoded):
    for seq, aligned in enumerate(output.align(REFERENCES)):
        scores = log_probs(model, encoded, seq, IDS[seq])
        posteriors, of_all, best = brute_force.transducer(scores, IDS[seq], 0)
        np.testing.assert_allclose(aligned.posteriors, posteriors, atol=1e-5)
        assert aligned.log_prob_of_all == pytest.approx(of_all, abs=1e-4)
        assert aligned.log_prob == pytest.approx(best, abs=1e-4)
        path = aligned.best_path
        assert (path[1::2].sum(1) == 1).all() and (path[0::2].sum(0) == 1).all()
        assert path.sum() == len(aligned.path) == aligned.frames + len(IDS[seq])
        states = [0, *itertools.chain(*((label, 0) for label in IDS[seq]))]
        own = sum(
            scores[frame, (row + 1) // 2 if row % 2 == 0 else row // 2, states[row]]
            for row, frame in zip(*np.nonzero(path))
        )
        assert own == pytest.approx(best, abs=1e-4)


def test_labels_are_at_the_frames_of_the_best_alignment(output):
    first, second = output.align(REFERENCES)
    for aligned in (first, second):
        for place, span in enumerate(aligned.labels):
            assert isinstance(span, Span) and aligned.best_path[2 * place + 1, span.start] == 1
            assert span.start_time == pytest.approx(0.04 * span.start)
    assert [word.text for word in second.words] == ["B", "A"] and second.text == "B A"


def test_a_beam_of_all_prefixes_has_the_sums_over_all_alignments(output, model, encoded):
    found = output.beam_search(beam_size=40, max_labels=2)
    for seq, table in enumerate(found):
        wanted = {
            labels: total(model, encoded, seq, list(labels))
            for count in range(3)
            for labels in itertools.product((1, 2, 3), repeat=count)
        }
        assert {row.tokens for row in table} == set(wanted)
        for row in table:
            assert row.score == pytest.approx(wanted[row.tokens], abs=1e-4)
        assert table[0].tokens == max(wanted, key=wanted.get)


def test_greedy_is_the_best_step_each_time(output, model, encoded):
    for seq, found in enumerate(output.greedy(max_labels_per_frame=3)):
        labels, score, frame, in_frame = [], 0.0, 0, 0
        while frame < encoded[1][seq]:
            step = log_probs(model, encoded, seq, labels)[frame, -1]
            best = 0 if in_frame == 3 else int(step.argmax())
            score += step[best]
            in_frame = in_frame + 1 if best else 0
            frame += best == 0
            labels += [best] * (best != 0)
        assert list(found.tokens) == labels and found.score == pytest.approx(score, abs=1e-4)


def test_what_a_search_found_is_aligned(output):
    found = output.beam_search(beam_size=40, max_labels=2)
    for table, aligned in zip(found, output.align(found)):
        assert aligned.log_prob_of_all == pytest.approx(table[0].score, abs=1e-4)
    assert [one.text for one in output.align(output.greedy(2))] == [one.text for one in output.greedy(2)]


def test_the_methods_of_torchaudio_give_the_same(output, model):
    features = torch.randn(2, 8, 5, generator=torch.Generator().manual_seed(4))
    rnnt = Rnnt(model)
    with torch.no_grad():
        encoder, lengths = rnnt.transcribe(features, torch.tensor([8, 6]))
    other = rf.transducer_output(encoder, lengths, predictor=rnnt, vocab=LABELS, frame_shift=0.04)
    for own, theirs in zip(output.beam_search(4), other.beam_search(4)):
        assert [row.tokens for row in own] == [row.tokens for row in theirs]
        np.testing.assert_allclose([row.score for row in own], [row.score for row in theirs], atol=1e-5)
    for own, theirs in zip(output.align(REFERENCES), other.align(REFERENCES)):
        np.testing.assert_allclose(own.posteriors, theirs.posteriors, atol=1e-5)


def test_the_lattice_of_given_logits_is_the_same(output, model, encoded):
    frames, lengths = encoded
    logits = torch.full((2, 4, 4, 4), float("nan"))
    for seq, row in enumerate(IDS):
        with torch.no_grad():
            logits[seq, : lengths[seq], : len(row) + 1] = model.logits(frames[seq, : lengths[seq]], row)
    padded = torch.tensor([[2, 3, 0], [3, 1, 2]], dtype=torch.int32)
    logits = logits.nan_to_num(0)
    made = rf.transducer_lattice(logits, padded, lengths, [2, 3], vocab=LABELS)
    for own, theirs in zip(output.align(REFERENCES), made):
        np.testing.assert_allclose(own.posteriors, theirs.posteriors, atol=1e-5)
        assert own.log_prob_of_all == pytest.approx(theirs.log_prob_of_all, abs=1e-4)


@pytest.mark.parametrize("cells", [1, 30, 1 << 22])
def test_the_lattice_is_the_same_in_parts(output, monkeypatch, cells):
    wanted = output.align(REFERENCES)[0].log_prob
    monkeypatch.setattr("rfnb.interop.speech.transducer._CELLS", cells)
    assert output.align(REFERENCES)[0].log_prob == pytest.approx(wanted, abs=1e-5)


def test_modules_and_a_predictor_without_state_are_taken(encoded):
    torch.manual_seed(1)
    embedding, out = nn.Embedding(4, 6), nn.Linear(6, 4)
    made = rf.transducer_output(
        *encoded,
        predictor=lambda labels, state: (embedding(labels), None),
        joiner=lambda frame, label: out(frame + label),
        vocab=LABELS,
        initial_label=1,
    )
    (table, _) = made.beam_search(beam_size=40, max_labels=2)
    for row in table[:3]:
        read = torch.tensor([1, *row.tokens])
        with torch.no_grad():
            scores = out(encoded[0][0, :4, None] + embedding(read)[None]).double().log_softmax(-1).numpy()
        assert row.score == pytest.approx(brute_force.transducer(scores, list(row.tokens), 0)[1], abs=1e-4)


def test_a_search_is_recorded_and_the_alignment_shown(output):
    with rf.record() as trace:
        output.beam_search(3)
    assert list(trace.beams) == ["transducer"]
    view = rf.show(output.align(REFERENCES))
    text = " ".join(view.text().split())
    assert text.startswith("transducer alignment: posterior, sequence 0: AB (rows: label, columns: time (s))")
    assert "Each label is in one frame: its row sums to 1." in text


def message(kind, call) -> str:
    with pytest.raises(kind) as error:
        call()
    return str(error.value)


def test_a_state_with_the_hypotheses_on_another_axis(encoded, model):
    assert message(ValueError, lambda: rf.transducer_output(*encoded, predictor=model.predict, joiner=model.join, vocab=LABELS)) == (
        "transducer_output: the state of the predictor has no axis of hypotheses.\n"
        "  hypotheses    3\n"
        "  in the state  (2, 3, 7)\n"
        "  state_axis    0\n"
        "The state is nested tensors, each with an axis of n for n labels; of nn.LSTM it is the second one.\n"
        "    rf.transducer_output(..., state_axis=1)"
    )  # fmt: skip


def test_a_state_that_grows(encoded):
    def predict(labels, state):
        state = labels[:, None].float() if state is None else torch.cat([state, labels[:, None].float()], 1)
        return state.sum(1, keepdim=True), state

    out = rf.transducer_output(
        *encoded, predictor=predict, joiner=lambda frame, label: frame[:, :4] + label, vocab=LABELS
    )
    assert message(ValueError, lambda: out.beam_search(4)) == (
        "transducer_output: the state of the predictor changes its shape.\n"
        "  after the first label  (1,) float32\n"
        "  now                    (2,) float32\n"
        "Hypotheses have labels in different numbers, so a state needs a fixed size: no history that grows."
    )


def test_a_predictor_without_joiner(encoded, model):
    assert message(TypeError, lambda: rf.transducer_output(*encoded, predictor=model.predict, vocab=LABELS)) == (
        "transducer_output: there is no joiner.\n"
        "  predictor  method\n"
        "  joiner     None\n"
        "A model with the methods predict and join (torchaudio's RNNT) is both; else both are functions or modules.\n"
        "    rf.transducer_output(..., predictor=predictor, joiner=joiner)"
    )


def test_a_joiner_of_another_shape(encoded, model):
    wrong = lambda frames, outs: model.join(frames, outs)[:, None]  # noqa: E731
    call = lambda: rf.transducer_output(*encoded, predictor=model.predict, joiner=wrong, state_axis=1, vocab=LABELS)  # noqa: E731
    assert message(rf.ShapeError, call) == (
        "transducer_output: the joiner gives no logits per hypothesis.\n"
        "  frames        (3, 6)\n"
        "  of predictor  (3, 7)\n"
        "  of joiner     (3, 1, 4)\n"
        "Of n frames (n, feature) and n outputs of the predictor it returns logits (n, classes)."
    )


def test_a_reference_with_more_labels_than_the_lattice():
    assert message(ValueError, lambda: rf.transducer_lattice(torch.zeros(1, 4, 2, 4), "AB", vocab=LABELS)) == (
        "transducer_lattice: a reference has more labels than the lattice.\n"
        "  logits   (1, 4, 2, 4): 1 label\n"
        "  longest  2 labels\n"
        "The third axis counts how many labels have been written, from 0 on."
    )


def test_logits_that_are_no_lattice():
    assert message(rf.ShapeError, lambda: rf.transducer_lattice(torch.zeros(4, 4), "AB", vocab=LABELS)) == (
        "transducer_lattice: these are not logits of a lattice.\n"
        "  logits  (4, 4) torch.float32\n"
        "They are floats (batch, time, labels + 1, vocab), as rnnt_loss takes them; of one sequence without the batch."
    )


def test_labels_without_frames(output, model, encoded):
    empty = rf.transducer_output(
        encoded[0], [4, 0], predictor=model.predict, joiner=model.join, state_axis=1, vocab=LABELS
    )
    assert message(ValueError, lambda: empty.align(REFERENCES)) == (
        "align: reference 1 has no alignment with a probability above 0.\n"
        "  frames  0\n"
        "  labels  3\n"
        "Labels need a frame in which they are emitted, and finite logits. Are the lengths those of the encoder?"
    )
    assert [one.text for one in empty.align(["AB", ""])] == ["AB", ""]
    assert empty.beam_search(3)[1][0].text == ""
