"""Minimum risk training: samples of a decoder by a scan until all have ended, their edit distances, their scores at once, and the
gradient of the expected errors."""

import numpy as np
import pytest
import torch
from rfnb.decoder.transformer import TransformerDecoder

import rfnb as rf
from rfnb.tensor import Dim, Tensor, batch_dim, single_step_dim


class Model(rf.Module):
    def __init__(self, in_dim: Dim, vocab_dim: Dim, *, eos_idx: int):
        super().__init__()
        self.vocab_dim, self.eos_idx = vocab_dim, eos_idx
        self.model_dim = Dim(8, name="model")
        self.encoder = rf.Linear(in_dim, self.model_dim)
        self.decoder = TransformerDecoder(
            self.model_dim, vocab_dim, self.model_dim, num_layers=1, num_heads=2, dropout=0.0, att_dropout=0.0,
            share_embedding=False, logits_with_bias=True,
        )  # fmt: skip

    def encode(self, data: Tensor, *, spatial_dim: Dim) -> rf.State:
        return self.decoder.transform_encoder(rf.tanh(self.encoder(data)), axis=spatial_dim)

    def score(self, enc: rf.State, labels: Tensor, *, spatial_dim: Dim) -> Tensor:
        """log probability of the labels and the end after them"""
        ids, (ext_dim,) = rf.pad(labels, axes=[spatial_dim], padding=[(1, 0)], value=self.eos_idx)
        targets, _ = rf.pad(labels, axes=[spatial_dim], padding=[(0, 1)], value=self.eos_idx, out_dims=[ext_dim])
        state = self.decoder.default_initial_state(batch_dims=labels.remaining_dims(spatial_dim))
        logits, _ = self.decoder(ids, spatial_dim=ext_dim, encoder=enc, state=state)
        loss = rf.cross_entropy(estimated=logits, estimated_type="logits", target=targets, axis=self.vocab_dim)
        return -rf.reduce_sum(loss, axis=ext_dim)

    def sample(self, enc: rf.State, *, batch_dims: list[Dim], max_len: int) -> tuple[Tensor, Dim]:
        def body(_, state: rf.State):
            logits, decoder = self.decoder(state.label, spatial_dim=single_step_dim, encoder=enc, state=state.decoder)
            probs = rf.softmax(logits, axis=self.vocab_dim)
            label = rf.random_choice_with_replacement(batch_dims, probs=probs, axis=self.vocab_dim)
            return label, rf.State(label=label, decoder=decoder, ended=label == self.eos_idx)

        labels, _, labels_dim = rf.scan(
            cond=lambda _, state: rf.logical_not(state.ended), cond_dims=batch_dims, max_seq_len=max_len, body=body,
            initial=rf.State(
                label=rf.constant(self.eos_idx, dims=batch_dims, sparse_dim=self.vocab_dim),
                decoder=self.decoder.default_initial_state(batch_dims=batch_dims),
                ended=rf.constant(False, dims=batch_dims),
            ),
            ys=Tensor("labels", dims=batch_dims, dtype="int32", sparse_dim=self.vocab_dim),
        )  # fmt: skip
        return rf.masked_select(labels, mask=labels != self.eos_idx, dims=[labels_dim])


def risk(scores: Tensor, errors: Tensor, *, nbest_dim: Dim) -> Tensor:
    """Expected errors over their mean (Prabhavalkar et al. 2018, equation 8)."""
    return rf.reduce_sum(
        rf.softmax(scores, axis=nbest_dim) * (errors - rf.reduce_mean(errors, axis=nbest_dim)), axis=nbest_dim
    )


def plain_edit_distance(a: list[int], b: list[int]) -> int:
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        diagonal, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (x != y))
    return row[-1]


