"""Policy gradient with a baseline over sampled sequences that a while_loop collects in a TensorArray, a quantiser with straight-through
gradients, and sampling without replacement; against plain torch."""

import numpy as np
import pytest
import torch
from rfnb.tensor_array import TensorArray

import rfnb as rf
from rfnb.tensor import Dim, Tensor, batch_dim, single_step_dim


class Policy(rf.Module):
    def __init__(self, in_dim: Dim, actions_dim: Dim, dim: Dim):
        super().__init__()
        self.actions_dim = actions_dim
        self.embed, self.context = rf.Embedding(actions_dim, dim), rf.Linear(in_dim, dim)
        self.lstm, self.out = rf.LSTM(dim, dim), rf.Linear(dim, actions_dim)

    def __call__(self, prev: Tensor, context: Tensor, *, spatial_dim: Dim, state: rf.State) -> tuple[Tensor, rf.State]:
        y, lstm = self.lstm(self.embed(prev) + context, spatial_dim=spatial_dim, state=state.lstm)
        return rf.log_softmax(self.out(y), axis=self.actions_dim), rf.State(lstm=lstm)

    def sample(self, context: Tensor, *, batch_dims: list[Dim], max_len: int) -> tuple[Tensor, Dim]:
        start = rf.zeros(batch_dims, dtype="int32", sparse_dim=self.actions_dim)

        def goes_on(state: rf.State) -> Tensor:
            going = rf.reduce_any(rf.logical_not(state.ended), axis=state.ended.dims)
            return rf.logical_and(going, state.pos < max_len)

        def step(state: rf.State) -> rf.State:
            log_probs, model = self(state.action, context, spatial_dim=single_step_dim, state=state.model)
            action = rf.random_choice_with_replacement(batch_dims, probs=rf.exp(log_probs), axis=self.actions_dim)
            action = rf.cast(rf.where(state.ended, 0, action), "int32")
            return rf.State(
                action=action, model=model, pos=state.pos + 1, size=state.size + rf.where(state.ended, 0, 1),
                ended=rf.logical_or(state.ended, action == 0), actions=state.actions.push_back(action),
            )  # fmt: skip

        initial = rf.State(
            action=start, model=self.default_initial_state(batch_dims=batch_dims), pos=rf.constant(0, dims=()),
            size=rf.zeros(batch_dims, dtype="int32"), ended=rf.zeros(batch_dims, dtype="bool"), actions=TensorArray(start),
        )  # fmt: skip
        last = rf.while_loop(goes_on, step, initial)
        out_dim = Dim(last.size, name="actions")
        return last.actions.stack(axis=out_dim), out_dim


