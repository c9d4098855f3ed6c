"""Joint CTC and attention: n-best lists of a search rescored by both models, and training on the expected word error rate."""

import numpy as np
import torch

import rfnb as rf
from rfnb.tensor import Dim, Tensor, batch_dim


def _ragged(values: list[list[int]], name: str, sparse_dim: Dim, dims: list[Dim]) -> tuple[Tensor, Dim]:
    lengths = np.array([len(v) for v in values], "int32").reshape([d.dimension or d.get_dim_value() for d in dims])
    dim = Dim(rf.convert_to_tensor(lengths, dims=dims), name=name)
    raw = np.zeros((len(values), max(len(v) for v in values)), "int32")
    for row, labels in zip(raw, values):
        row[: len(labels)] = labels
    return rf.convert_to_tensor(raw.reshape(lengths.shape + (-1,)), dims=[*dims, dim], sparse_dim=sparse_dim), dim


HYPOTHESES = [[[1, 2, 3], [1, 2], [2, 2, 3, 1]], [[4], [], [4, 1]]]


def _setup():
    batch_dim.reset_eager()
    rf.set_random_seed(9)
    vocab, in_dim = Dim(5, name="vocab"), Dim(4, name="feat")
    time = Dim(rf.convert_to_tensor(np.array([9, 5], "int32"), dims=[batch_dim]), name="time")
    rng = np.random.default_rng(1)
    feats = rf.convert_to_tensor(
        rng.normal(size=(2, 9, 4)).astype("float32"), dims=[batch_dim, time, in_dim], feature_dim=in_dim
    )
    beam = Dim(3, name="beam")
    hyps, out = _ragged([h for seq in HYPOTHESES for h in seq], "hyp", vocab, [batch_dim, beam])
    ctc = rf.Linear(in_dim, vocab + 1)
    decoder = rf.decoder.transformer.TransformerDecoder(
        in_dim, vocab, Dim(8, name="model"), num_layers=1, num_heads=2, dropout=0.0, att_dropout=0.0
    )
    return feats, time, hyps, out, beam, ctc, decoder, vocab


def _scores(feats, time, hyps, out, ctc, decoder, vocab):
    log_probs = rf.log_softmax(ctc(feats), axis=ctc.out_dim)
    ctc_score = -rf.ctc_loss(
        logits=log_probs,
        logits_normalized=True,
        targets=hyps,
        input_spatial_dim=time,
        targets_spatial_dim=out,
        blank_index=vocab.dimension,
    )
    encoder = decoder.transform_encoder(feats, axis=time)
    ext, (out_ext,) = rf.pad(hyps, axes=[out], padding=[(0, 1)], value=0)
    inputs = rf.shift_right(ext, axis=out_ext, pad_value=0)
    batch_dims = hyps.remaining_dims(out)
    logits, _ = decoder(
        inputs, spatial_dim=out_ext, encoder=encoder, state=decoder.default_initial_state(batch_dims=batch_dims)
    )
    frame = rf.cross_entropy(estimated=logits, target=ext, axis=vocab, estimated_type="logits")
    return ctc_score, -rf.reduce_sum(frame, axis=out_ext)


def test_scores_of_an_n_best_list_are_those_of_each_hypothesis_alone():
    feats, time, hyps, out, beam, ctc, decoder, vocab = _setup()
    ctc_score, att_score = _scores(feats, time, hyps, out, ctc, decoder, vocab)
    assert ctc_score.dims_set == att_score.dims_set == {batch_dim, beam}
    got = [s.copy_transpose([batch_dim, beam]).raw_tensor.detach().numpy() for s in (ctc_score, att_score)]
    raw = feats.copy_transpose([batch_dim, time, feats.feature_dim]).numpy()
    for seq, length in enumerate([9, 5]):
        for k, labels in enumerate(HYPOTHESES[seq]):
            t = Dim(length, name="t")
            alone = rf.convert_to_tensor(raw[seq, :length], dims=[t, feats.feature_dim], feature_dim=feats.feature_dim)
            n = Dim(len(labels), name="n")
            targets = rf.convert_to_tensor(np.array(labels, "int32"), dims=[n], sparse_dim=vocab)
            log_probs = torch.log_softmax(ctc(alone).copy_transpose([t, ctc.out_dim]).raw_tensor, -1)
            loss = torch.nn.functional.ctc_loss(
                log_probs,
                torch.tensor(labels),
                torch.tensor(length),
                torch.tensor(len(labels)),
                blank=5,
                reduction="none",
            )
            np.testing.assert_allclose(got[0][seq, k], -loss.item(), atol=2e-5)
            _, att = _scores(alone, t, targets, n, ctc, decoder, vocab)
            np.testing.assert_allclose(got[1][seq, k], att.raw_tensor.item(), atol=2e-5)


def test_the_best_of_the_list_is_picked_with_its_length():
    feats, time, hyps, out, beam, ctc, decoder, vocab = _setup()
    ctc_score, att_score = _scores(feats, time, hyps, out, ctc, decoder, vocab)
    score = 0.3 * ctc_score + 0.7 * att_score
    best = rf.reduce_argmax(score, axis=beam)
    picked, picked_dim = rf.nested.gather_nested((hyps, out), indices=best)
    lengths = picked_dim.get_size_tensor()
    ranks = score.copy_transpose([batch_dim, beam]).raw_tensor.argmax(1).tolist()
    want = [HYPOTHESES[seq][k] for seq, k in enumerate(ranks)]
    assert lengths.raw_tensor.tolist() == [len(w) for w in want]
    rows = picked.copy_transpose([batch_dim, picked_dim]).numpy()
    sizes = picked_dim.dyn_size_ext.raw_tensor.tolist()
    assert [row[:n].tolist() for row, n in zip(rows, sizes)] == want


def test_minimum_word_error_rate_training():
    """Loss and gradient of the expected number of errors over the list, against plain torch."""
    feats, time, hyps, out, beam, ctc, decoder, vocab = _setup()
    refs, ref_dim = _ragged([[1, 2, 1], [4]], "ref", vocab, [batch_dim])
    _, score = _scores(feats, time, hyps, out, ctc, decoder, vocab)
    score.raw_tensor.retain_grad()
    prob = rf.softmax(score, axis=beam)
    errors = rf.cast(rf.edit_distance(hyps, out, refs, ref_dim), "float32")
    baseline = rf.reduce_mean(errors, axis=beam)
    risk = rf.reduce_sum(prob * (errors - baseline), axis=beam)
    with rf.init_train_step_run_ctx():
        risk.mark_as_loss("mwer", use_normalized_loss=True)
        loss = rf.get_run_ctx().total_loss()
    loss.raw_tensor.backward()

    plain = score.copy_transpose([batch_dim, beam]).raw_tensor.detach().requires_grad_()
    counts = torch.tensor([[1.0, 1.0, 2.0], [0.0, 1.0, 1.0]])
    assert errors.copy_transpose([batch_dim, beam]).raw_tensor.tolist() == counts.tolist()
    expected = (plain.softmax(1) * (counts - counts.mean(1, keepdim=True))).sum(1).mean()
    expected.backward()
    torch.testing.assert_close(loss.raw_tensor, expected)
    got = score.raw_tensor.grad
    torch.testing.assert_close(got if score.dims == (batch_dim, beam) else got.T, plain.grad)
    assert all(p.raw_tensor.grad is not None for p in decoder.parameters())
