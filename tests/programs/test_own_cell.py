"""A GRU cell written by hand whose weights may be square, in a scan and in both faces of a Loop, and a bigram model that is a square
table, against torch."""

import numpy as np
import pytest
import torch
from loop_faces import run_steps

import rfnb as rf
from rfnb.tensor import Dim, Tensor, batch_dim, single_step_dim


class Gru(rf.Module):
    """Of torch: the reset gate is on the product."""

    def __init__(self, in_dim: Dim, out_dim: Dim):
        super().__init__()
        self.in_dim, self.out_dim = in_dim, out_dim
        for gate in "rzn":
            for name, rows in (("ff", in_dim), ("rec", out_dim)):
                weight = rf.Parameter([rf.dim_match_priority_when_needed(rows, out_dim), out_dim])
                weight.initial = rf.init.Glorot()
                bias = rf.Parameter([out_dim])
                bias.initial = rf.init.Normal(0.3)
                setattr(self, f"{name}_{gate}", weight)
                setattr(self, f"{name}_bias_{gate}", bias)

    def default_initial_state(self, *, batch_dims: list[Dim]) -> rf.State:
        return rf.State(h=rf.zeros([*batch_dims, self.out_dim]))

    def step(self, x: Tensor, state: rf.State) -> tuple[Tensor, rf.State]:
        def ff(gate: str) -> Tensor:
            return rf.matmul(x, getattr(self, f"ff_{gate}"), reduce=self.in_dim) + getattr(self, f"ff_bias_{gate}")

        def rec(gate: str) -> Tensor:
            weight, bias = getattr(self, f"rec_{gate}"), getattr(self, f"rec_bias_{gate}")
            return rf.matmul(state.h, weight, reduce=self.out_dim) + bias

        reset, update = rf.sigmoid(ff("r") + rec("r")), rf.sigmoid(ff("z") + rec("z"))
        h = rf.lerp(rf.tanh(ff("n") + reset * rec("n")), state.h, update)
        return h, rf.State(h=h)

    def __call__(self, source: Tensor, *, spatial_dim: Dim, state: rf.State) -> tuple[Tensor, rf.State]:
        if spatial_dim is single_step_dim:
            return self.step(source, state)
        ys = Tensor("h", dims=state.h.dims, dtype="float32")
        out, state, _ = rf.scan(spatial_dim=spatial_dim, xs=source, initial=state, body=self.step, ys=ys)
        return out, state


class Bigram(rf.Module):
    def __init__(self, vocab_dim: Dim):
        super().__init__()
        self.vocab_dim = vocab_dim
        self.table = rf.Parameter([rf.dim_match_priority_when_needed(vocab_dim, vocab_dim), vocab_dim])
        self.table.initial = rf.init.Normal(1.0)

    def __call__(self, labels: Tensor, *, spatial_dim: Dim) -> Tensor:
        prev = rf.shift_right(labels, axis=spatial_dim, pad_value=0)
        return rf.log_softmax(rf.gather(self.table, indices=prev), axis=self.vocab_dim)


def setup(lengths: list[int], size: int) -> tuple[np.random.Generator, Dim, torch.Tensor]:
    batch_dim.reset_eager()
    rf.set_random_seed(3)
    time = Dim(rf.convert_to_tensor(np.array(lengths, "int32"), dims=[batch_dim]), name="time")
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    return np.random.default_rng(size), time, mask


@pytest.mark.parametrize(
    ("lengths", "in_size", "out_size"), [([5, 3, 1, 4], 5, 6), ([1], 3, 3), ([4, 4, 4, 4], 4, 4), ([2, 7], 3, 3)]
)
def test_a_gru_by_hand_is_that_of_torch(lengths, in_size, out_size):
    rng, time, mask = setup(lengths, in_size)
    in_dim = Dim(in_size, name="in")
    out_dim = in_dim if in_size == out_size else Dim(out_size, name="out")
    gru, plain = Gru(in_dim, out_dim), torch.nn.GRU(in_size, out_size, batch_first=True)
    for name, ours in (("ih", "ff"), ("hh", "rec")):
        weights = [getattr(gru, f"{ours}_{gate}").raw_tensor.T for gate in "rzn"]
        biases = [getattr(gru, f"{ours}_bias_{gate}").raw_tensor for gate in "rzn"]
        getattr(plain, f"weight_{name}_l0").data = torch.cat(weights).detach()
        getattr(plain, f"bias_{name}_l0").data = torch.cat(biases).detach()
    raw = torch.tensor(rng.normal(size=(len(lengths), max(lengths), in_size)).astype("float32"))
    source = rf.convert_to_tensor(raw, dims=[batch_dim, time, in_dim])

    initial = gru.default_initial_state(batch_dims=[batch_dim])
    out, last = gru(source, spatial_dim=time, state=initial)
    assert set(out.dims) == {batch_dim, time, out_dim}
    values, expected = out.copy_transpose([batch_dim, time, out_dim]).raw_tensor, 0.0
    for seq, length in enumerate(lengths):
        wanted, final = plain(raw[seq : seq + 1, :length])
        torch.testing.assert_close(values[seq, :length], wanted[0], atol=1e-5, rtol=1e-4)
        h = last.h.copy_transpose([batch_dim, out_dim]).raw_tensor
        torch.testing.assert_close(h[seq], final[0, 0], atol=1e-5, rtol=1e-4)
        expected = expected + wanted.square().sum()
    expected.backward()
    rf.reduce_sum(rf.square(out), axis=[batch_dim, time, out_dim]).raw_tensor.backward()
    for name, ours in (("ih", "ff"), ("hh", "rec")):
        grad = torch.cat([getattr(gru, f"{ours}_{gate}").raw_tensor.grad.T for gate in "rzn"])
        torch.testing.assert_close(grad, getattr(plain, f"weight_{name}_l0").grad, atol=1e-4, rtol=1e-3)

    for face in ("for", "with"):
        loop = rf.Loop(axis=time)
        loop.state.cell = initial

        def step(loop=loop):
            h, loop.state.cell = gru(loop.unstack(source), spatial_dim=single_step_dim, state=loop.state.cell)
            return loop.stack(h)

        stacked = run_steps(loop, face, step)
        steps = stacked.copy_transpose([batch_dim, time, out_dim]).raw_tensor
        torch.testing.assert_close(steps[mask], values[mask], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("lengths", [[5, 3, 1], [4, 4, 4, 4], [1]])
def test_a_bigram_model_looks_up_the_label_before(lengths):
    rng, time, mask = setup(lengths, 4)
    vocab_dim = Dim(4, name="vocab")
    model, embedding = Bigram(vocab_dim), rf.Embedding(vocab_dim, vocab_dim)
    ids = torch.tensor(rng.integers(0, 4, (len(lengths), max(lengths))))
    labels = rf.convert_to_tensor(ids.int(), dims=[batch_dim, time], sparse_dim=vocab_dim)
    order = [batch_dim, time, vocab_dim]

    log_probs = model(labels, spatial_dim=time).copy_transpose(order).raw_tensor
    prev = torch.nn.functional.pad(ids, (1, -1))
    torch.testing.assert_close(log_probs[mask], torch.log_softmax(model.table.raw_tensor[prev], -1)[mask])
    vectors = embedding(labels).copy_transpose(order).raw_tensor
    torch.testing.assert_close(vectors[mask], embedding.weight.raw_tensor[ids][mask])
