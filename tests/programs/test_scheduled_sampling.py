"""Attention encoder-decoder with scheduled sampling: BLSTM, MLP attention, the decoder as a scan."""

import numpy as np
import program_runs as runs
import torch

import rfnb as rf
from rfnb.tensor import Dim, Tensor, TensorDict, batch_dim, single_step_dim


class BlstmLayer(rf.Module):
    def __init__(self, in_dim: Dim, out_dim: Dim):
        super().__init__()
        self.fwd = rf.LSTM(in_dim, out_dim)
        self.bwd = rf.LSTM(in_dim, out_dim)
        self.out_dim = out_dim + out_dim

    def __call__(self, source: Tensor, *, spatial_dim: Dim) -> Tensor:
        batch_dims = source.remaining_dims((spatial_dim, source.feature_dim))
        fwd, _ = self.fwd(source, state=self.fwd.default_initial_state(batch_dims=batch_dims), spatial_dim=spatial_dim)
        rev = rf.reverse_sequence(source, axis=spatial_dim)
        bwd, _ = self.bwd(rev, state=self.bwd.default_initial_state(batch_dims=batch_dims), spatial_dim=spatial_dim)
        bwd = rf.reverse_sequence(bwd, axis=spatial_dim)
        out, _ = rf.concat((fwd, fwd.feature_dim), (bwd, bwd.feature_dim), out_dim=self.out_dim)
        out.feature_dim = self.out_dim
        return out


class Model(rf.Module):
    def __init__(self, in_dim: Dim, target_dim: Dim, *, lstm_dim: Dim, att_dim: Dim):
        super().__init__()
        self.in_dim, self.target_dim, self.bos_idx = in_dim, target_dim, 0
        self.encoder = BlstmLayer(in_dim, lstm_dim)
        self.embed = rf.Embedding(target_dim, Dim(4, name="embed"))
        self.enc_ctx = rf.Linear(self.encoder.out_dim, att_dim)
        self.s_transform = rf.Linear(lstm_dim, att_dim, with_bias=False)
        self.energy = rf.Linear(att_dim, Dim(1, name="att-head"), with_bias=False)
        self.s = rf.LSTM(self.embed.out_dim + self.encoder.out_dim, lstm_dim)
        self.readout = rf.Linear(lstm_dim + self.encoder.out_dim, Dim(8, name="readout"))
        self.logits = rf.Linear(Dim(4, name="maxout"), target_dim)

    def encode(self, source: Tensor, *, in_spatial_dim: Dim) -> rf.State:
        enc = self.encoder(source, spatial_dim=in_spatial_dim)
        return rf.State(enc=enc, enc_ctx=self.enc_ctx(enc), enc_spatial_dim=in_spatial_dim)

    def decoder_default_initial_state(self, *, batch_dims) -> rf.State:
        state = rf.State(s=self.s.default_initial_state(batch_dims=batch_dims))
        state.att = rf.zeros(list(batch_dims) + [self.encoder.out_dim], feature_dim=self.encoder.out_dim)
        return state

    def step(self, prev_label: Tensor, state: rf.State, *, encoder: rf.State):
        embed = self.embed(prev_label)
        s, s_state = self.s(rf.concat_features(embed, state.att), state=state.s, spatial_dim=single_step_dim)
        energy_in = rf.tanh(encoder.enc_ctx + self.s_transform(s))
        energy = rf.squeeze(self.energy(energy_in), axis=self.energy.out_dim)
        weights = rf.softmax(energy, axis=encoder.enc_spatial_dim)
        att = rf.dot(weights, encoder.enc, reduce=encoder.enc_spatial_dim, use_mask=False)
        att.feature_dim = self.encoder.out_dim
        readout = rf.reduce_out(
            self.readout(rf.concat_features(s, att)), mode="max", num_pieces=2, out_dim=self.logits.in_dim
        )
        return self.logits(readout), rf.State(s=s_state, att=att)


sampling_prob = rf.PiecewiseLinearStepwiseScheduler({0: 0.0, 100: 0.5})


