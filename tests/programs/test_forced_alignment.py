"""Forced alignment of a hybrid HMM: state sequences with repeats and optional silence, Viterbi and Baum-Welch by rf.scan."""

import numpy as np
import program_runs as runs
import torch

import rfnb as rf
from rfnb.tensor import Dim, Tensor, TensorDict, batch_dim

silence_idx = 0
tdp_loop, tdp_forward, tdp_skip = -0.3, -1.2, -2.0


class Model(rf.Module):
    def __init__(self, in_dim: Dim, state_dim: Dim):
        super().__init__()
        self.state_dim = state_dim
        hidden = Dim(5, name="hidden")
        self.net = rf.Sequential(
            {"ff1": rf.Linear(in_dim, hidden), "act": rf.Functional(rf.silu), "ff2": rf.Linear(hidden, state_dim)}
        )
        self.log_prior = rf.Parameter([state_dim], auxiliary=True)
        self.log_prior.initial = -float(np.log(state_dim.dimension))

    def scores(self, data: Tensor) -> Tensor:
        return rf.log_softmax(self.net(data), axis=self.state_dim) - 0.3 * self.log_prior


def hmm_states(targets: Tensor, *, targets_dim: Dim, state_dim: Dim):
    """Silence before, after and between: [B, 2N+1]."""
    two = Dim(2, name="label-and-silence")
    silence = rf.full(dims=targets.dims, fill_value=silence_idx, dtype=targets.dtype, sparse_dim=state_dim)
    pairs, _ = rf.stack([silence, rf.set_sparse_dim(targets, state_dim)], out_dim=two)
    flat, flat_dim = rf.merge_dims(pairs, dims=[targets_dim, two])
    states, (hmm_dim,) = rf.pad(flat, axes=[flat_dim], padding=[(0, 1)], value=silence_idx)
    return states, hmm_dim


def shifted(x: Tensor, *, axis: Dim, by: int) -> Tensor:
    return rf.shift_right(x, axis=axis, pad_value=-1e30, amount=by)


def arcs(x: Tensor, *, hmm_dim: Dim, may_skip: Tensor):
    skip = rf.where(may_skip, shifted(x, axis=hmm_dim, by=2) + tdp_skip, -1e30)
    return [x + tdp_loop, shifted(x, axis=hmm_dim, by=1) + tdp_forward, skip]


def lattice(model: Model, extern_data: TensorDict):
    data, targets = extern_data["data"], extern_data["targets"]
    states, hmm_dim = hmm_states(targets, targets_dim=targets.get_time_dim_tag(), state_dim=model.state_dim)
    emission = rf.gather(model.scores(data), indices=states, axis=model.state_dim)
    pos = rf.range_over_dim(hmm_dim)
    start = rf.where(pos < 2, 0.0, -1e30)
    start = rf.expand_dim(start, batch_dim)
    last = rf.last_frame_position_of_dim(hmm_dim)
    final = rf.where(rf.logical_or(pos == last, pos == last - 1), 0.0, -1e30)
    may_skip = rf.mod(pos, 2) == 1  # silence is optional
    return emission, states, hmm_dim, start, final, may_skip


def train_step(*, model: Model, extern_data: TensorDict):
    time_dim = extern_data["data"].get_time_dim_tag()
    emission, _, hmm_dim, start, final, may_skip = lattice(model, extern_data)

    def _body(x: Tensor, state: rf.State):
        stay, fwd, skip = arcs(state.alpha, hmm_dim=hmm_dim, may_skip=may_skip)
        merged = rf.log_add_exp(rf.log_add_exp(stay, fwd), skip)
        alpha = x + rf.where(state.first, start, merged)
        return None, rf.State(alpha=alpha, first=rf.zeros_like(state.first))

    _, last, _ = rf.scan(
        spatial_dim=time_dim,
        xs=emission,
        initial=rf.State(alpha=start, first=rf.ones([batch_dim], dtype="bool")),
        body=_body,
    )
    loss = -rf.reduce_logsumexp(last.alpha + final, axis=hmm_dim)
    loss.mark_as_loss("fw", use_normalized_loss=True, custom_inv_norm_factor=time_dim.get_size_tensor())


