"""A module called with arguments that it does not take, or with a raw array: the error names the argument and the line to type.

Looked for when a call has failed, so a good call pays nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from rfnb.core.call_errors import explain_call
from rfnb.core.dim import Dim
from rfnb.core.errors import type_error
from rfnb.core.tensor import Tensor


def argument_error(
    module: Any, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> TypeError | None:
    """The error for a failed `__call__`: for arguments that do not fit, else for the first that is an array of another library.
    None if the arguments are not to blame."""
    signature = _without_self(call)
    name = module.get_default_name()
    features = {value for value in vars(module).values() if isinstance(value, Dim)}
    first_state = _first_state(features, name, args, kwargs)
    misfit = explain_call(type(module).__name__, name, signature, args, kwargs, first_state, but=features)
    if misfit is not None or not call.__module__.startswith("rfnb."):
        return misfit
    for label, value in signature.bind_partial(*args, **kwargs).arguments.items():
        if not isinstance(value, Tensor) and hasattr(value, "__array__") and hasattr(value, "shape"):
            got = f"{type(value).__module__}.{type(value).__name__} {tuple(value.shape)}"
            return type_error(
                f"{type(module).__name__}: {label} is not a Tensor.",
                [(label, got)],
                "A Tensor has a Dim for each axis, in the order of the array. Say which:",
                f"{label} = rf.convert_to_tensor({label}, dims=[...])",
            )
    return None


def init_error(
    module: Any, init: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> TypeError | None:
    """The same for a failed `__init__` of a layer."""
    cls = type(module)
    name = cls.__name__ if cls.__module__.startswith("rfnb.") else init.__qualname__.split(".")[0]
    return explain_call(name, f"rf.{name}", _without_self(init), args, kwargs)


def initial_state_error(
    module: Any, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> TypeError | None:
    """The same for a failed `default_initial_state`."""
    name = module.get_default_name()
    what, code = f"{type(module).__name__}.default_initial_state", f"{name}.default_initial_state"
    dim = kwargs.get("batch_dims")
    if isinstance(dim, Dim):
        return type_error(
            f"{what}: batch_dims is one Dim.",
            [("batch_dims", dim.short_repr())],
            "There may be several, or none; so they are a list:",
            f"{code}(batch_dims=[{dim.name}])",
        )
    return explain_call(what, code, _without_self(fn), args, kwargs)


def _without_self(fn: Callable[..., Any]) -> inspect.Signature:
    signature = inspect.signature(fn)
    return signature.replace(parameters=list(signature.parameters.values())[1:])


def _first_state(features: set[Dim], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """The way to make the state of the first step: over all dims of what is worked on but the one moved along and the features."""
    source = next((value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)), None)
    along = [value for value in (*args, *kwargs.values()) if isinstance(value, Dim)]
    batch = "[...]"
    if source is not None and along:
        dims = [dim for dim in source.dims if dim not in along and dim not in features]
        if all(dim.name.isidentifier() for dim in dims):
            batch = f"[{', '.join(dim.name for dim in dims)}]"
    return f"{name}.default_initial_state(batch_dims={batch})"
