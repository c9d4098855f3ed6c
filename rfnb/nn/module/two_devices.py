"""A module called with operands that are on another device than its parameters: the error names both, a parameter by its path."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from rfnb.core.place import in_package, user_frame
from rfnb.core.tensor import Tensor
from rfnb.core.two_devices import (
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
from rfnb.nn.module.parameter import Parameter


def devices_error(
    module: Any,
    call: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    error: RuntimeError,
    caller: Any,
) -> RuntimeError | None:
    """The error for a failed `__call__` where devices are to blame; None if there is nothing more to say than `error` does.

    Args:
        caller: The frame that has called the module. What user code has called is shown, not what is called inside of that.
    """
    if error.__dict__.get("of_user"):
        return None
    explained = _explained(module, call, args, kwargs) if is_of_devices(error) or about_devices(error) else None
    if not in_package(caller.f_code):
        (explained or error).__dict__["of_user"] = True
    return explained


def _explained(
    module: Any, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> RuntimeError | None:
    if not call.__module__.startswith("rfnb."):  # what user code does inside has been named there
        return None
    arguments = inspect.signature(call).bind_partial(module, *args, **kwargs).arguments
    inputs = [each for name, value in list(arguments.items())[1:] for each in _arguments_in(name, value)]
    names = names_in(user_frame(1)[0])
    inputs = [(names.get(id(tensor), label), tensor) for label, tensor in inputs]
    held = _held_by(module)
    parameters = [each for each in held if isinstance(each[1], Parameter)]
    others = [each for each in held if not isinstance(each[1], Parameter)]
    among = devices_of(parameters, numbers=True)
    # What has no dims may come from the host, mostly; it is to blame if nothing else is.
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
_COMES_IN = "A module computes on the device of its parameters. Copy what comes in to it:"


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
    """A row for the first parameter on each device, which says how many others are there."""
    rows = []
    for device in devices_of(parameters, numbers=True):
        there = [each for each in parameters if str(each[1].device) == device]
        label, text = rows_of(there[:1])[0]
        rows.append((label, text + (f", and {len(there) - 1} more" if len(there) > 1 else "")))
    return rows
