"""The cause of a wrong result where one operation leads from what is expected to it, or back: twice, negated, a shift, a missing softmax.

cause(got, expected, real, 1e-4)     # "What you got is twice what is expected, in every cell."; "" if none is known
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

_FACTORS = {2.0: "twice", 0.5: "half of", -1.0: "the negative of"}
_Op = Callable[[np.ndarray], np.ndarray]
# What was done once too often, or is missing if it leads from what came out to what is expected.
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
    """A sentence on how one operation makes all cells of a result, or of what is expected, of the other; "" if none does.

    Args:
        got, expected, real: Of one shape; `real` is False where padding is.
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
    if not several:  # one number is many things by chance
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
    """Causes in the order of cells, and in sums over an axis."""
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
    """Whether each cell is the same, or padding."""
    if expected.dtype.kind in "fc":
        finite = np.abs(expected[real & np.isfinite(expected)])
        scale = float(finite.max()) if finite.size and finite.max() > 0 else 1.0
        got = got.astype(np.float64 if got.dtype.kind != "c" else complex)
        wide = expected.astype(np.float64 if expected.dtype.kind != "c" else complex)
        same = np.isclose(got, wide, rtol=tolerance, atol=tolerance * scale, equal_nan=True)
    else:
        same = got == expected
    return np.asarray(same) | ~real
