"""Speaker embeddings from raw audio: STFT, mel, mean normalization, SpecAugment, TDNN, statistics pooling, AAM-softmax."""

import numpy as np
import program_runs as runs
import torch

import rfnb as rf
from rfnb.tensor import Dim, Tensor, TensorDict, batch_dim


class FeatureExtraction(rf.Module):
    def __init__(self, out_dim: Dim, *, sampling_rate: int = 1000):
        super().__init__()
        self.out_dim, self.sampling_rate = out_dim, sampling_rate

    def __call__(self, audio: Tensor, *, spatial_dim: Dim):
        power, time_dim, freq_dim = rf.stft(
            audio, in_spatial_dim=spatial_dim, frame_step=10, frame_length=24, fft_length=32
        )
        power = rf.abs(power) ** 2.0
        mel = rf.audio.mel.mel_filterbank(
            power, in_dim=freq_dim, out_dim=self.out_dim, sampling_rate=self.sampling_rate, fft_length=32
        )
        feats = rf.safe_log(mel, eps=1e-6)
        feats = feats - rf.reduce_mean(feats, axis=time_dim)
        return feats, time_dim


class TdnnLayer(rf.Module):
    def __init__(self, in_dim: Dim, out_dim: Dim, *, context: int, dilation: int):
        super().__init__()
        self.conv = rf.Conv1d(in_dim, out_dim, context, padding="same", dilation_rate=dilation)
        self.norm = rf.GroupNormSpatial(out_dim, num_groups=2)
        self.se_in = rf.Linear(out_dim, Dim(2, name="bottleneck"))
        self.se_out = rf.Linear(self.se_in.out_dim, out_dim)

    def __call__(self, x: Tensor, *, spatial_dim: Dim) -> Tensor:
        x, _ = self.conv(x, in_spatial_dim=spatial_dim)
        x = rf.relu(self.norm(x, spatial_dim=spatial_dim))
        squeezed = rf.reduce_mean(x, axis=spatial_dim)
        squeezed.feature_dim = self.conv.out_dim
        return x * rf.sigmoid(self.se_out(rf.relu(self.se_in(squeezed))))


class Model(rf.Module):
    def __init__(self, speaker_dim: Dim):
        super().__init__()
        self.speaker_dim = speaker_dim
        mel_dim, tdnn_dim = Dim(6, name="mel", kind=Dim.Types.Feature), Dim(4, name="tdnn", kind=Dim.Types.Feature)
        self.features = FeatureExtraction(mel_dim)
        self.layers = rf.Sequential(
            TdnnLayer(mel_dim, tdnn_dim, context=5, dilation=1), TdnnLayer(tdnn_dim, tdnn_dim, context=3, dilation=2)
        )
        self.attention = rf.Sequential(rf.Linear(tdnn_dim, Dim(3, name="att")), rf.tanh)
        self.attention_out = rf.Linear(Dim(3, name="att-in"), tdnn_dim)
        self.tdnn_dim = tdnn_dim
        self.embed = rf.Linear(2 * tdnn_dim, Dim(5, name="xvector"))
        self.speakers = rf.Parameter([speaker_dim, self.embed.out_dim])
        self.speakers.initial = rf.init.HeUniform()

    def __call__(self, audio: Tensor, *, spatial_dim: Dim):
        x, time_dim = self.features(audio, spatial_dim=spatial_dim)
        x = rf.audio.specaugment(
            x, spatial_dim=time_dim, feature_dim=x.feature_dim, max_consecutive_feature_dims=2, steps=(10, 20, 30)
        )
        x = self.layers(x, spatial_dim=time_dim)
        hidden = self.attention(x)
        hidden, _ = rf.replace_dim(hidden, in_dim=hidden.feature_dim, out_dim=self.attention_out.in_dim)
        weights = rf.softmax(self.attention_out(hidden), axis=time_dim)
        mean = rf.reduce_sum(weights * x, axis=time_dim)
        var = rf.reduce_sum(weights * rf.square(x), axis=time_dim) - rf.square(mean)
        std = rf.sqrt(rf.clip_by_value(var, 1e-6, None))
        stats, _ = rf.concat((mean, self.tdnn_dim), (std, self.tdnn_dim), out_dim=self.embed.in_dim)
        _, plain_var = rf.moments(x, time_dim)
        return self.embed(stats), plain_var


def l2_normalize(x: Tensor, *, axis: Dim) -> Tensor:
    return x * rf.rsqrt(rf.maximum(rf.reduce_sum(rf.square(x), axis=axis), 1e-12))


def aam_softmax(model: Model, embedding: Tensor, target: Tensor, *, margin: float = 0.2, scale: float = 5.0) -> Tensor:
    axis = model.embed.out_dim
    cos = rf.matmul(l2_normalize(embedding, axis=axis), l2_normalize(model.speakers, axis=axis), reduce=axis)
    sin = rf.sqrt(rf.clip_by_value(1.0 - rf.square(cos), 1e-6, 1.0))
    phi = cos * np.cos(margin) - sin * np.sin(margin)
    phi = rf.where(cos > np.cos(np.pi - margin), phi, cos - np.sin(np.pi - margin) * margin)
    is_target = rf.range_over_dim(model.speaker_dim) == target
    logits = scale * rf.where(is_target, phi, cos)
    return rf.cross_entropy(estimated=logits, target=target, axis=model.speaker_dim, estimated_type="logits")


def train_step(*, model: Model, extern_data: TensorDict):
    audio, speaker = extern_data["data"], extern_data["speaker"]
    embedding, _ = model(audio, spatial_dim=audio.get_time_dim_tag())
    loss = aam_softmax(model, embedding, speaker)
    loss.mark_as_loss("aam", use_normalized_loss=True)


