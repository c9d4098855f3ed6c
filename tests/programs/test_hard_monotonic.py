"""Hard monotonic attention: a while loop moves a pointer through the encoder frames, with the hypotheses in a TensorArray."""

import numpy as np
import program_runs as runs
import torch
from rfnb.tensor_array import TensorArray

import rfnb as rf
from rfnb.tensor import Dim, Tensor, TensorDict, batch_dim, single_step_dim


class Model(rf.Module):
    def __init__(self, in_dim: Dim, vocab_dim: Dim):
        super().__init__()
        self.vocab_dim = vocab_dim
        self.enc_dim = Dim(4, name="enc")
        self.enc = rf.Sequential(rf.Linear(in_dim, self.enc_dim), rf.tanh, rf.LayerNorm(self.enc_dim))
        self.embed = rf.Embedding(vocab_dim, Dim(3, name="embed"))
        self.s = rf.LSTM(self.embed.out_dim + self.enc_dim, Dim(5, name="s"))
        self.select = rf.Linear(self.s.out_dim + self.enc_dim, Dim(1, name="select"))
        self.out = rf.Linear(self.s.out_dim + self.enc_dim, vocab_dim)


def forward_step(*, model: Model, extern_data: TensorDict):
    """Per turn, each sequence either moves on by one frame, or emits a label at its frame."""
    data = extern_data["data"]
    time_dim = data.get_time_dim_tag()
    enc = model.enc(data)
    lens = rf.copy_to_device(time_dim.get_size_tensor(), data.device)
    max_turns = 3 * time_dim.get_dim_value_tensor()

    def _cond(state: rf.State):
        return rf.logical_and(rf.reduce_any(state.active, axis=state.active.dims), state.turn < max_turns)

    def _body(state: rf.State):
        frame = rf.gather(enc, indices=state.pos, axis=time_dim, clip_to_valid=True)
        hidden = rf.concat_features(state.s.h, frame)
        move = rf.squeeze(model.select(hidden), axis=model.select.out_dim) < 0
        # never more than two labels per frame
        move = rf.logical_or(move, state.emitted_here >= 2)
        log_prob = rf.log_softmax(model.out(hidden), axis=model.vocab_dim)
        label = rf.reduce_argmax(log_prob, axis=model.vocab_dim)
        score = rf.reduce_max(log_prob, axis=model.vocab_dim)
        emit = rf.logical_and(rf.logical_not(move), state.active)
        s_in = rf.concat_features(model.embed(label), frame)
        _, new_s = model.s(s_in, state=state.s, spatial_dim=single_step_dim)
        pos = state.pos + rf.cast(move, "int32")
        return rf.State(
            turn=state.turn + 1,
            pos=pos,
            s=rf.nested.where_nested(new_s, state.s, condition=emit),
            active=rf.logical_and(state.active, pos < lens),
            emitted_here=rf.where(emit, state.emitted_here + 1, 0),
            score=state.score + rf.where(emit, score, 0.0),
            labels=state.labels.push_back(label),
            emits=state.emits.push_back(emit),
            frames=state.frames.push_back(rf.minimum(state.pos, lens - 1)),
        )

    last = rf.while_loop(
        _cond,
        _body,
        initial=rf.State(
            turn=rf.constant(0, dims=(), dtype="int32", device="cpu"),
            pos=rf.zeros([batch_dim], dtype="int32", sparse_dim=time_dim),
            s=model.s.default_initial_state(batch_dims=[batch_dim]),
            active=lens > 0,
            emitted_here=rf.zeros([batch_dim], dtype="int32"),
            score=rf.zeros([batch_dim]),
            labels=TensorArray(Tensor("label", [batch_dim], "int64", sparse_dim=model.vocab_dim)),
            emits=TensorArray(Tensor("emit", [batch_dim], "bool")),
            frames=TensorArray(Tensor("frame", [batch_dim], "int32", sparse_dim=time_dim)),
        ),
    )
    turns_dim = Dim(last.turn, name="turns")
    labels, emits = last.labels.stack(axis=turns_dim), last.emits.stack(axis=turns_dim)
    frames = last.frames.stack(axis=turns_dim)
    hyps, hyps_dim = rf.masked_select(labels, mask=emits, dims=[turns_dim])
    at, _ = rf.masked_select(frames, mask=emits, dims=[turns_dim], out_dim=hyps_dim)
    hyps.mark_as_output("hyps", shape=[batch_dim, hyps_dim])
    at.mark_as_output("at", shape=[batch_dim, hyps_dim])
    last.score.mark_as_output("score", shape=[batch_dim])


