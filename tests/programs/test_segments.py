"""Language models that carry their state over segments of a text: truncated backpropagation of an LSTM against torch, and decoder layers
with all kinds of causal self-attention, where segments, single steps and all at once are the same."""

import numpy as np
import pytest
import torch
from rfnb.decoder.transformer import TransformerDecoderLayer

import rfnb as rf
from rfnb.tensor import Dim, Tensor, single_step_dim


class LstmLm(rf.Module):
    def __init__(self, vocab_dim: Dim, embed_dim: Dim, dim: Dim):
        super().__init__()
        self.vocab_dim = vocab_dim
        self.embed, self.out = rf.Embedding(vocab_dim, embed_dim), rf.Linear(dim, vocab_dim)
        self.layers = rf.ModuleList(rf.LSTM(embed_dim, dim), rf.LSTM(dim, dim))

    def default_initial_state(self, *, batch_dims: list[Dim]) -> rf.State:
        return rf.State(
            {name: layer.default_initial_state(batch_dims=batch_dims) for name, layer in self.layers.items()}
        )

    def __call__(self, ids: Tensor, *, spatial_dim: Dim, state: rf.State) -> tuple[Tensor, rf.State]:
        x, new = self.embed(ids), rf.State()
        for name, layer in self.layers.items():
            x, new[name] = layer(x, spatial_dim=spatial_dim, state=state[name])
        return self.out(x), new


def stopped(state: rf.State) -> rf.State:
    return rf.State({k: rf.LstmState(h=rf.stop_gradient(s.h), c=rf.stop_gradient(s.c)) for k, s in state.items()})


@pytest.mark.parametrize(
    ("lengths", "segment", "size"), [([5, 3, 1, 8], 3, 7), ([1], 4, 7), ([4, 4, 4, 4], 2, 4), ([2, 7], 7, 7)]
)
def test_truncated_backpropagation_is_that_of_torch(lengths, segment, size):
    """A sequence that has ended keeps its state and gives no gradient in later segments, in which it has no frame."""
    rf.set_random_seed(5)
    vocab_dim, embed_dim, dim = Dim(size, name="vocab"), Dim(size, name="embed"), Dim(size, name="lstm")
    model = LstmLm(vocab_dim, embed_dim, dim)
    for param in model.parameters():
        param.initial = rf.init.Normal(0.5)
    plain = torch.nn.ModuleList([torch.nn.LSTM(size, size) for _ in range(2)])
    for ours, layer in zip(model.layers, plain):
        layer.weight_ih_l0.data, layer.weight_hh_l0.data, layer.bias_ih_l0.data = (
            param.raw_tensor.detach().clone() for param in (ours.ff_weight, ours.rec_weight, ours.bias)
        )
        layer.bias_hh_l0.data.zero_()
    embed, weight, bias = (
        param.raw_tensor.detach().clone().requires_grad_() for param in (model.embed.weight, *model.out.parameters())
    )
    ids = np.random.default_rng(1).integers(0, size, (len(lengths), max(lengths) + 1)).astype("int32")
    batch = Dim(len(lengths), name="batch")

    state = model.default_initial_state(batch_dims=[batch])
    states = [[tuple(torch.zeros(1, size) for _ in range(2)) for _ in lengths] for _ in range(2)]
    for start in range(0, max(lengths), segment):
        sizes = np.clip(np.array(lengths) - start, 0, segment).astype("int32")
        time = Dim(rf.convert_to_tensor(sizes, dims=[batch]), name="segment")
        inputs, targets = (
            rf.convert_to_tensor(ids[:, first : first + sizes.max()], dims=[batch, time], sparse_dim=vocab_dim)
            for first in (start, start + 1)
        )
        with rf.init_train_step_run_ctx(train_flag=True, step=start) as run:
            logits, state = model(inputs, spatial_dim=time, state=stopped(state))
            loss = rf.cross_entropy(estimated=logits, target=targets, axis=vocab_dim, estimated_type="logits")
            loss.mark_as_loss("ce")
        expected = torch.zeros(())
        for seq, count in enumerate(sizes):
            if not count:
                continue
            x = embed[ids[seq, start : start + count]]
            for level, layer in enumerate(plain):
                x, last = layer(x, states[level][seq])
                states[level][seq] = tuple(part.detach() for part in last)
            labels = torch.tensor(ids[seq, start + 1 : start + 1 + count]).long()
            expected = expected + torch.nn.functional.cross_entropy(x @ weight + bias, labels, reduction="sum")
        total = run.total_loss().raw_tensor
        torch.testing.assert_close(total, expected, atol=1e-4, rtol=1e-4)
        total.backward()
        expected.backward()
        for level, name in enumerate(state):
            for part, index in (("h", 0), ("c", 1)):
                values = state[name][part].copy_transpose([batch, dim]).raw_tensor
                wanted = torch.cat([states[level][seq][index] for seq in range(len(lengths))])
                torch.testing.assert_close(values, wanted, atol=1e-5, rtol=1e-4)
    pairs = [(model.embed.weight, embed), (model.out.weight, weight), (model.out.bias, bias)]
    for ours, layer in zip(model.layers, plain):
        pairs += [
            (ours.ff_weight, layer.weight_ih_l0),
            (ours.rec_weight, layer.weight_hh_l0),
            (ours.bias, layer.bias_ih_l0),
        ]
    for param, wanted in pairs:
        torch.testing.assert_close(param.raw_tensor.grad, wanted.grad, atol=1e-4, rtol=1e-3)


