"""The error for an argument of a wrong type: which one, its type, the expected type, and the call to type."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from rfnb.core.argument_types import alternatives, fits, in_words, kind_of
from rfnb.core.call_errors import MissingArgument, WrongCall, shown
from rfnb.core.dim import Dim
from rfnb.core.errors import DimError, dim_error, type_error
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_text import dims_text, labels_of


def explain_types(
    what: str,
    code: str,
    signature: inspect.Signature,
    hints: Mapping[str, Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    but: Collection[Dim] = (),
    error: BaseException | None = None,
    takes: Callable[[Any, Any], bool] = fits,
) -> TypeError | DimError | None:
    """The error for the first argument whose type its parameter does not accept; None if there is none.

    Args: as in `call_errors.explain_call`, and
        hints: The type of each parameter.
        error: Of the call that has failed.
        takes: Whether a value is taken for one of a type.
    """
    call = WrongCall(signature, args, kwargs, but)
    wrong = [name for name, value in call.bound.items() if not takes(value, hints.get(name, Any))]
    if not wrong:
        return _without_attribute(what, code, call, error)
    before, texts = [], {}
    for name in wrong:
        lines, texts[name] = _cure(name, call.bound[name], hints[name], call)
        before += lines
    rows = [(label, shown(value)) for label, value in call.given()]
    name = wrong[0]
    first = f"{what}: {name} is {kind_of(call.bound[name])}."
    fix = "\n".join([*before, f"{code}({', '.join(call.corrected(texts))})", *call.comments])
    make: Any = dim_error if Dim in alternatives(hints[name]) else type_error  # as of `no_dim`
    made: TypeError | DimError = make(first, rows, f"{name} is {in_words(hints[name])}:", fix)
    return made


def _without_attribute(what: str, code: str, call: WrongCall, error: BaseException | None) -> TypeError | None:
    """The error for an argument of any type that lacks something the call needs."""
    if not isinstance(error, AttributeError):
        return None
    for name, value in call.bound.items():
        if value is error.obj:
            rows = [(label, shown(each)) for label, each in call.given()]
            rule = f'{name} is something with "{error.name}". What is taken there:'
            return type_error(f"{what}: {name} is {kind_of(value)}.", rows, rule, f"help({code})")
    return None


def _cure(name: str, value: Any, hint: Any, call: WrongCall) -> tuple[list[str], str]:
    """The lines before the call, and the text of the argument in it."""
    kinds = list(alternatives(hint))
    plain = [typing.get_origin(kind) or kind for kind in kinds]
    default = call.parameters[name].default
    single = [value] if not isinstance(value, (str, bytes)) else None
    if single is not None and any(fits(single, kind) for kind in kinds if typing.get_args(kind)):
        return [], f"[{call.code_of(name, value, alone=True)}]"
    if Dim in plain:
        return [], _dim(name, value, call)
    if Tensor in plain:
        return _tensor(name, value, call)
    several = next(
        (typing.get_args(kind)[0] for kind in kinds if typing.get_args(kind) and not _is_function(kind)), None
    )
    if several is Dim:
        return [], f"[{_dim(name, None, call)}]"
    return [], _plain(name, value, kinds, default)


def _is_function(kind: Any) -> bool:
    return typing.get_origin(kind) is not None and not isinstance(typing.get_origin(kind), type)


def _dim(name: str, value: Any, call: WrongCall) -> str:
    """The operand's dim that is probably meant, or one of its dims; a new dim if there is no operand."""
    operand = call.operand()
    if operand is None or not operand[1].dims:
        size = value if isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value >= 0 else 3
        called = value if isinstance(value, str) else {"sparse_dim": "vocab"}.get(name, name.removesuffix("_dim"))
        return f'rf.Dim({size}, name="{called}")'
    label, tensor = operand
    labels = labels_of(tensor.dims)
    at = next((i for i, dim in enumerate(tensor.dims) if isinstance(value, str) and dim.name == value), None)
    if (
        at is None
        and isinstance(value, int)
        and not isinstance(value, bool)
        and -len(tensor.dims) <= value < len(tensor.dims)
    ):
        at = value
    if at is None:
        used = [each for each in call.bound.values() if isinstance(each, Dim)]
        free = [i for i, dim in enumerate(tensor.dims) if dim not in used and dim not in call.but]
        at = free[-1] if free else -1
        call.comments += [f"# {label}.dims[{i}] is {labels[dim]}" for i, dim in enumerate(tensor.dims)]
    else:
        call.comments.append(f"# {label}.dims[{at}] is {labels[tensor.dims[at]]}")
    return f"{label}.dims[{at}]"


