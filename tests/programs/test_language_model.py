"""Language models with a state that grows, as a user of the documentation scores and samples with them."""

import numpy as np
import pytest

import rfnb as rf
from rfnb.tensor import Dim, batch_dim, single_step_dim

VARIANTS = {
    "transformer": {},
    "llama": {
        "norm": rf.build_dict(rf.RMSNorm),
        "ff": rf.build_dict(rf.decoder.transformer.FeedForwardGated),
        "pos_enc": None,
        "layer_opts": {"self_att": rf.build_dict(rf.RotaryPosCausalSelfAttention, with_bias=False)},
    },
    "transformer-xl": {"pos_enc": None, "layer_opts": {"self_att": rf.build_dict(rf.RelPosCausalSelfAttention)}},
    "shaw": {
        "pos_enc": None,
        "layer_opts": {
            "self_att": rf.build_dict(
                rf.RelPosCausalSelfAttention, with_linear_pos=False, with_pos_bias=False, learnable_pos_emb=True
            )
        },
    },
}


def _model(variant: str, vocab: Dim) -> rf.decoder.transformer.TransformerDecoder:
    return rf.decoder.transformer.TransformerDecoder(
        None,
        vocab,
        12,
        num_layers=2,
        num_heads=3,
        dropout=0.0,
        att_dropout=0.0,
        share_embedding=True,
        **VARIANTS[variant],
    )


def _labels(vocab: Dim, lengths: list[int]) -> tuple[rf.Tensor, Dim]:
    time = Dim(rf.convert_to_tensor(np.array(lengths, "int32"), dims=[batch_dim]), name="targets")
    raw = np.random.default_rng(7).integers(1, vocab.dimension, (len(lengths), max(lengths))).astype("int32")
    return rf.convert_to_tensor(raw, dims=[batch_dim, time], sparse_dim=vocab), time


@pytest.mark.parametrize("variant", VARIANTS)
def test_steps_score_like_the_whole_sequence(variant):
    batch_dim.reset_eager()
    rf.set_random_seed(11)
    vocab = Dim(9, name="vocab")
    model = _model(variant, vocab)
    labels, time = _labels(vocab, [5, 3, 6, 1])

    shifted, time_ext = rf.pad(labels, axes=[time], padding=[(1, 0)], value=0)
    (time_ext,) = time_ext
    logits, _ = model(shifted, spatial_dim=time_ext, state=model.default_initial_state(batch_dims=[batch_dim]))
    whole = rf.log_softmax(logits, axis=vocab)

    state = model.default_initial_state(batch_dims=[batch_dim])
    inputs = rf.TensorArray.unstack(shifted, axis=time_ext)
    outputs = rf.TensorArray(rf.zeros([batch_dim, vocab], feature_dim=vocab))
    for i in range(int(time_ext.get_dim_value())):
        logits, state = model(inputs[i], spatial_dim=single_step_dim, state=state)
        outputs = outputs.push_back(rf.log_softmax(logits, axis=vocab))
    steps = outputs.stack(axis=time_ext)

    order = [batch_dim, time_ext, vocab]
    mask = time_ext.get_mask(dim_order=[batch_dim, time_ext]).numpy()
    np.testing.assert_allclose(
        steps.copy_transpose(order).numpy()[mask], whole.copy_transpose(order).numpy()[mask], rtol=0, atol=2e-5
    )


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_beam_over_the_state_scores_each_hypothesis_like_alone(variant):
    """Beam search by hand: the state with its growing dim follows the parents, and scores are those of the labels."""
    batch_dim.reset_eager()
    rf.set_random_seed(12)
    vocab = Dim(7, name="vocab")
    model = _model(variant, vocab)
    _labels(vocab, [2, 2, 2])  # the size of the batch
    beam = Dim(1, name="initial-beam")
    state = model.default_initial_state(batch_dims=[batch_dim, beam])
    target = rf.constant(0, dims=[batch_dim, beam], sparse_dim=vocab)
    score = rf.constant(0.0, dims=[batch_dim, beam])
    parents, chosen = [], []
    for step in range(4):
        logits, state = model(target, spatial_dim=single_step_dim, state=state)
        score = score + rf.log_softmax(logits, axis=vocab)
        score, (backrefs, target), beam = rf.top_k(score, k_dim=Dim(3, name=f"beam{step}"), axis=[beam, vocab])
        state = rf.nested.gather_nested(state, indices=backrefs)
        parents.append(backrefs)
        chosen.append(target)
    labels = []
    indices = rf.range_over_dim(beam)
    for backrefs, target in zip(parents[::-1], chosen[::-1]):
        labels.insert(0, rf.gather(target, indices=indices))
        indices = rf.gather(backrefs, indices=indices)
    sequence, out = rf.stack(labels, out_dim=Dim(4, name="out"))
    shifted = rf.shift_right(sequence, axis=out, pad_value=0)
    logits, _ = model(shifted, spatial_dim=out, state=model.default_initial_state(batch_dims=[batch_dim, beam]))
    log_probs = rf.gather(rf.log_softmax(logits, axis=vocab), indices=sequence)
    total = rf.reduce_sum(log_probs, axis=out)

    np.testing.assert_allclose(
        score.copy_transpose([batch_dim, beam]).numpy(), total.copy_transpose([batch_dim, beam]).numpy(), atol=3e-5
    )