class AttentionLm(rf.Module):
    def __init__(self, vocab_dim: Dim, dim: Dim, self_att):
        super().__init__()
        self.embed, self.norm, self.out = rf.Embedding(vocab_dim, dim), rf.LayerNorm(dim), rf.Linear(dim, vocab_dim)
        options = {"num_heads": 2, "dropout": 0.0, "att_dropout": 0.0, "self_att": self_att}
        self.layers = rf.Sequential(TransformerDecoderLayer(None, dim, **options) for _ in range(2))

    def default_initial_state(self, *, batch_dims: list[Dim]) -> rf.State:
        return rf.State(
            {name: layer.default_initial_state(batch_dims=batch_dims) for name, layer in self.layers.items()}
        )

    def __call__(self, ids: Tensor, *, spatial_dim: Dim, state: rf.State) -> tuple[Tensor, rf.State]:
        x, new = self.embed(ids), rf.State()
        for name, layer in self.layers.items():
            x, new[name] = layer(x, spatial_dim=spatial_dim, state=state[name])
        return self.out(self.norm(x)), new


ATTENTIONS = {
    "causal": rf.CausalSelfAttention,
    "rotary": rf.RotaryPosCausalSelfAttention,
    "relative": rf.RelPosCausalSelfAttention,
    "learned": rf.build_dict(
        rf.RelPosCausalSelfAttention, learnable_pos_emb=True, learnable_pos_emb_clipping=3, with_linear_pos=False, with_pos_bias=False
    ),
}  # fmt: skip


@pytest.mark.parametrize("num_seqs,num_frames,segment", [(3, 7, 3), (1, 1, 1), (4, 4, 2), (8, 8, 8), (2, 5, 1)])
@pytest.mark.parametrize("name", ATTENTIONS)
def test_segments_and_steps_are_the_whole(name, num_seqs, num_frames, segment):
    rf.set_random_seed(0)
    batch, time = Dim(num_seqs, name="batch"), Dim(num_frames, name="time")
    vocab_dim = Dim(7, name="vocab")
    model = AttentionLm(vocab_dim, Dim(8, name="model"), ATTENTIONS[name])
    raw = np.random.default_rng(0).integers(0, 7, (num_seqs, num_frames)).astype("int32")
    ids = rf.convert_to_tensor(raw, dims=[batch, time], sparse_dim=vocab_dim)
    initial = model.default_initial_state(batch_dims=[batch])
    whole, _ = model(ids, spatial_dim=time, state=initial)
    whole = whole.copy_transpose([batch, time, vocab_dim]).raw_tensor

    state, parts = initial, []
    for start in range(0, num_frames, segment):
        part, part_dim = rf.slice(ids, axis=time, start=start, end=min(start + segment, num_frames))
        logits, state = model(part, spatial_dim=part_dim, state=state)
        parts.append((logits, part_dim))
    joined, joined_dim = rf.concat(*parts)
    torch.testing.assert_close(
        joined.copy_transpose([batch, joined_dim, vocab_dim]).raw_tensor, whole, atol=1e-4, rtol=1e-3
    )

    state = initial
    for pos in range(num_frames):
        logits, state = model(rf.gather(ids, indices=pos, axis=time), spatial_dim=single_step_dim, state=state)
        torch.testing.assert_close(
            logits.copy_transpose([batch, vocab_dim]).raw_tensor, whole[:, pos], atol=1e-4, rtol=1e-3
        )

    # one more label after prefixes of different lengths
    lengths = np.maximum(1, num_frames - np.arange(num_seqs)).astype("int32")
    prefix_dim = Dim(rf.convert_to_tensor(lengths, dims=[batch]), name="prefix")
    prefix = rf.convert_to_tensor(raw, dims=[batch, prefix_dim], sparse_dim=vocab_dim)
    _, state = model(prefix, spatial_dim=prefix_dim, state=initial)
    more = rf.range_over_dim(batch) % 7
    logits, _ = model(rf.set_sparse_dim(more, vocab_dim), spatial_dim=single_step_dim, state=state)
    for seq, length in enumerate(lengths):
        longer = np.append(raw[seq, :length], seq % 7).astype("int32")
        longer_dim = Dim(len(longer), name="longer")
        x = rf.convert_to_tensor(longer, dims=[longer_dim], sparse_dim=vocab_dim)
        alone, _ = model(x, spatial_dim=longer_dim, state=model.default_initial_state(batch_dims=[]))
        wanted = alone.copy_transpose([longer_dim, vocab_dim]).raw_tensor[-1]
        torch.testing.assert_close(
            logits.copy_transpose([batch, vocab_dim]).raw_tensor[seq], wanted, atol=1e-4, rtol=1e-3
        )
