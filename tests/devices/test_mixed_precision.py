"""Mixed precision on a device: what is in 16 bits there is what is in 16 bits on the CPU, and a step waits for its scale only."""

import pytest
import torch
from ops.test_amp import layers
from simulated import NAME, watched

import rfnb as rf

BATCH, IN, OUT = rf.Dim(3, name="batch"), rf.Dim(5, name="in"), rf.Dim(7, name="out")


@pytest.fixture(autouse=True)
def new_tensors_on_the_device():
    rf.set_random_seed(1)
    with rf.set_default_device_ctx(NAME):
        yield


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", layers())
def test_dtypes_are_those_of_the_cpu_and_nothing_waits(name, dtype):
    expected, fn = layers()[name]
    with rf.set_amp_policy_ctx(dtype), watched() as seen:
        x = fn()
    assert x.dtype == (dtype if expected == "bfloat16" else expected)
    assert x.device.startswith(NAME) and seen.waits == []


def test_full_precision_is_that_of_the_device_too():
    x, linear = rf.random_normal([BATCH, IN]), rf.Linear(IN, OUT)
    with rf.set_amp_policy_ctx("bfloat16"):
        assert linear(x).dtype == "bfloat16" and torch.is_autocast_enabled(NAME)
        with x.backend.full_precision():
            assert linear(x).dtype == "float32"
    assert linear(x).dtype == "float32" and not torch.is_autocast_enabled(NAME)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_the_state_of_a_loop_of_steps_is_that_of_the_whole_sequence(dtype):
    time = rf.Dim(4, name="time")
    lstm, x = rf.LSTM(IN, OUT), rf.random_normal([BATCH, time, IN])
    with rf.set_amp_policy_ctx(dtype):
        whole, last = lstm(x, state=lstm.default_initial_state(batch_dims=[BATCH]), spatial_dim=time)
        loop = rf.Loop(axis=time, name="steps")
        loop.state.lstm = lstm.default_initial_state(batch_dims=[BATCH])
        for _ in loop:
            h, loop.state.lstm = lstm(loop.unstack(x), state=loop.state.lstm, spatial_dim=rf.single_step_dim)
            steps = loop.stack(h)
    assert {value.dtype for value in (whole, steps, *last.values(), *loop.state.lstm.values())} == {"float32"}
    steps = steps.copy_transpose(whole.dims).raw_tensor
    torch.testing.assert_close(steps, whole.raw_tensor, atol=2e-2, rtol=0)


def train(dtype, steps):
    """The losses of a small training, as raw arrays."""
    model = rf.Linear(IN, OUT)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    scaler = torch.amp.GradScaler(NAME, enabled=dtype == "float16")
    x = rf.random_normal([BATCH, IN])
    target = rf.convert_to_tensor([1, 3, 5], dims=[BATCH], sparse_dim=OUT)
    losses = []
    with watched() as seen:
        for step in range(steps):
            with rf.init_train_step_run_ctx(step=step), rf.set_amp_policy_ctx(dtype):
                loss = rf.cross_entropy(estimated=model(x), target=target, axis=OUT, estimated_type="logits")
                loss.mark_as_loss("ce", use_normalized_loss=True)
                total = rf.get_run_ctx().total_loss().raw_tensor
            optimizer.zero_grad()
            scaler.scale(total).backward()
            scaler.step(optimizer)
            scaler.update()
            losses.append(total.detach())
    assert {parameter.dtype for parameter in model.parameters()} == {"float32"}
    return losses, seen


@pytest.mark.parametrize(("dtype", "waits"), [("bfloat16", 0), ("float16", 1)])
def test_training_has_about_the_losses_of_float32_and_waits_for_the_scale_only(dtype, waits):
    torch.manual_seed(2)
    expected, _ = train(None, 6)
    torch.manual_seed(2)
    found, seen = train(dtype, 6)
    assert len(seen.waits) == 6 * waits  # torch looks whether gradients are finite
    torch.testing.assert_close(torch.stack(found), torch.stack(expected), rtol=2e-2, atol=0)
    assert not torch.equal(torch.stack(found), torch.stack(expected)) and found[-1] < found[0]
