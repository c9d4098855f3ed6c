"""Logits of CTC models of others: searched, aligned, and the loss of torch."""

import numpy as np
import pytest
import torch
from interop.speech import brute_force
from torch.nn.functional import ctc_loss

import rfnb as rf

LABELS = ["-", "|", "A", "B", "C"]
LENGTHS = [6, 5, 3]


def logits(*shape: int, seed: int = 3) -> torch.Tensor:
    return 2 * torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def scores() -> torch.Tensor:
    return logits(3, 6, 5)


@pytest.fixture
def ctc(scores):
    return rf.ctc_output(scores, LENGTHS, vocab=LABELS)


def log_probs(scores: torch.Tensor, seq: int) -> np.ndarray:
    return scores[seq, : LENGTHS[seq]].double().log_softmax(-1).numpy()


REFERENCES, IDS = ["A B", "CC", "B"], [[2, 1, 3], [4, 4], [3]]


def test_the_best_alignment_and_the_sums_are_those_of_all_alignments(ctc, scores):
    for seq, aligned in enumerate(ctc.align(REFERENCES)):
        posteriors, total, best = brute_force.ctc(log_probs(scores, seq), IDS[seq], 0)
        np.testing.assert_allclose(aligned.posteriors, posteriors, atol=1e-6)
        assert aligned.log_prob_of_all == pytest.approx(total)
        assert aligned.log_prob == pytest.approx(best)
        states = [0, *(x for label in IDS[seq] for x in (label, 0))]
        own = sum(log_probs(scores, seq)[frame, states[row]] for frame, row in enumerate(aligned.path))
        assert own == pytest.approx(best)


def test_labels_and_words_have_the_frames_of_the_path(ctc):
    aligned = ctc.align(REFERENCES)[0]
    assert aligned.rows == ["-", "A", "-", "|", "-", "B", "-"]
    for place, span in enumerate(aligned.labels):
        frames = np.flatnonzero(aligned.path == 2 * place + 1)
        assert (span.start, span.end) == (frames[0], frames[-1] + 1)
    assert [word.text for word in aligned.words] == ["A", "B"]
    assert aligned.log_prob == pytest.approx(
        sum(span.log_prob for span in aligned.labels)
        + sum(
            float(np.log(np.exp(row)[0]))
            for row, state in zip(log_probs(logits(3, 6, 5), 0), aligned.path)
            if state % 2 == 0
        )
    )


def test_the_loss_and_its_gradient_are_those_of_torch(scores):
    ours, theirs = scores.clone().requires_grad_(), scores.clone().requires_grad_()
    loss = rf.ctc_output(ours, LENGTHS, vocab=LABELS).loss(REFERENCES)
    flat = torch.tensor([label for row in IDS for label in row])
    wanted = ctc_loss(
        theirs.log_softmax(-1).transpose(0, 1), flat, torch.tensor(LENGTHS), torch.tensor([3, 2, 1]), reduction="none"
    )
    torch.testing.assert_close(loss.raw_tensor, wanted)
    loss.raw_tensor.sum().backward()
    wanted.sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad)


def test_greedy_is_the_best_label_of_each_frame(ctc, scores):
    for seq, found in enumerate(ctc.greedy()):
        path = scores[seq, : LENGTHS[seq]].argmax(-1).tolist()
        merged = [a for a, b in zip(path, [None, *path]) if a != b and a != 0]
        assert [span.text for span in found.labels] == [LABELS[label] for label in merged]
        assert found.text == "".join(LABELS[label] for label in merged).replace("|", " ").strip()


def test_a_beam_of_all_prefixes_has_the_sums_over_all_alignments(ctc, scores):
    best = ctc.beam_search(beam_size=400)[2][0]
    everything = {}
    for labels in ([], *([a] for a in range(1, 5)), *([a, b] for a in range(1, 5) for b in range(1, 5))):
        if len(labels) < 2 or labels[0] != labels[1] or LENGTHS[2] >= 3:
            everything[tuple(labels)] = brute_force.ctc(log_probs(scores, 2), labels, 0)[1]
    wanted = max(everything, key=everything.get)
    assert best.score >= everything[wanted] - 1e-5
    if len(best.tokens) <= 2:
        assert best.tokens == wanted and best.score == pytest.approx(everything[wanted], abs=1e-5)


def test_what_a_search_found_is_aligned_by_the_same_sum(ctc):
    found = ctc.beam_search(beam_size=400)
    for table, aligned in zip(found, ctc.align(found)):
        assert aligned.text == table[0].text
        assert aligned.log_prob_of_all == pytest.approx(table[0].score, abs=1e-5)


def test_a_search_is_recorded(ctc):
    with rf.record() as trace:
        ctc.beam_search(beam_size=3)
    assert list(trace.beams) == ["ctc"]


@pytest.mark.parametrize(
    "reference",
    [
        [["A", "|", "B"], ["C", "C"], ["B"]],
        IDS,
        torch.tensor([[2, 1, 3], [4, 4, -100], [3, -100, -100]]),
        np.array([[2, 1, 3], [4, 4, -1], [3, -1, -1]]),
    ],
)
def test_references_may_be_labels_or_indices(ctc, reference):
    assert [one.text for one in ctc.align(reference)] == REFERENCES


