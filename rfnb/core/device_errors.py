"""Operands on two devices: the error shows them as user code passed them, and the lines that bring them together.

This is checked after a kernel has refused them, so a good call pays nothing. Devices are named as in arguments.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from inspect import CO_VARARGS, CO_VARKEYWORDS
from types import FrameType
from typing import Any

from rfnb.core.errors import parts_of, runtime_error, type_error
from rfnb.core.place import user_frame
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_text import dims_text, labels_of

Operand = tuple[str, Tensor]  # with what it is called
ONE_DEVICE = "An op computes on one device. Copy an operand to that of the others:"
_WORDS = re.compile(r"\bdevices?\b(?!-side)|\bon cpu\b|\bcuda\.\w+Tensor\b", re.IGNORECASE)


def about_devices(error: BaseException) -> bool:
    """True if an error of a kernel may concern the devices of its operands, in torch's many phrasings."""
    return bool(_WORDS.search(str(error)))


def devices_of(operands: Iterable[Operand], *, numbers: bool = False) -> list[str]:
    """The distinct devices of these operands; operands without dims may come from the host and count with `numbers` only."""
    return list(dict.fromkeys([str(tensor.device) for _, tensor in operands if numbers or tensor.dims]))


def target_of(devices: Sequence[str]) -> str:
    """The device to bring everything to: the first that is not the host, since that one was chosen explicitly."""
    return next((device for device in devices if computes([device])), devices[0])


def computes(devices: Sequence[str]) -> bool:
    """True if one of these is neither the host nor a device without values."""
    return any(not device.startswith(("cpu", "meta")) for device in devices)


def on_two_devices(kind: str, operands: Sequence[Operand], *, numbers: bool = False) -> RuntimeError | None:
    """The error for operands of an op on several devices; None if they are on one. If the op is part of another that user code called
    with them, it names that one and its arguments. Operands are called by their names in user code.

    Args:
        kind: The op.
        numbers: Whether operands without dims must be on the device too.
    """
    if len(devices_of(operands, numbers=numbers)) < 2:
        return None
    user, called = user_frame(1)
    name, given = _arguments_of(called)
    if len(devices_of(given, numbers=numbers)) > 1:
        kind, operands = name or kind, given
    names = names_in(user)
    named = {(names.get(id(tensor), label.replace("self", "x")), id(tensor)): tensor for label, tensor in operands}
    operands = [(label, tensor) for (label, _), tensor in named.items()]
    target = target_of(devices_of(operands, numbers=numbers))
    return of_devices(
        f"{kind}: the operands are on different devices.",
        rows_of(operands),
        ONE_DEVICE,
        copies(operands, target, numbers=numbers),
    )


def of_devices(what: str, rows: Sequence[tuple[str, str]], rule: str, lines: Sequence[str]) -> RuntimeError:
    """An error of this kind, which `is_of_devices` recognises."""
    error = runtime_error(what, rows, rule, "\n".join(lines))
    error.__dict__["of_devices"] = True
    return error


def is_of_devices(error: BaseException) -> bool:
    """True if an error already tells which operands are on which device."""
    return "of_devices" in error.__dict__ and parts_of(error) is not None


def rows_of(operands: Sequence[Operand]) -> list[tuple[str, str]]:
    """A row for each operand: its dims, dtype and device."""
    labels = labels_of(dim for _, tensor in operands for dim in tensor.dims)
    return [
        (label, f"{dims_text(tensor.dims, labels)} {tensor.dtype} on {tensor.device}") for label, tensor in operands
    ]


def copies(operands: Iterable[Operand], target: str, *, numbers: bool = False) -> list[str]:
    """The lines that bring the other operands to `target`; a parameter is moved, so that it stays a parameter."""
    lines: dict[str, None] = {}
    for label, tensor in operands:
        if str(tensor.device) != target and (numbers or tensor.dims):
            name, note = ("x", f"    # {label}") if "[" in label else (label, "")  # a list may be written in the call
            moved = f'{name}.to(device="{target}")' if hasattr(tensor, "trainable") else None
            lines[(moved or f'{name} = rf.copy_to_device({name}, "{target}")') + note] = None
    return list(lines)


def operands_in(label: str, value: Any) -> list[Operand]:
    """The Tensors in a value, including those in dicts, lists and tuples, named as in code."""
    if isinstance(value, Tensor):
        return [] if value.device is None else [(label, value)]  # a value of a recorded step shows no array
    if isinstance(value, dict):
        named = [
            (f".{key}" if str(key).isidentifier() and hasattr(value, key) else f"[{key!r}]", item)
            for key, item in value.items()
        ]
    elif isinstance(value, (list, tuple)):
        named = [(f"[{place}]", item) for place, item in enumerate(value)]
    else:
        named = []
    return [operand for part, item in named for operand in operands_in(label + part, item)]


def names_in(user: FrameType) -> dict[int, str]:
    """The names that a frame of user code has for its Tensors and for the parameters of its modules, by id."""
    names: dict[int, str] = {}
    for name, value in user.f_locals.items():
        if name.startswith("_"):  # results that a notebook keeps
            continue
        if isinstance(value, Tensor):
            names.setdefault(id(value), name)
        elif hasattr(value, "named_parameters") and not isinstance(value, type):
            for path, tensor in [*value.named_parameters(), *vars(value).items()]:
                names.setdefault(id(tensor), f"{name}.{path}")
    return names


def _arguments_of(called: FrameType | None) -> tuple[str, list[Operand]]:
    """The name of a function of this package, "" for a private one, and the Tensors among its arguments."""
    if called is None or "<locals>" in called.f_code.co_qualname:
        return "", []
    code, values = called.f_code, called.f_locals
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & CO_VARARGS) + bool(code.co_flags & CO_VARKEYWORDS)
    name = "" if code.co_name.startswith("_") else code.co_qualname
    return name, [each for label in code.co_varnames[:count] for each in operands_in(label, values.get(label))]


def device_name(device: Any) -> str:
    """The name of a device, given by name or as a torch.device.

    Raises:
        TypeError: For a number, or anything else that is not a device.
    """
    if isinstance(device, str):
        return device
    if type(device).__name__ == "device" and isinstance(getattr(device, "type", None), str):
        return str(device)
    number = isinstance(device, int) and not isinstance(device, bool)
    raise type_error(
        "device: this is no name of a device.",
        {"got": repr(device) if number else type(device).__name__},
        "A device has a name, with a number if there are several of its kind:",
        f'device="cuda:{device if number else 0}"    # or "cpu", "mps", ...',
    )
