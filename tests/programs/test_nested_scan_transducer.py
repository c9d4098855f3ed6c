"""Transducer: prediction network, joint network, full-sum loss over the lattice by two nested scans, greedy search."""

import program_runs as runs
import torch

import rfnb as rf
from rfnb.tensor import Dim, Tensor, TensorDict, batch_dim, single_step_dim


class Predictor(rf.Module):
    def __init__(self, vocab_dim: Dim, out_dim: Dim):
        super().__init__()
        self.embed = rf.Embedding(vocab_dim, Dim(4, name="pred-embed"))
        self.lstm = rf.LSTM(self.embed.out_dim, out_dim)
        self.norm = rf.LayerNorm(out_dim)

    def default_initial_state(self, *, batch_dims):
        return rf.State(lstm=self.lstm.default_initial_state(batch_dims=batch_dims))

    def __call__(self, labels: Tensor, *, state: rf.State, spatial_dim: Dim):
        out, lstm_state = self.lstm(self.embed(labels), state=state.lstm, spatial_dim=spatial_dim)
        return self.norm(out), rf.State(lstm=lstm_state)


class Model(rf.Module):
    def __init__(self, in_dim: Dim, target_dim: Dim):
        super().__init__()
        self.in_dim, self.target_dim = in_dim, target_dim
        self.wb_target_dim = target_dim + 1
        self.blank_idx = target_dim.dimension
        enc_dim, pred_dim, joint_dim = Dim(6, name="enc"), Dim(5, name="pred"), Dim(7, name="joint")
        self.conv = rf.Conv1d(in_dim, enc_dim, 3, padding="same", strides=2)
        self.predictor = Predictor(self.wb_target_dim, pred_dim)
        self.enc_proj = rf.Linear(enc_dim, joint_dim)
        self.pred_proj = rf.Linear(pred_dim, joint_dim, with_bias=False)
        self.out = rf.Linear(joint_dim, self.wb_target_dim)

    def encode(self, source: Tensor, *, in_spatial_dim: Dim):
        enc, enc_spatial_dim = self.conv(source, in_spatial_dim=in_spatial_dim)
        return self.enc_proj(rf.relu(enc)), enc_spatial_dim

    def joint(self, enc: Tensor, pred: Tensor) -> Tensor:
        hidden = rf.tanh(rf.combine_bc(enc, "+", self.pred_proj(pred)))
        return rf.log_softmax(self.out(hidden), axis=self.wb_target_dim)


def full_sum_loss(*, blank: Tensor, emit: Tensor, time_dim: Dim, labels_dim: Dim, labels_ext_dim: Dim) -> Tensor:
    """
    :param blank: [B, T, U+1] log prob of blank
    :param emit: [B, T, U] log prob of the next label
    :return: [B] negative log likelihood
    """
    ninf = -1e30
    batch_dims = blank.remaining_dims([time_dim, labels_ext_dim])

    def _row(x, prev):  # along the labels, within one frame
        alpha = rf.log_add_exp(x["stay"], prev.alpha + x["emit"])
        return alpha, rf.State(alpha=alpha)

    def _frame(x, state):
        # what comes from the frame before, by blank
        stay = state.alpha + state.blank
        first = rf.gather(stay, indices=0, axis=labels_ext_dim)
        rest, _ = rf.slice(stay, axis=labels_ext_dim, start=1, size=labels_dim)
        alphas, _, _ = rf.scan(
            spatial_dim=labels_dim, xs={"stay": rest, "emit": x["emit"]}, initial=rf.State(alpha=first), body=_row
        )
        one = Dim(1, name="first")
        alpha, _ = rf.concat((rf.expand_dim(first, one), one), (alphas, labels_dim), out_dim=labels_ext_dim)
        return alpha, rf.State(alpha=alpha, blank=x["blank"])

    start = rf.where(rf.range_over_dim(labels_ext_dim) == 0, 0.0, ninf)
    start = rf.expand_dims(start, [d for d in batch_dims if d not in start.dims])
    _, last, _ = rf.scan(
        spatial_dim=time_dim,
        xs={"blank": blank, "emit": emit},
        initial=rf.State(alpha=start, blank=rf.zeros_like(start)),
        body=_frame,
    )
    end = last.alpha + last.blank
    return -rf.gather(end, indices=rf.last_frame_position_of_dim(labels_ext_dim), axis=labels_ext_dim)


def train_step(*, model: Model, extern_data: TensorDict):
    data, targets = extern_data["data"], extern_data["targets"]
    targets_dim = targets.get_time_dim_tag()
    enc, enc_dim = model.encode(data, in_spatial_dim=data.get_time_dim_tag())
    wb_targets = rf.set_sparse_dim(targets, model.wb_target_dim)
    inputs, (ext_dim,) = rf.pad(wb_targets, axes=[targets_dim], padding=[(1, 0)], value=model.blank_idx)
    pred, _ = model.predictor(
        inputs, state=model.predictor.default_initial_state(batch_dims=[batch_dim]), spatial_dim=ext_dim
    )
    log_probs = model.joint(enc, pred)
    blank = rf.gather(log_probs, indices=model.blank_idx, axis=model.wb_target_dim)
    emit_all, _ = rf.slice(log_probs, axis=ext_dim, size=targets_dim)
    emit = rf.gather(emit_all, indices=wb_targets)
    loss = full_sum_loss(blank=blank, emit=emit, time_dim=enc_dim, labels_dim=targets_dim, labels_ext_dim=ext_dim)
    loss.mark_as_loss("full_sum", use_normalized_loss=True, custom_inv_norm_factor=targets_dim.get_size_tensor())
    rf.get_run_ctx().mark_as_output(loss, "loss", dims=[batch_dim])


