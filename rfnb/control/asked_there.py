"""Questions about values that are on a device, answered there: one wait for all of them, and no copy of what is asked about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rfnb.core.tensor import Tensor


def is_there(tensor: Tensor) -> bool:
    """Whether its values are on a device that the host waits for."""
    return tensor.raw_tensor is not None and not tensor.backend.is_on_host_raw(tensor.raw_tensor)


def any_not_finite(tensors: Sequence[Tensor]) -> list[bool]:
    """Whether there is a NaN or an infinity in each of some tensors that are there, their padding included."""

    def odd(tensor: Tensor) -> Any:
        unary = tensor.backend.unary_fn
        return unary("logical_not")(unary("is_finite")(tensor.raw_tensor))

    return _answers([(tensor, odd(tensor)) for tensor in tensors])


def any_different(pairs: Sequence[tuple[Tensor, Tensor]]) -> list[bool]:
    """Whether there is a number that is another one in each of some pairs that are there, of the same shape; a NaN is as any NaN."""

    def other(one: Tensor, other: Tensor) -> Any:
        a, b, combine = one.raw_tensor, other.raw_tensor, one.backend.combine_raw
        is_nan = combine(combine(a, "not_equal", a), "logical_and", combine(b, "not_equal", b))
        return combine(combine(a, "not_equal", b), "logical_and", one.backend.unary_fn("logical_not")(is_nan))

    return _answers([(a, other(a, b)) for a, b in pairs])


def _answers(asked: Sequence[tuple[Tensor, Any]]) -> list[bool]:
    """Whether any entry is True in each raw array; of those on one device together."""
    groups: dict[Any, list[int]] = {}
    for place, (tensor, _) in enumerate(asked):
        groups.setdefault((tensor.backend, tensor.device), []).append(place)
    out = [False] * len(asked)
    for (backend, _), places in groups.items():
        flags = [
            backend.reduce_raw(asked[place][1], "any", tuple(range(len(asked[place][0].dims)))) for place in places
        ]
        host: np.ndarray = backend.raw_to_numpy(backend.stack_raw(flags, 0))
        for place, flag in zip(places, host.tolist(), strict=True):
            out[place] = flag
    return out