def forward_step(*, model: Model, extern_data: TensorDict):
    audio = extern_data["data"]
    embedding, var = model(audio, spatial_dim=audio.get_time_dim_tag())
    cos = rf.matmul(
        l2_normalize(embedding, axis=model.embed.out_dim),
        l2_normalize(model.speakers, axis=model.embed.out_dim),
        reduce=model.embed.out_dim,
    )
    scores, speakers, k_dim = rf.top_k(cos, axis=model.speaker_dim, k=2)
    run_ctx = rf.get_run_ctx()
    run_ctx.mark_as_default_output(embedding, shape=[batch_dim, model.embed.out_dim])
    run_ctx.mark_as_output(scores, "scores", dims=[batch_dim, k_dim])
    run_ctx.mark_as_output(speakers, "speakers", dims=[batch_dim, k_dim])
    run_ctx.mark_as_output(var, "var", dims=[batch_dim, model.tdnn_dim])


# ---- checks

speaker_dim = Dim(4, name="speakers")


def make(*, with_targets=True):
    rf.set_random_seed(4)
    model = Model(speaker_dim)
    time = Dim(Tensor("samples", [batch_dim], "int32"), name="samples")
    entries = [
        Tensor("data", [batch_dim, time], "float32"),
        Tensor("speaker", [batch_dim], "int32", sparse_dim=speaker_dim),
    ]
    data = {
        "data": [runs.rand(1, 150), runs.rand(2, 90), runs.rand(3, 111)],
        "speaker": [np.int32(i) for i in (3, 0, 2)],
    }
    return model, runs.randomize(model, scale=0.8), TensorDict(entries[: 1 + with_targets]), data


def mel_matrix():
    """Triangles over the frequencies of the bins, between points of equal steps in mel from 0 Hz to half the rate: {bin, mel}."""
    bins = np.arange(17) * 1000 / 32
    edges = 700.0 * (np.exp(np.linspace(0.0, np.log(1 + 500.0 / 700.0), 8)) - 1)
    up = (bins[:, None] - edges[None, :-2]) / (edges[1:-1] - edges[:-2])
    down = (edges[None, 2:] - bins[:, None]) / (edges[2:] - edges[1:-1])
    return np.maximum(0.0, np.minimum(up, down))


def reference(W, audio, features=None):
    if features is None:
        n = np.arange(24)
        window = 0.5 - 0.5 * np.cos(2 * np.pi * n / 24)
        frames = np.stack([audio[s : s + 24] * window for s in range(0, len(audio) - 23, 10)])
        power = np.abs(np.fft.rfft(frames, 32)) ** 2
        x = np.log(np.maximum(power @ mel_matrix(), 1e-6))
        x = torch.tensor(x - x.mean(0), dtype=torch.float32)
    else:
        x = features
    for i, (context, dilation) in enumerate([(5, 1), (3, 2)]):
        p = f"layers.{i}"
        x = torch.nn.functional.conv1d(
            x.T[None],
            W[f"{p}.conv.filter"],
            W[f"{p}.conv.bias"],
            padding=(context - 1) * dilation // 2,
            dilation=dilation,
        )[0].T
        groups = x.reshape(len(x), 2, 2)
        mean = groups.mean((0, 2), keepdim=True)
        groups = (groups - mean) / torch.sqrt(((groups - mean) ** 2).mean((0, 2), keepdim=True) + 1e-6)
        x = torch.relu(groups.reshape(len(x), 4) * W[f"{p}.norm.scale"] + W[f"{p}.norm.bias"])
        gate = runs.linear(torch.relu(runs.linear(x.mean(0), W, f"{p}.se_in")), W, f"{p}.se_out")
        x = x * torch.sigmoid(gate)
    weights = torch.softmax(runs.linear(torch.tanh(runs.linear(x, W, "attention.0")), W, "attention_out"), 0)
    mean = (weights * x).sum(0)
    std = torch.sqrt(((weights * x**2).sum(0) - mean**2).clamp(min=1e-6))
    return runs.linear(torch.cat([mean, std]), W, "embed"), x.var(0, unbiased=False)


def test_training():
    model, W, extern_data, data = make()
    run = runs.train(train_step, model, extern_data, data, step=0)  # no mask yet
    total = torch.tensor(0.0)
    for audio, speaker in zip(*data.values()):
        e, _ = reference(W, audio)
        speakers = torch.nn.functional.normalize(W["speakers"], dim=-1)
        cos = speakers @ torch.nn.functional.normalize(e, dim=0)
        angle = torch.acos(cos[int(speaker)].clamp(-1 + 1e-6, 1 - 1e-6))
        phi = torch.cos(angle + 0.2) if angle + 0.2 < np.pi else cos[int(speaker)] - np.sin(np.pi - 0.2) * 0.2
        logits = torch.where(torch.arange(4) == int(speaker), phi, cos) * 5
        total = total - torch.log_softmax(logits, -1)[int(speaker)]
    runs.same_gradients(run.total_loss().raw_tensor, total / 3, W, atol=3e-4)


def test_forward():
    model, W, extern_data, data = make(with_targets=False)
    results = runs.alone(forward_step, model, extern_data, {"data": data["data"]}, atol=1e-4)
    for audio, ours in zip(data["data"], results):
        e, var = reference(W, audio)
        np.testing.assert_allclose(ours["output"], e.detach(), atol=2e-3)
        np.testing.assert_allclose(ours["var"], var.detach(), atol=2e-3)
        cos = torch.nn.functional.normalize(W["speakers"], dim=-1) @ torch.nn.functional.normalize(e, dim=0)
        assert ours["speakers"].tolist() == cos.argsort(descending=True)[:2].tolist()
