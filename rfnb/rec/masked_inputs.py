"""Values from outside that a layer reads in every step of a recorded loop, e.g. the encoder that is attended to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rfnb.core.tensor import Tensor, with_raw
from rfnb.core.tree import map_nested


class Masked:
    """Sets the padding of such values to 0 once, instead of in every step, if it is not finite."""

    def __init__(self) -> None:
        self._known: dict[
            int, tuple[Tensor, Tensor]
        ] = {}  # id -> the value, which keeps its id, and that without padding

    def __call__(self, fn: Callable[..., Any], args: Any, kwargs: Any) -> tuple[Any, Any]:
        """The arguments for the function of an op."""
        if not fn.__module__.startswith("rfnb.nn.") or "use_mask" in kwargs:
            return args, kwargs
        return map_nested(self._leaf, args), map_nested(self._leaf, kwargs)

    def _leaf(self, x: Any) -> Any:
        if type(x) is not Tensor or x._finite or not x.dtype.startswith(("float", "bfloat")):
            return x
        if not any(dim.has_padding() for dim in x.dims):
            return x
        found = self._known.get(id(x))
        if found is None:
            raw, backend = x._raw, x.backend
            if not backend.grad_enabled() and backend.is_on_host_raw(raw) and backend.is_finite_raw(raw):
                masked = with_raw(x.__dict__, raw)  # what is there does as well as 0
            else:
                masked = x.copy_masked(0)
            masked._finite = True
            found = self._known[id(x)] = x, masked
        return found[1]
