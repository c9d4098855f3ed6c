"""A raw array given to a layer: the error names the argument, not the attribute that an array does not have."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from rfnb.core.errors import message
from rfnb.core.tensor import Tensor


def raw_argument_error(
    module: Any, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> TypeError | None:
    """The error for the first argument of a call that is an array of another library; None if there is none."""
    for name, value in inspect.signature(call).bind_partial(module, *args, **kwargs).arguments.items():
        if (
            value is not module
            and not isinstance(value, Tensor)
            and hasattr(value, "__array__")
            and hasattr(value, "shape")
        ):
            got = f"{type(value).__module__}.{type(value).__name__} {tuple(value.shape)}"
            return TypeError(
                message(
                    f"{type(module).__name__}: {name} is not a Tensor.",
                    [(name, got)],
                    "A Tensor has a Dim for each axis, in the order of the array. Say which:",
                    f"{name} = rf.convert_to_tensor({name}, dims=[...])",
                )
            )
    return None
