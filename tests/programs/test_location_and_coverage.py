"""Zoneout-LSTM decoder with location-aware attention, coverage, and a loss on the coverage."""

import numpy as np
import program_runs as runs
import torch

import rfnb as rf
from rfnb.tensor import Dim, Tensor, TensorDict, batch_dim, single_step_dim


class LocationAwareAttention(rf.Module):
    def __init__(self, enc_dim: Dim, query_dim: Dim):
        super().__init__()
        self.att_dim = Dim(5, name="att")
        self.num_heads = Dim(2, name="att-heads")
        self.enc_dim = enc_dim
        self.key = rf.Linear(enc_dim, self.att_dim)
        self.query = rf.Linear(query_dim, self.att_dim, with_bias=False)
        self.loc_conv = rf.Conv1d(self.num_heads, Dim(3, name="loc"), 5, padding="same", with_bias=False)
        self.loc_proj = rf.Linear(self.loc_conv.out_dim, self.att_dim, with_bias=False)
        self.coverage_weight = rf.Linear(self.num_heads, self.att_dim, with_bias=False)
        self.inv_fertility = rf.Linear(enc_dim, self.num_heads, with_bias=False)
        self.energy = rf.Linear(self.att_dim, self.num_heads, with_bias=False)

    def default_initial_state(self, *, batch_dims, enc_spatial_dim: Dim) -> rf.State:
        dims = list(batch_dims) + [enc_spatial_dim, self.num_heads]
        return rf.State(
            weights=rf.zeros(dims, feature_dim=self.num_heads), accum=rf.zeros(dims, feature_dim=self.num_heads)
        )

    def __call__(self, query: Tensor, *, enc: Tensor, keys: Tensor, enc_spatial_dim: Dim, state: rf.State):
        loc, _ = self.loc_conv(state.weights, in_spatial_dim=enc_spatial_dim)
        hidden = keys + self.query(query) + self.loc_proj(loc) + self.coverage_weight(state.accum)
        energy = self.energy(rf.tanh(hidden))
        weights = rf.softmax(energy, axis=enc_spatial_dim)
        accum = state.accum + weights * rf.sigmoid(self.inv_fertility(enc)) * 0.5
        ctx = rf.matmul(weights, enc, reduce=enc_spatial_dim, use_mask=False)
        ctx, _ = rf.merge_dims(ctx, dims=(self.num_heads, self.enc_dim))
        return ctx, rf.State(weights=weights, accum=accum)


class Model(rf.Module):
    def __init__(self, in_dim: Dim, vocab_dim: Dim):
        super().__init__()
        self.vocab_dim = vocab_dim
        self.enc_dim = Dim(4, name="enc")
        self.enc = rf.Linear(in_dim, self.enc_dim)
        self.embed = rf.Embedding(vocab_dim, Dim(3, name="embed"))
        self.s_dim = Dim(6, name="s")
        self.attention = LocationAwareAttention(self.enc_dim, self.s_dim)
        ctx_dim = self.attention.num_heads * self.enc_dim
        self.s = rf.ZoneoutLSTM(
            self.embed.out_dim + ctx_dim,
            self.s_dim,
            zoneout_factor_cell=0.15,
            zoneout_factor_output=0.05,
            use_zoneout_output=False,
            parts_order="icfo",
            forget_bias=1.0,
        )
        self.ctx_dim = ctx_dim
        self.logits = rf.Linear(self.s_dim + ctx_dim, vocab_dim)


def decode(model: Model, *, enc: Tensor, enc_spatial_dim: Dim, targets: Tensor, targets_spatial_dim: Dim):
    batch_dims = targets.remaining_dims(targets_spatial_dim)
    keys = model.attention.key(enc)
    embed = model.embed(rf.shift_right(targets, axis=targets_spatial_dim, pad_value=0))

    def _body(x: Tensor, state: rf.State):
        s, s_state = model.s(rf.concat_features(x, state.ctx), state=state.s, spatial_dim=single_step_dim)
        ctx, att = model.attention(s, enc=enc, keys=keys, enc_spatial_dim=enc_spatial_dim, state=state.att)
        ctx, _ = rf.replace_dim(ctx, in_dim=ctx.feature_dim or ctx.dims[-1], out_dim=model.ctx_dim)
        ctx.feature_dim = model.ctx_dim
        overlap = rf.reduce_sum(
            rf.minimum(att.weights, state.att.accum), axis=[enc_spatial_dim, model.attention.num_heads]
        )
        return rf.State(s=s, ctx=ctx, overlap=overlap), rf.State(s=s_state, att=att, ctx=ctx)

    ys, last, _ = rf.scan(
        spatial_dim=targets_spatial_dim,
        xs=embed,
        initial=rf.State(
            s=model.s.default_initial_state(batch_dims=batch_dims),
            att=model.attention.default_initial_state(batch_dims=batch_dims, enc_spatial_dim=enc_spatial_dim),
            ctx=rf.zeros(batch_dims + [model.ctx_dim], feature_dim=model.ctx_dim),
        ),
        body=_body,
    )
    return model.logits(rf.concat_features(ys.s, ys.ctx)), ys.overlap, last


