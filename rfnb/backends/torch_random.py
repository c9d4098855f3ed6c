"""Random numbers for torch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from rfnb.backends.torch_devices import accelerator, is_in_use, refuse_device


def random(
    shape: Sequence[int], distribution: str, *, dtype: str, device: str | None, low: float, high: float,
    generator: Any | None = None,
) -> Any:  # fmt: skip
    """See `Backend.random_raw`."""
    if distribution == "truncated_normal":
        return _truncated_normal(shape, device, low, high, generator).to(getattr(torch, dtype))
    raw = _empty(shape, getattr(torch, dtype), device)
    if distribution == "normal":
        return raw.normal_(low, high, generator=generator)
    if raw.is_floating_point():
        return raw.uniform_(low, high, generator=generator)
    return raw.random_(int(low), int(high), generator=generator)


def _empty(shape: Sequence[int], dtype: torch.dtype, device: str | None) -> Any:
    try:
        return torch.empty(tuple(shape), dtype=dtype, device=device)
    except Exception as error:
        refuse_device(error, device)
        raise


def _truncated_normal(shape: Sequence[int], device: str | None, low: float, high: float, generator: Any | None) -> Any:
    """Draw by the inverse of the distribution function, so that no draws need to be rejected."""
    mirrored = low + high > 0  # probabilities near 0 are precise, those near 1 are not
    low, high = (-high, -low) if mirrored else (low, high)
    raw = _empty(shape, torch.float64, device)
    raw.uniform_(math.erfc(-low / math.sqrt(2)) / 2, math.erfc(-high / math.sqrt(2)) / 2, generator=generator)
    out = torch.special.ndtri(raw.clamp_(min=1e-300)).clamp_(low, high)
    return -out if mirrored else out


def generator(device: str | None, *, seed: int | None = None, state: bytes | None = None) -> Any:
    """See `Backend.generator_raw`."""
    try:
        out = torch.Generator(device or "cpu")
    except Exception as error:
        refuse_device(error, device)
        raise
    if seed is not None:
        out.manual_seed(seed)
    if state is not None:
        out.set_state(_as_tensor(state))
    return out


def generator_state(generator: Any) -> bytes:
    """See `Backend.generator_state_raw`."""
    return bytes(generator.get_state().numpy())


def set_random_seed(seed: int) -> None:
    """See `Backend.set_random_seed`. `torch.manual_seed` also seeds the kinds of devices that this torch was not built for: for each
    of them it formats a stack, which takes 400 times as long as to seed.
    """
    torch.default_generator.manual_seed(int(seed))
    if (kind := accelerator()) is not None:
        module = torch.get_device_module(kind)
        if not module._is_in_bad_fork():
            (module.manual_seed if kind == "mps" else module.manual_seed_all)(int(seed))


def get_random_state() -> dict[str, bytes]:
    """See `Backend.get_random_state`. An accelerator not yet in use stays so: its state is empty under the name of its kind."""
    state = {"cpu": bytes(torch.get_rng_state().numpy())}
    kind = accelerator()
    if kind is not None and not is_in_use(kind):
        state[kind] = b""
    elif kind is not None:
        for name in _devices(kind):
            state[name] = bytes(device_state(name).numpy())
    return state


def set_random_state(state: dict[str, bytes]) -> None:
    """See `Backend.set_random_state`."""
    kind = accelerator()
    for name, value in state.items():
        if name == "cpu" or (kind is not None and name in _devices(kind)):
            set_device_state(name, _as_tensor(value))
        elif name == kind and is_in_use(kind):  # it was not yet
            for own in getattr(torch.get_device_module(kind), "default_generators", ()):
                own.manual_seed(own.initial_seed())


def device_state(device: torch.device | str) -> Any:
    """The generator state of a device, uint8 on the host; without waiting."""
    if torch.device(device).type == "cpu":
        return torch.get_rng_state()
    return torch.get_device_module(device).get_rng_state(device)


def set_device_state(device: torch.device | str, state: Any) -> None:
    """Restore the generator of a device to a state from `device_state`."""
    if torch.device(device).type == "cpu":
        torch.set_rng_state(state)
    else:
        torch.get_device_module(device).set_rng_state(state, device)


def _devices(kind: str) -> list[str]:
    """The names of the available devices of a kind."""
    return [f"{kind}:{index}" for index in range(torch.accelerator.device_count())]


def _as_tensor(state: bytes) -> Any:
    return torch.frombuffer(bytearray(state), dtype=torch.uint8)
