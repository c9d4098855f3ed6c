"""All kinds of causal self-attention: a whole sequence at once is the same as its parts, its steps, and a loop over it."""

import pytest
import torch
from asserting import assert_same, ragged, randn, with_nan_padding

import rfnb as rf
from rfnb import Dim, single_step_dim

batch, model, key, value, out = (
    Dim(n, name=name) for n, name in ((3, "batch"), (6, "model"), (8, "key"), (10, "value"), (7, "out"))
)
SHAW = {"with_linear_pos": False, "with_pos_bias": False, "learnable_pos_emb": True, "learnable_pos_emb_clipping": 2}
KINDS = {
    "without positions": (rf.CausalSelfAttention, {}),
    "rotary": (rf.RotaryPosCausalSelfAttention, {}),
    "transformer-xl": (rf.RelPosCausalSelfAttention, {}),
    "shaw": (rf.RelPosCausalSelfAttention, SHAW),
    "shaw, shared": (rf.RelPosCausalSelfAttention, {**SHAW, "separate_pos_emb_per_head": False}),
}


@pytest.fixture(params=KINDS)
def module(request):
    kind, options = KINDS[request.param]
    made = kind(model, out, key_dim_total=key, value_dim_total=value, num_heads=2, **options)
    rf.set_random_seed(3)
    for parameter in made.parameters():
        parameter.initial = rf.Normal(0.7)
    return made


def frames(x, time, lengths):
    """(T, feature) of each sequence."""
    raw = x.copy_transpose([batch, time, x.feature_dim]).raw_tensor
    return [raw[seq, :length] for seq, length in enumerate(lengths)]


def test_step_by_step_is_the_whole_sequence(module):
    time = Dim(5, name="time")
    x = randn(batch, time, model)
    whole, end = module(x, time)
    state, steps = module.default_initial_state(batch_dims=[batch]), []
    assert state.accum_axis.size == 0 and set(state.k_accum.dims) >= {batch, state.accum_axis}
    for frame in rf.unstack(x, axis=time):
        step, state = module(frame, single_step_dim, state=state)
        steps.append(step)
    assert_same(rf.stack(steps, out_dim=time)[0], whole)
    assert state.accum_axis.size == 5
    same, _ = rf.replace_dim(state.k_accum, in_dim=state.accum_axis, out_dim=end.accum_axis)
    assert_same(same, end.k_accum)


def test_steps_without_an_initial_state_begin_at_the_start(module):
    time = Dim(2, name="time")
    x = randn(batch, time, model)
    first, second = rf.unstack(x, axis=time)
    a, state = module(first, single_step_dim)
    b, _ = module(second, single_step_dim, state=state)
    assert_same(rf.stack([a, b], out_dim=time)[0], module(x, time)[0])


def test_a_loop_is_the_whole_sequence(module):
    """The lengths differ: sequences that have ended stay as they are."""
    time = ragged([5, 4, 1], batch)
    x = randn(batch, time, model)
    loop = rf.Loop(axis=time)
    loop.state.att = module.default_initial_state(batch_dims=[batch])
    for _ in loop:
        step, loop.state.att = module(loop.unstack(x), single_step_dim, state=loop.state.att)
        stacked = loop.stack(step)
    assert_same(stacked, module(x, time)[0])


@pytest.mark.parametrize("lengths", [[2, 2, 2], [2, 0, 1]])
def test_two_parts_and_a_step_are_the_whole_sequence(module, lengths):
    a = Dim(2, name="a") if lengths == [2, 2, 2] else ragged(lengths, batch, "a")
    b, one = ragged([3, 1, 4], batch, "b"), Dim(1, name="one")
    parts = [randn(batch, dim, model, seed=seed) for seed, dim in enumerate((a, b, one))]
    whole_dim = (a + b) + one
    joined, _ = rf.concat(*zip(parts, (a, b, one)), out_dim=whole_dim)
    expected = frames(module(joined, whole_dim)[0], whole_dim, [n + m + 1 for n, m in zip(lengths, [3, 1, 4])])
    out_a, state = module(with_nan_padding(parts[0]), a)
    out_b, state = module(with_nan_padding(parts[1]), b, state=state)
    last, _ = module(rf.squeeze(parts[2], axis=one), single_step_dim, state=state)
    last = last.copy_transpose([batch, out]).raw_tensor
    for seq, (got_a, got_b) in enumerate(zip(frames(out_a, a, lengths), frames(out_b, b, [3, 1, 4]))):
        torch.testing.assert_close(torch.cat([got_a, got_b, last[seq, None]]), expected[seq], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("lengths", [[0, 0, 0], [0, 3, 1]])
def test_empty_sequences(module, lengths):
    time = ragged(lengths, batch)
    result, state = module(randn(batch, time, model), time)
    assert set(result.dims) == {batch, time, out} and result.raw_tensor.isfinite().all()
    step, _ = module(randn(batch, model), single_step_dim, state=state)
    assert step.raw_tensor.isfinite().all()


def test_a_batch_without_sequences(module):
    none = Dim(0, name="none")
    time = ragged([], none)
    result, _ = module(randn(none, time, model), time)
    assert result.copy_transpose([none, time, out]).raw_tensor.shape == (0, 0, 7)


def test_training_over_a_ragged_dim_gives_finite_gradients(module):
    time = ragged([5, 0, 1], batch)
    result, _ = module(randn(batch, time, model), time)
    rf.reduce_sum(result, axis=[batch, time, out]).raw_tensor.backward()
    assert all(parameter.raw_tensor.grad.isfinite().all() for parameter in module.parameters())
