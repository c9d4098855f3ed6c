"""Names in place of Dims: `rf.reduce_mean(x, axis="time")` refers to the dim of x with this name.

Names are resolved after a call has failed, as any name makes it fail; the call is then repeated with Dims. So a call with Dims pays
nothing.
"""

from __future__ import annotations

import difflib
import typing
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from types import CodeType, FunctionType
from typing import Any

from rfnb.core.argument_types import alternatives, fits, hints_of
from rfnb.core.dim import Dim
from rfnb.core.errors import NoPlanError, dim_error
from rfnb.core.op import Args, Kwargs
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_text import dims_text, operand_rows

Arguments = tuple[Args, Kwargs]
MAY_NAME = {str, list, tuple}  # types of what may be the name of a dim, or several


def with_dims(
    what: str, written: str, fn: Callable[..., Any], code: CodeType, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Arguments | None:
    """The arguments of a call with names replaced by Dims; None if there are no names, or no operands to take dims from.

    Args:
        what: Name of the function in messages.
        written: The call as code.
        code: The function's code object, for the names of positional arguments.

    Raises:
        DimError: For a name that no dim has, or several dims have; and for the name of a dim that the call would create.
    """
    hints = _hints(fn)
    names = [*code.co_varnames[: code.co_argcount]]
    names += ["*"] * (len(args) - len(names))
    if code.co_flags & 4:  # *args
        names = [code.co_varnames[code.co_argcount + code.co_kwonlyargcount] if name == "*" else name for name in names]
    given = [*zip(names, args), *kwargs.items()]
    if not any(name in hints and _has_name(value) and not fits(value, hints[name]) for name, value in given):
        return None
    operands = [(name, tensor) for name, value in given for tensor in _tensors(value)]
    if not operands or (names[:1] == ["self"] and isinstance(args[0], Dim)):  # what a Dim is asked about is dims
        return None
    call = _Call(what, written, operands)
    put = [call.put(name, value, hints[name]) if name in hints else value for name, value in given]
    return tuple(put[: len(args)]), dict(zip(kwargs, put[len(args) :]))


@cache
def _hints(fn: Callable[..., Any]) -> dict[str, Any]:
    """The types of the parameters that accept Dims."""
    return {name: hint for name, hint in hints_of(fn).items() if takes_dims(hint)}


def takes_dims(hint: Any) -> bool:
    """True if values of a type are Dims, or may contain Dims."""
    return any(
        kind is Dim or (typing.get_origin(kind) in _WITH_DIMS and any(map(takes_dims, typing.get_args(kind))))
        for kind in alternatives(hint)
    )


_WITH_DIMS = list, tuple, Sequence, Iterable, Collection


def _has_name(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, (list, tuple)) and any(map(_has_name, value)))


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple, Mapping)):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from _tensors(each)


class _Call:
    """A call with names for dims, and its operands."""

    def __init__(self, what: str, written: str, operands: Sequence[tuple[str, Tensor]]):
        self.what, self.written, self.operands = what, written, operands
        self.dims = list(dict.fromkeys(dim for _, tensor in operands for dim in tensor.dims))

    def put(self, label: str, value: Any, hint: Any) -> Any:
        """The value with names replaced by Dims; a single name becomes a list where several dims are expected."""
        if not _has_name(value) or fits(value, hint):
            return value
        dims = self._dims(label, value)
        several = ([dims], (dims,)) if isinstance(dims, Dim) and not fits(dims, hint) else ()
        return next((each for each in several if fits(each, hint)), dims)

    def _dims(self, label: str, value: Any) -> Any:
        if isinstance(value, str):
            return self._meant(label, value)
        return type(value)(self._dims(label, each) for each in value) if type(value) in (list, tuple) else value

    def _meant(self, label: str, name: str) -> Dim:
        found = [dim for dim in self.dims if dim.name == name]
        rows: list[tuple[str, str]] = []
        if label.startswith("out_"):
            says, rule = (
                "is a dim that is made here.",
                "A name is that of a dim which is there already. A new one is made by",
            )
            fix: str | None = f'{self.written}(..., {label}=rf.Dim(3, name="{name}"))'
        elif len(found) == 1:
            return found[0]
        elif found:
            own, tensor = next((own, tensor) for own, tensor in self.operands if found[0] in tensor.dims)
            says, rule = (
                f"is the name of {len(found)} dims.",
                "A name means one dim. Of several of that name, give the Dim:",
            )
            fix = f"{self.written}(..., {label}={own}.dims[{tensor.dims.index(found[0])}])"
            rows = [("dims", dims_text(found))]
        else:
            known = list(dict.fromkeys(dim.name for dim in self.dims))
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
            says, rule = "is the name of no dim here.", f"There are {', '.join(known) or 'no dims'}."
            fix = f'{self.written}(..., {label}="{near[0]}")' if near else None
            if not near:
                rule += " A dim that is not there yet is made by"
                fix = f'{self.written}(..., {label}=rf.Dim(3, name="{name}"))'
        shown = [*operand_rows(self.operands), (label, f'"{name}"'), *rows]
        raise dim_error(f'{self.what}: {label} "{name}" {says}', shown, rule, fix) from None


def without_first_try(error: BaseException, first: BaseException) -> None:
    """Hide the error of the first try from the error of a repeated call."""
    outer = None
    while error.__context__ is not None and error.__context__ is not first:
        outer, error = error, error.__context__
    error.__context__ = None
    if outer is not None and isinstance(error, NoPlanError):
        outer.__suppress_context__ = True


def again(
    fn: FunctionType,
    code: CodeType,
    arguments: Arguments,
    first: BaseException,
    explain: Callable[[tuple[Any, ...], dict[str, Any], Exception], None],
) -> Any:
    """The result of the call with other arguments.

    Args:
        explain: Raises an error about the arguments if they caused the given one.
    """
    same = FunctionType(code, fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__)
    same.__kwdefaults__ = fn.__kwdefaults__
    try:
        return same(*arguments[0], **arguments[1])
    except Exception as error:
        without_first_try(error, first)
        explain(*arguments, error)
        raise
