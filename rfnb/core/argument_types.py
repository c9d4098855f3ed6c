"""Finds an argument of a wrong type from the annotations of a signature, after a call has failed, so that a good call pays nothing."""

from __future__ import annotations

import collections.abc
import inspect
import numbers
import os
import re
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor

_NAMES: dict[str, Any] = {"np": np, **vars(typing), **vars(collections.abc), "Tensor": Tensor, "Dim": Dim}
_WORDS = {
    "Tensor": "a Tensor", "Dim": "a Dim", "int": "an int", "float": "a number", "bool": "True or False", "str": "a str",
    "NoneType": "None", "Callable": "a function", "type": "a class",
}  # fmt: skip
_MANY = collections.abc.Iterable, collections.abc.Sequence, collections.abc.Collection, list, set, frozenset


def know_names(names: Mapping[str, Any]) -> None:
    """Define names for annotations in all files, where a file imports a name for type checkers only."""
    for name, value in names.items():
        _NAMES.setdefault(name, value)


class _KnownNames(dict[str, Any]):
    """Names that may occur in an annotation, including those of the package that are not loaded yet."""

    def __missing__(self, name: str) -> Any:
        if name in getattr(sys.modules.get("rfnb"), "__all__", ()):
            return getattr(sys.modules["rfnb"], name)
        raise KeyError(name)


@cache
def hints_of(fn: Callable[..., Any]) -> dict[str, Any]:
    """The types of a function's parameters; Any for a parameter without annotation, or whose names are known to type checkers only."""
    names = {**_NAMES, **getattr(inspect.unwrap(fn), "__globals__", {})}
    return {name: _meant(text, names) for name, text in getattr(fn, "__annotations__", {}).items() if name != "return"}


def _meant(text: Any, names: dict[str, Any]) -> Any:
    if isinstance(text, typing.ForwardRef):
        text = text.__forward_arg__
    try:
        return eval(text, {}, _KnownNames(names)) if isinstance(text, str) else text
    except (NameError, AttributeError, TypeError):
        return Any


def fits(value: Any, hint: Any) -> bool:
    """True if a value may be of a type. If the value alone does not tell, the answer is True."""
    return any(_fits_one(value, kind) for kind in alternatives(hint))


def is_taken(value: Any, hint: Any) -> bool:
    """True if a value is of a type or is accepted for it: 1 for True, a path for a string, a scalar for a number, a Dim for a list of
    one.
    """
    if fits(value, hint) or (isinstance(value, Dim) and fits([value], hint)):
        return True
    kinds = {kind for kind in alternatives(hint) if isinstance(kind, type)}
    if isinstance(value, os.PathLike) or type(value).__name__ in ("device", "dtype") or _is_dtype(value):
        return str in kinds
    if type(value) is int and value in (0, 1):
        return bool in kinds
    is_number = hasattr(value, "__index__") or hasattr(value, "__float__") or isinstance(value, numbers.Number)
    is_one = not getattr(value, "shape", ()) and not getattr(value, "dims", ())
    return is_number and is_one and not isinstance(value, (bool, type)) and not kinds.isdisjoint({int, float})


# What `isinstance` tells of an annotation, as it is written.
_QUICK: dict[str, tuple[type, ...]] = {
    "bool": (bool,), "int": (int,), "float": (int, float), "str": (str,), "None": (type(None),), "type": (type,), "Dim": (Dim,),
    "Tensor": (Tensor,), "Sequence": (list, tuple), "Iterable": (list, tuple), "Collection": (list, tuple), "tuple": (tuple,),
    "list": (list,), "dict": (dict,), "Mapping": (dict,), "Callable": (types.FunctionType,), "Literal": (str,), "range": (range,),
    "slice": (slice,),
}  # fmt: skip
_TOP = re.compile(r"(\w+)(?:\[(?:[^\[\]]|\[(?:[^\[\]]|\[[^\[\]]*\])*\])*\])?(?: \| |$)")


@cache
def quick_types(text: str) -> tuple[tuple[type, ...], bool]:
    """The classes whose instances are accepted for this annotation, apart from the contents of lists; and whether the annotation says
    nothing more.
    """
    parts = [match[1] for match in _TOP.finditer(text)]
    found = [each for part in parts for each in _QUICK.get(part, ())]
    return tuple(dict.fromkeys(found)), all(part in _QUICK for part in parts)


def named_types(text: str, names: Mapping[str, Any]) -> tuple[type, ...]:
    """The same classes for what the file of a function names: a class, as `State`, or a union, as `Value = float | Tensor`. Without int,
    of which a bool is an instance.

    Args:
        names: The globals of the file.
    """
    found = [names.get(match[1]) for match in _TOP.finditer(text)]
    kinds = [kind for each in found if isinstance(each, (type, types.UnionType)) for kind in alternatives(each)]
    return tuple(
        each for kind in kinds if type(kind) is type for each in _QUICK.get(kind.__name__, (kind,)) if each is not int
    )


