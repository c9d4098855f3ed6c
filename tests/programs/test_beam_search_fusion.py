"""Beam search by hand: a cross-attention model and a Transformer LM, length normalization, ended hypotheses, backtracking."""

import itertools

import numpy as np
import program_runs as runs
import torch
from rfnb.decoder.transformer import TransformerDecoder
from rfnb.tensor_array import TensorArray

import rfnb as rf
from rfnb.tensor import Dim, Tensor, TensorDict, batch_dim, single_step_dim

beam_size = 3
lm_scale = 0.4
length_exponent = 0.7


class AttentionModel(rf.Module):
    def __init__(self, in_dim: Dim, vocab_dim: Dim):
        super().__init__()
        self.hidden_dim = Dim(4, name="hidden")
        self.enc = rf.Linear(in_dim, self.hidden_dim)
        self.embed = rf.Embedding(vocab_dim, self.hidden_dim)
        self.s = rf.LSTM(self.hidden_dim, self.hidden_dim)
        self.cross = rf.CrossAttention(
            self.hidden_dim,
            self.hidden_dim,
            None,
            key_dim_total=Dim(4, name="key"),
            value_dim_total=Dim(4, name="value"),
            num_heads=2,
            att_dropout=0.0,
        )
        self.out = rf.Linear(self.cross.value_dim_total, vocab_dim)

    def default_initial_state(self, *, batch_dims):
        return rf.State(s=self.s.default_initial_state(batch_dims=batch_dims))

    def __call__(self, label: Tensor, *, state: rf.State, encoder: rf.State):
        s, s_state = self.s(self.embed(label), state=state.s, spatial_dim=single_step_dim)
        return self.out(self.cross(s, encoder)), rf.State(s=s_state)


class Model(rf.Module):
    def __init__(self, in_dim: Dim, vocab_dim: Dim):
        super().__init__()
        self.vocab_dim, self.eos_idx, self.bos_idx = vocab_dim, 0, 0
        self.am = AttentionModel(in_dim, vocab_dim)
        self.lm = TransformerDecoder(
            None,
            vocab_dim,
            Dim(6, name="lm"),
            num_layers=2,
            num_heads=2,
            ff_dim=Dim(7, name="lm-ff"),
            dropout=0.0,
            att_dropout=0.0,
        )


def model_recog(*, model: Model, data: Tensor, data_spatial_dim: Dim):
    batch_dims = data.remaining_dims((data_spatial_dim, data.feature_dim))
    enc = rf.relu(model.am.enc(data))
    encoder = model.am.cross.transform_encoder(enc, axis=data_spatial_dim)
    max_seq_len = rf.copy_to_device(data_spatial_dim.get_size_tensor(), data.device)

    beam_dim = Dim(1, name="initial-beam")
    batch_dims_ = [beam_dim] + batch_dims
    state = rf.State(
        am=model.am.default_initial_state(batch_dims=batch_dims_),
        lm=model.lm.default_initial_state(batch_dims=batch_dims_),
    )
    target = rf.constant(model.bos_idx, dims=batch_dims_, sparse_dim=model.vocab_dim)
    ended = rf.constant(False, dims=batch_dims_)
    seq_log_prob = rf.constant(0.0, dims=batch_dims_)
    out_seq_len = rf.constant(0, dims=batch_dims_)

    i = 0
    seq_targets, seq_backrefs = [], []
    while True:
        am_logits, am_state = model.am(target, state=state.am, encoder=encoder)
        lm_logits, lm_state = model.lm(target, spatial_dim=single_step_dim, state=state.lm)
        label_log_prob = rf.log_softmax(am_logits, axis=model.vocab_dim) + lm_scale * rf.log_softmax(
            lm_logits, axis=model.vocab_dim
        )
        # ended hypotheses go on with EOS at no cost
        label_log_prob = rf.where(
            ended,
            rf.sparse_to_dense(model.eos_idx, axis=model.vocab_dim, label_value=0.0, other_value=-1.0e30),
            label_log_prob,
        )
        seq_log_prob = seq_log_prob + label_log_prob
        seq_log_prob, (backrefs, target), beam_dim = rf.top_k(
            seq_log_prob,
            k_dim=Dim(min(beam_size, beam_dim.dimension * model.vocab_dim.dimension), name=f"beam{i}"),
            axis=[beam_dim, model.vocab_dim],
        )
        seq_targets.append(target)
        seq_backrefs.append(backrefs)
        state = rf.nested.gather_nested(rf.State(am=am_state, lm=lm_state), indices=backrefs)
        ended = rf.gather(ended, indices=backrefs)
        out_seq_len = rf.gather(out_seq_len, indices=backrefs)
        i += 1
        ended = rf.logical_or(ended, rf.convert_to_tensor(target == model.eos_idx))
        ended = rf.logical_or(ended, rf.copy_to_device(i >= max_seq_len))
        if bool(rf.reduce_all(ended, axis=ended.dims).raw_tensor):
            break
        out_seq_len = out_seq_len + rf.where(ended, 0, 1)
        if i > 1 and beam_dim.dimension > 1:
            # length normalization, step by step
            seq_log_prob *= rf.where(
                ended,
                (i / (i - 1)) ** length_exponent,
                1.0,
            )
    if i > 1:
        seq_log_prob *= (1 / i) ** length_exponent

    # backtrack
    seq_targets_ = []
    indices = rf.range_over_dim(beam_dim)
    for backrefs, target in zip(seq_backrefs[::-1], seq_targets[::-1]):
        seq_targets_.insert(0, rf.gather(target, indices=indices))
        indices = rf.gather(backrefs, indices=indices)
    array = TensorArray(seq_targets_[0])
    for target in seq_targets_:
        array = array.push_back(target)
    out_spatial_dim = Dim(out_seq_len, name="out-spatial")
    seq_targets = array.stack(axis=out_spatial_dim)
    return seq_targets, seq_log_prob, out_spatial_dim, beam_dim