def train_step(*, model: Model, extern_data: TensorDict):
    data, targets = extern_data["data"], extern_data["targets"]
    targets_spatial_dim = targets.get_time_dim_tag()
    enc = rf.tanh(model.enc(data))
    logits, overlap, last = decode(
        model,
        enc=enc,
        enc_spatial_dim=data.get_time_dim_tag(),
        targets=targets,
        targets_spatial_dim=targets_spatial_dim,
    )
    loss = rf.cross_entropy(estimated=logits, target=targets, axis=model.vocab_dim, estimated_type="logits")
    loss.mark_as_loss("ce", use_normalized_loss=False)
    overlap.mark_as_loss("coverage", scale=0.5)
    run_ctx = rf.get_run_ctx()
    run_ctx.mark_as_output(logits, "logits", dims=[batch_dim, targets_spatial_dim, model.vocab_dim])
    run_ctx.mark_as_output(
        last.att.accum, "accum", dims=[batch_dim, data.get_time_dim_tag(), model.attention.num_heads]
    )


# ---- checks

in_dim, vocab_dim = Dim(3, name="in", kind=Dim.Types.Feature), Dim(5, name="vocab", kind=Dim.Types.Feature)


def make():
    model = Model(in_dim, vocab_dim)
    time = Dim(Tensor("time", [batch_dim], "int32"), name="time")
    out = Dim(Tensor("out", [batch_dim], "int32"), name="out")
    extern_data = TensorDict(
        [
            Tensor("data", [batch_dim, time, in_dim], "float32", feature_dim=in_dim),
            Tensor("targets", [batch_dim, out], "int32", sparse_dim=vocab_dim),
        ]
    )
    data = {
        "data": [runs.rand(1, 3, 3), runs.rand(2, 6, 3), runs.rand(3, 4, 3)],
        "targets": [runs.labels(1, 5, 5), runs.labels(2, 2, 5), runs.labels(3, 3, 5)],
    }
    return model, runs.randomize(model, scale=0.6), extern_data, data


def reference(W, source, target):
    """Without training: zoneout mixes old and new."""
    enc = torch.tanh(runs.linear(torch.as_tensor(source), W, "enc"))
    A = {name.removeprefix("attention."): w for name, w in W.items() if name.startswith("attention.")}
    h = c = torch.zeros(6)
    ctx, weights, accum = torch.zeros(8), torch.zeros(len(enc), 2), torch.zeros(len(enc), 2)
    rows, overlaps, prev = [], [], 0
    for word in target:
        x = torch.cat([W["embed.weight"][prev], ctx])
        i, j, f, o = (W["s.ff_weight"] @ x + W["s.rec_weight"] @ h + W["s.bias"]).chunk(4)
        new_c = torch.sigmoid(f + 1.0) * c + torch.sigmoid(i) * torch.tanh(j)
        y = torch.sigmoid(o) * torch.tanh(new_c)
        c, h = 0.85 * new_c + 0.15 * c, 0.95 * y + 0.05 * h
        loc = torch.nn.functional.conv1d(weights.T[None], A["loc_conv.filter"], padding=2)[0].T
        hidden = runs.linear(enc, A, "key") + runs.linear(y, A, "query") + runs.linear(loc, A, "loc_proj")
        weights = torch.softmax(
            runs.linear(torch.tanh(hidden + runs.linear(accum, A, "coverage_weight")), A, "energy"), 0
        )
        overlaps.append(torch.minimum(weights, accum).sum())
        accum = accum + weights * torch.sigmoid(runs.linear(enc, A, "inv_fertility")) * 0.5
        ctx = (weights.T @ enc).reshape(-1)
        rows.append(runs.linear(torch.cat([y, ctx]), W, "logits"))
        prev = int(word)
    return torch.stack(rows), sum(overlaps), accum


def test_numbers():
    model, W, extern_data, data = make()
    run = runs.train(train_step, model, extern_data, data, train_flag=False)
    total = torch.tensor(0.0)
    for source, target in zip(data["data"], data["targets"]):
        logits, overlap, _ = reference(W, source, target)
        total = total + torch.nn.functional.cross_entropy(logits, torch.as_tensor(target).long(), reduction="sum")
        total = total + 0.5 * overlap
    runs.same_gradients(run.total_loss().raw_tensor, total, W, atol=1e-4)
    for (source, target), result in zip(zip(*data.values()), runs.alone(train_step, model, extern_data, data)):
        logits, _, accum = reference(W, source, target)
        np.testing.assert_allclose(result["logits"], logits.detach(), atol=1e-5)
        np.testing.assert_allclose(result["accum"], accum.detach(), atol=1e-5)


def test_training_is_noisy_in_each_step():
    model, _, extern_data, data = make()
    totals = {runs.train(train_step, model, extern_data, data).total_loss().raw_tensor.item() for _ in range(3)}
    assert len(totals) == 3