class Quantiser(rf.Module):
    def __init__(self, dim: Dim, codes_dim: Dim):
        super().__init__()
        self.dim, self.codes_dim = dim, codes_dim
        self.codes = rf.Parameter([codes_dim, dim])
        self.codes.initial = rf.init.Normal(1.0)

    def __call__(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        distance = rf.reduce_sum(rf.square(rf.combine_bc(x, "-", self.codes)), axis=self.dim)
        code = rf.gather(self.codes, indices=rf.reduce_argmin(distance, axis=self.codes_dim))
        commitment = rf.reduce_mean(rf.squared_difference(x, rf.stop_gradient(code)), axis=self.dim)
        codebook = rf.reduce_mean(rf.squared_difference(code, rf.stop_gradient(x)), axis=self.dim)
        return x + rf.stop_gradient(code - x), commitment, codebook


def source_of(lengths: list[int], size: int) -> tuple[torch.Tensor, Tensor, Dim, Dim]:
    batch_dim.reset_eager()
    rf.set_random_seed(11)
    in_dim = Dim(size, name="in")
    time = Dim(rf.convert_to_tensor(np.array(lengths, "int32"), dims=[batch_dim]), name="time")
    raw = torch.tensor(np.random.default_rng(0).normal(size=(len(lengths), max(lengths), size)).astype("float32"))
    return raw, rf.convert_to_tensor(raw, dims=[batch_dim, time, in_dim], feature_dim=in_dim), time, in_dim


SIZES = [([5, 3, 1, 4], 5, 6, 3), ([1], 5, 6, 3), ([4, 4, 4, 4], 4, 4, 4), ([2, 7], 5, 6, 2)]


@pytest.mark.parametrize(("lengths", "num_actions", "size", "num_samples"), SIZES)
def test_the_policy_gradient_of_samples(lengths, num_actions, size, num_samples):
    raw, x, time, in_dim = source_of(lengths, 4)
    samples_dim = Dim(num_samples, name="samples")
    model = Policy(in_dim, Dim(num_actions, name="vocab"), Dim(size, name="model"))
    with rf.init_train_step_run_ctx(train_flag=True) as run:
        context = model.context(rf.reduce_mean(x, axis=time))
        batch_dims = [batch_dim, samples_dim]
        with rf.stop_gradient_scope():
            actions, out_dim = model.sample(context, batch_dims=batch_dims, max_len=5)
        initial = model.default_initial_state(batch_dims=batch_dims)
        prev = rf.shift_right(actions, axis=out_dim, pad_value=0)
        log_probs, _ = model(prev, context, spatial_dim=out_dim, state=initial)
        score = rf.reduce_sum(rf.gather(log_probs, indices=actions, axis=model.actions_dim), axis=out_dim)
        reward = rf.reduce_sum(rf.where(actions == 2, 1.0, 0.0), axis=out_dim)
        (score * (rf.reduce_mean(reward, axis=samples_dim) - reward)).mark_as_loss("policy")
        entropy = -rf.reduce_sum(rf.exp(log_probs) * log_probs, axis=model.actions_dim)
        entropy.mark_as_loss("entropy", scale=-0.01, use_normalized_loss=True)

    ids = actions.copy_transpose([*batch_dims, out_dim]).raw_tensor.long()
    sizes = out_dim.get_size_tensor().copy_transpose(batch_dims).raw_tensor
    embed, context_weight, context_bias, out_weight, out_bias = params = [
        param.raw_tensor for param in (model.embed.weight, *model.context.parameters(), *model.out.parameters())
    ]
    lstm = torch.nn.LSTM(size, size)
    lstm.weight_ih_l0.data, lstm.weight_hh_l0.data = (
        w.raw_tensor.detach() for w in (model.lstm.ff_weight, model.lstm.rec_weight)
    )
    lstm.bias_ih_l0.data, lstm.bias_hh_l0.data = model.lstm.bias.raw_tensor.detach(), torch.zeros(4 * size)
    expected, entropies = 0.0, []
    for seq, length in enumerate(lengths):
        shift = raw[seq, :length].mean(0) @ context_weight + context_bias
        cut = [ids[seq, i, : sizes[seq, i]] for i in range(num_samples)]
        assert all((labels[:-1] != 0).all() and (labels[-1] == 0 or len(labels) == 5) for labels in cut)
        rewards = torch.tensor([(labels == 2).sum().float() for labels in cut])
        for labels, advantage in zip(cut, rewards - rewards.mean()):
            h, _ = lstm((embed[torch.nn.functional.pad(labels, (1, -1))] + shift)[:, None])
            own = torch.log_softmax(h[:, 0] @ out_weight + out_bias, -1)
            expected = expected - own.gather(1, labels[:, None]).sum() * advantage
            entropies.append(-(own.exp() * own).sum(-1))
    expected = expected - 0.01 * torch.cat(entropies).mean()
    total = run.total_loss().raw_tensor
    torch.testing.assert_close(total, expected, atol=1e-4, rtol=1e-4)
    for grad, wanted in zip(torch.autograd.grad(total, params), torch.autograd.grad(expected, params)):
        torch.testing.assert_close(grad, wanted, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize(("lengths", "num_codes", "size", "num_samples"), SIZES)
def test_straight_through_gradients_and_distinct_samples(lengths, num_codes, size, num_samples):
    raw, x, time, in_dim = source_of(lengths, size)
    codes_dim, samples_dim = Dim(num_codes, name="codes"), Dim(num_samples, name="samples")
    quantiser = Quantiser(in_dim, codes_dim)
    rf.set_requires_gradient(x)
    with rf.init_train_step_run_ctx() as run:
        out, commitment, codebook = quantiser(x)
        commitment.mark_as_loss("commitment", scale=0.25, use_normalized_loss=True)
        codebook.mark_as_loss("codebook", use_normalized_loss=True)
        rf.reduce_sum(rf.square(out), axis=in_dim).mark_as_loss("task", use_normalized_loss=True)
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    inputs, codes = raw.detach()[mask].requires_grad_(), quantiser.codes.raw_tensor.detach().clone().requires_grad_()
    code = codes[(inputs[:, None] - codes).square().sum(-1).argmin(-1)]
    expected = (
        0.25 * (inputs - code.detach()).square().mean() + (code - inputs.detach()).square().mean()
        + (inputs + (code - inputs).detach()).square().sum(-1).mean()
    )  # fmt: skip
    expected.backward()
    total = run.total_loss().raw_tensor
    torch.testing.assert_close(total, expected, atol=1e-4, rtol=1e-4)
    total.backward()
    torch.testing.assert_close(x.raw_tensor.grad[mask], inputs.grad, atol=1e-5, rtol=1e-3)
    torch.testing.assert_close(quantiser.codes.raw_tensor.grad, codes.grad, atol=1e-5, rtol=1e-3)

    log_probs = rf.log_softmax(rf.matmul(x, quantiser.codes, reduce=in_dim), axis=codes_dim)
    options = {"log_probs": log_probs, "axis": codes_dim, "num_samples_dim": samples_dim}
    drawn = rf.random_choice_without_replacement(**options)
    rows = drawn.copy_transpose([batch_dim, time, samples_dim]).raw_tensor[mask]
    assert all(len(set(row)) == num_samples for row in rows.tolist())
    without_noise = rf.random_choice_without_replacement(**options, noise_scale=0.0)
    _, best, _ = rf.top_k(log_probs, axis=codes_dim, k_dim=samples_dim)
    order = [batch_dim, time, samples_dim]
    assert torch.equal(
        without_noise.copy_transpose(order).raw_tensor[mask], best.copy_transpose(order).raw_tensor[mask]
    )
