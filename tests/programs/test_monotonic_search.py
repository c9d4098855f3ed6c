"""A monotonic transducer with a Transformer as label model: a beam search in which only hypotheses with a new label advance it (packed,
with caches of another length in each), and the alignments found are scored again, all frames at once."""

import numpy as np
import pytest
from rfnb.decoder.transformer import TransformerDecoder
from rfnb.tensor_array import TensorArray

import rfnb as rf
from rfnb.tensor import Dim, Tensor, batch_dim, single_step_dim

IMPOSSIBLE = -1.0e30


class Model(rf.Module):
    def __init__(self, in_dim: Dim, target_dim: Dim):
        super().__init__()
        self.target_dim, self.wb_target_dim = target_dim, target_dim + 1
        self.blank_idx, self.bos_idx = target_dim.dimension, 0
        self.encoder = rf.Linear(in_dim, Dim(5, name="enc"))
        self.label_model = TransformerDecoder(
            None, target_dim, Dim(8, name="label-model"), num_layers=2, num_heads=2, dropout=0.0, att_dropout=0.0, share_embedding=False
        )  # fmt: skip
        self.joint_enc = rf.Linear(self.encoder.out_dim, self.wb_target_dim)
        self.joint_label = rf.Linear(target_dim, self.wb_target_dim, with_bias=False)
        for param in self.parameters():
            if len(param.dims) > 1:
                param.initial = rf.init.Normal(stddev=0.6)

    def joint(self, enc: Tensor, label: Tensor) -> Tensor:
        return rf.log_softmax(self.joint_enc(enc) + self.joint_label(label), axis=self.wb_target_dim)


def model_recog(*, model: Model, data: Tensor, spatial_dim: Dim, beam_size: int) -> tuple[Tensor, Tensor, Dim]:
    batch_dims = data.remaining_dims((spatial_dim, data.feature_dim))
    enc = TensorArray.unstack(rf.tanh(model.encoder(data)), axis=spatial_dim)
    lengths = rf.copy_to_device(spatial_dim.get_size_tensor())
    beam_dim = Dim(1, name="initial-beam")
    dims = [beam_dim, *batch_dims]
    seq_log_prob = rf.constant(0.0, dims=dims)
    target = rf.constant(model.bos_idx, dims=dims, sparse_dim=model.target_dim)
    state = model.label_model.default_initial_state(batch_dims=dims)
    label, state = model.label_model(target, spatial_dim=single_step_dim, state=state)
    targets, backrefs = [], []
    for frame in range(int(spatial_dim.get_dim_value())):
        stay = rf.sparse_to_dense(model.blank_idx, axis=model.wb_target_dim, label_value=0.0, other_value=IMPOSSIBLE)
        log_prob = rf.where(frame < lengths, model.joint(enc[frame], label), stay)
        seq_log_prob, (backref, target_wb), beam_dim = rf.top_k(
            seq_log_prob + log_prob, k_dim=Dim(beam_size, name=f"beam{frame}"), axis=[beam_dim, model.wb_target_dim]
        )
        targets.append(target_wb)
        backrefs.append(backref)
        dims = [beam_dim, *batch_dims]
        state, label, target = rf.nested.gather_nested((state, label, target), indices=backref)
        emitted = target_wb != model.blank_idx
        target = rf.where(emitted, rf.set_sparse_dim(rf.cast(target_wb, "int32"), model.target_dim), target)
        emitted_cpu = rf.copy_to_device(emitted, "cpu")
        if bool(rf.reduce_any(emitted_cpu, axis=dims).raw_tensor):
            (packed_target, packed_state), packed_dim, dim_map = rf.nested.masked_select_nested(
                (target, state), mask=emitted, mask_cpu=emitted_cpu, dims=dims
            )
            assert int(packed_dim.get_dim_value_tensor().raw_tensor) == int(emitted_cpu.raw_tensor.sum())
            packed = model.label_model(packed_target, spatial_dim=single_step_dim, state=packed_state)
            label, state = rf.nested.masked_scatter_nested(
                packed, (label, state), mask=emitted, mask_cpu=emitted_cpu, dims=dims, in_dim=packed_dim, masked_select_dim_map=dim_map
            )  # fmt: skip
    indices = rf.range_over_dim(beam_dim)
    in_order = []
    for target_wb, backref in zip(reversed(targets), reversed(backrefs)):
        in_order.insert(0, rf.gather(target_wb, indices=indices))
        indices = rf.gather(backref, indices=indices)
    alignment = TensorArray(in_order[0])
    for target_wb in in_order:
        alignment = alignment.push_back(target_wb)
    return alignment.stack(axis=spatial_dim), seq_log_prob, beam_dim


