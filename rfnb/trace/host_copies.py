"""Values on the host. Recorded Tensors of one device are copied in a single transfer, since each transfer waits for all earlier work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rfnb.backends import registry
from rfnb.core.tensor import Tensor, with_raw


def on_host(values: Sequence[Any]) -> list[Any]:
    """The values, with the arrays of device Tensors on the host."""
    out = list(values)
    there: dict[Any, list[int]] = {}
    for place, value in enumerate(values):
        if isinstance(value, Tensor) and value._raw is not None and not value.backend.is_on_host_raw(value._raw):
            there.setdefault(value.backend, []).append(place)
    for backend, places in there.items():
        arrays = backend.raws_to_numpy([values[place]._raw for place in places])
        for place, array in zip(places, arrays, strict=True):
            value = values[place]
            out[place] = with_raw(value.__dict__, backend.from_numpy(array, dtype=value.dtype, device="cpu"))
    return out


def all_on_host(values: Mapping[str, Any]) -> dict[str, Any]:
    """The same for values by name."""
    return dict(zip(values, on_host(list(values.values())), strict=True))


def values_of(value: Any) -> np.ndarray:
    """The values of a Tensor, of an array on any device, or of nested numbers as a NumPy array; those of bfloat16 as float32."""
    if isinstance(value, Tensor):
        return value.numpy()
    if hasattr(value, "detach"):
        return registry.BY_TYPE[type(value)].raw_to_numpy(value)
    return np.asarray(value)