def forward_step(*, model: Model, extern_data: TensorDict):
    data = extern_data["data"]
    hyps, scores, out_dim, beam_dim = model_recog(model=model, data=data, data_spatial_dim=data.get_time_dim_tag())
    run_ctx = rf.get_run_ctx()
    run_ctx.mark_as_output(scores, "scores", dims=[batch_dim, beam_dim])
    best = rf.reduce_argmax(scores, axis=beam_dim)
    best_hyp = rf.gather(hyps, indices=best, axis=beam_dim)
    run_ctx.mark_as_output(rf.gather(out_dim.get_size_tensor(), indices=best, axis=beam_dim), "len", dims=[batch_dim])
    best_dim = Dim(rf.gather(out_dim.get_size_tensor(), indices=best, axis=beam_dim), name="best-spatial")
    best_hyp, _ = rf.replace_dim(best_hyp, in_dim=[d for d in best_hyp.dims if d != batch_dim][0], out_dim=best_dim)
    run_ctx.mark_as_output(best_hyp, "best", dims=[batch_dim, best_dim])


def score_step(*, model: Model, extern_data: TensorDict):
    """The LM on whole sequences."""
    targets = extern_data["targets"]
    out_dim = targets.get_time_dim_tag()
    inputs, (ext_dim,) = rf.pad(targets, axes=[out_dim], padding=[(1, 0)], value=model.bos_idx)
    labels, _ = rf.pad(targets, axes=[out_dim], padding=[(0, 1)], value=model.eos_idx, out_dims=[ext_dim])
    logits, _ = model.lm(inputs, spatial_dim=ext_dim, state=model.lm.default_initial_state(batch_dims=[batch_dim]))
    ce = rf.cross_entropy(estimated=logits, target=labels, axis=model.vocab_dim, estimated_type="logits")
    ce.mark_as_loss("lm_ce")
    rf.get_run_ctx().mark_as_output(ce, "ce", dims=[batch_dim, ext_dim])


# ---- checks

in_dim, vocab_dim = Dim(3, name="in", kind=Dim.Types.Feature), Dim(5, name="vocab", kind=Dim.Types.Feature)


def make(key):
    rf.set_random_seed(1)
    model = Model(in_dim, vocab_dim)
    time = Dim(Tensor("time", [batch_dim], "int32"), name="time")
    if key == "data":
        template = Tensor("data", [batch_dim, time, in_dim], "float32", feature_dim=in_dim)
        parts = [runs.rand(1, 4, 3), runs.rand(2, 2, 3), runs.rand(3, 3, 3)]
    else:
        template = Tensor("targets", [batch_dim, time], "int32", sparse_dim=vocab_dim)
        parts = [runs.labels(1, 4, 5), runs.labels(2, 1, 5), runs.labels(3, 3, 5)]
    return model, runs.randomize(model, scale=0.8), TensorDict({key: template}), {key: parts}


