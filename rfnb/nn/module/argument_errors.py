"""Errors for a module called with unknown arguments, a raw array, or operands on another device than its parameters. The
error names the argument, or both devices and the path of a parameter, and the line to type.

The check runs only after a call has failed, so a successful call pays nothing.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any

from rfnb.core.argument_types import hints_of
from rfnb.core.call_errors import explain_call
from rfnb.core.device_errors import (
    ONE_DEVICE,
    Operand,
    about_devices,
    computes,
    copies,
    devices_of,
    is_of_devices,
    names_in,
    of_devices,
    operands_in,
    rows_of,
    target_of,
)
from rfnb.core.dim import Dim
from rfnb.core.dim_names import with_dims
from rfnb.core.door import is_raw
from rfnb.core.errors import DimError, parts_of, type_error
from rfnb.core.op import Args, Kwargs
from rfnb.core.place import in_package, user_frame
from rfnb.core.tensor import Tensor
from rfnb.core.type_errors import explain_types
from rfnb.nn.module.parameter import Parameter
from rfnb.ops.defaults import is_float_dtype
from rfnb.ops.operands import check_dtypes


def argument_error(
    module: Any, call: Callable[..., Any], args: Args, kwargs: Kwargs, error: Exception
) -> TypeError | DimError | None:
    """The error for a failed `__call__`: for arguments that do not match, else for the first one that is an array of
    another library or of a wrong type. None if the arguments are not the cause.
    """
    signature = _without_self(call)
    name = module.get_default_name()
    features = {value for value in vars(module).values() if isinstance(value, Dim)}
    first_state = _first_state(features, name, args, kwargs)
    misfit = explain_call(type(module).__name__, name, signature, args, kwargs, first_state, but=features)
    if misfit is not None or not call.__module__.startswith("rfnb."):
        return misfit
    raw = is_raw(error, error.__traceback__ and error.__traceback__.tb_next)
    if not raw and not isinstance(error, (AttributeError, TypeError)):
        return None
    for label, value in signature.bind_partial(*args, **kwargs).arguments.items():
        if not isinstance(value, Tensor) and hasattr(value, "__array__") and hasattr(value, "shape"):
            got = f"{type(value).__module__}.{type(value).__name__} {tuple(value.shape)}"
            return type_error(
                f"{type(module).__name__}: {label} is not a Tensor.",
                {label: got},
                "A Tensor has a Dim for each axis, in the order of the array. Say which:",
                f"{label} = rf.convert_to_tensor({label}, dims=[...])",
            )
    return (
        explain_types(type(module).__name__, name, signature, hints_of(call), args, kwargs, but=features)
        if raw
        else None
    )


def call_with_dims(
    module: Any, call: Any, first: Any, more: tuple[Any, ...], kwargs: Kwargs
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a `__call__` after the first one, with names of dims replaced by the Dims."""
    if not call.__module__.startswith("rfnb."):
        return more, kwargs
    what, args = type(module).__name__, (None, first, *more)
    named = with_dims(what, module.get_default_name(), call, call.__code__, args, kwargs)
    return (more, kwargs) if named is None else (named[0][2:], named[1])


def init_error(module: Any, init: Callable[..., Any], args: Args, kwargs: Kwargs) -> TypeError | DimError | None:
    """The same for a failed `__init__` of a layer."""
    name = _class_name(module, init)
    misfit = explain_call(name, f"rf.{name}", _without_self(init), args, kwargs)
    return misfit or init_type_error(module, init, args, kwargs)


def init_type_error(module: Any, init: Callable[..., Any], args: Args, kwargs: Kwargs) -> TypeError | DimError | None:
    """The error for the first argument of an `__init__` that has a wrong type."""
    name, hints = _class_name(module, init), hints_of(init)
    return explain_types(name, f"rf.{name}", _without_self(init), hints, args, kwargs)


def _class_name(module: Any, init: Callable[..., Any]) -> str:
    cls = type(module)
    return cls.__name__ if cls.__module__.startswith("rfnb.") else init.__qualname__.split(".")[0]


def initial_state_error(module: Any, fn: Callable[..., Any], args: Args, kwargs: Kwargs) -> TypeError | DimError | None:
    """The same for a failed `default_initial_state`."""
    name = module.get_default_name()
    what, code = f"{type(module).__name__}.default_initial_state", f"{name}.default_initial_state"
    dim = kwargs.get("batch_dims")
    if isinstance(dim, Dim):
        return type_error(
            f"{what}: batch_dims is one Dim.",
            {"batch_dims": dim},
            "There may be several, or none; so they are a list:",
            f"{code}(batch_dims=[{dim.name}])",
        )
    signature = _without_self(fn)
    misfit = explain_call(what, code, signature, args, kwargs)
    return misfit or explain_types(what, code, signature, hints_of(fn), args, kwargs)


def _without_self(fn: Callable[..., Any]) -> inspect.Signature:
    signature = inspect.signature(fn)
    return signature.replace(parameters=list(signature.parameters.values())[1:])


