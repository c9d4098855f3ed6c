"""Helpers for checks: call an answer, compare its result, check padding and gradients.

check_calls(answer, reference, [(scores, 2), (more_scores, 3)])     # compares both; reports the smallest input that fails
check_padding(answer, x)                                            # is padding ignored?
"""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from rfnb.core.dim import Dim
from rfnb.core.dim_mask import real_entries
from rfnb.core.errors import value_error
from rfnb.core.foreign_arrays import is_array
from rfnb.core.place import in_package
from rfnb.core.tensor import Tensor
from rfnb.ops.const import convert_to_tensor
from rfnb.teaching.brief import brief
from rfnb.teaching.difference import Difference, difference
from rfnb.teaching.exercises import Unsolved, wrong

# Padding values: far from all values of exercises, and finite, so that a multiplication by 0 removes them, as for the
# padding of real data.
_GARBAGE = 777.0


def call(answer: Any, *args: Any, **kwargs: Any) -> Any:
    """Call an answer; None and `...` are not accepted as results.

    Raises:
        Wrong: If it returns None, or cannot be called.
        Unsolved: If it returns `...`.
    """
    if not callable(answer):
        wrong("This is no function.", [("got", brief(answer))], "Define it with `def`, and give the function itself.")
    result = answer(*args, **kwargs)
    if result is Ellipsis:
        raise Unsolved
    if result is None:
        wrong("It returns None.", inputs_of(answer, args, kwargs), "A function ends with `return` and its result.")
    return result


def truth_of(answer: Any, *args: Any, **kwargs: Any) -> bool:
    """Call an answer that returns True or False, of Python, NumPy or torch.

    Raises:
        Wrong: If it is something else. Unsolved: See `call`.
    """
    got = call(answer, *args, **kwargs)
    value = getattr(got, "tolist", lambda: got)()  # for arrays
    while isinstance(value, list) and len(value) == 1 and value is not got:
        (value,) = value
    if not (isinstance(value, bool) or (type(value) is int and value in (0, 1))):
        many = isinstance(value, list) and value is not got
        wrong(
            "It gives many answers, and one is wanted: True or False."
            if many
            else "It is asked whether, so it returns True or False.",
            [("got", brief(got))],
            "All of them count: torch.allclose(one, other), or np.any(...), np.all(...)" if many else "",
        )
    return bool(value)


def check_same(
    got: Any,
    expected: Any,
    *,
    what: str = "The result",
    tolerance: float = 1e-4,
    given: Sequence[tuple[str, object]] = (),
) -> None:
    """Call `wrong` if a result differs from the expected one, with the first cell that differs.

    Different forms of the same result are equal: dims in another order, raw arrays in the order of the dims, lists for tuples.

    Args:
        got, expected: Tensors, arrays, numbers, texts, Dims, or structures of these.
        what: The subject of the sentence.
        tolerance: For floats, relative to the largest expected value.
        given: Lines to show before the difference, e.g. the input.

    Raises:
        Wrong: With the difference. Unsolved: If the result contains `...`.
    """
    found = difference(got, expected, tolerance)
    if found is not None:
        _say(what, found, given)


def check_calls(
    answer: Any,
    reference: Callable[..., Any],
    inputs: Iterable[Sequence[Any] | Mapping[str, Any]],
    *,
    what: str = "The result",
    tolerance: float = 1e-4,
) -> None:
    """Call an answer and a reference on the same inputs and compare; the smallest input that fails is reported.

    Args:
        inputs: The arguments of each call, as a tuple or by name.
        what, tolerance: See `check_same`.

    Raises:
        Wrong: With the input and the difference. Unsolved: If the answer returns `...`.
    """
    for each in sorted(inputs, key=_size):
        args, kwargs = ((), dict(each)) if isinstance(each, Mapping) else (tuple(each), {})
        given = inputs_of(reference, args, kwargs)  # before the call, since an answer may modify its input
        expected = reference(*args, **kwargs)
        check_same(call(answer, *args, **kwargs), expected, what=what, tolerance=tolerance, given=given)


def check_without(answer: Any, args: Sequence[Any], forbidden: Sequence[str], rule: str, **kwargs: Any) -> None:
    """Call an answer, then call `wrong` if it, or a notebook function that it uses, calls one of the forbidden functions.

    Args:
        args, kwargs: The arguments of the answer.
        forbidden: Names of functions and methods, of any library.
        rule: The rule, and what to do instead.

    Raises:
        Wrong: With the name of the function.
    """
    called = list[str]()

    def look(frame: Any, event: str, arg: Any) -> None:
        if event == "c_call" and not in_package(frame.f_code):
            called.append(getattr(arg, "__name__", ""))
        elif event == "call" and frame.f_back is not None and not in_package(frame.f_back.f_code):
            called.append(frame.f_code.co_name)

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        call(answer, *args, **kwargs)
    finally:
        sys.setprofile(before)
    own = getattr(answer, "__name__", "")
    for name in called:
        if name in forbidden and name != own:
            wrong(f"It calls {name}, which makes all of it already.", rule=rule)