def score_alignment(*, model: Model, data: Tensor, spatial_dim: Dim, alignment: Tensor) -> Tensor:
    """{batch, beam}, of all frames at once"""
    emitted = alignment != model.blank_idx
    labels, labels_dim = rf.masked_select(alignment, mask=emitted, dims=[spatial_dim])
    labels = rf.set_sparse_dim(rf.cast(labels, "int32"), model.target_dim)
    labels, (ext_dim,) = rf.pad(labels, axes=[labels_dim], padding=[(1, 0)], value=model.bos_idx)
    state = model.label_model.default_initial_state(batch_dims=alignment.remaining_dims(spatial_dim))
    label, _ = model.label_model(labels, spatial_dim=ext_dim, state=state)
    before = rf.shift_right(
        rf.cumsum(rf.cast(emitted, "int32"), spatial_dim=spatial_dim), axis=spatial_dim, pad_value=0
    )
    per_frame = rf.gather(label, indices=rf.set_sparse_dim(before, ext_dim), axis=ext_dim)
    log_prob = model.joint(rf.tanh(model.encoder(data)), per_frame)
    return rf.reduce_sum(rf.gather(log_prob, indices=alignment, axis=model.wb_target_dim), axis=spatial_dim)


@pytest.mark.parametrize("lengths", [[6, 4, 1], [5], [1, 1], [3, 0]])
def test_the_scores_of_the_search_are_those_of_its_alignments(lengths):
    batch_dim.reset_eager()
    rf.set_random_seed(21)
    in_dim, target_dim = Dim(4, name="in"), Dim(4, name="labels")
    model = Model(in_dim, target_dim)
    raw = np.random.default_rng(3).normal(size=(len(lengths), max(lengths), 4)).astype("float32")
    time = Dim(rf.convert_to_tensor(np.array(lengths, "int32"), dims=[batch_dim]), name="time")
    data = rf.convert_to_tensor(raw, dims=[batch_dim, time, in_dim], feature_dim=in_dim)

    alignment, score, beam_dim = model_recog(model=model, data=data, spatial_dim=time, beam_size=4)
    again = score_alignment(model=model, data=data, spatial_dim=time, alignment=alignment)
    scores, again = (x.copy_transpose([batch_dim, beam_dim]).raw_tensor.detach().numpy() for x in (score, again))
    possible = scores > IMPOSSIBLE / 2  # a beam of the first frames has more places than there are alignments
    assert possible[:, 0].all()
    np.testing.assert_allclose(scores[possible], again[possible], atol=2e-4)

    ids = alignment.copy_transpose([batch_dim, beam_dim, time]).raw_tensor
    for seq, length in enumerate(lengths):
        if length:
            alone_dim = Dim(length, name="alone")
            source = rf.convert_to_tensor(raw[seq, :length], dims=[alone_dim, in_dim], feature_dim=in_dim)
            alone, alone_score, alone_beam = model_recog(model=model, data=source, spatial_dim=alone_dim, beam_size=4)
            assert alone.copy_transpose([alone_beam, alone_dim]).raw_tensor[0].tolist() == ids[seq, 0, :length].tolist()
            kept = possible[seq]
            np.testing.assert_allclose(alone_score.raw_tensor.detach().numpy()[kept], scores[seq][kept], atol=1e-4)
