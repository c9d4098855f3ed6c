"""Attention encoder-decoder with an LSTM decoder, written as code for the documented frontend: encoder, step, training, beam search."""

from __future__ import annotations

from typing import Any

from rfnb.tensor_array import TensorArray

import rfnb as rf
from rfnb.tensor import Dim, Tensor, batch_dim, single_step_dim


class Model(rf.Module):
    def __init__(
        self, in_dim: Dim, target_dim: Dim, *, enc_dim: int, att_dim: int, lstm_dim: int, bos_idx: int, eos_idx: int
    ):
        super().__init__()
        self.in_dim = in_dim
        self.target_dim = target_dim
        self.bos_idx = bos_idx
        self.eos_idx = eos_idx
        self.enc_dim = Dim(enc_dim, name="enc")
        self.encoder = rf.encoder.conformer.ConformerEncoder(
            in_dim,
            self.enc_dim,
            ff_dim=Dim(2 * enc_dim, name="enc-ff"),
            input_layer=rf.encoder.conformer.ConformerConvSubsample(
                in_dim,
                out_dims=[Dim(3, name="conv1"), Dim(4, name="conv2")],
                filter_sizes=[(3, 3), (3, 3)],
                strides=[(2, 1), (1, 1)],
            ),
            num_layers=1,
            num_heads=2,
            conv_kernel_size=5,
            dropout=0.0,
            att_dropout=0.0,
            input_dropout=0.0,
        )
        self.att_dim = Dim(att_dim, name="att")
        self.lstm_dim = Dim(lstm_dim, name="lstm")
        self.embedding = rf.Embedding(target_dim, Dim(5, name="embed"))
        self.enc_ctx = rf.Linear(self.enc_dim, self.att_dim)
        self.s = rf.ZoneoutLSTM(
            self.embedding.out_dim + self.enc_dim,
            self.lstm_dim,
            zoneout_factor_cell=0.15,
            zoneout_factor_output=0.05,
            use_zoneout_output=False,
            parts_order="jifo",
            forget_bias=0.0,
        )
        self.s_transformed = rf.Linear(self.lstm_dim, self.att_dim, with_bias=False)
        self.energy = rf.Linear(self.att_dim, Dim(1, name="energy"), with_bias=False)
        self.weight_feedback = rf.Linear(Dim(1, name="att-head"), self.att_dim, with_bias=False)
        self.readout_in = rf.Linear(self.lstm_dim + self.embedding.out_dim + self.enc_dim, Dim(6, name="readout"))
        self.output_prob = rf.Linear(self.readout_in.out_dim // 2, target_dim)
        for p in self.parameters():
            p.weight_decay = 0.001

    def encode(self, source: Tensor, *, in_spatial_dim: Dim) -> tuple[dict[str, Tensor], Dim]:
        enc, enc_spatial_dim = self.encoder(source, in_spatial_dim=in_spatial_dim)
        return {"enc": enc, "enc_ctx": self.enc_ctx(enc)}, enc_spatial_dim

    def decoder_default_initial_state(self, *, batch_dims, enc_spatial_dim) -> rf.State:
        state = rf.State(
            s=self.s.default_initial_state(batch_dims=batch_dims),
            att=rf.zeros(list(batch_dims) + [self.enc_dim], feature_dim=self.enc_dim),
            accum_att_weights=rf.zeros(
                list(batch_dims) + [enc_spatial_dim, self.weight_feedback.in_dim],
                feature_dim=self.weight_feedback.in_dim,
            ),
        )
        return state

    def loop_step_output_templates(self, batch_dims: list[Dim]) -> dict[str, Tensor]:
        return {
            "s": Tensor(
                "s", dims=batch_dims + [self.lstm_dim], dtype=rf.get_default_float_dtype(), feature_dim_axis=-1
            ),
            "att": Tensor(
                "att", dims=batch_dims + [self.enc_dim], dtype=rf.get_default_float_dtype(), feature_dim_axis=-1
            ),
        }

    def loop_step(self, *, enc, enc_ctx, enc_spatial_dim, input_embed, state=None):
        if state is None:
            batch_dims = enc.remaining_dims(remove=(enc.feature_dim, enc_spatial_dim))
            state = self.decoder_default_initial_state(batch_dims=batch_dims, enc_spatial_dim=enc_spatial_dim)
        state_ = rf.State()
        prev_att = state.att
        s, state_.s = self.s(rf.concat_features(input_embed, prev_att), state=state.s, spatial_dim=single_step_dim)
        weight_feedback = self.weight_feedback(state.accum_att_weights)
        s_transformed = self.s_transformed(s)
        energy_in = enc_ctx + weight_feedback + s_transformed
        energy = self.energy(rf.tanh(energy_in))
        att_weights = rf.softmax(energy, axis=enc_spatial_dim)
        state_.accum_att_weights = (
            state.accum_att_weights
            + rf.replace_dim(att_weights, in_dim=self.energy.out_dim, out_dim=self.weight_feedback.in_dim)[0] * 0.5
        )
        att0 = rf.dot(att_weights, enc, reduce=enc_spatial_dim, use_mask=False)
        att0.feature_dim = self.enc_dim
        att, _ = rf.merge_dims(
            att0, dims=(self.energy.out_dim, self.enc_dim), out_dim=Dim(self.enc_dim.dimension, name="att-merged")
        )
        att, _ = rf.replace_dim(att, in_dim=att.feature_dim, out_dim=self.enc_dim)
        state_.att = att
        return {"s": s, "att": att}, state_

    def decode_logits(self, *, s, input_embed, att) -> Tensor:
        readout_in = self.readout_in(rf.concat_features(s, input_embed, att))
        readout = rf.reduce_out(readout_in, mode="max", num_pieces=2, out_dim=self.output_prob.in_dim)
        readout = rf.dropout(readout, drop_prob=0.3, axis=readout.feature_dim)
        return self.output_prob(readout)


def train_step(*, model: Model, data: Tensor, data_spatial_dim: Dim, targets: Tensor, targets_spatial_dim: Dim) -> None:
    enc_args, enc_spatial_dim = model.encode(data, in_spatial_dim=data_spatial_dim)
    batch_dims = data.remaining_dims((data_spatial_dim, data.feature_dim))
    input_embeddings = model.embedding(targets)
    input_embeddings = rf.shift_right(input_embeddings, axis=targets_spatial_dim, pad_value=0.0)

    def _body(input_embed: Tensor, state: rf.State):
        new_state = rf.State()
        loop_out_, new_state.decoder = model.loop_step(
            **enc_args, enc_spatial_dim=enc_spatial_dim, input_embed=input_embed, state=state.decoder
        )
        return loop_out_, new_state

    loop_out, _, _ = rf.scan(
        spatial_dim=targets_spatial_dim,
        xs=input_embeddings,
        ys=model.loop_step_output_templates(batch_dims=batch_dims),
        initial=rf.State(
            decoder=model.decoder_default_initial_state(batch_dims=batch_dims, enc_spatial_dim=enc_spatial_dim)
        ),
        body=_body,
    )
    logits = model.decode_logits(input_embed=input_embeddings, **loop_out)
    logits_packed, pack_dim = rf.pack_padded(logits, dims=batch_dims + [targets_spatial_dim], enforce_sorted=False)
    targets_packed, _ = rf.pack_padded(
        targets, dims=batch_dims + [targets_spatial_dim], enforce_sorted=False, out_dim=pack_dim
    )
    log_prob = rf.log_softmax(logits_packed, axis=model.target_dim)
    log_prob = rf.label_smoothed_log_prob_gradient(log_prob, 0.1, axis=model.target_dim)
    loss = rf.cross_entropy(
        target=targets_packed, estimated=log_prob, estimated_type="log-probs", axis=model.target_dim
    )
    loss.mark_as_loss("ce")
    best = rf.reduce_argmax(logits_packed, axis=model.target_dim)
    frame_error = best != targets_packed
    frame_error.mark_as_loss(name="fer", as_error=True)


def model_recog(*, model: Model, data: Tensor, data_spatial_dim: Dim, beam_size: int = 4, max_len: int = 9):
    """Beam search by hand over a TensorArray of labels and back references."""
    batch_dims = data.remaining_dims((data_spatial_dim, data.feature_dim))
    enc_args, enc_spatial_dim = model.encode(data, in_spatial_dim=data_spatial_dim)
    max_seq_len = rf.convert_to_tensor(max_len)
    beam_dim = Dim(1, name="initial-beam")
    batch_dims_ = [beam_dim] + batch_dims
    decoder_state = model.decoder_default_initial_state(batch_dims=batch_dims_, enc_spatial_dim=enc_spatial_dim)
    target = rf.constant(model.bos_idx, dims=batch_dims_, sparse_dim=model.target_dim)
    ended = rf.constant(False, dims=batch_dims_)
    out_seq_len = rf.constant(0, dims=batch_dims_)
    seq_log_prob = rf.constant(0.0, dims=batch_dims_)
    i = 0
    seq_targets: list[Tensor] = []
    seq_backrefs: list[Tensor] = []
    while True:
        if i == 0:
            input_embed = rf.zeros(batch_dims_ + [model.embedding.out_dim], feature_dim=model.embedding.out_dim)
        else:
            input_embed = model.embedding(target)
        step_out, decoder_state = model.loop_step(
            **enc_args, enc_spatial_dim=enc_spatial_dim, input_embed=input_embed, state=decoder_state
        )
        logits = model.decode_logits(input_embed=input_embed, **step_out)
        label_log_prob = rf.log_softmax(logits, axis=model.target_dim)
        label_log_prob = rf.where(
            ended,
            rf.sparse_to_dense(model.eos_idx, axis=model.target_dim, label_value=0.0, other_value=-1.0e30),
            label_log_prob,
        )
        seq_log_prob = seq_log_prob + label_log_prob
        seq_log_prob, (backrefs, target), beam_dim = rf.top_k(
            seq_log_prob, k_dim=Dim(beam_size, name=f"dec-step{i}-beam"), axis=[beam_dim, model.target_dim]
        )
        seq_targets.append(target)
        seq_backrefs.append(backrefs)
        decoder_state = rf.nested.gather_nested(decoder_state, indices=backrefs)
        ended = rf.gather(ended, indices=backrefs)
        out_seq_len = rf.gather(out_seq_len, indices=backrefs)
        i += 1
        ended = rf.logical_or(ended, target == model.eos_idx)
        ended = rf.logical_or(ended, rf.copy_to_device(i >= max_seq_len))
        if bool(rf.reduce_all(ended, axis=ended.dims).raw_tensor):
            break
        out_seq_len = out_seq_len + rf.where(ended, 0, 1)
    seq_targets_: list[Tensor] = []
    indices: Any = rf.range_over_dim(beam_dim)
    for backrefs, target in zip(seq_backrefs[::-1], seq_targets[::-1]):
        seq_targets_.insert(0, rf.gather(target, indices=indices))
        indices = rf.gather(backrefs, indices=indices)
    seq_targets__ = TensorArray(seq_targets_[0])
    for target in seq_targets_:
        seq_targets__ = seq_targets__.push_back(target)
    out_spatial_dim = Dim(out_seq_len, name="out-spatial")
    out = seq_targets__.stack(axis=out_spatial_dim)
    return out, seq_log_prob, out_spatial_dim, beam_dim


__all__ = ["Model", "batch_dim", "model_recog", "train_step"]
