"""Random numbers for torch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from rfnb.backends.torch_devices import refuse_device


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
    """Draw by the inverse of the distribution function, so that nobody has to look whether numbers are outside."""
    mirrored = low + high > 0  # probabilities near 0 are precise, those near 1 are not
    low, high = (-high, -low) if mirrored else (low, high)
    raw = _empty(shape, torch.float64, device)
    raw.uniform_(math.erfc(-low / math.sqrt(2)) / 2, math.erfc(-high / math.sqrt(2)) / 2, generator=generator)
    out = torch.special.ndtri(raw.clamp_(min=1e-300)).clamp_(low, high)
    return -out if mirrored else out


def generator(device: str | None, *, seed: int | None = None, state: bytes | None = None) -> Any:
    """See `Backend.generator_raw`."""
    out = torch.Generator(device or "cpu")
    if seed is not None:
        out.manual_seed(seed)
    if state is not None:
        out.set_state(_as_tensor(state))
    return out


def generator_state(generator: Any) -> bytes:
    """See `Backend.generator_state_raw`."""
    return bytes(generator.get_state().numpy())


def set_random_seed(seed: int) -> None:
    """See `Backend.set_random_seed`."""
    torch.manual_seed(seed)


def get_random_state() -> dict[str, bytes]:
    """See `Backend.get_random_state`."""
    state = {"cpu": bytes(torch.get_rng_state().numpy())}
    if torch.cuda.is_available():
        for index, raw in enumerate(torch.cuda.get_rng_state_all()):
            state[f"cuda:{index}"] = bytes(raw.numpy())
    return state


def set_random_state(state: dict[str, bytes]) -> None:
    """See `Backend.set_random_state`."""
    for name, value in state.items():
        if name == "cpu":
            torch.set_rng_state(_as_tensor(value))
        elif torch.cuda.is_available():
            torch.cuda.set_rng_state(_as_tensor(value), name)


def _as_tensor(state: bytes) -> Any:
    return torch.frombuffer(bytearray(state), dtype=torch.uint8)
