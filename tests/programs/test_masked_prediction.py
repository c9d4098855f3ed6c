"""Masked prediction from raw audio: convolutions, spans of masks, VQ by straight-through, negatives of the own sequence."""

import numpy as np
import program_runs as runs
import torch

import rfnb as rf
from rfnb.tensor import Dim, Tensor, TensorDict, batch_dim


class VectorQuantizer(rf.Module):
    def __init__(self, dim: Dim, *, num_codes: int):
        super().__init__()
        self.dim = dim
        self.codes_dim = Dim(num_codes, name="codes")
        self.codebook = rf.Parameter([self.codes_dim, dim])
        self.codebook.initial = rf.init.Normal(1.0)
        self.usage = rf.RunningMean(self.codes_dim, alpha=0.5, is_prob_distribution=True)

    def __call__(self, x: Tensor):
        dist = (
            rf.reduce_sum(rf.square(x), axis=self.dim)
            - 2.0 * rf.matmul(x, self.codebook, reduce=self.dim)
            + rf.reduce_sum(rf.square(self.codebook), axis=self.dim)
        )
        idx = rf.reduce_argmin(dist, axis=self.codes_dim)
        quantized = rf.gather(self.codebook, indices=idx, axis=self.codes_dim)
        commit = rf.reduce_mean(rf.squared_difference(x, rf.stop_gradient(quantized)), axis=self.dim)
        codebook = rf.reduce_mean(rf.squared_difference(rf.stop_gradient(x), quantized), axis=self.dim)
        usage = self.usage(rf.one_hot(idx))
        return x + rf.stop_gradient(quantized - x), idx, codebook + 0.25 * commit, usage


class Model(rf.Module):
    def __init__(self):
        super().__init__()
        self.audio_dim = Dim(1, name="audio")
        self.feat_dim = Dim(4, name="feat")
        dims = [self.audio_dim, Dim(3, name="conv0"), self.feat_dim]
        self.convs = rf.ModuleList(
            [
                rf.Conv1d(dims[i], dims[i + 1], kernel, padding="valid", strides=stride)
                for i, (kernel, stride) in enumerate([(4, 2), (3, 2)])
            ]
        )
        self.norm = rf.GroupNorm(self.feat_dim, num_groups=2)
        self.mask_emb = rf.Parameter([self.feat_dim])
        self.mask_emb.initial = rf.init.Normal(0.1)
        self.context = rf.Conv1d(self.feat_dim, self.feat_dim, 5, padding="same")
        self.proj = rf.Linear(self.feat_dim, self.feat_dim)
        self.quantizer = VectorQuantizer(self.feat_dim, num_codes=6)

    def features(self, audio: Tensor, *, spatial_dim: Dim):
        x = rf.expand_dim(audio, self.audio_dim)
        for conv in self.convs:
            x, spatial_dim = conv(x, in_spatial_dim=spatial_dim)
            x = rf.gelu(x)
        return self.norm(x), spatial_dim


def span_mask(starts: Tensor, *, spatial_dim: Dim, length: int) -> Tensor:
    """:param starts: [B, spans], -1 for none"""
    (spans_dim,) = starts.remaining_dims(batch_dim)
    frame = rf.range_over_dim(spatial_dim)
    inside = rf.compare_bc(frame, ">=", starts) & rf.compare_bc(frame, "<", starts + length)
    inside = rf.logical_and(inside, starts >= 0)
    return rf.reduce_any(inside, axis=spans_dim)


def cosine(a: Tensor, b: Tensor, dim: Dim) -> Tensor:
    dot = rf.matmul(a, b, reduce=dim)
    return dot * rf.rsqrt(rf.reduce_sum(a * a, axis=dim) + 1e-8) * rf.rsqrt(rf.reduce_sum(b * b, axis=dim) + 1e-8)


def train_step(*, model: Model, extern_data: TensorDict, num_negatives: int = 3, temperature: float = 0.5):
    audio, starts, noise = extern_data["data"], extern_data["starts"], extern_data["noise"]
    feats, time_dim = model.features(audio, spatial_dim=audio.get_time_dim_tag())
    quantized, idx, vq_loss, usage = model.quantizer(feats)
    mask = span_mask(starts, spatial_dim=time_dim, length=2)
    masked = rf.where(mask, model.mask_emb, feats)
    ctx, _ = model.context(masked, in_spatial_dim=time_dim)
    pred, masked_dim = rf.masked_select(model.proj(rf.gelu(ctx)), mask=mask, dims=[time_dim])
    positive, _ = rf.masked_select(quantized, mask=mask, dims=[time_dim], out_dim=masked_dim)
    # negatives: other masked frames of the same sequence, drawn by numbers in [0, 1)
    count = rf.copy_to_device(rf.cast(masked_dim.get_size_tensor(), "float32"), noise.device)
    offset = rf.cast(rf.floor(noise * (count - 1.0)), "int32") + 1
    pos = rf.range_over_dim(masked_dim)
    neg_idx = rf.mod(rf.combine_bc(pos, "+", offset), rf.cast(count, "int32"))
    neg_idx = rf.set_sparse_dim(neg_idx, masked_dim)
    neg_idx = rf.where(masked_dim.get_mask(), neg_idx, 0)
    (neg_dim,) = noise.remaining_dims(batch_dim)
    negatives = rf.gather(positive, indices=neg_idx, axis=masked_dim)
    candidates_dim = 1 + neg_dim
    one_dim = Dim(1, name="one")
    sim_pos = rf.expand_dim(cosine(pred, positive, model.feat_dim), one_dim)
    sim_neg = cosine(pred, negatives, model.feat_dim)
    sims, _ = rf.concat((sim_pos, one_dim), (sim_neg, neg_dim), out_dim=candidates_dim)
    codes, _ = rf.masked_select(idx, mask=mask, dims=[time_dim], out_dim=masked_dim)
    same = rf.gather(codes, indices=neg_idx, axis=masked_dim) == codes
    same, _ = rf.pad(same, axes=[neg_dim], padding=[(1, 0)], out_dims=[candidates_dim], value=False)
    sims = rf.where(same, -1e9, sims / temperature)
    loss = -rf.gather(rf.log_softmax(sims, axis=candidates_dim), indices=0, axis=candidates_dim)
    loss.mark_as_loss("contrastive", use_normalized_loss=True)
    vq_loss.mark_as_loss("vq", scale=0.1, use_normalized_loss=True)
    entropy = -rf.reduce_sum(usage * rf.safe_log(usage), axis=model.quantizer.codes_dim)
    entropy.mark_as_loss("code_entropy", as_error=True)
    run_ctx = rf.get_run_ctx()
    run_ctx.mark_as_output(idx, "codes", dims=[batch_dim, time_dim])
    run_ctx.mark_as_output(mask, "mask", dims=[batch_dim, time_dim])
    run_ctx.mark_as_output(loss, "loss", dims=[batch_dim, masked_dim])


