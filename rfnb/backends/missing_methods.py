"""The methods that a backend must provide: if one is missing, the error names it and shows how to write it."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    written_by_backend = classmethod
else:

    def written_by_backend(fn: Any) -> Any:
        """A class method of `Backend` that has a docstring only: calling it raises an error that teaches."""
        return classmethod(_teaching(fn))


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
