"""Searches with units that skip steps, as the label loop of a transducer: their states go with the hypotheses."""

import pytest
from asserting import assert_same, ragged, randn

import rfnb as rf
from rfnb import Dim, single_step_dim

batch, vocab, emb_dim, out_dim = (Dim(n, name=name) for n, name in ((3, "batch"), (5, "vocab"), (4, "emb"), (6, "out")))
HEADS = {"key_dim_total": Dim(8, name="keys"), "num_heads": 2}
UNITS = {
    "LSTM": lambda: rf.LSTM(emb_dim, out_dim),
    "QKVSelfAttention": lambda: rf.QKVSelfAttention(
        emb_dim, value_dim_total=out_dim, attention_left_only=True, **HEADS
    ),
    **{
        kind: lambda kind=kind: getattr(rf, kind)(
            emb_dim, out_dim, value_dim_total=Dim(4, name="values"), att_dropout=0.0, **HEADS
        )
        for kind in ("CausalSelfAttention", "RelPosCausalSelfAttention", "RotaryPosCausalSelfAttention")
    },
}


@pytest.mark.parametrize("name", UNITS)
def test_scores_of_a_search_are_those_of_whole_sequences(name):
    """Label 0 is the blank; each hypothesis has a history of its own length."""
    rf.set_random_seed(4)
    time = ragged([7, 4, 2], batch)
    masked = rf.MaskedComputation(UNITS[name]())
    emb, linear, encoder = rf.Embedding(vocab, emb_dim), rf.Linear(out_dim, vocab), randn(batch, time, vocab) * 0.3
    for module in (masked, emb, linear):
        for parameter in module.parameters():
            parameter.initial = rf.Normal(0.6)

    loop = rf.Loop(axis=time)
    loop.state.label = rf.zeros([batch], dtype="int64", sparse_dim=vocab)
    loop.state.m = masked.default_initial_state(batch_dims=[batch])
    for _ in loop:
        before = loop.state.label
        out, loop.state.m = masked(emb(before), mask=before != 0, in_spatial_dim=single_step_dim, state=loop.state.m)
        log_probs = rf.log_softmax(linear(out) + loop.unstack(encoder), axis=vocab)
        loop.state.label = rf.choice(log_probs, beam_size=8, axis=vocab)
        found = loop.stack(loop.state.label)

    scores, packed = rf.get_beam_scores(found), Dim(None, name="packed")
    (beam,) = scores.remaining_dims(batch)
    before = rf.shift_right(found, axis=time, pad_value=0)
    start = masked.default_initial_state(batch_dims=[batch, beam])
    out, _ = masked(emb(before), mask=before != 0, in_spatial_dim=time, out_spatial_dim=packed, state=start)
    assert any(len(set(row)) > 1 for row in packed.lengths.tolist())
    out, _ = rf.unmask(out, mask=before != 0, axis=time, in_spatial_dim=packed)
    log_probs = rf.log_softmax(linear(out) + encoder, axis=vocab)
    assert_same(scores, rf.reduce_sum(rf.gather(log_probs, indices=found), axis=time), tolerance=1e-4)
