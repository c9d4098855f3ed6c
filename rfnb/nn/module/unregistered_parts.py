"""Warnings about unregistered modules and parameters (in a plain list or dict of a module, or from another library), with
the line to type; and about overwritten parameters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from rfnb.core.dim import Dim
from rfnb.core.errors import message, type_error
from rfnb.core.place import warn_user
from rfnb.core.tensor import Tensor
from rfnb.nn.module.parameter import Parameter

if TYPE_CHECKING:
    from rfnb.nn.module.module import Module

_LOOK_AT = 100  # entries checked per container; a vocabulary in a list is not searched


def warn_of_lost_parts(modules: Iterable[tuple[str, Module]], kind: type[Module]) -> None:
    """Warn about parts with parameters that only plain containers of these modules hold.

    Args:
        modules: A module and its submodules, with their paths.
        kind: Module (which imports this file).
    """
    modules = list(modules)
    found = {id(module) for _, module in modules}
    parameters = [value for _, module in modules for value in vars(module).values() if isinstance(value, Parameter)]
    found |= {id(value) for value in parameters}
    found |= {id(value.raw_tensor) for value in parameters}
    for path, module in modules:
        for name, value in vars(module).items():
            if not isinstance(value, (list, tuple, dict, set)):
                if not isinstance(value, (str, int, float, Dim, Tensor, kind)) and value is not None:
                    _warn_of_foreign(f"{path or type(module).__name__}.{name}", name, value, found)
                continue
            for item in islice(value.values() if isinstance(value, dict) else value, _LOOK_AT):
                if not isinstance(item, kind) and callable(getattr(item, "named_buffers", None)):
                    _warn_of_foreign(f"{path or type(module).__name__}.{name}", name, item, found)
            parts = [part for part in parts_in(value, kind, depth=2) if id(part) not in found]
            lost = [part for part in parts if isinstance(part, Parameter) or _is_lost(part, module)]
            if lost:
                _warn(f"{path or type(module).__name__}.{name}", name, value, lost)


def _warn_of_foreign(path: str, name: str, value: Any, found: set[int]) -> None:
    """Warn about a module or parameter of torch, unless rfnb parameters also hold its raw parameters."""
    if isinstance(value, type) or not callable(getattr(value, "requires_grad_", None)):
        return
    kind = f"{type(value).__module__}.{type(value).__name__}"
    if callable(getattr(value, "parameters", None)):
        number = sum(id(raw) not in found for raw in value.parameters())
        if not number:
            return
        row = ("module", f"{kind}, {number} parameter{'' if number == 1 else 's'}")
        fix = f"self.{name} = rf.ModuleList([rf.from_torch(module) for module in modules])"
    elif getattr(value, "requires_grad", False) and id(value) not in found and getattr(value, "is_leaf", False):
        row = ("array", f"{kind} {tuple(value.shape)}")
        fix = f"self.{name} = rf.Parameter([...], raw_tensor=array)    # the Dim of each axis"
    else:
        return
    rule = "Parameters are found in modules of rfnb, so no optimizer, checkpoint or device reaches these:"
    warn_user(message(f"{path}: rfnb does not find this part of torch.", [row], rule, fix))


def check_replaced(module: Module, name: str, parameter: Parameter, value: Any) -> None:
    """Warn if a Tensor replaces a parameter; refuse a raw array.

    Raises:
        TypeError: For a raw array.
    """
    kind, own = type(module).__name__, type(module).__name__.lower()
    if isinstance(value, Tensor):
        warn_user(
            message(
                f"{kind}.{name}: the parameter is replaced by a Tensor.",
                {"parameter": parameter, "value": value},
                "A Tensor is no parameter: no optimizer, checkpoint or device reaches it any more. For new values, or values computed\n"
                "from the parameter:",
                f"{own}.{name}.assign(value)    # or assign_add\nrf.register_parametrization({own}, {name!r}, ...)",
            )
        )
    elif hasattr(value, "__array__") and hasattr(value, "shape"):
        raise type_error(
            f"{kind}.{name}: a raw array is no parameter.",
            {
                "parameter": parameter,
                "value": f"{type(value).__module__}.{type(value).__name__} {tuple(value.shape)}",
            },
            "The parameter stays the same object, so that an optimizer keeps working; it gets new values:",
            f"{own}.{name}.assign(value)",
        )


def _is_lost(part: Module, holder: Module) -> bool:
    """Whether a part has parameters and does not contain its holder."""
    return not holder._is_inside(part) and any(True for _ in part._named_parameters())


def parts_in(value: Any, kind: type[Module], depth: int) -> Iterator[Any]:
    """The modules and parameters in a container, including nested containers."""
    if isinstance(value, (Parameter, kind)):
        yield value
    elif depth and isinstance(value, (list, tuple, dict, set)):
        for item in islice(value.values() if isinstance(value, dict) else value, _LOOK_AT):
            yield from parts_in(item, kind, depth - 1)


def _warn(path: str, name: str, value: Any, lost: list[Any]) -> None:
    what = type(value).__name__
    right = "ParameterList" if all(isinstance(part, Parameter) for part in lost) else "ModuleList"
    inside = ", ".join(dict.fromkeys(type(part).__name__ for part in lost))
    content = "{...}" if isinstance(value, dict) and right == "ModuleList" else "[...]"
    warn_user(
        message(
            f"{path}: the content of this {what} is not found.",
            {what: f"{len(lost)} with parameters: {inside}"},
            "Parameters, checkpoints, states and devices are those of attributes that are modules or parameters themselves:",
            f"self.{name} = rf.{right}({content})\nself.{name} = lambda: ...    # if it is not to be part of this module",
        )
    )