def _first_state(features: set[Dim], name: str, args: Args, kwargs: Kwargs) -> str:
    """The code that makes the initial state: over all dims of the source except the spatial dim and the features."""
    source = next((value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)), None)
    along = [value for value in (*args, *kwargs.values()) if isinstance(value, Dim)]
    batch = "[...]"
    if source is not None and along:
        dims = [dim for dim in source.dims if dim not in along and dim not in features]
        if all(dim.name.isidentifier() for dim in dims):
            batch = f"[{', '.join(dim.name for dim in dims)}]"
    return f"{name}.default_initial_state(batch_dims={batch})"


def check_module_dtypes(module: Any, args: Args, kwargs: Kwargs) -> None:
    """Raise a TypeError if a layer of this package refused the dtypes of its operands, or has parameters of another dtype.
    Called while the error of a kernel is handled.
    """
    error = sys.exc_info()[1]
    if error is None or parts_of(error) is not None or not type(module).__module__.startswith("rfnb."):
        return
    operands = {f"x{place or ''}": x for place, x in enumerate(args) if isinstance(x, Tensor)}
    operands |= {name: x for name, x in kwargs.items() if isinstance(x, Tensor)}
    weights = [(name, x) for name, x in module._named_parameters() if is_float_dtype(x.dtype)][:1]
    if any(x.dtype != weight.dtype for x in operands.values() for _, weight in weights) or not weights:
        check_dtypes(type(module).__name__, **{**operands, **dict(weights)})


def devices_error(
    module: Any,
    call: Callable[..., Any],
    args: Args,
    kwargs: Kwargs,
    error: RuntimeError,
    caller: Any,
) -> RuntimeError | None:
    """The error for a failed `__call__` if devices are the cause; None if `error` already says all there is to say.

    Args:
        caller: The frame that called the module. The message shows the call in user code, not calls inside it.
    """
    if error.__dict__.get("of_user"):
        return None
    explained = _explained(module, call, args, kwargs) if is_of_devices(error) or about_devices(error) else None
    if not in_package(caller.f_code):
        (explained or error).__dict__["of_user"] = True
    return explained


def _explained(module: Any, call: Callable[..., Any], args: Args, kwargs: Kwargs) -> RuntimeError | None:
    if not call.__module__.startswith("rfnb."):  # calls inside user code have been reported there
        return None
    arguments = inspect.signature(call).bind_partial(module, *args, **kwargs).arguments
    inputs = [each for name, value in list(arguments.items())[1:] for each in _arguments_in(name, value)]
    names = names_in(user_frame(1)[0])
    inputs = [(names.get(id(tensor), label), tensor) for label, tensor in inputs]
    held = _held_by(module)
    parameters = [each for each in held if isinstance(each[1], Parameter)]
    others = [each for each in held if not isinstance(each[1], Parameter)]
    among = devices_of(parameters, numbers=True)
    # Tensors without dims usually may come from the host; blame them only if nothing else qualifies.
    numbers = len({*among, *devices_of([*inputs, *others])}) < 2
    at = devices_of([*inputs, *others], numbers=numbers)
    if len({*among, *at}) < 2:
        return None
    what = f"{type(module).__name__}: the operands are on different devices."
    rows = [*rows_of(inputs), *_by_device(parameters), *rows_of(others)]
    root = "model" if module.module_path else module.get_default_name()
    if len(among) > 1 or (among == ["cpu"] and computes(at)):
        target = target_of(among if len(among) > 1 else at)
        rule, lines = _ALL, [f'{root}.to(device="{target}")']
    else:
        target = among[0] if among else target_of(at)
        rule, lines = _COMES_IN if among else ONE_DEVICE, []
    lines += copies(
        [*inputs, *((names.get(id(tensor), f"{root}.{label}"), tensor) for label, tensor in others)],
        target,
        numbers=numbers,
    )
    return of_devices(what, rows, rule, lines)


_ALL = "The parameters of a model are on one device, where it computes. Move them all:"
_COMES_IN = "A module computes on the device of its parameters. Copy the inputs to it:"


def _arguments_in(name: str, value: Any) -> list[Operand]:
    if isinstance(value, dict) and name == "kwargs":
        return [each for key, item in value.items() for each in operands_in(key, item)]
    return operands_in(name, value)


def _held_by(module: Any) -> list[Operand]:
    """The parameters and other Tensors in a module, with their paths in the model."""
    prefix = module.module_path
    return [
        (".".join(filter(None, (prefix, path, name))), value)
        for path, part in module.named_modules()
        for name, value in vars(part).items()
        if isinstance(value, Tensor) and value.device is not None
    ]


def _by_device(parameters: list[Operand]) -> list[tuple[str, str]]:
    """A row for the first parameter on each device, with the number of further parameters there."""
    rows = []
    for device in devices_of(parameters, numbers=True):
        there = [each for each in parameters if str(each[1].device) == device]
        label, text = rows_of(there[:1])[0]
        rows.append((label, text + (f", and {len(there) - 1} more" if len(there) > 1 else "")))
    return rows
