"""CTC with an external language model, time-synchronous: the model's state advances only where a hypothesis got a new label."""

import numpy as np

import rfnb as rf
from rfnb.tensor import Dim, Tensor, batch_dim, single_step_dim


def _search(
    log_probs: Tensor,
    *,
    enc_spatial_dim: Dim,
    lm: rf.Module,
    target_dim: Dim,
    wb_target_dim: Dim,
    beam_size: int,
    lm_scale: float,
):
    blank = wb_target_dim.dimension - 1
    batch_dims = log_probs.remaining_dims((enc_spatial_dim, wb_target_dim))
    beam_dim = Dim(1, name="initial-beam")
    batch_dims_ = [beam_dim] + batch_dims
    log_probs = rf.where(
        enc_spatial_dim.get_mask(),
        log_probs,
        rf.sparse_to_dense(blank, axis=wb_target_dim, label_value=0.0, other_value=-1.0e30),
    )
    frames = rf.TensorArray.unstack(log_probs, axis=enc_spatial_dim)
    seq_log_prob = rf.constant(0.0, dims=batch_dims_)
    target = rf.constant(0, dims=batch_dims_, sparse_dim=target_dim)
    target_wb = rf.constant(blank, dims=batch_dims_, sparse_dim=wb_target_dim)
    lm_state = lm.default_initial_state(batch_dims=batch_dims_)
    lm_logits, lm_state = lm(target, spatial_dim=single_step_dim, state=lm_state)
    lm_log_probs = rf.log_softmax(lm_logits, axis=target_dim) * lm_scale
    zero_blank, _ = rf.pad(lm_log_probs, axes=[target_dim], padding=[(0, 1)], out_dims=[wb_target_dim], value=0.0)
    history = []
    for t in range(int(enc_spatial_dim.get_dim_value())):
        prev_target_wb = target_wb
        fused, _ = rf.pad(lm_log_probs, axes=[target_dim], padding=[(0, 1)], out_dims=[wb_target_dim], value=0.0)
        # no score of the language model for a blank, nor where the label is repeated
        repeated = prev_target_wb == rf.range_over_dim(wb_target_dim)
        seq_log_prob = seq_log_prob + frames[t] + rf.where(repeated, 0.0, fused)
        seq_log_prob, (backrefs, target_wb), beam_dim = rf.top_k(
            seq_log_prob, k_dim=Dim(beam_size, name=f"dec-step{t}-beam"), axis=[beam_dim, wb_target_dim]
        )
        lm_state, lm_log_probs, target, prev_target_wb = rf.nested.gather_nested(
            (lm_state, lm_log_probs, target, prev_target_wb), indices=backrefs
        )
        history.append((backrefs, target_wb))
        got_new_label = rf.logical_and(target_wb != blank, target_wb != prev_target_wb)
        target = rf.where(got_new_label, rf.set_sparse_dim(rf.cast(target_wb, target.dtype), target_dim), target)
        got_new_label_cpu = rf.copy_to_device(got_new_label, "cpu")
        if got_new_label_cpu.raw_tensor.sum().item() > 0:
            dims = batch_dims + [beam_dim]
            (target_, lm_state_), packed_dim, dim_map = rf.nested.masked_select_nested(
                (target, lm_state), mask=got_new_label, mask_cpu=got_new_label_cpu, dims=dims
            )
            assert packed_dim.get_dim_value() > 0
            lm_logits_, lm_state_ = lm(target_, spatial_dim=single_step_dim, state=lm_state_)
            lm_log_probs_ = rf.log_softmax(lm_logits_, axis=target_dim) * lm_scale
            lm_log_probs, lm_state = rf.nested.masked_scatter_nested(
                (lm_log_probs_, lm_state_),
                (lm_log_probs, lm_state),
                mask=got_new_label,
                mask_cpu=got_new_label_cpu,
                dims=dims,
                in_dim=packed_dim,
                masked_select_dim_map=dim_map,
            )
    labels = []
    indices = rf.range_over_dim(beam_dim)
    for backrefs, target_wb in history[::-1]:
        labels.insert(0, rf.gather(target_wb, indices=indices))
        indices = rf.gather(backrefs, indices=indices)
    alignment = rf.TensorArray(labels[0])
    for label in labels:
        alignment = alignment.push_back(label)
    return alignment.stack(axis=enc_spatial_dim), seq_log_prob, beam_dim


def test_the_state_of_the_language_model_is_that_of_the_collapsed_labels():
    batch_dim.reset_eager()
    rf.set_random_seed(5)
    lengths, vocab_size, scale = [6, 4, 7], 5, 0.7
    target_dim = Dim(vocab_size, name="vocab")
    wb_target_dim = target_dim + 1
    time = Dim(rf.convert_to_tensor(np.array(lengths, "int32"), dims=[batch_dim]), name="time")
    raw = np.random.default_rng(3).normal(size=(len(lengths), max(lengths), vocab_size + 1)).astype("float32") * 2
    logits = rf.convert_to_tensor(raw, dims=[batch_dim, time, wb_target_dim], feature_dim=wb_target_dim)
    log_probs = rf.log_softmax(logits, axis=wb_target_dim)
    lm = rf.decoder.transformer.TransformerDecoder(
        None, target_dim, Dim(8, name="model"), num_layers=2, num_heads=2, dropout=0.0, att_dropout=0.0
    )
    path, score, beam = _search(
        log_probs,
        enc_spatial_dim=time,
        lm=lm,
        target_dim=target_dim,
        wb_target_dim=wb_target_dim,
        beam_size=4,
        lm_scale=scale,
    )
    blank = vocab_size
    frames = log_probs.copy_transpose([batch_dim, time, wb_target_dim]).numpy()
    paths = path.copy_transpose([batch_dim, beam, time]).numpy()
    scores = score.copy_transpose([batch_dim, beam]).numpy()
    for seq, length in enumerate(lengths):
        for k in range(beam.dimension):
            labels = paths[seq, k]
            assert (labels[length:] == blank).all()
            new = [i for i in range(length) if labels[i] != blank and (i == 0 or labels[i] != labels[i - 1])]
            collapsed = [int(labels[i]) for i in new]
            expected = frames[seq, np.arange(length), labels[:length]].sum()
            if collapsed:
                out = Dim(len(collapsed), name="labels")
                inputs = rf.convert_to_tensor(
                    np.array([0] + collapsed[:-1], "int32"), dims=[out], sparse_dim=target_dim
                )
                lm_logits, _ = lm(inputs, spatial_dim=out, state=lm.default_initial_state(batch_dims=[]))
                lm_scores = rf.log_softmax(lm_logits, axis=target_dim).copy_transpose([out, target_dim]).numpy()
                expected += scale * lm_scores[np.arange(len(collapsed)), collapsed].sum()
            np.testing.assert_allclose(scores[seq, k], expected, atol=5e-5)