# ---- checks


def make():
    rf.set_random_seed(2)
    model = Model()
    time = Dim(Tensor("samples", [batch_dim], "int32"), name="samples")
    spans, neg = Dim(2, name="spans"), Dim(3, name="negatives")
    extern_data = TensorDict(
        [
            Tensor("data", [batch_dim, time], "float32"),
            Tensor("starts", [batch_dim, spans], "int32"),
            Tensor("noise", [batch_dim, neg], "float32"),
        ]
    )
    data = {
        "data": [runs.rand(1, 40), runs.rand(2, 22), runs.rand(3, 31)],
        "starts": [np.array([1, 6], "int32"), np.array([0, 3], "int32"), np.array([2, -1], "int32")],
        "noise": [np.random.default_rng(i).random(3).astype("float32") for i in range(3)],
    }
    return model, runs.randomize(model, scale=0.6), extern_data, data


def reference(W, audio, starts, noise):
    x = torch.as_tensor(audio)[None]
    for i in range(2):
        x = torch.nn.functional.conv1d(x, W[f"convs.{i}.filter"], W[f"convs.{i}.bias"], stride=2)
        x = torch.nn.functional.gelu(x)
    x = x.T
    groups = x.reshape(len(x), 2, 2)
    mean = groups.mean(-1, keepdim=True)
    groups = (groups - mean) / torch.sqrt(((groups - mean) ** 2).mean(-1, keepdim=True) + 1e-6)
    x = groups.reshape(len(x), 4) * W["norm.scale"] + W["norm.bias"]
    book = W["quantizer.codebook"]
    idx = ((x[:, None] - book[None]) ** 2).sum(-1).argmin(-1)
    q = book[idx]
    vq = ((x.detach() - q) ** 2).mean(-1) + 0.25 * ((x - q.detach()) ** 2).mean(-1)
    q = x + (q - x).detach()
    mask = torch.zeros(len(x), dtype=torch.bool)
    for start in starts:
        if start >= 0:
            mask[start : start + 2] = True
    m = torch.where(mask[:, None], W["mask_emb"], x)
    c = torch.nn.functional.conv1d(m.T[None], W["context.filter"], W["context.bias"], padding=2)[0].T
    pred, pos, codes = runs.linear(torch.nn.functional.gelu(c), W, "proj")[mask], q[mask], idx[mask]
    rows = []
    for i in range(len(pos)):
        sims = [torch.nn.functional.cosine_similarity(pred[i], pos[i], dim=0) / 0.5]
        for r in noise:
            j = (i + 1 + int(np.floor(r * np.float32(len(pos) - 1)))) % len(pos)
            sim = torch.nn.functional.cosine_similarity(pred[i], pos[j], dim=0) / 0.5
            sims.append(torch.tensor(-1e9) if codes[j] == codes[i] else sim)
        rows.append(-torch.log_softmax(torch.stack(sims), 0)[0])
    return torch.stack(rows), vq, idx, mask


def test_training():
    model, W, extern_data, data = make()
    before = W["quantizer.usage.mean"].clone()
    run = runs.train(train_step, model, extern_data, data)
    results = [reference(W, *parts) for parts in zip(*data.values())]
    rows, vq, idx = (torch.cat([result[i] for result in results]) for i in range(3))
    runs.same_gradients(run.total_loss().raw_tensor, rows.mean() + 0.1 * vq.mean(), W, atol=1e-4)
    usage = torch.bincount(idx, minlength=6) / len(idx)
    torch.testing.assert_close(W["quantizer.usage.mean"], 0.5 * before + 0.5 * usage)
    for result, ours in zip(results, runs.alone(train_step, model, extern_data, data)):
        assert ours["codes"].tolist() == result[2].tolist()
        assert ours["mask"].tolist() == result[3].tolist()
        np.testing.assert_allclose(ours["loss"], result[0].detach(), atol=1e-4)
