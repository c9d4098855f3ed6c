"""Views of what other libraries make, by the class of it: what knows the library lies above this layer.

    show_by("some.module.Output", "rfnb.interop.some_output:spec")     # by `rfnb/__init__.py`
    rf.show(output)                                                    # the spec that this function makes of it

Neither the library nor the function is imported before such a value is shown.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from rfnb.viz.spec import Spec

_places: dict[str, str] = {}  # class, with its module: "module:function" of what makes a spec


def show_by(kind: str, place: str) -> None:
    """Let `rf.show` make views of a class and of those that inherit from it.

    Args:
        kind: The module and the name of the class, with dots.
        place: "module:function": of the value and the options of the view to its Spec.
    """
    _places[kind] = place


def maker_of(value: Any) -> Callable[..., Spec] | None:
    """The function that makes the spec of a value; None if there is none for its class."""
    kinds = (f"{base.__module__}.{base.__qualname__}" for base in type(value).__mro__)
    place = next((_places[kind] for kind in kinds if kind in _places), None)
    if place is None:
        return None
    module, _, function = place.partition(":")
    made: Callable[..., Spec] = getattr(import_module(module), function)
    return made
