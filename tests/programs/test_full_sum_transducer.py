"""RNN-T: the sum over all alignments by a scan over frames, its gradient against a plain lattice, and a greedy search in which the
label model advances only where a label came."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb.tensor import Dim, Tensor, TensorDict, batch_dim, single_step_dim


class Predictor(rf.Module):
    def __init__(self, target_dim: Dim, *, embed_dim: Dim, lstm_dim: Dim, num_layers: int = 2, bos_idx: int):
        super().__init__()
        self.embed = rf.Embedding(target_dim, embed_dim)
        self.layers = rf.ModuleList([rf.LSTM(embed_dim if i == 0 else lstm_dim, lstm_dim) for i in range(num_layers)])
        self.out_dim, self.bos_idx = lstm_dim, bos_idx

    def default_initial_state(self, *, batch_dims) -> rf.State:
        return rf.State(
            {name: layer.default_initial_state(batch_dims=batch_dims) for name, layer in self.layers.items()}
        )

    def __call__(self, labels: Tensor, *, spatial_dim: Dim, state: rf.State) -> tuple[Tensor, rf.State]:
        new_state, x = rf.State(), self.embed(labels)
        for name, layer in self.layers.items():
            x, new_state[name] = layer(x, state=state[name], spatial_dim=spatial_dim)
        return x, new_state


class Model(rf.Module):
    def __init__(self, in_dim: Dim, target_dim: Dim):
        super().__init__()
        self.enc_dim = Dim(6, name="enc")
        self.encoder = rf.Sequential(rf.Linear(in_dim, self.enc_dim), rf.tanh)
        self.target_dim, self.wb_target_dim, self.blank_idx = target_dim, target_dim + 1, target_dim.dimension
        self.predictor = Predictor(
            target_dim, embed_dim=Dim(4, name="embed"), lstm_dim=Dim(5, name="predictor"), bos_idx=0
        )
        joint_dim = Dim(7, name="joint")
        self.joint_enc = rf.Linear(self.enc_dim, joint_dim)
        self.joint_pred = rf.Linear(self.predictor.out_dim, joint_dim, with_bias=False)
        self.joint_out = rf.Linear(joint_dim, self.wb_target_dim)

    def joint(self, enc: Tensor, pred: Tensor) -> Tensor:
        hidden = rf.tanh(rf.combine_bc(self.joint_enc(enc), "+", self.joint_pred(pred)))
        return rf.log_softmax(self.joint_out(hidden), axis=self.wb_target_dim)


def full_sum_loss(
    *, log_probs: Tensor, targets: Tensor, enc_dim: Dim, label_dim: Dim, ext_dim: Dim, wb_dim: Dim, blank: int
) -> Tensor:
    """-log of the sum over alignments, {batch}; log_probs {batch, time, labels + 1, wb}."""
    batch_dims = targets.remaining_dims(label_dim)
    of_blank = rf.gather(log_probs, indices=blank, axis=wb_dim)
    ids, _ = rf.pad(rf.set_sparse_dim(targets, wb_dim), axes=[label_dim], padding=[(0, 1)], value=0, out_dims=[ext_dim])
    of_label = rf.gather(log_probs, indices=ids, axis=wb_dim)
    before = rf.cumsum(of_label, spatial_dim=ext_dim) - of_label  # of the labels up to here, within one frame
    position = rf.range_over_dim(ext_dim)

    def body(frame, state: rf.State):
        before_t, blank_t = frame
        entered, from_dim = rf.replace_dim(state.alpha - before_t, in_dim=ext_dim)
        allowed = rf.compare_bc(rf.range_over_dim(from_dim), "<=", position)
        entered = rf.where(allowed, entered, float("-inf"), allow_broadcast_all_sources=True)
        alpha = rf.reduce_logsumexp(entered, axis=from_dim) + before_t
        return None, rf.State(alpha=alpha + blank_t)

    start = rf.where(position == 0, 0.0, float("-inf")) + rf.zeros([*batch_dims, ext_dim])
    _, final, _ = rf.scan(spatial_dim=enc_dim, xs=(before, of_blank), ys=None, initial=rf.State(alpha=start), body=body)
    return -rf.gather(final.alpha, indices=rf.last_frame_position_of_dim(ext_dim), axis=ext_dim)


def train_step(*, model: Model, extern_data: TensorDict) -> tuple[Tensor, Dim]:
    data, targets = extern_data["data"], extern_data["classes"]
    label_dim = targets.get_time_dim_tag()
    labels, (ext_dim,) = rf.pad(targets, axes=[label_dim], padding=[(1, 0)], value=model.predictor.bos_idx)
    state = model.predictor.default_initial_state(batch_dims=[batch_dim])
    pred, _ = model.predictor(labels, spatial_dim=ext_dim, state=state)
    log_probs = model.joint(model.encoder(data), pred)
    loss = full_sum_loss(
        log_probs=log_probs, targets=targets, enc_dim=data.get_time_dim_tag(), label_dim=label_dim, ext_dim=ext_dim,
        wb_dim=model.wb_target_dim, blank=model.blank_idx,
    )  # fmt: skip
    loss.mark_as_loss("rnnt")
    return log_probs, ext_dim


def greedy(model: Model, data: Tensor, time: Dim, max_per_frame: int = 2) -> tuple[Tensor, Dim, Tensor]:
    batch_dims = data.remaining_dims((time, data.feature_dim))
    label = rf.constant(model.predictor.bos_idx, dims=batch_dims, sparse_dim=model.target_dim)
    start = model.predictor.default_initial_state(batch_dims=batch_dims)
    hidden, lstm = model.predictor(label, spatial_dim=single_step_dim, state=start)
    per_frame = Dim(max_per_frame, name="per-frame")

    def body(frame, state: rf.State):
        labels = []
        for _ in range(max_per_frame):
            best = rf.reduce_argmax(model.joint(frame, state.hidden), axis=model.wb_target_dim)
            emitted = best != model.blank_idx
            label = rf.set_sparse_dim(rf.where(emitted, best, 0), model.target_dim)
            new = model.predictor(label, spatial_dim=single_step_dim, state=state.lstm)
            hidden, lstm = rf.nested.where_nested(new, (state.hidden, state.lstm), condition=emitted)
            state = rf.State(hidden=hidden, lstm=lstm, count=state.count + rf.cast(emitted, "int32"))
            labels.append(best)
        return rf.stack(labels, out_dim=per_frame)[0], state

    ids, final, _ = rf.scan(
        spatial_dim=time, xs=model.encoder(data), body=body,
        initial=rf.State(hidden=hidden, lstm=lstm, count=rf.zeros(batch_dims, dtype="int32")),
        ys=Tensor("ids", [*batch_dims, per_frame], "int32", sparse_dim=model.wb_target_dim),
    )  # fmt: skip
    merged, merged_dim = rf.merge_dims(ids, dims=(time, per_frame))
    hyp, hyp_dim = rf.masked_select(merged, mask=merged != model.blank_idx, dims=[merged_dim])
    return hyp, hyp_dim, final.count


def plain_loss(log_probs: torch.Tensor, labels: list[int], blank: int) -> torch.Tensor:
    """Of one sequence, by the recursion over both axes (Graves 2012, equation 16)."""
    frames, extended, _ = log_probs.shape
    alpha = {}
    for t in range(frames):
        for u in range(extended):
            ways = [torch.zeros(())] if t == u == 0 else []
            ways += [alpha[t - 1, u] + log_probs[t - 1, u, blank]] if t else []
            ways += [alpha[t, u - 1] + log_probs[t, u - 1, labels[u - 1]]] if u else []
            alpha[t, u] = torch.logsumexp(torch.stack(ways), 0)
    return -(alpha[frames - 1, extended - 1] + log_probs[frames - 1, extended - 1, blank])


@pytest.mark.parametrize(("lengths", "label_lengths"), [([6, 3, 5], [3, 1, 0]), ([1], [2]), ([2, 4], [0, 0])])
def test_the_full_sum_its_gradient_and_the_search(lengths, label_lengths):
    rf.set_random_seed(3)
    in_dim, target_dim = Dim(4, name="in"), Dim(5, name="labels")
    model = Model(in_dim, target_dim)
    time, label_dim = (Dim(Tensor(name, [batch_dim], "int32"), name=name) for name in ("time", "label-time"))
    extern_data = TensorDict(
        [
            Tensor("data", [batch_dim, time, in_dim], "float32", feature_dim=in_dim),
            Tensor("classes", [batch_dim, label_dim], "int32", sparse_dim=target_dim),
        ]
    )
    rng = np.random.default_rng(4)
    data = rng.normal(size=(len(lengths), max(lengths), 4)).astype("float32")
    labels = rng.integers(0, 5, (len(lengths), max(label_lengths))).astype("int32")
    extern_data.reset_content()
    extern_data.assign_from_raw_tensor_dict_(
        {
            "data": torch.tensor(data),
            "data:size1": torch.tensor(lengths, dtype=torch.int32),
            "classes": torch.tensor(labels),
            "classes:size1": torch.tensor(label_lengths, dtype=torch.int32),
        }
    )
    with rf.init_train_step_run_ctx(train_flag=True) as run:
        log_probs, ext_dim = train_step(model=model, extern_data=extern_data)
    raw = log_probs.copy_transpose([batch_dim, time, ext_dim, model.wb_target_dim]).raw_tensor
    expected = [
        plain_loss(raw[seq, :frames, : count + 1], labels[seq, :count].tolist(), blank=5)
        for seq, (frames, count) in enumerate(zip(lengths, label_lengths))
    ]
    torch.testing.assert_close(run.losses["rnnt"].loss.raw_tensor, torch.stack(expected), atol=1e-4, rtol=1e-4)

    params = [param.raw_tensor for param in model.parameters()]
    got = torch.autograd.grad(run.total_loss().raw_tensor, params, retain_graph=True)
    for grad, wanted in zip(got, torch.autograd.grad(sum(expected), params)):
        torch.testing.assert_close(grad, wanted, atol=2e-5, rtol=1e-3)

    with rf.init_forward_step_run_ctx():
        hyp, hyp_dim, count = greedy(model, extern_data["data"], time)
        hyp_lengths = hyp_dim.get_size_tensor().raw_tensor
        assert count.raw_tensor.tolist() == hyp_lengths.tolist()
        ids = hyp.copy_transpose([batch_dim, hyp_dim]).raw_tensor
        for seq, frames in enumerate(lengths):
            alone_dim = Dim(frames, name="alone")
            source = rf.convert_to_tensor(data[seq, :frames], dims=[alone_dim, in_dim], feature_dim=in_dim)
            alone, _, _ = greedy(model, source, alone_dim)
            assert alone.raw_tensor.tolist() == ids[seq, : hyp_lengths[seq]].tolist()