def lm_logits(W, words):
    n = len(words)
    x = W["lm.input_embedding.weight"][torch.as_tensor(words).long()] * 6**0.5
    rate = np.arange(n)[:, None] * 10000.0 ** (-np.arange(3) / 2)
    x = x + torch.tensor(np.concatenate([np.sin(rate), np.cos(rate)], -1), dtype=torch.float32)
    causal = torch.full((n, n), float("-inf")).triu(1)
    for layer in range(2):
        p = f"lm.layers.{layer}"
        y = runs.linear(runs.layer_norm(x, W, f"{p}.self_att_layer_norm"), W, f"{p}.self_att.qkv").reshape(n, 2, 3, 3)
        att = [torch.softmax(y[:, h, 0] @ y[:, h, 1].T / 3**0.5 + causal, -1) @ y[:, h, 2] for h in range(2)]
        x = x + runs.linear(torch.cat(att, -1), W, f"{p}.self_att.proj")
        y = torch.relu(runs.linear(runs.layer_norm(x, W, f"{p}.ff_layer_norm"), W, f"{p}.ff.linear_ff"))
        x = x + runs.linear(y, W, f"{p}.ff.linear_out")
    return runs.layer_norm(x, W, "lm.final_layer_norm") @ W["lm.input_embedding.weight"].T  # tied


def am_logits(W, source, words):
    enc = torch.relu(runs.linear(torch.as_tensor(source), W, "am.enc"))
    s, _ = runs.lstm(W["am.embed.weight"][torch.as_tensor(words).long()], W, "am.s")
    q = runs.linear(s, W, "am.cross.q").reshape(-1, 2, 2)
    kv = runs.linear(enc, W, "am.cross.kv").reshape(-1, 2, 4)
    att = [torch.softmax(q[:, h] @ kv[:, h, :2].T / 2**0.5, -1) @ kv[:, h, 2:] for h in range(2)]
    return runs.linear(torch.cat(att, -1), W, "am.out")


def search(W, source):
    beams = [([], 0.0, False)]
    for i in itertools.count(1):
        candidates = []
        for words, score, ended in beams:
            history = [0, *words]
            am = torch.log_softmax(am_logits(W, source, history)[-1], -1)
            lm = torch.log_softmax(lm_logits(W, history)[-1], -1)
            for v in range(5):
                step = (0.0 if v == 0 else -1e30) if ended else (am[v] + lm_scale * lm[v]).item()
                candidates.append((words + [v], score + step, ended))
        beams = sorted(candidates, key=lambda c: -c[1])[:3]
        beams = [(words, score, ended or words[-1] == 0 or i >= len(source)) for words, score, ended in beams]
        if all(ended for _, _, ended in beams):
            return beams, i
        if i > 1:
            beams = [(w, s * ((i / (i - 1)) ** length_exponent if e else 1.0), e) for w, s, e in beams]


def test_search():
    model, W, extern_data, data = make("data")
    run = runs.forward(forward_step, model, extern_data, data)
    searched = [search(W, source) for source in data["data"]]
    steps = max(i for _, i in searched)
    for index, (beams, i) in enumerate(searched):
        ours = run.outputs.sequence(index)
        # a sequence that is done waits for the others, at its length factor
        scores = np.array([score for _, score, _ in beams])
        for j in range(i, steps):
            if j > 1:
                scores = scores * (j / (j - 1)) ** length_exponent
        scores = scores * (1 / steps) ** length_exponent
        np.testing.assert_allclose(np.asarray(ours["scores"].raw_tensor), scores, rtol=1e-4)
        words = beams[0][0]
        # the label with which the last hypothesis ends is not counted
        length = next((k for k, word in enumerate(words) if word == 0), len(words) - 1)
        assert ours["best"].raw_tensor.tolist() == words[:length]


def test_lm():
    model, W, extern_data, data = make("targets")
    lm_weights = {name: w for name, w in W.items() if name.startswith("lm.")}
    run = runs.train(score_step, model, extern_data, data)
    total = torch.tensor(0.0)
    for words, ours in zip(data["targets"], runs.alone(score_step, model, extern_data, data)):
        rows = torch.nn.functional.cross_entropy(
            lm_logits(W, [0, *words]), torch.as_tensor([*words, 0]).long(), reduction="none"
        )
        np.testing.assert_allclose(ours["ce"], rows.detach(), atol=1e-4)
        total = total + rows.sum()
    runs.same_gradients(run.total_loss().raw_tensor, total, lm_weights, atol=1e-4)