def forward_step(*, model: Model, extern_data: TensorDict):
    time_dim = extern_data["data"].get_time_dim_tag()
    emission, states, hmm_dim, start, final, may_skip = lattice(model, extern_data)
    arc_dim = Dim(3, name="arcs")

    def _viterbi(x: Tensor, state: rf.State):
        stacked, _ = rf.stack(arcs(state.score, hmm_dim=hmm_dim, may_skip=may_skip), out_dim=arc_dim)
        best = rf.reduce_argmax(stacked, axis=arc_dim)
        score = x + rf.where(state.t == 0, start, rf.reduce_max(stacked, axis=arc_dim))
        return best, rf.State(score=score, t=state.t + 1)

    back, last, _ = rf.scan(
        spatial_dim=time_dim,
        xs=emission,
        initial=rf.State(score=start, t=rf.zeros([batch_dim], dtype="int32")),
        body=_viterbi,
    )
    end = last.score + final
    score, end_pos = rf.reduce_max(end, axis=hmm_dim), rf.reduce_argmax(end, axis=hmm_dim)

    def _backtrack(arc: Tensor, pos: Tensor):
        step = rf.gather(arc, indices=pos, axis=hmm_dim)
        return pos, rf.set_sparse_dim(pos - step, hmm_dim)

    rev, _, _ = rf.scan(
        spatial_dim=time_dim,
        xs=rf.reverse_sequence(back, axis=time_dim),
        initial=rf.set_sparse_dim(end_pos, hmm_dim),
        body=_backtrack,
    )
    positions = rf.reverse_sequence(rev, axis=time_dim)
    alignment = rf.gather(states, indices=positions, axis=hmm_dim)
    durations = rf.scatter(
        rf.ones([batch_dim, time_dim], dtype="int32"), indices=positions, indices_dim=time_dim, out_dim=hmm_dim
    )
    mean = rf.scatter_mean(extern_data["data"], indices=positions, indices_dim=time_dim, out_dim=hmm_dim)
    used, used_dim = rf.masked_select(durations, mask=durations > 0, dims=[hmm_dim])
    used_states, _ = rf.masked_select(states, mask=durations > 0, dims=[hmm_dim], out_dim=used_dim)
    again, again_dim = rf.repeat(used_states, in_spatial_dim=used_dim, repeats=used)
    run_ctx = rf.get_run_ctx()
    run_ctx.mark_as_output(score, "score", dims=[batch_dim])
    run_ctx.mark_as_output(alignment, "alignment", dims=[batch_dim, time_dim])
    run_ctx.mark_as_output(again, "again", dims=[batch_dim, again_dim])
    run_ctx.mark_as_output(durations, "durations", dims=[batch_dim, hmm_dim])
    run_ctx.mark_as_output(mean, "mean", dims=[batch_dim, hmm_dim, extern_data["data"].feature_dim])


# ---- checks

in_dim, state_dim = Dim(3, name="in", kind=Dim.Types.Feature), Dim(5, name="states", kind=Dim.Types.Feature)


def make():
    model = Model(in_dim, state_dim)
    time = Dim(Tensor("time", [batch_dim], "int32"), name="time")
    out = Dim(Tensor("out", [batch_dim], "int32"), name="out")
    extern_data = TensorDict(
        [
            Tensor("data", [batch_dim, time, in_dim], "float32", feature_dim=in_dim),
            Tensor("targets", [batch_dim, out], "int32", sparse_dim=state_dim),
        ]
    )
    data = {
        "data": [2 * runs.rand(1, 9, 3), 2 * runs.rand(2, 5, 3), 2 * runs.rand(3, 6, 3)],
        "targets": [np.array([1, 1, 4], "int32"), np.array([2, 3, 1, 2], "int32"), np.array([3], "int32")],
    }
    return model, runs.randomize(model, scale=1.0), extern_data, data


def paths(frames, positions):
    """All monotonic paths, by brute force."""
    todo = [[0], [1]]
    for _ in range(frames - 1):
        todo = [
            path + [path[-1] + step]
            for path in todo
            for step in (0, 1, 2)
            if path[-1] + step < positions and not (step == 2 and path[-1] % 2 == 0)
        ]
    return [path for path in todo if path[-1] >= positions - 2]


def score_all(W, source, target):
    states = [0]
    for word in target:
        states += [int(word), 0]
    x = torch.nn.functional.silu(runs.linear(torch.as_tensor(source), W, "net.ff1"))
    scores = torch.log_softmax(runs.linear(x, W, "net.ff2"), -1) - 0.3 * W["log_prior"]
    tdp = [tdp_loop, tdp_forward, tdp_skip]
    every = paths(len(source), len(states))
    totals = [
        sum(scores[t, states[p]] for t, p in enumerate(path)) + sum(tdp[b - a] for a, b in zip(path, path[1:]))
        for path in every
    ]
    return states, every, torch.stack(totals)


def test_training():
    model, W, extern_data, data = make()
    run = runs.train(train_step, model, extern_data, data)
    total = -sum(torch.logsumexp(score_all(W, *pair)[2], 0) for pair in zip(*data.values()))
    runs.same_gradients(run.total_loss().raw_tensor, total / 20, W, atol=1e-4)


def test_viterbi():
    model, W, extern_data, data = make()
    for (source, target), ours in zip(zip(*data.values()), runs.alone(forward_step, model, extern_data, data)):
        states, every, totals = score_all(W, source, target)
        path = np.array(every[int(totals.argmax())])
        np.testing.assert_allclose(ours["score"], float(totals.max().detach()), rtol=1e-4)
        assert ours["alignment"].tolist() == [states[p] for p in path]
        assert ours["again"].tolist() == [states[p] for p in path]
        assert ours["durations"].tolist() == [int((path == p).sum()) for p in range(len(states))]
        for p in range(len(states)):
            expected = source[path == p].mean(0) if (path == p).any() else np.zeros(3)
            np.testing.assert_allclose(ours["mean"][p], expected, atol=1e-5)


def test_marks():
    model, _, extern_data, data = make()
    run = runs.forward(forward_step, model, extern_data, data)
    assert run.outputs["alignment"].sparse_dim == state_dim
    assert run.outputs["again"].sparse_dim == state_dim
    assert run.outputs["durations"].dtype == "int32"