def train_step(*, model: Model, extern_data: TensorDict):
    """Expected alignments (soft): the probability that each label is emitted at each frame, as Raffel et al. 2017 have it."""
    data, targets = extern_data["data"], extern_data["targets"]
    time_dim, out_dim = data.get_time_dim_tag(), targets.get_time_dim_tag()
    enc = model.enc(data)

    def _label(x: Tensor, state: rf.State):
        h = rf.expand_dim(state.s.h, time_dim)
        energy = rf.squeeze(model.select(rf.concat_features(h, enc)), axis=model.select.out_dim)
        p = rf.sigmoid(energy)

        def _frame(f, q):
            # q: not yet emitted up to the frame before
            new = f["before"] + q
            return f["p"] * new, new * (1.0 - f["p"])

        alpha, _, _ = rf.scan(
            spatial_dim=time_dim, xs={"p": p, "before": state.alpha}, initial=rf.zeros([batch_dim]), body=_frame
        )
        ctx = rf.matmul(alpha, enc, reduce=time_dim)
        ctx.feature_dim = model.enc_dim
        logits = model.out(rf.concat_features(state.s.h, ctx))
        _, s = model.s(rf.concat_features(model.embed(x), ctx), state=state.s, spatial_dim=single_step_dim)
        return (logits, alpha), rf.State(s=s, alpha=alpha)

    first = rf.cast(rf.range_over_dim(time_dim) == 0, "float32")
    (logits, alpha), _, _ = rf.scan(
        spatial_dim=out_dim,
        xs=targets,
        initial=rf.State(
            s=model.s.default_initial_state(batch_dims=[batch_dim]), alpha=rf.expand_dim(first, batch_dim)
        ),
        body=_label,
    )
    ce = rf.cross_entropy(estimated=logits, target=targets, axis=model.vocab_dim, estimated_type="logits")
    ce.mark_as_loss("ce")
    rest = 1.0 - rf.reduce_sum(alpha, axis=time_dim)
    rest.mark_as_loss("not_emitted", scale=0.1, use_normalized_loss=True)
    rf.get_run_ctx().mark_as_output(alpha, "alpha", dims=[batch_dim, out_dim, time_dim])


# ---- checks

in_dim, vocab_dim = Dim(3, name="in", kind=Dim.Types.Feature), Dim(5, name="vocab", kind=Dim.Types.Feature)


def make(*, with_targets=True):
    model = Model(in_dim, vocab_dim)
    time = Dim(Tensor("time", [batch_dim], "int32"), name="time")
    out = Dim(Tensor("out", [batch_dim], "int32"), name="out")
    entries = [Tensor("data", [batch_dim, time, in_dim], "float32", feature_dim=in_dim)]
    data = {"data": [runs.rand(1, 4, 3), runs.rand(2, 7, 3), runs.rand(4, 1, 3)]}
    if with_targets:
        entries.append(Tensor("targets", [batch_dim, out], "int32", sparse_dim=vocab_dim))
        data["targets"] = [runs.labels(1, 4, 5), runs.labels(2, 2, 5), runs.labels(3, 3, 5)]
    return model, runs.randomize(model, scale=0.8), TensorDict(entries), data


def encode(W, source):
    return runs.layer_norm(torch.tanh(runs.linear(torch.as_tensor(source), W, "enc.0")), W, "enc.2")


def test_search():
    model, W, extern_data, data = make(with_targets=False)
    lengths = set()
    for source, result in zip(data["data"], runs.alone(forward_step, model, extern_data, data)):
        enc, state, pos, here = encode(W, source), (torch.zeros(5), torch.zeros(5)), 0, 0
        hyp, at, score = [], [], 0.0
        while pos < len(enc):
            hidden = torch.cat([state[0], enc[pos]])
            if here >= 2 or runs.linear(hidden, W, "select") < 0:
                pos, here = pos + 1, 0
                continue
            logp = torch.log_softmax(runs.linear(hidden, W, "out"), -1)
            hyp.append(int(logp.argmax()))
            at.append(pos)
            score += logp.max().item()
            _, state = runs.lstm([torch.cat([W["embed.weight"][hyp[-1]], enc[pos]])], W, "s", state)
            here += 1
        lengths.add(len(hyp))
        assert result["hyps"].tolist() == hyp
        assert result["at"].tolist() == at
        np.testing.assert_allclose(result["score"], score, atol=1e-4)
    assert len(lengths) > 1


def test_training():
    model, W, extern_data, data = make()
    run = runs.train(train_step, model, extern_data, data)
    ce, rest, count = torch.tensor(0.0), torch.tensor(0.0), 0
    alphas = []
    for source, target in zip(*data.values()):
        enc, state = encode(W, source), (torch.zeros(5), torch.zeros(5))
        alpha = torch.eye(len(enc))[0]
        rows = []
        for word in target:
            p = torch.sigmoid(runs.linear(torch.cat([state[0].expand(len(enc), 5), enc], -1), W, "select"))[:, 0]
            q, new = torch.tensor(0.0), []
            for j in range(len(enc)):
                q = alpha[j] + q
                new.append(p[j] * q)
                q = q * (1 - p[j])
            alpha = torch.stack(new)
            rows.append(alpha)
            ctx = alpha @ enc
            ce = ce - torch.log_softmax(runs.linear(torch.cat([state[0], ctx]), W, "out"), -1)[int(word)]
            rest, count = rest + 1 - alpha.sum(), count + 1
            _, state = runs.lstm([torch.cat([W["embed.weight"][int(word)], ctx])], W, "s", state)
        alphas.append(torch.stack(rows).detach().numpy())
    runs.same_gradients(run.total_loss().raw_tensor, ce + 0.1 * rest / count, W, atol=1e-4)
    for alpha, result in zip(alphas, runs.alone(train_step, model, extern_data, data)):
        np.testing.assert_allclose(result["alpha"], alpha, atol=1e-5)
