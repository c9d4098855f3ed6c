"""What a frontend op costs over the same masked computation by hand in raw torch, at sizes so small that only overhead shows.

The goal is a geometric mean of 1.28, and 1.6 for the worst op. By the minimum of short samples it is 1.34 to 1.35, and 1.76 at worst:
`merge_dims` and `concat`, then `top_k` (1.74, two Tensors and a dim) and `split_dims` (1.66). What `x + y` takes beyond `torch.add` is
the floor of every op, half of what the quickest kernel takes. Of some 600 ns 210 are the search for the plan (a key of two types and two
tuples of dims), 180 the Tensor (70 of them Python's own for any object), 100 the empty `*extra` and `**unknown`, whose check gives wrong
arguments a message, 80 the operator of a class that is written in Python, and 40 the frame.
"""

from __future__ import annotations

import statistics

import pytest
import torch
import torch.nn.functional as F
from device import device

import rfnb as rf
from rfnb import Dim

batch, feat, out_dim = Dim(3, name="batch"), Dim(16, name="feat"), Dim(16, name="out")
heads, units, units_2, two = (Dim(n, name=name) for n, name in ((2, "heads"), (8, "units"), (8, "units_2"), (2, "two")))
time = rf.ragged_dim([7, 5, 3], over=batch, name="time")
query = Dim(4, name="query")
LENGTHS = torch.tensor([7, 5, 3], device=device())
MASK = torch.arange(7, device=device()) < LENGTHS[:, None]
MASK_F = MASK.unsqueeze(-1)
COUNT = LENGTHS.float().unsqueeze(-1)

torch.manual_seed(0)
x, y = rf.random_normal([batch, time, feat]), rf.random_normal([batch, time, feat])
weight, bias, gate = rf.random_normal([feat, out_dim]), rf.random_normal([feat]), rf.random_normal([batch, time])
q = rf.random_normal([batch, query, feat])
ids = rf.random_uniform([batch, time], dtype="int64", minval=0, maxval=16, sparse_dim=feat)
pick = rf.random_uniform([batch, query], dtype="int64", minval=0, maxval=3, sparse_dim=time)
logits = rf.random_normal([batch, time, out_dim])
targets = rf.random_uniform([batch, time], dtype="int64", minval=0, maxval=16, sparse_dim=out_dim)
linear, embedding, lstm = rf.Linear(feat, out_dim), rf.Embedding(feat, out_dim), rf.LSTM(feat, out_dim)
frame = rf.random_normal([batch, feat])
state = lstm.default_initial_state(batch_dims=[batch])
X, Y, W, B, G, Q = (tensor.raw_tensor for tensor in (x, y, weight, bias, gate, q))
IDS, PICK, LOGITS, TARGETS, FRAME = (tensor.raw_tensor for tensor in (ids, pick, logits, targets, frame))
H, C = state.h.raw_tensor, state.c.raw_tensor
LW, LB, EW = linear.weight.raw_tensor, linear.bias.raw_tensor, embedding.weight.raw_tensor
# On a GPU an index out of range ends the process, so padding is filled.
SAFE_IDS = lambda: torch.where(MASK, IDS, 0) if device().type != "cpu" else IDS  # noqa: E731
FW, RW, RB = lstm.ff_weight.raw_tensor, lstm.rec_weight.raw_tensor, lstm.bias.raw_tensor
ZERO = torch.zeros_like(RB)
LW_T = LW.detach().t().contiguous()
SEEN = MASK[:, None, None, :]
GRID = torch.arange(3, device=device()).unsqueeze(1)
inf = float("inf")


def _merged(tensor):
    return rf.merge_dims(tensor, dims=[batch, time])[0]


def _cross_entropy():
    targets = torch.where(MASK, TARGETS, -100).reshape(-1)
    return F.cross_entropy(LOGITS.reshape(-1, 16), targets, reduction="none").view(3, 7)


def _attention():
    query, keys, values = (raw.unsqueeze(1) for raw in (Q, X, Y))
    return F.scaled_dot_product_attention(query, keys, values, attn_mask=SEEN).squeeze(1)