def train_step(*, model: Model, extern_data: TensorDict):
    data, targets = extern_data["data"], extern_data["targets"]
    targets_spatial_dim = targets.get_time_dim_tag()
    encoder = model.encode(data, in_spatial_dim=data.get_time_dim_tag())
    batch_dims = data.remaining_dims([data.get_time_dim_tag(), data.feature_dim])
    input_labels = rf.shift_right(targets, axis=targets_spatial_dim, pad_value=model.bos_idx)
    use_sampled = rf.random_uniform(batch_dims + [targets_spatial_dim]) < sampling_prob()
    use_sampled = rf.logical_and(use_sampled, rf.range_over_dim(targets_spatial_dim) > 0)

    def _body(xs, state: rf.State):
        label = rf.where(xs["use_sampled"], state.label, xs["label"])
        logits, dec_state = model.step(label, state.dec, encoder=encoder)
        sampled = rf.reduce_argmax(logits, axis=model.target_dim)
        sampled = rf.cast(sampled, targets.dtype)
        return {"logits": logits, "used": label}, rf.State(dec=dec_state, label=sampled)

    ys, last, _ = rf.scan(
        spatial_dim=targets_spatial_dim,
        xs={"use_sampled": use_sampled, "label": input_labels},
        initial=rf.State(
            dec=model.decoder_default_initial_state(batch_dims=batch_dims),
            label=rf.full(dims=batch_dims, fill_value=model.bos_idx, dtype=targets.dtype, sparse_dim=model.target_dim),
        ),
        body=_body,
    )
    logits = ys["logits"]
    log_prob = rf.log_softmax(logits, axis=model.target_dim)
    loss = rf.cross_entropy(
        estimated=log_prob,
        estimated_type="log-probs",
        axis=model.target_dim,
        target=rf.label_smoothing(targets, 0.1, axis=model.target_dim),
    )
    loss.mark_as_loss("ce", use_normalized_loss=True)
    frame_error = rf.reduce_argmax(logits, axis=model.target_dim) != targets
    frame_error.mark_as_loss("fer", as_error=True)
    run_ctx = rf.get_run_ctx()
    run_ctx.mark_as_output(use_sampled, "use_sampled", dims=batch_dims + [targets_spatial_dim])
    run_ctx.mark_as_output(ys["used"], "used", dims=batch_dims + [targets_spatial_dim])
    run_ctx.mark_as_output(last.dec.s.h, "last_h", dims=batch_dims + [model.s.out_dim])


def forward_step(*, model: Model, extern_data: TensorDict):
    """Greedy, at most as many labels as frames; label 0 ends."""
    data = extern_data["data"]
    time_dim = data.get_time_dim_tag()
    encoder = model.encode(data, in_spatial_dim=time_dim)
    batch_dims = data.remaining_dims([time_dim, data.feature_dim])
    max_len = time_dim.get_size_tensor()

    def _cond(_, state):
        return rf.logical_and(rf.logical_not(state.ended), state.i < rf.copy_to_device(max_len, data.device))

    def _body(_, state):
        logits, dec = model.step(state.label, state.dec, encoder=encoder)
        label = rf.reduce_argmax(logits, axis=model.target_dim)
        return (label, logits), rf.State(dec=dec, label=label, ended=label == 0, i=state.i + 1)

    (hyps, logits), _, hyps_dim = rf.scan(
        cond=_cond,
        cond_dims=batch_dims,
        body=_body,
        initial=rf.State(
            dec=model.decoder_default_initial_state(batch_dims=batch_dims),
            label=rf.zeros(batch_dims, dtype="int64", sparse_dim=model.target_dim),
            ended=rf.zeros(batch_dims, dtype="bool"),
            i=rf.zeros(batch_dims, dtype="int32"),
        ),
        ys=(
            Tensor("hyps", batch_dims, "int64", sparse_dim=model.target_dim),
            Tensor("logits", batch_dims + [model.target_dim], "float32", feature_dim=model.target_dim),
        ),
        max_seq_len=time_dim.get_dim_value_tensor(),
    )
    hyps.mark_as_output("hyps", shape=[batch_dim, hyps_dim])
    logits.mark_as_output("logits", shape=[batch_dim, hyps_dim, model.target_dim])


# ---- checks

