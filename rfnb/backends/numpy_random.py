"""Random numbers for NumPy."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Any

import numpy as np

GENERATOR = np.random.default_rng()
_STATE_LENGTH = 1024  # a state is JSON, whose numbers may be longer or shorter: blanks fill it up


def random(
    shape: Sequence[int], distribution: str, *, dtype: str, low: float, high: float, generator: Any | None = None
) -> Any:
    """See `Backend.random_raw`."""
    source, shape = GENERATOR if generator is None else generator, tuple(shape)
    if distribution == "truncated_normal":
        raw = _truncated_normal(shape, low, high, source)
    elif distribution == "normal":
        raw = source.normal(low, high, shape)
    elif np.dtype(dtype).kind == "f":
        raw = source.uniform(low, high, shape)
    else:
        raw = source.integers(int(low), int(high), shape)
    return np.asarray(raw).astype(dtype)


def _truncated_normal(shape: tuple[int, ...], low: float, high: float, source: Any) -> np.ndarray:
    """Draw by the inverse of the distribution function."""
    mirrored = low + high > 0  # probabilities near 0 are precise, those near 1 are not
    low, high = (-high, -low) if mirrored else (low, high)
    below = [math.erfc(-value / math.sqrt(2)) / 2 for value in (low, high)]
    inverse = np.vectorize(NormalDist().inv_cdf, otypes=[np.float64])
    out = np.clip(inverse(np.maximum(source.uniform(*below, shape), 1e-300)), low, high)
    return -out if mirrored else out


def generator(device: str | None, *, seed: int | None = None, state: bytes | None = None) -> Any:
    """See `Backend.generator_raw`."""
    out = np.random.default_rng(seed)
    if state is not None:
        out.bit_generator.state = json.loads(state)
    return out


def generator_state(generator: Any) -> bytes:
    """See `Backend.generator_state_raw`."""
    return json.dumps(generator.bit_generator.state).ljust(_STATE_LENGTH).encode()


def set_random_seed(seed: int) -> None:
    """See `Backend.set_random_seed`."""
    GENERATOR.bit_generator.state = type(GENERATOR.bit_generator)(seed).state


def get_random_state() -> dict[str, bytes]:
    """See `Backend.get_random_state`."""
    return {"cpu": generator_state(GENERATOR)}


def set_random_state(state: dict[str, bytes]) -> None:
    """See `Backend.set_random_state`."""
    GENERATOR.bit_generator.state = json.loads(state["cpu"])
