"""Label-synchronous search with CTC prefix scores (Watanabe et al. 2017, algorithm 2): sums over frames for every beam and next label by
one scan, chosen along with the hypotheses, against the sum over all alignments."""

import itertools

import numpy as np
import pytest

import rfnb as rf
from rfnb.tensor import Dim, Tensor, batch_dim

NEVER = float("-inf")


class CtcPrefixScores:
    """log p(the labels begin with this prefix) of every next label; the state of a hypothesis has a value per frame."""

    def __init__(self, log_prob: Tensor, *, time: Dim, vocab_dim: Dim, wb_dim: Dim, blank_idx: int, eos_idx: int):
        self.time, self.vocab_dim, self.eos_idx = time, vocab_dim, eos_idx
        self.of_blank = rf.gather(log_prob, indices=blank_idx, axis=wb_dim)
        self.of_label, _ = rf.slice(log_prob, axis=wb_dim, size=vocab_dim)
        self.last = rf.last_frame_position_of_dim(time)

    def initial(self, batch_dims) -> rf.State:
        on_blank = rf.cumsum(self.of_blank, spatial_dim=self.time)
        return rf.State(
            on_label=rf.expand_dims(rf.full(dims=on_blank.dims, fill_value=NEVER), batch_dims[:1]),
            on_blank=rf.expand_dims(on_blank, batch_dims[:1]),
            prefix=rf.zeros(batch_dims),
            label=rf.constant(-1, dims=batch_dims),
        )

    def step(self, state: rf.State) -> tuple[Tensor, rf.State]:
        total = rf.log_add_exp(state.on_label, state.on_blank)
        same = rf.compare_bc(rf.range_over_dim(self.vocab_dim), "==", state.label)
        entered = rf.where(same, state.on_blank, total, allow_broadcast_all_sources=True)
        entered = rf.shift_right(entered, axis=self.time, pad_value=rf.where(state.label < 0, 0.0, NEVER))

        def body(frame, state: rf.State):
            entered, of_label, of_blank = frame
            on_label = rf.log_add_exp(state.on_label, entered) + of_label
            on_blank = rf.log_add_exp(state.on_label, state.on_blank) + of_blank
            prefix = rf.log_add_exp(state.prefix, entered + of_label)
            return (on_label, on_blank), rf.State(on_label=on_label, on_blank=on_blank, prefix=prefix)

        start = rf.full(dims=entered.remaining_dims(self.time), fill_value=NEVER)
        (on_label, on_blank), final, _ = rf.scan(
            spatial_dim=self.time, xs=(entered, self.of_label, self.of_blank), body=body,
            initial=rf.State(on_label=start, on_blank=start, prefix=start),
        )  # fmt: skip
        is_end = rf.range_over_dim(self.vocab_dim) == self.eos_idx
        at_end = rf.gather(total, indices=self.last, axis=self.time)
        prefix = rf.where(is_end, at_end, final.prefix, allow_broadcast_all_sources=True)
        return prefix - state.prefix, rf.State(on_label=on_label, on_blank=on_blank, prefix=prefix)

    def choose(self, candidates: rf.State, *, label: Tensor, backref: Tensor) -> rf.State:
        kept = rf.nested.gather_nested(candidates, indices=backref)
        state = rf.State({name: rf.gather(x, indices=label, axis=self.vocab_dim) for name, x in kept.items()})
        state.label = rf.set_sparse_dim(label, None)
        return state


