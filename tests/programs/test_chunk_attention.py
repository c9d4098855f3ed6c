"""Chunked streaming encoder: windows with look-ahead, attention inside of a chunk and to the chunk before."""

import numpy as np
import program_runs as runs
import torch

import rfnb as rf
from rfnb.tensor import Dim, Tensor, TensorDict, batch_dim


class ChunkedSelfAttention(rf.Module):
    """Queries of a chunk see the chunk and the one before it."""

    def __init__(self, model_dim: Dim, *, num_heads: int):
        super().__init__()
        self.model_dim = model_dim
        self.num_heads = Dim(num_heads, name="heads")
        self.per_head = model_dim.div_left(self.num_heads)
        self.q = rf.Linear(model_dim, self.num_heads * self.per_head)
        self.k = rf.Linear(model_dim, self.num_heads * self.per_head, with_bias=False)
        self.v = rf.Linear(model_dim, self.num_heads * self.per_head)

    def _heads(self, x: Tensor) -> Tensor:
        return rf.split_dims(x, axis=x.feature_dim, dims=(self.num_heads, self.per_head))

    def __call__(self, x: Tensor, *, chunked_time_dim: Dim, chunk_dim: Dim) -> Tensor:
        q, k, v = self._heads(self.q(x)), self._heads(self.k(x)), self._heads(self.v(x))
        q *= self.per_head.dimension**-0.5
        prev_k = rf.shift_right(k, axis=chunked_time_dim, pad_value=0.0)
        prev_v = rf.shift_right(v, axis=chunked_time_dim, pad_value=0.0)
        kv_dim = chunk_dim + chunk_dim
        k, _ = rf.concat((prev_k, chunk_dim), (k, chunk_dim), out_dim=kv_dim)
        v, _ = rf.concat((prev_v, chunk_dim), (v, chunk_dim), out_dim=kv_dim)
        energy = rf.matmul(q, k, reduce=self.per_head)
        first = rf.range_over_dim(chunked_time_dim) == 0
        in_prev = rf.range_over_dim(kv_dim) < chunk_dim.dimension
        energy = rf.where(rf.logical_not(rf.combine_bc(first, "logical_and", in_prev)), energy, float("-inf"))
        att = rf.matmul(rf.softmax(energy, axis=kv_dim), v, reduce=kv_dim)
        out, _ = rf.merge_dims(att, dims=(self.num_heads, self.per_head), out_dim=self.model_dim)
        out.feature_dim = self.model_dim
        return out


class Model(rf.Module):
    chunk_stride = 2
    chunk_size = 3  # one frame of look-ahead

    def __init__(self, in_dim: Dim, target_dim: Dim):
        super().__init__()
        self.model_dim = Dim(4, name="model")
        self.input = rf.Linear(in_dim, self.model_dim)
        self.norm = rf.RMSNorm(self.model_dim)
        self.att = ChunkedSelfAttention(self.model_dim, num_heads=2)
        self.out = rf.Linear(self.model_dim, target_dim)
        self.target_dim = target_dim

    def __call__(self, source: Tensor, *, spatial_dim: Dim):
        x = self.input(source)
        chunk_dim = Dim(self.chunk_size, name="chunk")
        chunks, chunked_time_dim = rf.window(
            x,
            spatial_dim=spatial_dim,
            window_dim=chunk_dim,
            window_left=0,
            window_right=self.chunk_size - 1,
            stride=self.chunk_stride,
        )
        chunks += self.att(self.norm(chunks), chunked_time_dim=chunked_time_dim, chunk_dim=chunk_dim)
        # the look-ahead goes away again
        stride_dim = Dim(self.chunk_stride, name="stride")
        central, _ = rf.slice(chunks, axis=chunk_dim, size=stride_dim)
        merged, merged_dim = rf.merge_dims(central, dims=(chunked_time_dim, stride_dim))
        y = rf.replace_dim_v2(merged, in_dim=merged_dim, out_dim=spatial_dim)
        y.feature_dim = self.model_dim
        return self.out(y)


def train_step(*, model: Model, extern_data: TensorDict):
    data, classes = extern_data["data"], extern_data["classes"]
    logits = model(data, spatial_dim=data.get_time_dim_tag())
    loss = rf.cross_entropy(estimated=logits, target=classes, axis=model.target_dim, estimated_type="logits")
    loss.mark_as_loss("ce", use_flatten_frames=True, use_normalized_loss=True)


def forward_step(*, model: Model, extern_data: TensorDict):
    data = extern_data["data"]
    logits = model(data, spatial_dim=data.get_time_dim_tag())
    rf.get_run_ctx().mark_as_default_output(logits, shape=[batch_dim, data.get_time_dim_tag(), model.target_dim])


# ---- checks

in_dim, target_dim = Dim(3, name="in", kind=Dim.Types.Feature), Dim(4, name="classes", kind=Dim.Types.Feature)


def make():
    model = Model(in_dim, target_dim)
    time = Dim(Tensor("time", [batch_dim], "int32"), name="time")
    extern_data = TensorDict(
        [
            Tensor("data", [batch_dim, time, in_dim], "float32", feature_dim=in_dim),
            Tensor("classes", [batch_dim, time], "int32", sparse_dim=target_dim),
        ]
    )
    data = {
        "data": [runs.rand(1, 7, 3), runs.rand(2, 4, 3), runs.rand(3, 1, 3)],
        "classes": [runs.labels(1, 7, 4), runs.labels(2, 4, 4), runs.labels(3, 1, 4)],
    }
    return model, runs.randomize(model, scale=0.8), extern_data, data


def reference(W, source):
    x = runs.linear(torch.as_tensor(source), W, "input")
    frames = len(x)
    x = torch.cat([x, torch.zeros(3, 4)])
    chunks = torch.stack([x[start : start + 3] for start in range(0, frames, 2)])
    y = chunks / torch.sqrt((chunks**2).mean(-1, keepdim=True) + 1e-6) * W["norm.scale"]
    q, k, v = (runs.linear(y, W, f"att.{name}").reshape(len(y), 3, 2, 2) for name in "qkv")
    out = []
    for c in range(len(chunks)):
        ks, vs = (torch.cat([z[c - 1], z[c]]) if c else z[c] for z in (k, v))
        heads = [torch.softmax(q[c, :, h] @ ks[:, h].T / 2**0.5, -1) @ vs[:, h] for h in range(2)]
        out.append((chunks[c] + torch.cat(heads, -1))[:2])
    return runs.linear(torch.cat(out)[:frames], W, "out")


def test_training():
    model, W, extern_data, data = make()
    run = runs.train(train_step, model, extern_data, data)
    total = sum(
        torch.nn.functional.cross_entropy(reference(W, x), torch.as_tensor(y).long(), reduction="sum")
        for x, y in zip(data["data"], data["classes"])
    )
    runs.same_gradients(run.total_loss().raw_tensor, total / 12, W)


def test_forward():
    model, W, extern_data, data = make()
    for source, result in zip(data["data"], runs.alone(forward_step, model, extern_data, data)):
        np.testing.assert_allclose(result["output"], reference(W, source).detach(), atol=1e-5)
    more = runs.rand(9, 7, 3)
    more[:5] = data["data"][0][:5]  # streaming: two chunks do not see what comes after frame 4
    other = runs.forward(forward_step, model, extern_data, {**data, "data": [more, *data["data"][1:]]})
    first = np.asarray(other.outputs.sequence(0)["output"].raw_tensor)
    np.testing.assert_allclose(first[:4], reference(W, data["data"][0]).detach()[:4], atol=1e-5)