def test_references_may_have_lengths_as_ctc_loss_of_torch_takes_them(ctc):
    padded = torch.tensor([[2, 1, 3], [4, 4, 0], [3, 0, 0]])
    assert [one.text for one in ctc.align(padded, torch.tensor([3, 2, 1]))] == REFERENCES
    assert [one.text for one in ctc.align(torch.tensor([2, 1, 3, 4, 4, 3]), [3, 2, 1])] == REFERENCES


def same(one, other) -> bool:
    return all(a.text == b.text and (a.path == b.path).all() for a, b in zip(one, other))


def test_the_layout_of_ctc_loss_and_one_sequence_give_the_same(ctc, scores):
    wanted = ctc.align(REFERENCES)
    turned = rf.ctc_output(scores.transpose(0, 1), LENGTHS, vocab=LABELS, layout="time batch vocab")
    assert same(turned.align(REFERENCES), wanted)
    last = rf.ctc_output(scores.transpose(1, 2), LENGTHS, vocab=LABELS, layout="batch vocab time")
    assert same(last.align(REFERENCES), wanted)
    assert same(rf.ctc_output(scores[0], vocab=LABELS).align("A B"), wanted[:1])
    assert same(rf.ctc_output(scores[1].T, [5], vocab=LABELS, layout="vocab time batch").align("CC"), wanted[1:2])


def test_padding_may_hold_anything(scores):
    dirty = scores.clone()
    for seq, length in enumerate(LENGTHS):
        dirty[seq, length:] = float("nan")
    clean, other = (rf.ctc_output(one, LENGTHS, vocab=LABELS) for one in (scores, dirty))
    assert same(clean.align(REFERENCES), other.align(REFERENCES))
    assert repr(clean.beam_search(3)) == repr(other.beam_search(3)) and repr(clean.greedy()) == repr(other.greedy())


def test_log_probabilities_half_precision_and_tensors_are_taken(ctc, scores):
    wanted = ctc.align(REFERENCES)
    assert same(rf.ctc_output(scores.log_softmax(-1), LENGTHS, vocab=LABELS).align(REFERENCES), wanted)
    assert same(rf.ctc_output(scores.to(torch.bfloat16).float(), LENGTHS, vocab=LABELS).align(REFERENCES),
                rf.ctc_output(scores.to(torch.bfloat16), LENGTHS, vocab=LABELS).align(REFERENCES))  # fmt: skip
    assert same(rf.ctc_output(ctc.logits, vocab=LABELS).align(REFERENCES), wanted)
    assert same(rf.ctc_output(scores.numpy(), LENGTHS, vocab=LABELS).align(REFERENCES), wanted)


def test_times_are_frames_times_the_frame_shift(scores):
    aligned = rf.ctc_output(scores, LENGTHS, vocab=LABELS, frame_shift=0.04).align(REFERENCES)[0]
    for span in aligned.labels + aligned.words:
        assert (span.start_time, span.end_time) == (pytest.approx(0.04 * span.start), pytest.approx(0.04 * span.end))
    about = rf.ctc_output(scores, LENGTHS, vocab=LABELS, samples=[np.zeros(960)] * 3, sampling_rate=8000)
    assert about.frame_shift == pytest.approx(0.02) and "about: samples / frames" in repr(about)


def test_an_alignment_is_a_table(scores):
    scores = torch.full((1, 4, 5), -9.0)
    for frame, label in enumerate([2, 1, 3, 3]):
        scores[0, frame, label] = 9
    (aligned,) = rf.ctc_output(scores, vocab=LABELS, frame_shift=0.02).align(["A B"])
    assert repr(aligned) == (
        "sequence 0: 'A B' in 4 frames of 0.02 s, log_prob -0.000\n"
        "word  start (s)  end (s)  log_prob\n"
        "A          0.00     0.02    -0.000\n"
        "B          0.04     0.08    -0.000"
    )


def test_wordpieces_begin_words_with_their_mark():
    scores = logits(1, 8, 5)
    ctc = rf.ctc_output(scores, vocab=["<blank>", "▁a", "b", "▁c", "d"])
    (aligned,) = ctc.align([["▁a", "b", "▁c"]])
    assert aligned.text == "ab c" and [word.text for word in aligned.words] == ["ab", "c"]


def test_sequences_without_frames_and_references_without_labels():
    ctc = rf.ctc_output(logits(2, 3, 5), [3, 0], vocab=LABELS)
    first, second = ctc.align(["", ""])
    assert first.path.tolist() == [0, 0, 0] and second.path.tolist() == [] and not second.labels
    assert ctc.greedy()[1].text == "" and second.log_prob_of_all == 0


def test_alignments_of_equal_texts_have_their_own_words():
    first, second = (rf.ctc_output(logits(1, 12, 6, seed=seed), vocab="-|ABCD") for seed in (1, 2))
    every = [*first.align(["AB"]), *second.align(["AB"]), *second.align(["CD"])]
    head = rf.show(every).spec.head
    assert [seq["label"] for seq in head["seqs"]] == ["sequence 0: AB", "sequence 0: AB (2)", "sequence 0: CD"]
    wanted = [[[word.start, word.end, word.text] for word in one.words] for one in every]
    assert head["rail"]["words"] == wanted and wanted[0] != wanted[1]