in_dim, target_dim = Dim(5, name="in", kind=Dim.Types.Feature), Dim(6, name="vocab", kind=Dim.Types.Feature)


def make():
    rf.set_random_seed(5)
    model = Model(in_dim, target_dim, lstm_dim=Dim(4, name="lstm"), att_dim=Dim(3, name="att"))
    time = Dim(Tensor("time", [batch_dim], "int32"), name="time")
    out = Dim(Tensor("out", [batch_dim], "int32"), name="out")
    extern_data = TensorDict(
        [
            Tensor("data", [batch_dim, time, in_dim], "float32", feature_dim=in_dim),
            Tensor("targets", [batch_dim, out], "int32", sparse_dim=target_dim),
        ]
    )
    data = {
        "data": [runs.rand(1, 4, 5), runs.rand(2, 7, 5), runs.rand(3, 5, 5)],
        "targets": [runs.labels(1, 6, 6), runs.labels(2, 3, 6), runs.labels(3, 4, 6)],
    }
    return model, runs.randomize(model, scale=0.7), extern_data, data


def encode(W, x):
    x = torch.as_tensor(x)
    fwd, _ = runs.lstm(x, W, "encoder.fwd")
    bwd, _ = runs.lstm(x.flip(0), W, "encoder.bwd")
    return torch.cat([fwd, bwd.flip(0)], -1)


def step(W, enc, label, state):
    (h, c), att = state
    x = torch.cat([W["embed.weight"][label], att])
    _, (h, c) = runs.lstm([x], W, "s", (h, c))
    energy = torch.tanh(runs.linear(enc, W, "enc_ctx") + runs.linear(h, W, "s_transform")) @ W["energy.weight"][:, 0]
    att = torch.softmax(energy, 0) @ enc
    readout = runs.linear(torch.cat([h, att]), W, "readout").reshape(4, 2).amax(-1)
    return runs.linear(readout, W, "logits"), ((h, c), att)


def start():
    return (torch.zeros(4), torch.zeros(4)), torch.zeros(8)


def check_training(step_no):
    model, W, extern_data, data = make()
    run = runs.train(train_step, model, extern_data, data, step=step_no)
    total, frames, sampled, wrong = torch.tensor(0.0), 0, 0, 0
    for index, (source, target) in enumerate(zip(data["data"], data["targets"])):
        outputs = run.outputs.sequence(index)
        choice, used = outputs["use_sampled"].raw_tensor, outputs["used"].raw_tensor
        enc, state, last = encode(W, source), start(), 0
        assert len(choice) == len(target)
        for t, label in enumerate(target):
            prev = last if choice[t] else (target[t - 1] if t else 0)
            assert int(used[t]) == int(prev)
            sampled += bool(choice[t])
            logits, state = step(W, enc, int(prev), state)
            last = int(logits.argmax())
            wrong += last != int(label)
            soft = torch.full((6,), 0.1 / 5)
            soft[int(label)] = 0.9
            total = total - (soft * torch.log_softmax(logits, -1)).sum()
        frames += len(target)
        np.testing.assert_allclose(np.asarray(outputs["last_h"].raw_tensor), state[0][0].detach().numpy(), atol=1e-5)
    runs.same_gradients(run.total_loss().raw_tensor, total / frames, W)
    assert int(run.losses["fer"].get_summed_loss().raw_tensor) == wrong
    return sampled, frames


def test_teacher_forcing():
    assert check_training(0)[0] == 0


def test_half_sampled():
    sampled, frames = check_training(1000)
    assert 0 < sampled < frames


def test_greedy():
    model, W, extern_data, data = make()
    del data["targets"]
    extern_data.data.pop("targets")
    results = runs.alone(forward_step, model, extern_data, data)
    for source, result in zip(data["data"], results):
        enc, state, label, hyp, rows = encode(W, source), start(), 0, [], []
        while len(hyp) < len(source):
            logits, state = step(W, enc, label, state)
            label = int(logits.argmax())
            rows.append(logits.detach().numpy())
            hyp.append(label)
            if label == 0:
                break
        assert result["hyps"].tolist() == hyp
        np.testing.assert_allclose(result["logits"], np.stack(rows), atol=1e-4)