@pytest.mark.parametrize(("lengths", "label_lengths"), [([6, 3, 2], [4, 2, 0]), ([2], [1])])
def test_the_risk_of_samples_and_its_gradient(lengths, label_lengths):
    batch_dim.reset_eager()
    rf.set_random_seed(12)
    in_dim, vocab_dim, nbest_dim = Dim(4, name="in"), Dim(5, name="vocab"), Dim(4, name="nbest")
    model = Model(in_dim, vocab_dim, eos_idx=0)
    rng = np.random.default_rng(0)
    raw = rng.normal(size=(len(lengths), max(lengths), 4)).astype("float32")
    labels = rng.integers(1, 5, (len(lengths), max(label_lengths))).astype("int32")
    time, ref_dim = (
        Dim(rf.convert_to_tensor(np.array(sizes, "int32"), dims=[batch_dim]), name=name)
        for sizes, name in ((lengths, "time"), (label_lengths, "reference"))
    )
    data = rf.convert_to_tensor(raw, dims=[batch_dim, time, in_dim], feature_dim=in_dim)
    reference = rf.convert_to_tensor(labels, dims=[batch_dim, ref_dim], sparse_dim=vocab_dim)

    with rf.init_train_step_run_ctx(train_flag=True) as run:
        enc = model.encode(data, spatial_dim=time)
        with rf.stop_gradient_scope():
            hyps, hyps_dim = model.sample(enc, batch_dims=[batch_dim, nbest_dim], max_len=5)
        errors = rf.edit_distance(hyps, hyps_dim, reference, ref_dim)
        scores = model.score(enc, hyps, spatial_dim=hyps_dim)
        risk(scores, rf.cast(errors, "float32"), nbest_dim=nbest_dim).mark_as_loss("risk")
        (-model.score(enc, reference, spatial_dim=ref_dim)).mark_as_loss("ce", scale=0.01)

    # the same for each hypothesis by itself
    ids = hyps.copy_transpose([batch_dim, nbest_dim, hyps_dim]).raw_tensor
    sizes = hyps_dim.get_size_tensor().copy_transpose([batch_dim, nbest_dim]).raw_tensor
    assert sizes.unique().numel() > 1  # some have ended before others
    counts = errors.copy_transpose([batch_dim, nbest_dim]).raw_tensor

    def score_alone(enc: rf.State, labels: list[int]) -> torch.Tensor:
        labels_dim = Dim(len(labels), name="labels")
        x = rf.convert_to_tensor(np.array(labels, "int32"), dims=[labels_dim], sparse_dim=vocab_dim)
        return model.score(enc, x, spatial_dim=labels_dim).raw_tensor

    expected = 0.0
    for seq, length in enumerate(lengths):
        alone_dim, wanted = Dim(length, name="alone"), labels[seq, : label_lengths[seq]]
        source = rf.convert_to_tensor(raw[seq, :length], dims=[alone_dim, in_dim], feature_dim=in_dim)
        enc = model.encode(source, spatial_dim=alone_dim)
        samples = [sample[:size] for sample, size in zip(ids[seq], sizes[seq])]
        assert counts[seq].tolist() == [plain_edit_distance(sample.tolist(), wanted.tolist()) for sample in samples]
        probs = torch.softmax(torch.stack([score_alone(enc, sample.tolist()) for sample in samples]), 0)
        expected = (
            expected
            + (probs * (counts[seq] - counts[seq].float().mean())).sum()
            - 0.01 * score_alone(enc, wanted.tolist())
        )
    total = run.total_loss().raw_tensor
    torch.testing.assert_close(total, expected, atol=1e-4, rtol=1e-4)
    params = [param.raw_tensor for param in model.parameters()]
    for grad, wanted in zip(torch.autograd.grad(total, params), torch.autograd.grad(expected, params)):
        torch.testing.assert_close(grad, wanted, atol=1e-4, rtol=1e-3)

    # the error rate of the best of each list
    best = rf.gather(errors, indices=rf.reduce_argmax(scores, axis=nbest_dim), axis=nbest_dim)
    num_labels = rf.cast(rf.num_elements_of_shape([batch_dim, ref_dim]), "float32")
    rate = rf.cast(rf.reduce_sum(best, axis=batch_dim), "float32") / num_labels
    picked = counts[torch.arange(len(lengths)), scores.copy_transpose([batch_dim, nbest_dim]).raw_tensor.argmax(1)]
    assert float(rate) == pytest.approx(picked.sum().item() / sum(label_lengths))