def forward_step(*, model: Model, extern_data: TensorDict, max_symbols_per_frame: int = 2):
    data = extern_data["data"]
    enc, enc_dim = model.encode(data, in_spatial_dim=data.get_time_dim_tag())
    state = model.predictor.default_initial_state(batch_dims=[batch_dim])
    label = rf.constant(model.blank_idx, dims=[batch_dim], dtype="int64", sparse_dim=model.wb_target_dim)
    pred, state = model.predictor(label, state=state, spatial_dim=single_step_dim)
    symbols_dim = Dim(max_symbols_per_frame, name="symbols")

    def _body(frame: Tensor, loop: rf.State):
        out, state, pred = [], loop.state, loop.pred
        active = rf.ones([batch_dim], dtype="bool")
        for _ in range(max_symbols_per_frame):
            label = rf.reduce_argmax(model.joint(frame, pred), axis=model.wb_target_dim)
            active = rf.logical_and(active, label != model.blank_idx)
            new_pred, new_state = model.predictor(label, state=state, spatial_dim=single_step_dim)
            pred = rf.where(active, new_pred, pred)
            state = rf.nested.where_nested(new_state, state, condition=active)
            out.append(rf.where(active, label, model.blank_idx))
        symbols, _ = rf.stack(out, out_dim=symbols_dim)
        return symbols, rf.State(state=state, pred=pred)

    symbols, _, _ = rf.scan(spatial_dim=enc_dim, xs=enc, initial=rf.State(state=state, pred=pred), body=_body)
    flat, flat_dim = rf.merge_dims(symbols, dims=[enc_dim, symbols_dim])
    hyps, hyps_dim = rf.masked_select(flat, mask=flat != model.blank_idx, dims=[flat_dim])
    hyps.sparse_dim = model.target_dim
    hyps.mark_as_default_output(shape=[batch_dim, hyps_dim])


# ---- checks

in_dim, target_dim = Dim(4, name="in", kind=Dim.Types.Feature), Dim(5, name="labels", kind=Dim.Types.Feature)


def make():
    model = Model(in_dim, target_dim)
    time = Dim(Tensor("time", [batch_dim], "int32"), name="time")
    out = Dim(Tensor("out", [batch_dim], "int32"), name="out")
    extern_data = TensorDict(
        [
            Tensor("data", [batch_dim, time, in_dim], "float32", feature_dim=in_dim),
            Tensor("targets", [batch_dim, out], "int32", sparse_dim=target_dim),
        ]
    )
    data = {
        "data": [runs.rand(1, 5, 4), runs.rand(2, 8, 4), runs.rand(3, 6, 4)],
        "targets": [runs.labels(1, 3, 5), runs.labels(2, 2, 5), runs.labels(3, 1, 5)],
    }
    return model, runs.randomize(model, scale=0.8), extern_data, data


def encode(W, source):
    x = torch.nn.functional.pad(torch.as_tensor(source).T[None], (1, 1))
    y = torch.nn.functional.conv1d(x, W["conv.filter"], W["conv.bias"], stride=2)[0].T
    return runs.linear(torch.relu(y), W, "enc_proj")


def predict(W, labels):
    out, _ = runs.lstm([W["predictor.embed.weight"][int(label)] for label in labels], W, "predictor.lstm")
    return runs.layer_norm(out, W, "predictor.norm")


def nll(W, source, target):
    enc, pred = encode(W, source), runs.linear(predict(W, [5, *target]), W, "pred_proj")
    logp = torch.log_softmax(runs.linear(torch.tanh(enc[:, None] + pred[None]), W, "out"), -1)
    alpha = {(0, 0): torch.tensor(0.0)}
    for t in range(len(enc)):
        for u in range(len(target) + 1):
            ways = []
            if t:
                ways.append(alpha[t - 1, u] + logp[t - 1, u, 5])
            if u:
                ways.append(alpha[t, u - 1] + logp[t, u - 1, int(target[u - 1])])
            if ways:
                alpha[t, u] = torch.logsumexp(torch.stack(ways), 0)
    return -(alpha[len(enc) - 1, len(target)] + logp[-1, -1, 5])


def test_training():
    model, W, extern_data, data = make()
    run = runs.train(train_step, model, extern_data, data)
    nlls = [nll(W, *pair) for pair in zip(data["data"], data["targets"])]
    runs.same_gradients(run.total_loss().raw_tensor, sum(nlls) / 6, W, atol=1e-4)
    runs.alone(train_step, model, extern_data, data)


def test_greedy():
    model, W, extern_data, data = make()
    del data["targets"]
    extern_data.data.pop("targets")
    results = runs.alone(forward_step, model, extern_data, data)
    for source, result in zip(data["data"], results):
        hyp = []
        for frame in encode(W, source):
            for _ in range(2):
                pred = runs.linear(predict(W, [5, *hyp])[-1], W, "pred_proj")
                label = int(runs.linear(torch.tanh(frame + pred), W, "out").argmax())
                if label == 5:
                    break
                hyp.append(label)
        assert result["output"].tolist() == hyp
