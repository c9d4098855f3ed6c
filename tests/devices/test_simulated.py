"""The simulated device is as strict as a GPU: what tests there say would be worth nothing else."""

import copy
import gc

import pytest
import torch
from simulated import BACKEND, NAME, values, watched
from torch import nn

MAKE = {
    "Linear": lambda: nn.Linear(3, 4),
    "LSTM": lambda: nn.LSTM(3, 4, bidirectional=True),
    "GRU": lambda: nn.GRU(3, 4),
    "GRU of batch and time": lambda: nn.GRU(3, 4, batch_first=True),
    "Conv1d": lambda: nn.Conv1d(5, 4, 3),
    "ConvTranspose1d": lambda: nn.ConvTranspose1d(5, 4, 3),
    "LayerNorm": lambda: nn.LayerNorm(3),
    "TransformerEncoderLayer": lambda: nn.TransformerEncoderLayer(3, 1, 4, dropout=0.0, batch_first=True),
}
only_simulated = pytest.mark.skipif(NAME != "sim", reason="stricter than a GPU, or not to be seen there")


def of_sim(*values):
    return torch.tensor(values).to(NAME)


def run(module, x):
    """Its output, and the gradients of its parameters and of x."""
    x = x.detach().requires_grad_()
    out = module(x)
    out = out[0] if isinstance(out, tuple) else out
    (out * torch.arange(out.numel(), device=out.device, dtype=out.dtype).reshape(out.shape)).sum().backward()
    return [out, x.grad, *(parameter.grad for parameter in module.parameters())]


@pytest.mark.parametrize("name", MAKE)
def test_modules_of_torch_give_the_values_and_gradients_of_the_cpu(name):
    torch.manual_seed(0)
    module, x = MAKE[name](), torch.randn(2, 5, 3)
    expected = run(module, x)
    module.zero_grad()
    actual = run(module.to(NAME), x.to(NAME))
    assert {each.device.type for each in actual} == {NAME}
    for one, other in zip(actual, expected, strict=True):
        torch.testing.assert_close(one.cpu(), other)


def test_views_share_memory():
    x = torch.zeros(2, 3, device=NAME)
    x[1] = 5
    x.T[0].add_(1)
    x.view(torch.int32)[0, 2] = 0
    assert x.tolist() == [[1, 0, 0], [6, 5, 5]]
    y = x.to(torch.complex64)
    torch.view_as_real(y)[..., 1] = 2
    assert y[0, 0].item() == 1 + 2j
    torch.empty(0, device=NAME).set_(x.untyped_storage(), 1, (2,), (3,)).fill_(7)
    assert x.tolist() == [[1, 7, 0], [6, 7, 5]]


def test_in_place_a_tensor_gets_another_look_at_its_memory():
    x = torch.arange(6.0).to(NAME).view(2, 3)
    x.t_().add_(1)
    assert x.tolist() == [[1, 4], [2, 5], [3, 6]]
    x.unsqueeze_(0)
    assert (x.shape, x.squeeze_().shape) == ((1, 3, 2), (3, 2))


def test_a_module_there_is_copied_and_its_file_is_read_on_either_device(tmp_path):
    module = nn.Linear(2, 3).to(NAME)
    other = copy.deepcopy(module)
    expected = values(module.weight).clone()
    module.weight.data.zero_()
    assert torch.equal(values(other.weight), expected)
    state = {"whole": other.weight.data, "part": other.weight.data[1:], "turned": other.weight.data.T}
    torch.save(state, tmp_path / "state.pt")
    for place in ("cpu", NAME, None):
        read = torch.load(tmp_path / "state.pt", map_location=place, weights_only=True)
        assert {raw.device.type for raw in read.values()} == {torch.device(place or NAME).type}
        read = {name: raw if place == "cpu" else values(raw) for name, raw in read.items()}
        assert torch.equal(read["whole"], expected) and torch.equal(read["part"], expected[1:])
        assert torch.equal(read["turned"], expected.T)


def test_sequences_are_packed_by_lengths_of_the_host():
    x = torch.arange(6.0).to(NAME).view(2, 3, 1).requires_grad_()
    packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([1, 3]), batch_first=True, enforce_sorted=False)
    assert (packed.data.device.type, packed.batch_sizes.tolist()) == (NAME, [2, 1, 1])
    padded, lengths = nn.utils.rnn.pad_packed_sequence(packed, batch_first=True)
    padded.square().sum().backward()
    assert (padded[..., 0].tolist(), lengths.tolist()) == ([[0, 0, 0], [3, 4, 5]], [1, 3])
    assert x.grad[..., 0].tolist() == [[0, 0, 0], [6, 8, 10]]


@only_simulated
def test_memory_lives_as_long_as_what_uses_it():
    import simulated

    gc.collect()
    before = len(simulated._memory)
    view = (torch.zeros(2, 3, device=NAME) + 1)[1].view(torch.int32)
    assert len(simulated._memory) == before + 1
    assert values(view).tolist() == [0x3F800000] * 3
    del view
    assert len(simulated._memory) == before