OPS = {
    "add": (lambda: x + y, lambda: X + Y),
    "add, bias": (lambda: x + bias, lambda: X + B),
    "add, number": (lambda: x + 1.0, lambda: X + 1.0),
    "sub": (lambda: x - y, lambda: X - Y),
    "mul, one dim less": (lambda: x * gate, lambda: X * G.unsqueeze(-1)),
    "truediv": (lambda: x / y, lambda: X / Y),
    "maximum": (lambda: rf.maximum(x, y), lambda: torch.maximum(X, Y)),
    "less": (lambda: x < y, lambda: X < Y),
    "equal, number": (lambda: ids == 3, lambda: IDS == 3),
    "neg": (lambda: -x, lambda: -X),
    "exp": (lambda: rf.exp(x), lambda: torch.exp(X)),
    "tanh": (lambda: rf.tanh(x), lambda: torch.tanh(X)),
    "relu": (lambda: rf.relu(x), lambda: torch.relu(X)),
    "gelu": (lambda: rf.gelu(x), lambda: F.gelu(X)),
    "where": (lambda: rf.where(x < y, x, y), lambda: torch.where(X < Y, X, Y)),
    "clip": (lambda: rf.clip_by_value(x, -1.0, 1.0), lambda: torch.clamp(X, -1.0, 1.0)),
    "cast": (lambda: rf.cast(x, "float64"), lambda: X.to(torch.float64)),
    "cumsum": (lambda: rf.cumsum(x, spatial_dim=time), lambda: torch.cumsum(X, 1)),
    "matmul": (lambda: rf.matmul(x, weight, reduce=feat), lambda: torch.matmul(X, W)),
    "matmul, batched": (lambda: rf.matmul(q, x, reduce=feat), lambda: torch.bmm(Q, X.transpose(1, 2))),
    "matmul, ragged reduce": (
        lambda: rf.matmul(x, y, reduce=time),
        lambda: torch.bmm(torch.where(MASK_F, X, 0).transpose(1, 2), torch.where(MASK_F, _Y2, 0)),
    ),
    "reduce_sum, static": (lambda: rf.reduce_sum(x, axis=feat), lambda: X.sum(-1)),
    "reduce_sum, ragged": (lambda: rf.reduce_sum(x, axis=time), lambda: torch.where(MASK_F, X, 0).sum(1)),
    "reduce_mean, ragged": (lambda: rf.reduce_mean(x, axis=time), lambda: torch.where(MASK_F, X, 0).sum(1) / COUNT),
    "reduce_max, ragged": (lambda: rf.reduce_max(x, axis=time), lambda: torch.where(MASK_F, X, -inf).amax(1)),
    "reduce_argmax": (lambda: rf.reduce_argmax(x, axis=feat), lambda: X.argmax(-1)),
    "softmax, static": (lambda: rf.softmax(x, axis=feat), lambda: torch.softmax(X, -1)),
    "softmax, ragged": (
        lambda: rf.softmax(x, axis=time),
        lambda: torch.softmax(torch.where(MASK_F, X, -inf), 1),
    ),
    "log_softmax": (lambda: rf.log_softmax(x, axis=feat), lambda: torch.log_softmax(X, -1)),
    "gather": (lambda: rf.gather(x, indices=pick), lambda: X[GRID, PICK]),
    "concat": (lambda: rf.concat((x, feat), (y, feat))[0], lambda: torch.cat((X, Y), -1)),
    "top_k": (lambda: rf.top_k(x, axis=feat, k=2)[0], lambda: torch.topk(X, 2)[0]),
    "top_k, given dim": (lambda: rf.top_k(x, axis=feat, k_dim=two)[0], lambda: torch.topk(X, 2)[0]),
    "split": (lambda: rf.split(x, axis=feat, out_dims=(units, units_2)), lambda: torch.chunk(X, 2, -1)),
    "split_dims": (lambda: rf.split_dims(x, axis=feat, dims=(heads, units)), lambda: X.view(3, 7, 2, 8)),
    "merge_dims": (lambda: _merged(x), lambda: X.reshape(21, 16)),
    "cross_entropy": (
        lambda: rf.cross_entropy(estimated=logits, target=targets, axis=out_dim, estimated_type="logits"),
        _cross_entropy,
    ),
    "Linear": (lambda: linear(x), lambda: F.linear(X, LW_T, LB)),
    "Embedding": (lambda: embedding(ids), lambda: F.embedding(SAFE_IDS(), EW)),
    "LSTM, one step": (
        lambda: lstm(frame, state=state, spatial_dim=rf.single_step_dim)[0],
        lambda: torch.lstm_cell(FRAME, (H, C), FW, RW, RB, ZERO)[0],
    ),
    "dot_attention": (lambda: rf.dot_attention(q, x, y, key_dim=feat, axis=time), _attention),
}
feat_2 = Dim(16, name="feat_2")
y_2, _ = rf.replace_dim(y, in_dim=feat, out_dim=feat_2)
_Y2 = y_2.raw_tensor
OPS["matmul, ragged reduce"] = (lambda: rf.matmul(x, y_2, reduce=time), OPS["matmul, ragged reduce"][1])


LIMIT = 2.0  # of every op
MEAN_LIMIT = 1.4
_ratios: dict[str, float] = {}


@pytest.mark.parametrize("name", OPS)
def test_op_overhead(name, overhead):
    rfnb_op, raw_op = OPS[name]
    with torch.no_grad():
        _ratios[name] = overhead(name, rfnb_op, raw_op, limit=LIMIT)


def test_mean_overhead():
    """The geometric mean, after all ops were measured."""
    if len(_ratios) < len(OPS):
        pytest.skip("not all ops were measured")
    assert statistics.geometric_mean(_ratios.values()) < MEAN_LIMIT
