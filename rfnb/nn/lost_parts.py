"""Modules and parameters in a plain list or dict of a module, where nobody finds them: a warning, with the line to type."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from rfnb.core.errors import message
from rfnb.core.place import warn_user
from rfnb.nn.parameter import Parameter

if TYPE_CHECKING:
    from rfnb.nn.module import Module

_LOOK_AT = 100  # entries of a container; a vocabulary in a list is not searched


def warn_of_lost_parts(modules: Iterable[tuple[str, Module]], kind: type[Module]) -> None:
    """Warn of what the plain containers of these modules hold, if it has parameters and is nowhere else.

    Args:
        modules: A module and all that were found in it, with their paths.
        kind: Module (which imports this file).
    """
    modules = list(modules)
    found = {id(module) for _, module in modules}
    found |= {id(value) for _, module in modules for value in vars(module).values() if isinstance(value, Parameter)}
    for path, module in modules:
        for name, value in vars(module).items():
            if not isinstance(value, (list, tuple, dict, set)):
                continue
            parts = [part for part in _parts(value, kind, depth=2) if id(part) not in found]
            lost = [part for part in parts if isinstance(part, Parameter) or _is_lost(part, module)]
            if lost:
                _warn(f"{path or type(module).__name__}.{name}", name, value, lost)


def _is_lost(part: Module, holder: Module) -> bool:
    """Whether a part has parameters, and is not what the holder itself is in."""
    return not holder._is_inside(part) and any(True for _ in part._named_parameters())


def _parts(value: Any, kind: type[Module], depth: int) -> Iterator[Any]:
    """The modules and parameters in a container, also in containers in it."""
    if isinstance(value, (Parameter, kind)):
        yield value
    elif depth and isinstance(value, (list, tuple, dict, set)):
        for item in islice(value.values() if isinstance(value, dict) else value, _LOOK_AT):
            yield from _parts(item, kind, depth - 1)


def _warn(path: str, name: str, value: Any, lost: list[Any]) -> None:
    what = type(value).__name__
    right = "ParameterList" if all(isinstance(part, Parameter) for part in lost) else "ModuleList"
    inside = ", ".join(dict.fromkeys(type(part).__name__ for part in lost))
    content = "{...}" if isinstance(value, dict) and right == "ModuleList" else "[...]"
    warn_user(
        message(
            f"{path}: what is in this {what} is not found.",
            [(what, f"{len(lost)} with parameters: {inside}")],
            "Parameters, checkpoints, states and devices are those of attributes that are modules or parameters themselves:",
            f"self.{name} = rf.{right}({content})\nself.{name} = lambda: ...    # if it is not to be part of this module",
        )
    )