def test_signs_that_are_views_are_those_of_the_values():
    x = torch.tensor([1 + 2j, 3 - 1j]).to(NAME)
    assert x.conj().cpu().tolist() == [1 - 2j, 3 + 1j]
    assert (x.conj() * x).real.tolist() == [5, 10]
    assert x.conj().imag.cpu().tolist() == [-2, 1]
    assert (x.conj().imag + 1).tolist() == [-1, 2]


@pytest.mark.parametrize(
    "op",
    [
        lambda x: x + torch.ones(3),
        lambda x: torch.cat([x, torch.ones(3)]),
        lambda x: torch.ones(3) @ x,
        lambda x: torch.where(x > 0, x, torch.zeros(3)),
        pytest.param(lambda x: x[torch.tensor([0, 2])], marks=only_simulated),
        lambda x: x.gather(0, torch.tensor([0])),
        lambda x: torch.stack([x, torch.ones(3)]),
        lambda x: torch.nn.functional.linear(x, torch.ones(2, 3)),
        lambda x: torch.cat([x, torch.tensor([])]),
    ],
)
def test_operands_on_two_devices_are_refused(op):
    with pytest.raises(RuntimeError, match="same device"):
        op(of_sim(1.0, 2.0, 3.0))


def test_a_scalar_of_the_host_may_come_along():
    assert (of_sim(1.0, 2.0) * torch.tensor(2.0) + 1).tolist() == [3, 5]


@pytest.mark.parametrize(
    "read",
    [
        lambda x: x.sum().item(),
        lambda x: bool((x > 0).any()),
        lambda x: float(x[0]),
        lambda x: x[x > 1],
        lambda x: x.nonzero(),
        lambda x: torch.masked_select(x, x > 1),
        lambda x: x.unique(),
        lambda x: torch.equal(x, x.clone()),
        lambda x: x.repeat_interleave(x.long()),
        lambda x: x.cpu(),
        lambda x: x.tolist(),
        lambda x: x.to("cpu"),
        lambda x: x.numpy(force=True),
        lambda x: torch.tensor([1.0]).to(NAME),
        lambda x: torch.tensor([1.0], device=NAME),
        lambda x: x.copy_(torch.ones(2)),
    ],
)
def test_what_waits_is_noted_with_its_line(read):
    x = of_sim(1.0, 2.0)
    with watched() as seen:
        read(x)
    assert seen.waits and all("tests/devices/test_simulated.py" in wait for wait in seen.waits)


@pytest.mark.parametrize(
    "op",
    [
        lambda x: x.softmax(-1).masked_fill(x > 1, 0.0),
        lambda x: torch.where(x > 1, x, 0.0),
        lambda x: x.sort().values.cumsum(0).argmax(),
        lambda x: torch.arange(3, device=NAME) + torch.full((3,), 2, device=NAME),
        lambda x: x.index_select(0, x.long() - 1)[:1],
        lambda x: (x > 1)[x.long() - 1],
    ],
)
def test_what_does_not_wait_is_not_noted(op):
    x = of_sim(1.0, 2.0)
    with watched() as seen:
        op(x)
    assert seen == []


def test_a_block_in_a_block_is_watched_by_itself():
    with watched() as outer:
        with watched() as inner:
            torch.ones(2).to(NAME)
        torch.ones(2).to(NAME)
    assert (len(inner.waits), len(outer.waits)) == (1, 2)


@only_simulated
def test_a_copy_that_does_not_wait_is_noted_as_a_copy_only():
    with watched() as seen:
        torch.ones(2).to(NAME, non_blocking=True)
    assert (len(seen.moved), seen.waits) == (1, [])


def test_it_draws_from_a_generator_of_its_own():
    torch.manual_seed(3)
    one = torch.randn(2, device=NAME)
    state = torch.get_rng_state()
    two = torch.rand(2, device=NAME)
    assert torch.equal(state, torch.get_rng_state())
    torch.manual_seed(3)
    torch.rand(5)
    assert torch.equal(values(one), values(torch.randn(2, device=NAME)))
    kept = BACKEND.get_rng_state()
    assert torch.equal(values(two), values(torch.rand(2, device=NAME)))
    BACKEND.set_rng_state(kept)
    assert torch.equal(values(two), values(torch.rand(2, device=NAME)))


def test_a_generator_of_the_device_is_one():
    generator = torch.Generator(NAME).manual_seed(1)
    assert isinstance(generator, torch.Generator)
    before = BACKEND.get_rng_state()
    one = torch.randn(2, device=NAME, generator=generator)
    assert torch.equal(before, BACKEND.get_rng_state())
    assert torch.equal(values(one), values(torch.randn(2, device=NAME, generator=generator.manual_seed(1))))


def test_autocast_gives_products_of_16_bits_and_leaves_the_rest():
    module, x = nn.Linear(2, 3).to(NAME), of_sim(1.0, 2.0)
    with torch.autocast(NAME, torch.bfloat16):
        y = module(x)
        assert (y.dtype, x.exp().dtype, nn.functional.linear(x.double(), module.weight.double()).dtype) == (
            torch.bfloat16, torch.float32, torch.float64,
        )  # fmt: skip
    y.sum().backward()
    assert module.weight.grad.dtype == torch.float32 and module(x).dtype == torch.float32