def alternatives(hint: Any) -> Iterator[Any]:
    """The alternatives of a union type."""
    hint = _meant(hint, _NAMES) if isinstance(hint, (str, typing.ForwardRef)) else hint
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        for each in typing.get_args(hint):
            yield from alternatives(each)
    else:
        yield type(None) if hint is None else hint


def _fits_one(value: Any, hint: Any) -> bool:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return any(type(value) is type(each) and value == each for each in inner)
    if origin is typing.Annotated:
        return fits(value, inner[0])
    if origin is type or hint is type:
        return isinstance(value, type)
    if hint is Callable or origin is Callable:
        return callable(value)
    if hint is float or hint is int:
        number = numbers.Real if hint is float else numbers.Integral
        scalar = isinstance(value, number) and not isinstance(value, (bool, np.bool_))
        return scalar or (is_array(value) and not getattr(value, "shape", (1,)))
    if hint is bool:
        return isinstance(value, (bool, np.bool_)) or (is_array(value) and not getattr(value, "shape", (1,)))
    if hint is Tensor:
        return isinstance(value, Tensor)
    cls = origin or hint
    if not isinstance(cls, type) or cls in (Any, object) or getattr(cls, "_is_protocol", False):
        return True
    if cls in _MANY and not isinstance(value, (list, tuple, set, frozenset, Mapping)):
        if is_array(value) and not isinstance(value, Tensor):
            return all(each in (Any, int, float, bool) for kind in inner for each in alternatives(kind))
        return not isinstance(value, (str, bytes, Dim, Tensor, type, *_SINGLE)) and hasattr(value, "__iter__")
    if not isinstance(value, cls if cls not in (list, set, frozenset) else collections.abc.Collection):
        return False
    return not inner or not isinstance(value, (list, tuple)) or _items_fit(value, cls, inner)


_SINGLE = int, float, complex, types.FunctionType, type(None)


def _is_dtype(value: Any) -> bool:
    """True if it is a dtype object; the reader knows its name."""
    return isinstance(value, type) and issubclass(value, np.generic)


def _items_fit(values: Sequence[Any], cls: type, inner: tuple[Any, ...]) -> bool:
    if cls is not tuple or inner[-1] is Ellipsis:
        return all(fits(value, inner[0]) for value in values)
    return len(values) == len(inner) and all(map(fits, values, inner))


def is_array(value: Any) -> bool:
    """True if it is an array of some library, or can be converted to one."""
    return not isinstance(value, type) and hasattr(value, "__array__")


def in_words(hint: Any) -> str:
    """The types as text: `an int, or a list of Dims`."""
    words = list(dict.fromkeys(_word(kind) for kind in alternatives(hint)))
    words.sort(key=lambda word: word == "None")
    return ", ".join(words[:-1]) + f" or {words[-1]}" if len(words) > 1 else words[0]


def _word(hint: Any) -> str:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return " or ".join(map(repr, inner))
    cls = origin or hint
    if origin is tuple and inner[-1] is not Ellipsis:
        return f"a tuple ({', '.join(_word(each) for each in inner)})"
    if cls in _MANY or cls is tuple:
        of = " or ".join(dict.fromkeys(_plural(kind) for kind in alternatives(inner[0]))) if inner else "values"
        return f"a list of {of}"
    if isinstance(cls, type) and issubclass(cls, collections.abc.Mapping):
        return "a dict"
    name = getattr(cls, "__name__", str(cls))
    return _WORDS.get(name) or f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"


def _plural(hint: Any) -> str:
    if hint is Any or typing.get_origin(hint) is not None:
        return "values" if hint is Any else _word(hint)
    return {"float": "numbers", "bool": "bools", "NoneType": "None"}.get(hint.__name__, f"{hint.__name__}s")


def kind_of(value: Any) -> str:
    """The kind of a value as text: `a str`, `a torch.Tensor (2, 3)`, `a function`. Never the values of an array."""
    if value is None:
        return "None"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if isinstance(value, (types.FunctionType, types.BuiltinFunctionType, types.MethodType)):
        return "a function"
    cls = type(value)
    name = (
        cls.__name__ if cls.__module__.split(".")[0] in ("builtins", "rfnb") else f"{cls.__module__}.{cls.__qualname__}"
    )
    shape = getattr(value, "shape", None)
    size = f" {tuple(shape)}" if isinstance(shape, tuple) and not isinstance(value, Tensor) else ""
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}{size}"