def check_padding(
    answer: Callable[..., Any], *args: Any, nan: bool = False, tolerance: float = 1e-4, **kwargs: Any
) -> None:
    """Call an answer twice, the second time with other values in the padding: the result must not change.

    Args:
        args, kwargs: The arguments of the answer; the padding of Tensors among them is changed.
        nan: Whether to fill the padding with NaN, which multiplying by a zero mask does not remove.

    Raises:
        Wrong: With the first cell that changed.
        ValueError: If no argument has padding.
    """
    garbage = math.nan if nan else _GARBAGE
    dirty = [with_padding(each, garbage) for each in args]
    dirty_kwargs = {name: with_padding(each, garbage) for name, each in kwargs.items()}
    if not any(isinstance(each, Tensor) and _padding(each).any() for each in (*args, *kwargs.values())):
        raise value_error(
            "check_padding: no argument has padding.",
            [(str(number), brief(each)) for number, each in enumerate(args)],
            "What lies past the end of a sequence is changed, so one has to be shorter than another.",
        )
    clean = call(answer, *args, **kwargs)
    found = difference(call(answer, *dirty, **dirty_kwargs), clean, tolerance)
    if found is not None:
        rows = [
            (label.replace("got", "other padding").replace("expected", "before"), text) for label, text in found.rows
        ]
        wrong(
            "You looked at padding: the result changes with what lies past the end of a sequence.",
            [*inputs_of(answer, args, kwargs), *rows],
            "Only the first frames of a sequence are real, as many as its length says.",
        )


def check_gradient(loss: Any, values: Mapping[str, Any]) -> None:
    """Call `wrong` if no gradient of a loss reaches one of the values.

    Args:
        loss: A Tensor or torch tensor of an answer.
        values: Leaves that require a gradient, by name: Parameters, Tensors, torch tensors.

    Raises:
        Wrong: With the name of the value without a gradient.
    """
    raw = _raw(loss)
    if not getattr(raw, "requires_grad", False):
        wrong(
            "No gradient comes back from the result.",
            [("result", brief(loss))],
            "It was computed without torch, or detached.",
        )
    before = {name: _raw(value).grad for name, value in values.items()}
    try:
        for value in values.values():
            _raw(value).grad = None
        try:
            raw.sum().backward(retain_graph=True)
        except RuntimeError as error:
            if "inplace" not in str(error):
                raise
            wrong(
                "No gradient comes back: a tensor that is still needed for it was written into afterwards.",
                [("result", brief(loss))],
                "Collect the parts in a list and join them by torch.stack or torch.cat, instead of filling a tensor part by part.",
            )
        for name, value in values.items():
            grad = _raw(value).grad
            if grad is None or not bool((grad != 0).any()):
                rule = "Everything between it and the result has to be computed from it, without `detach` or `.item()`."
                wrong(f"No gradient reaches {name}.", [(name, brief(value))], rule)
    finally:
        for name, value in values.items():
            _raw(value).grad = before[name]


def with_padding(value: Any, garbage: float = _GARBAGE) -> Any:
    """A Tensor with other values in its padding; any other value unchanged.

    Args:
        value: {...}
        garbage: The padding of floats. Booleans are negated, labels become another valid label, other integers one more than the largest.
    """
    if not isinstance(value, Tensor) or not _padding(value).any():
        return value
    array, padding = value.numpy().copy(), _padding(value)
    if array.dtype.kind == "f":
        array[padding] = garbage
    elif array.dtype.kind == "b":
        array[padding] = ~array[padding]
    elif value.sparse_dim is not None:
        array[padding] = (array[padding] + 1) % value.sparse_dim.extent
    else:
        array[padding] = array.max() + 1
    return convert_to_tensor(
        array,
        dims=value.dims,
        sparse_dim=value.sparse_dim,
        feature_dim=value.feature_dim,
        device=value.device,
        name=value.name,
    )


def _padding(tensor: Tensor) -> np.ndarray:
    """{dims of the tensor}: True past the ends."""
    real = real_entries(tensor.dims)
    return np.zeros([dim.extent for dim in tensor.dims], bool) if real is None else ~real


def _raw(value: Any) -> Any:
    return value.raw_tensor if isinstance(value, Tensor) else value


def _say(what: str, found: Difference, given: Sequence[tuple[str, object]]) -> None:
    joint = "" if found.what.startswith("[") else " "
    ends = ":" if found.rows else "."
    wrong(f"{what}{joint}{found.what}{ends}", [*given, *found.rows], found.rule)


def _size(value: Any) -> float:
    """A size by which inputs are sorted."""
    if isinstance(value, Tensor):
        return math.prod(dim.extent for dim in value.dims)
    if is_array(value):
        return math.prod(value.shape)
    if isinstance(value, Mapping):
        return sum(map(_size, value.values()))
    if isinstance(value, (list, tuple, str)):
        return sum(_size(item) for item in value) if not isinstance(value, str) else len(value)
    if isinstance(value, (int, float)) and math.isfinite(value):
        return 1 + abs(value) / (1 + abs(value))  # smaller numbers first
    return 1


def inputs_of(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[tuple[str, object]]:
    """The arguments of a call by name, one per line; dims and functions are omitted, since the tensors show the dims."""
    try:
        bound = inspect.signature(function).bind(*args, **kwargs).arguments
    except (TypeError, ValueError):
        bound = {**{f"argument {number}": value for number, value in enumerate(args)}, **kwargs}
    return [(name, brief(value)) for name, value in bound.items() if not _says_nothing(value)]


def _says_nothing(value: Any) -> bool:
    if isinstance(value, Mapping) and value:
        return all(map(callable, value.values()))
    return isinstance(value, Dim) or (callable(value) and not isinstance(value, Tensor))
