"""Differences between a result and its expected value as text: compared by dim, in any order, for arrays of any library.

found = difference(got, expected)     # None, or a Difference with the lines that show it
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rfnb.core.dim import Dim
from rfnb.core.dim_mask import real_entries
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_text import operand_rows
from rfnb.teaching.brief import are_numbers, array_in, brief, kind_of
from rfnb.teaching.exercises import Unsolved

_KINDS = {
    "b": "true and false",
    "i": "whole numbers",
    "u": "whole numbers",
    "f": "numbers with a fraction",
    "c": "complex numbers",
}


@dataclass(frozen=True)
class Difference:
    """One difference: a sentence without its subject, labelled lines, and a rule that helps."""

    what: str
    rows: Sequence[tuple[str, object]] = ()
    rule: str = ""


def is_same(got: Any, expected: Any, tolerance: float = 1e-4) -> bool:
    """Whether there is no `difference`: for mistakes that a check compares with."""
    return difference(got, expected, tolerance) is None


def difference(got: Any, expected: Any, tolerance: float = 1e-4, place: str = "") -> Difference | None:
    """The first difference, or None.

    Tensors are compared by dim, without padding; the axes of an array are in the order of the dims. Lists equal tuples,
    and numbers equal 0-d arrays.

    Args:
        got: The result of a student's code.
        expected: A Tensor, array, number, text, Dim, or a tuple, list, dict or set of these.
        tolerance: For floats, relative to the largest expected value.
        place: Position in a structure, e.g. "[0]".

    Raises:
        Unsolved: If it contains an Ellipsis.
    """
    if _has_dots(got):
        raise Unsolved
    if got is None and expected is not None:
        return Difference(f"{place} is None".strip(), rule="A function ends with `return` and its result.")
    if isinstance(expected, Tensor):
        return _of_tensor(got, expected, tolerance, place)
    if isinstance(expected, (list, tuple, Mapping)) and not are_numbers(expected):
        return _of_structure(got, expected, tolerance, place)
    if isinstance(expected, (str, set, frozenset, Dim)) or expected is None:
        same = (got is expected or got == expected) if type(got) is not np.ndarray else False
        return None if same is True else Difference(f"{place} is different".strip(), _both(got, expected))
    return _ofarray_in(got, expected, tolerance, place)


def is_answered(value: Any) -> bool:
    """Whether a value was filled in instead of `...` or None."""
    return value is not None and value is not Ellipsis


def _has_dots(value: Any) -> bool:
    if isinstance(value, (list, tuple, Mapping)):
        return any(map(_has_dots, value.values() if isinstance(value, Mapping) else value))
    return value is Ellipsis


def _of_structure(got: Any, expected: Any, tolerance: float, place: str) -> Difference | None:
    kind = Mapping if isinstance(expected, Mapping) else (list, tuple)
    name = "dict" if kind is Mapping else type(expected).__name__
    if not isinstance(got, kind):
        return Difference(f"{place} is no {name}".strip(), [("got", kind_of(got)), ("expected", name)])
    if kind is Mapping:
        if set(got) != set(expected):
            return Difference(f"{place} has other keys".strip(), _both(sorted(got, key=str), sorted(expected, key=str)))
        keys = list(expected)
    elif len(got) != len(expected):
        rows = [("got", f"{len(got)} entries: {brief(got)}"), ("expected", f"{len(expected)} entries")]
        return Difference(f"{place} has another length".strip(), rows)
    else:
        keys = list(range(len(expected)))
    found = (difference(got[key], expected[key], tolerance, f"{place}[{key!r}]") for key in keys)
    return next((one for one in found if one is not None), None)


def _of_tensor(got: Any, expected: Tensor, tolerance: float, place: str) -> Difference | None:
    if not isinstance(got, Tensor):
        plain = array_in(got)
        if plain is None:
            return Difference(f"{place} is no Tensor".strip(), [("got", kind_of(got)), ("expected", expected)])
        shape = tuple(dim.extent for dim in expected.dims)
        if plain.shape != shape:
            rows = [("got", plain.shape), *_labelled("expected", expected), ("", shape)]
            turned = sorted(plain.shape) == sorted(shape)
            return Difference(
                f"{place} has {'its axes in another order' if turned else 'another shape'}".strip(), rows,
                "An array has no names: its axes come in the order of these dims." if turned else "",
            )  # fmt: skip
        values = plain
    else:
        if set(got.dims) != set(expected.dims) or len(got.dims) != len(expected.dims):
            return _other_dims(got, expected, place)
        if got.sparse_dim is not None and expected.sparse_dim is not None and got.sparse_dim != expected.sparse_dim:
            rows = _both(got.sparse_dim, expected.sparse_dim)
            return Difference(f"{place} has labels of another dim (`sparse_dim`)".strip(), rows)
        values = got.numpy().transpose([got.dims.index(dim) for dim in expected.dims])
    real = real_entries(expected.dims)
    return _of_values(
        values,
        expected.numpy(),
        np.ones(values.shape, bool) if real is None else real,
        [dim.name for dim in expected.dims],
        tolerance,
        place,
        expected.sparse_dim is not None,
    )


def _ofarray_in(got: Any, expected: Any, tolerance: float, place: str) -> Difference | None:
    wanted = array_in(expected)
    if wanted is None:
        same = got == expected
        return None if same is True else Difference(f"{place} is different".strip(), _both(got, expected))
    values = array_in(got)
    if values is None:
        what = "no number" if wanted.ndim == 0 else "no array of numbers"
        return Difference(f"{place} is {what}".strip(), [("got", brief(got)), ("expected", brief(expected))])
    if values.shape != wanted.shape:
        rows: list[tuple[str, object]] = [("got", values.shape), ("expected", wanted.shape)]
        if wanted.ndim == 0:
            rows = [("got", f"shape {values.shape}"), ("expected", "one number")]
        return Difference(f"{place} has another shape".strip(), rows)
    return _of_values(values, wanted, np.ones(wanted.shape, bool), None, tolerance, place)


def _other_dims(got: Tensor, expected: Tensor, place: str) -> Difference:
    rows = operand_rows([("got", got), ("expected", expected)])
    lacks = [dim.name for dim in expected.dims if dim not in got.dims]
    more = [dim.name for dim in got.dims if dim not in expected.dims]
    twins = [name for name in lacks if name in more]
    said = [f"{name} is another dim of the same name" for name in twins]
    said += [f"{name} is missing" for name in lacks if name not in twins]
    said += [f"{name} is too many" for name in more if name not in twins]
    rule = "A dim is the same only if it is the same object: use the one that the input has." if twins else ""
    return Difference(f"{place} has other dims: {', '.join(said)}".strip(), list(rows), rule)


def _of_values(
    got: np.ndarray,
    expected: np.ndarray,
    real: np.ndarray,
    names: list[str] | None,
    tolerance: float,
    place: str,
    labels: bool = False,
) -> Difference | None:
    kinds = got.dtype.kind, expected.dtype.kind
    other = (kinds[0] == "b") != (kinds[1] == "b") or (labels and kinds[0] not in "iu")
    if other:
        pair = [("got", f"{got.dtype}: {_KINDS[kinds[0]]}"), ("expected", f"{expected.dtype}: {_KINDS[kinds[1]]}")]
        return Difference(f"{place} has another dtype".strip(), list(pair))
    same = close(got, expected, tolerance, real)
    if same.all():
        return None
    at = np.unravel_index(int(np.argmin(same)), same.shape)
    rows: list[tuple[str, Any]] = _numbers(got[at], expected[at])
    if got.ndim:
        index = [f"{name}={number}" for name, number in zip(names, at)] if names else [str(tuple(map(int, at)))]
        rows.insert(0, ("at", ", ".join(index)))
        what = f"{place} differs in {int((~same).sum())} of {int(real.sum())} cells; the first"
    else:
        what = f"{place} is another number"
    rule = cause(got, expected, real, tolerance) if got.dtype.kind in "fiub" and expected.dtype.kind in "fiub" else ""
    return Difference(what.strip(), list(rows), rule or _place_of(same, names))


def _place_of(same: np.ndarray, names: list[str] | None) -> str:
    """The indices along one axis that all wrong cells share, as text; "" if there are none."""
    found = list[tuple[float, int, np.ndarray]]()
    for axis, size in enumerate(same.shape):
        rows = np.moveaxis(same, axis, 0).reshape(size, -1)
        right = np.asarray(rows.all(1))
        if right.any() and (~same).sum() > 1 and (~rows[~right]).mean() > 0.5:
            found.append((float(right.mean()), axis, right))
    if not found:
        return ""
    _, axis, right = max(found, key=lambda one: one[0])
    name = names[axis] if names else "the index" if same.ndim == 1 else f"the index of axis {axis}"
    at, others = (_listed(np.flatnonzero(each)) for each in (right, ~right))
    return f"Where {name} is {at} all cells are right; where it is {others} they are not."


def _listed(numbers: np.ndarray) -> str:
    """The numbers as "0, 2 to 5 and 7"."""
    runs = np.split(numbers, np.flatnonzero(np.diff(numbers) > 1) + 1)
    said = [one for run in runs for one in ([f"{run[0]} to {run[-1]}"] if len(run) > 2 else map(str, run))]
    return f"{', '.join(said[:-1])} and {said[-1]}" if len(said) > 1 else said[0]


def _labelled(label: str, tensor: Tensor) -> list[tuple[str, object]]:
    return list(operand_rows([(label, tensor)]))


def _both(got: Any, expected: Any) -> list[tuple[str, object]]:
    return [("got", brief(got)), ("expected", brief(expected))]


def _numbers(got: Any, expected: Any) -> list[tuple[str, object]]:
    """Both numbers, with as many digits as they need to differ."""

    def text(value: Any, digits: int) -> str:
        return f"{value:.{digits}g}" if isinstance(value, (float, np.floating)) else str(value)

    digits = next((count for count in (4, 6, 8) if text(got, count) != text(expected, count)), 17)
    return [("got", text(got, digits)), ("expected", text(expected, digits))]


_FACTORS = {2.0: "twice", 0.5: "half of", -1.0: "the negative of"}
_Op = Callable[[np.ndarray], np.ndarray]
# Operations that were applied once too often, or are missing if they map the result to the expected one.
_OPS: dict[str, _Op] = {
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "logarithm": np.log,
    "exponential": np.exp,
    "root": np.sqrt,
    "square": np.square,
}
_FORMS: dict[str, _Op] = {
    "one minus what is expected": lambda x: 1 - x,
    "1 divided by what is expected": lambda x: 1 / x,
    "the absolute value of what is expected": np.abs,
    "what is expected cut off to whole numbers": np.trunc,
    "what is expected rounded to 1 digit": lambda x: np.round(x, 1),
    "what is expected rounded to 2 digits": lambda x: np.round(x, 2),
    "what is expected rounded to whole numbers": np.round,
}


def cause(got: np.ndarray, expected: np.ndarray, real: np.ndarray, tolerance: float) -> str:
    """A sentence on the one operation that maps all cells of a result to the expected ones, or the reverse; "" if no operation does.

    Args:
        got, expected, real: Arrays of one shape; `real` is False in the padding.
    """
    if got.dtype.kind == "b":
        return "It is upside down: true and false have changed places." if (got == ~expected)[real].all() else ""
    one, other = got.astype(np.float64), expected.astype(np.float64)
    if not np.isfinite(other[real]).all():
        return _of_infinite(one[real], other[real])
    if np.isnan(one[real]).any():
        return "There is NaN in it: 0 divided by 0, or infinity minus infinity."
    with np.errstate(all="ignore"):
        return next(_causes(one, other, real, tolerance), "")


def _causes(got: np.ndarray, expected: np.ndarray, real: np.ndarray, tolerance: float) -> Iterator[str]:
    def same(one: np.ndarray, other: np.ndarray, where: np.ndarray) -> bool:
        return one.shape == other.shape and bool(where.any()) and bool(close(one, other, tolerance, where).all())

    flat, wanted = got[real], expected[real]
    several = wanted.size > 1 and np.ptp(wanted) > 0
    everywhere = ", in every cell" if several else ""
    if several and not flat.any():
        yield "It is 0 everywhere."
    factor = float((flat * wanted).sum() / (wanted**2).sum()) if wanted.any() else 0.0
    if abs(factor) > tolerance and same(flat, factor * wanted, np.ones(flat.shape, bool)):
        known = next((words for each, words in _FACTORS.items() if abs(factor - each) < 1e-3), "")
        if known or several:
            yield f"What you got is {known or f'{factor:.4g} times'} what is expected{everywhere}."
    apart = float((flat - wanted).mean())
    if several and same(flat - wanted, np.full_like(flat, apart), np.ones(flat.shape, bool)):
        yield f"What you got is {abs(apart):.4g} too {'large' if apart > 0 else 'small'} in every cell."
    if not several:  # one number matches many operations by chance
        return
    for form, op in _FORMS.items():
        if same(flat, op(wanted), np.ones(flat.shape, bool)):
            yield f"What you got is {form}."
    for name, op in _OPS.items():
        if same(flat, op(wanted), np.ones(flat.shape, bool)):
            yield f"What you got is the {name} of what is expected: one {name} too many."
        if same(op(flat), wanted, np.ones(flat.shape, bool)):
            yield f"What is expected is the {name} of what you got: the {name} is missing."
    if real.all():
        yield from _of_axes(got, expected, lambda one, other: same(one, other, np.ones(one.shape, bool)))


def _of_axes(got: np.ndarray, expected: np.ndarray, same: Callable[[np.ndarray, np.ndarray], bool]) -> Iterator[str]:
    """Causes in the order of cells, and sums over an axis."""
    for axis in range(got.ndim - 1):
        if same(np.swapaxes(got, axis, axis + 1), expected):
            pair = "" if got.ndim == 2 else f" {axis} and {axis + 1}"
            yield f"It is right with its axes{pair} in the other order."
    for axis, size in enumerate(got.shape):
        along = "" if got.ndim == 1 else f" along axis {axis}"
        ahead, behind = (np.moveaxis(each, axis, 0) for each in (got, expected))
        if size > 1 and same(ahead[::-1], behind):
            yield f"It is right in the reverse order{along}."
        if size > 2 and (same(ahead[1:], behind[:-1]) or same(ahead[:-1], behind[1:])):
            late = same(ahead[1:], behind[:-1])
            yield f"It is right, but one place too {'late' if late else 'early'}{along}."
        if size > 1 and same(_softmax(got, axis), expected):
            yield f"What is expected is the softmax of what you got{along}: the softmax is missing."
        if size > 1 and same(got, _softmax(expected, axis)):
            yield f"What you got is the softmax of what is expected{along}: one softmax too many."
        if got.ndim > 1 and size > 1:
            by = (ahead.reshape(size, -1) * behind.reshape(size, -1)).sum(1) / (behind.reshape(size, -1) ** 2).sum(1)
            if (
                np.isfinite(by).all()
                and got[0].size > 1
                and same(ahead, behind * by.reshape(-1, *[1] * (got.ndim - 1)))
            ):
                factors = ", ".join(f"{each:.3g}" for each in by[:4]) + (", ..." if size > 4 else "")
                yield f"Each row is a multiple of what is expected{along}: {factors} times."
    for axis, size in enumerate(got.shape):
        total, wanted = got.sum(axis), expected.sum(axis)
        if (
            size > 1
            and got.size > 2
            and (expected >= 0).all()
            and same(wanted, np.ones_like(wanted))
            and not same(total, wanted)
        ):
            first = total.flat[int(np.argmax(np.abs(total - 1)))]
            yield f"What is expected sums to 1{'' if got.ndim == 1 else f' along axis {axis}'}; what you got sums to {first:.4g} somewhere."


def _of_infinite(got: np.ndarray, expected: np.ndarray) -> str:
    forbidden = np.isneginf(expected)
    if forbidden.any() and np.isfinite(got[forbidden]).all() and (got[~forbidden] == expected[~forbidden]).all():
        return (
            "Only -inf, or a number as far below, gives a weight of 0: e to the power of what you have there is more."
        )
    return ""


def _softmax(x: np.ndarray, axis: int) -> np.ndarray:
    powers = np.exp(x - x.max(axis, keepdims=True))
    return np.asarray(powers / powers.sum(axis, keepdims=True))


def close(got: np.ndarray, expected: np.ndarray, tolerance: float, real: np.ndarray) -> np.ndarray:
    """Whether each cell is equal, or padding."""
    if expected.dtype.kind in "fc":
        finite = np.abs(expected[real & np.isfinite(expected)])
        scale = float(finite.max()) if finite.size and finite.max() > 0 else 1.0
        got = got.astype(np.float64 if got.dtype.kind != "c" else complex)
        wide = expected.astype(np.float64 if expected.dtype.kind != "c" else complex)
        same = np.isclose(got, wide, rtol=tolerance, atol=tolerance * scale, equal_nan=True)
    else:
        same = got == expected
    return np.asarray(same) | ~real
