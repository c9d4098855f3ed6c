"""Copies recorded Tensors to the host, those of one device in a single transfer, since each transfer waits for all earlier work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

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
