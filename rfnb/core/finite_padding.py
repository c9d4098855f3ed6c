"""Padding that gradients pass through is kept finite wherever gradients are tracked.

In the backward pass, padding receives a gradient of 0. An op multiplies it by a derivative; if that is computed from NaN or infinity, or
is infinite itself (a logarithm at 0), the product is NaN, and so is the next sum over frames (of a bias, of a running sum). So such an
op first replaces padding that is not known to be finite, `Tensor._finite`, or that has no finite derivative.

Elementwise functions treat the padding of their operands according to their kind.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from threading import get_ident
from typing import Any

import numpy as np

from rfnb.backends import registry
from rfnb.backends.elementwise import BINARY, UNARY
from rfnb.core.dim import Dims
from rfnb.core.layout import PlanCache, masks_for
from rfnb.core.tensor import Tensor

Mask = Callable[[Any], Any]
_masks = PlanCache()


def padding_mask(dims: Dims, backend: Any, of: Dims | None = None) -> Mask | None:
    """A function raw -> boolean array, True where no dim (of those given) of a tensor with these dims is padded; None if there is no
    padding.

    A dim counts only if the dims of its lengths are present too.
    """
    try:
        return _masks[dims, backend, of]
    except KeyError:
        return _masks.make((dims, backend, of), whole_padding, dims, backend, of)


def whole_padding(dims: Dims, backend: Any, of: Dims | None = None) -> Mask | None:
    """`padding_mask` for the plan of an op, made without other plans."""
    over = [dim for dim in (dims if of is None else of) if dim.size is None and set(dim.length_dims) <= set(dims)]
    return masks_for(dims, over, backend, "padding") if over else None


def finite_raw(x: Tensor, fill: float = 0) -> Any:
    """The raw array of x with `fill` in its padding, and for the sequences that ended before the current step of an enclosing loop."""
    raw, backend = x._raw, x.backend
    mask = padding_mask(x.dims, backend)
    if mask is not None:
        raw = backend.where_raw(mask(raw), raw, fill)
    return _set_where_ended(raw, x.dims, backend, fill) if _steps else raw


def _set_where_ended(raw: Any, dims: Dims, backend: Any, fill: float) -> Any:
    for step in steps_now():
        if set(step.dims) <= set(dims):
            raw = backend.where_raw(step.mask(dims, backend, raw), raw, fill)
    return raw


def picked(out: Tensor, source: Tensor) -> Tensor:
    """`out`, frames picked from `source`; within a loop step, 0 for ended sequences, whose picked values are padding."""
    if _steps and not source._finite and out.dtype.startswith(("float", "bfloat")):
        out._raw = _set_where_ended(out._raw, out.dims, out.backend, 0)
    return out


class StepWithEnded:
    """A step of a loop in which some sequences have ended: a context manager around its body.

    The body computes for them too, from frames of zeros, and the results are unused. So functions without a finite derivative there need
    a mask, as in padding.

    Args:
        dims: The dims of the sequences.
        going_on: bool over `dims`: the sequences that have not ended.

    Attributes:
        masks: Cached masks: arguments of `mask_for` -> raw array.
    """

    def __init__(self, dims: Dims, going_on: np.ndarray):
        self.dims, self.going_on, self.thread = dims, going_on, get_ident()
        self.masks: dict[Any, Any] = {}

    def __enter__(self) -> StepWithEnded:
        _steps.append(self)
        return self

    def __exit__(self, *error: Any) -> None:
        _steps.remove(self)

    def mask(self, dims: Dims, backend: Any, like: Any) -> Any:
        """True for unfinished sequences, as a raw array broadcastable to `dims`."""
        return self.mask_for(dims, backend, backend.get_device_raw(like))

    def mask_for(self, dims: Dims, backend: Any, device: str) -> Any:
        """`mask` on a device."""
        key = dims, backend, device
        if key not in self.masks:
            order = [dim for dim in dims if dim in self.dims]
            host = self.going_on.transpose([self.dims.index(dim) for dim in order])
            host = host.reshape([dim.extent if dim in order else 1 for dim in dims])
            self.masks[key] = backend.from_numpy(host, dtype="bool", device=device)
        return self.masks[key]


def steps_now() -> tuple[StepWithEnded, ...]:
    """The steps that this thread is in, outermost first."""
    return tuple(step for step in _steps if step.thread == get_ident()) if _steps else ()


def only_steps(steps: tuple[StepWithEnded, ...]) -> None:
    """Reset this thread's steps to these; an interrupt may have prevented leaving one."""
    _steps[:] = [step for step in _steps if step.thread != get_ident() or step in steps]


