"""The error of a method that a backend lacks: it names the method and shows how to write it.

A method of `Backend` whose whole body is `raise NotImplementedError` is one that a backend writes; `teach_missing` replaces its
body by this error.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any


def teach_missing(base: type) -> None:
    """Let every abstract class method of `base` raise an error that teaches."""
    for name, method in list(vars(base).items()):
        if isinstance(method, classmethod) and method.__func__.__code__.co_names == ("NotImplementedError",):
            setattr(base, name, classmethod(_teaching(method.__func__)))


def _teaching(fn: Any) -> Any:
    signature = inspect.signature(fn)
    bare = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in signature.parameters.values()]
    head = f"{fn.__name__}{signature.replace(parameters=bare, return_annotation=inspect.Signature.empty)}"
    meaning = inspect.getdoc(fn) or "see the docstrings and the NumPy backend, which is written to be read"

    @functools.wraps(fn)
    def method(cls: Any, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(
            f'Backend "{cls.name}" has no {fn.__name__}.\n'
            f"  class    {cls.__module__}.{cls.__name__}\n"
            f"  meaning  {meaning.replace(chr(10), chr(10) + ' ' * 11)}\n"
            f"An op needs it; a backend writes the raw methods of the ops that it is used with. Add it to {cls.__name__}:\n"
            f"    @classmethod\n    def {head}:"
        )

    return method