def _tensor(name: str, value: Any, call: WrongCall) -> tuple[list[str], str]:
    """A Tensor made from the given value, in a preceding line."""
    if isinstance(value, Dim):
        return [f"{name} = rf.range_over_dim({value.name if value.name.isidentifier() else name})"], name
    if isinstance(value, (bool, int, float, np.number)):
        return [], f"rf.constant({value!r})" if not isinstance(value, np.number) else f"rf.constant({value.item()!r})"
    if callable(value) and not isinstance(value, type) and not hasattr(value, "shape"):
        return [f"{name} = {name}(...)    # what it gives, not the function"], name
    shape = getattr(value, "shape", None)
    if shape is None and isinstance(value, (list, tuple)) and value:
        if all(isinstance(each, Tensor) for each in value):
            return [f'{name}, _ = rf.stack({name}, out_dim=rf.Dim({len(value)}, name="stack"))'], name
        shape = np.shape(value) if all(isinstance(each, (int, float)) for each in value) else None
    dims = "[...]" if not isinstance(shape, tuple) else f"[{', '.join(_dims_of(tuple(shape), call))}]"
    array = name if isinstance(shape, tuple) else "array"
    return [f"{name} = rf.convert_to_tensor({array}, dims={dims})"], name


def _dims_of(shape: tuple[int, ...], call: WrongCall) -> list[str]:
    """A dim for each axis of an array: one of an operand with the same size, else a new one."""
    operand = call.operand()
    known = [] if operand is None else [(f"{operand[0]}.dims[{i}]", dim) for i, dim in enumerate(operand[1].dims)]
    found = []
    for size in shape:
        same = next((each for each in known if each[1].size == size), None)
        if same is not None:
            known.remove(same)
        found.append(f"rf.Dim({size})" if same is None else same[0])
    return found


def _plain(name: str, value: Any, kinds: list[Any], default: Any) -> str:
    """A value of a plain type: an informative default, else the probable intention or an example."""
    if default is not inspect.Parameter.empty and default is not None and isinstance(default, (bool, int, float, str)):
        return repr(default)
    if name == "dtype":
        return '"float32"'
    for kind in kinds:
        if typing.get_origin(kind) is typing.Literal:
            return repr(typing.get_args(kind)[0])
    if default is None:
        return "None"
    if int in kinds or float in kinds:
        if isinstance(value, str) and value.strip().isdigit():
            return value.strip()
        return "1" if int in kinds else "1.0"
    if bool in kinds:
        return "True"
    if str in kinds:
        return '"..."'
    return "..."


def not_a_tensor(kind: str, value: Any) -> TypeError:
    """The error for a value that should be a Tensor: None, several values, a raw array, ..."""
    if isinstance(value, MissingArgument):
        return value.error()
    if isinstance(value, (list, tuple)) and any(isinstance(each, Tensor) for each in value):
        names = ["x" if place == 0 else "_" for place in range(len(value))]
        return type_error(
            f"{kind}: this operand is several values.",
            {"got": f"{type(value).__name__}: {', '.join(_kind(each) for each in value)}"},
            "What gives back several values, as a layer with a state or with a new dim does, is taken apart first:",
            f"{', '.join(names)} = value",
        )
    return type_error(
        f"{kind}: this operand is not a Tensor.",
        {"got": type(value).__name__ if type(value).__module__ == "builtins" else _full_name(type(value))},
        "Raw arrays and lists do not say which axis is which.",
        "rf.convert_to_tensor(value, dims=[...])",
    )


def _kind(value: Any) -> str:
    return dims_text(value.dims) if isinstance(value, Tensor) else type(value).__name__


def _full_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"  # there are Tensors of torch too
