"""Attributes that there are not, but that people look for: they raise an AttributeError with the line to type instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from rfnb.core.errors import attribute_error


class Absent:
    """One such attribute. One of these per name, not `__getattr__`: with that, Python looks up all attributes of all tensors more
    slowly, which makes small ops a fifth slower."""

    def __init__(self, owner: str, name: str, rule: str, instead: str):
        self.owner, self.name, self.rule, self.instead = owner, name, rule, instead

    def __get__(self, instance: Any, owner: type) -> NoReturn:
        rows = [] if instance is None else [(self.owner.split()[-1].lower(), self._show(instance))]
        raise attribute_error(f"{self.owner} has no attribute {self.name!r}.", rows, self.rule, self.instead)

    @staticmethod
    def _show(instance: Any) -> str:
        from rfnb.core.tensor_text import dims_text  # same layer, later: Tensor and Dim are made of this

        if hasattr(instance, "dims"):
            return dims_text(instance.dims)
        return instance.short_repr() if hasattr(instance, "short_repr") else type(instance).__name__


class NeverSet(Absent):
    """One that cannot be set either: it would be an attribute that nobody reads."""

    def __set__(self, instance: Any, value: Any) -> NoReturn:
        self.__get__(instance, type(instance))


def put_absent(cls: type, owner: str, rule: str, instead: Mapping[str, str]) -> None:
    """Make each name an attribute of `cls` that raises; `instead` has what to write for it."""
    for name, line in instead.items():
        setattr(cls, name, Absent(owner, name, rule, line))