def search(scorer: CtcPrefixScores, bigram: Tensor, *, batch_dims, beam_size: int, ctc_scale: float, max_len: int):
    """The bigram {last label, label} stands for the decoder."""
    vocab_dim, eos_idx = scorer.vocab_dim, scorer.eos_idx
    beam_dim = Dim(1, name="initial-beam")
    dims = [beam_dim, *batch_dims]
    state, score, ended = scorer.initial(dims), rf.zeros(dims), rf.constant(False, dims=dims)
    target = rf.constant(eos_idx, dims=dims, sparse_dim=vocab_dim)
    targets, backrefs = [], []
    for step in range(max_len):
        of_ctc, candidates = scorer.step(state)
        of_ctc = rf.where(rf.is_finite(of_ctc), of_ctc, -1e10)
        only_end = rf.sparse_to_dense(eos_idx, axis=vocab_dim, label_value=0.0, other_value=-1e20)
        of_step = rf.where(ended, only_end, ctc_scale * of_ctc + rf.gather(bigram, indices=target, axis=bigram.dims[0]))
        places = min(beam_size, beam_dim.dimension * vocab_dim.dimension)
        score, (backref, target), beam_dim = rf.top_k(
            score + of_step, k_dim=Dim(places, name=f"beam{step}"), axis=[beam_dim, vocab_dim]
        )
        ended = rf.logical_or(rf.gather(ended, indices=backref), target == eos_idx)
        state = scorer.choose(candidates, label=target, backref=backref)
        targets.append(target)
        backrefs.append(backref)
    indices, labels = rf.range_over_dim(beam_dim), []
    for target, backref in zip(reversed(targets), reversed(backrefs)):
        labels.insert(0, rf.gather(target, indices=indices))
        indices = rf.gather(backref, indices=indices)
    labels, labels_dim = rf.stack(labels)
    return labels.copy_transpose([*batch_dims, beam_dim, labels_dim]), score.copy_transpose([*batch_dims, beam_dim])


def plain_prefix_score(log_prob: np.ndarray, labels: list[int], *, blank: int, exactly: bool) -> float:
    scores = [NEVER]
    for alignment in itertools.product(range(log_prob.shape[1]), repeat=len(log_prob)):
        said = [label for label, _ in itertools.groupby(alignment) if label != blank]
        if (said if exactly else said[: len(labels)]) == labels:
            scores.append(sum(log_prob[frame, label] for frame, label in enumerate(alignment)))
    return float(np.logaddexp.reduce(scores))


@pytest.mark.parametrize("lengths", [[5, 3, 1], [4], [2, 1]])
def test_the_scores_are_sums_over_all_alignments(lengths):
    batch_dim.reset_eager()
    vocab_dim, last_dim = Dim(4, name="vocab"), Dim(4, name="last")
    wb_dim, eos_idx, blank_idx, scale = vocab_dim + 1, 0, 4, 0.6
    rng = np.random.default_rng(4)
    logits = (2 * rng.normal(size=(len(lengths), max(lengths), 5))).astype("float32")
    logits[:, :, eos_idx] = -30  # CTC has no end of the sentence
    of_bigram = rf.convert_to_tensor(rng.normal(size=(4, 4)).astype("float32"), dims=[last_dim, vocab_dim])
    bigram = rf.log_softmax(of_bigram, axis=vocab_dim)
    options = {"vocab_dim": vocab_dim, "wb_dim": wb_dim, "blank_idx": blank_idx, "eos_idx": eos_idx}
    how = {"beam_size": 5, "ctc_scale": scale, "max_len": 4}

    time = Dim(rf.convert_to_tensor(np.array(lengths, "int32"), dims=[batch_dim]), name="time")
    log_prob = rf.log_softmax(rf.convert_to_tensor(logits, dims=[batch_dim, time, wb_dim]), axis=wb_dim)
    labels, scores = search(CtcPrefixScores(log_prob, time=time, **options), bigram, batch_dims=[batch_dim], **how)
    raw = log_prob.copy_transpose([batch_dim, time, wb_dim]).raw_tensor.numpy()
    compared = 0
    for seq, length in enumerate(lengths):
        for ids, score in zip(labels.raw_tensor[seq].tolist(), scores.raw_tensor[seq].tolist()):
            if score > -1e8:
                ended = eos_idx in ids
                ids = ids[: ids.index(eos_idx)] if ended else ids
                expected = scale * plain_prefix_score(raw[seq, :length], ids, blank=blank_idx, exactly=ended)
                said = [eos_idx, *ids, *([eos_idx] if ended else [])]
                expected += sum(float(bigram.raw_tensor[pair]) for pair in itertools.pairwise(said))
                assert score == pytest.approx(expected, abs=2e-3)
                compared += 1
        alone_dim = Dim(length, name="alone")
        alone = rf.convert_to_tensor(raw[seq, :length], dims=[alone_dim, wb_dim])
        _, alone_scores = search(CtcPrefixScores(alone, time=alone_dim, **options), bigram, batch_dims=[], **how)
        np.testing.assert_allclose(alone_scores.raw_tensor[:2], scores.raw_tensor[seq, :2], atol=1e-3)
    assert compared >= 2 * len(lengths)