_steps: list[StepWithEnded] = []  # of all threads, so that asking whether there is one is quick
_nothing = nullcontext()


def around_step(dims: Dims, ended: Callable[[], np.ndarray | None]) -> AbstractContextManager[Any]:
    """`StepWithEnded` if some sequences have ended and gradients are tracked, else nothing."""
    if not registry.selected().grad_enabled():
        return _nothing
    host = ended()
    return _nothing if host is None else StepWithEnded(dims, ~host)


def tracked_in_step(a: Any, b: Any) -> bool:
    """True if the loop is in such a step, and the gradient of one of two raw arrays is tracked."""
    return bool(_steps) and registry.BY_TYPE[type(a)].tracks_gradients_raw(a, b)


def finite_rest(x: Tensor, axes: Dims) -> tuple[Callable[[Any], bool] | None, Callable[[Any], Any]]:
    """For an op along `axes`, which handles their padding: whether the gradient of a raw array is tracked (None: the other dims have no
    padding), and a function that writes 0 into the padding of the other dims.
    """
    backend = x.backend
    rest = [dim for dim in x.dims if dim not in axes and set(dim.length_dims) <= set(x.dims)]
    mask = masks_for(x.dims, rest, backend, "padding")
    if mask is None:
        return None, lambda raw: raw
    where = backend.where_raw
    return backend.tracks_gradient_raw, lambda raw: where(mask(raw), raw, 0)


def finite_with(x: Tensor, *others: Tensor) -> Tensor:
    """x with 0 in its padding, if that is not known to be finite and the gradient of x or of one of `others` is tracked."""
    if x._finite:
        return x
    backend = x.backend
    if not backend.grad_enabled() or padding_mask(x.dims, backend) is None:
        return x
    tracks = backend.tracks_gradient_raw
    if not (tracks(x._raw) or any(tracks(other._raw) for other in others)):
        return x
    out = x._like(finite_raw(x), x.dims)
    out._finite = True
    return out


_KINDS = {**UNARY, **BINARY}
# Finite operands give finite results, so what is known about their padding is known about that of the result.
KEEP_FINITE = {kind for kind, row in _KINDS.items() if row.finite}
# The derivative is computed from the operands. While gradients are tracked, padding that may be NaN there is set before, see
# `core/finite_padding.py`. The others pass 0 on as 0, whatever the operands are.
FROM_OPERANDS = {kind for kind, row in _KINDS.items() if row.derivative == "operand"}
# Even finite operands can give an infinite one: what padding is set to, on the left and on the right.
SAFE: dict[str, tuple[float | None, float | None]] = {
    **{kind: (row.safe, None) for kind, row in UNARY.items() if row.safe is not None},
    **{kind: row.safe for kind, row in BINARY.items() if row.safe is not None},
}
LINEAR_IN_LEFT = {kind for kind, row in BINARY.items() if row.linear}


def safe_operands(kind: str, a: Tensor, b: Tensor) -> tuple[Any, Any, bool]:
    """The raw operands with padding that gradients can pass through, so that the result's gradient is finite."""
    left, right = SAFE.get(kind, (None, None))
    return _safe(a, left), _safe(b, right), True


def safe_operand(kind: str, x: Tensor) -> Any:
    """The same for a unary function."""
    return _safe(x, SAFE.get(kind, (None, None))[0])


def _safe(x: Tensor, fill: float | None) -> Any:
    """The raw array with `fill` in its padding; None: with 0, unless it is known to be finite."""
    if fill is None:
        return x._raw if x._finite else finite_raw(x)
    return finite_raw(x, fill)


def safe_beside_number(kind: str, x: Tensor, number: Any, left: bool) -> tuple[Any, bool]:
    """The raw array of the tensor in `number kind x` (left) or `x kind number`, and whether the padding of the result is finite."""
    linear = kind in LINEAR_IN_LEFT and (not left or kind == "mul")
    keeps = linear or kind in KEEP_FINITE
    if linear or kind not in FROM_OPERANDS or not x.backend.tracks_gradient_raw(x._raw):
        return x._raw, keeps and x._finite
    fill = SAFE.get(kind, (None, None))[left]
    if kind == "pow" and not left and not isinstance(number, complex) and number >= 1 and float(number).is_integer():
        fill = None  # a polynomial
    return _safe(x, fill), True
