"""Elementwise maths: unary and binary ops, comparisons, clip.

Binary results have the union of the dims; see `core.layout.union` for the one broadcasting rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Never

from rfnb.backends import protocol
from rfnb.backends.elementwise import BINARY, UNARY
from rfnb.core.dim import Dim
from rfnb.core.errors import type_error, value_error
from rfnb.core.fill_values import plain_number
from rfnb.core.finite_padding import (
    FROM_OPERANDS,
    KEEP_FINITE,
    LINEAR_IN_LEFT,
    SAFE,
    safe_beside_number,
    safe_operand,
    safe_operands,
    tracked_in_step,
    whole_padding,
)
from rfnb.core.generations import aligned, in_order
from rfnb.core.layout import PlanCache, composed, union, view
from rfnb.core.op import op
from rfnb.core.tensor import Tensor, _make, keep_marks, new_tensor
from rfnb.core.tensor_text import dims_text
from rfnb.ops.cast import cast
from rfnb.ops.defaults import get_default_float_dtype, has_fractions
from rfnb.ops.operands import (
    as_tensor,
    check_devices,
    check_dtypes,
    check_number,
    common_backend,
    need_tensors,
    need_values,
)

_SYMBOLS = {
    "+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod", "**": "pow", "&": "logical_and",
    "|": "logical_or", "==": "equal", "!=": "not_equal", "<>": "not_equal", "<": "less", "<=": "less_equal", ">": "greater",
    ">=": "greater_equal", "eq": "equal", "dot": "mul", "max": "maximum", "min": "minimum",
    "logaddexp": "log_add_exp",
}  # fmt: skip
_GIVE_BOOLS = {kind for kind, row in (UNARY | BINARY).items() if row.gives == "bool"}
_BOUNDS = (float, int, type(None))


def _binary(kind: str) -> Callable[[Any, Any], Any]:
    """A binary op as a function of two operands; its reasoning about dims is a plan."""
    plans = PlanCache()
    number_fns: dict[type, Any] = {}
    keeps, sparse = kind in KEEP_FINITE, kind not in _GIVE_BOOLS

    @op
    def binary(a: Any, b: Any, *extra: Never, **unknown: Never) -> Any:
        cls = b.__class__
        if (cls is float or cls is int) and isinstance(a, Tensor):
            return with_number(a, b)
        try:
            raw_a, raw_b = a._raw, b._raw
            fn, dims, whole_a, whole_b, grad_enabled, tracks = plans[raw_a.__class__, raw_b.__class__, a.dims, b.dims]
        except (KeyError, AttributeError):
            return _binary_slow(kind, plans, a, b)
        finite = keeps and (whole_a or a._finite) and (whole_b or b._finite)
        if grad_enabled is not None and not finite and grad_enabled() and tracks(raw_a, raw_b):
            raw_a, raw_b, finite = safe_operands(kind, a, b)
        out = _make()
        try:
            out._raw = fn(raw_a, raw_b)
        except RuntimeError as error:
            check_devices(kind, a, b)
            if isinstance(error, _OtherDtype):
                raise _not_bool(kind, a, b) from None
            check_dtypes(kind, a=a, b=b)
            raise
        except TypeError:
            check_dtypes(kind, a=a, b=b)
            raise
        out.dims = dims
        out._finite = finite
        out.sparse_dim = (a.sparse_dim or b.sparse_dim) if sparse else None
        out._feature_dim = a._feature_dim or b._feature_dim
        return out

    def with_number(a: Tensor, number: Any) -> Tensor:
        raw, finite = a._raw, a._finite
        try:
            fn, keeps, grad_enabled, tracks = number_fns[raw.__class__]
        except KeyError:
            need_values(kind, a)
            linear, backend = kind in LINEAR_IN_LEFT, a.backend
            grad_enabled = backend.grad_enabled if kind in FROM_OPERANDS and not linear else None
            plan = backend.binary_fn(kind), linear or kind in KEEP_FINITE, grad_enabled, backend.tracks_gradient_raw
            fn, keeps, grad_enabled, tracks = number_fns[raw.__class__] = plan
        finite = keeps and finite
        if grad_enabled is not None and not finite and grad_enabled() and tracks(raw):
            raw, finite = safe_beside_number(kind, a, number, left=False)
        out = _make()
        try:
            out._raw = fn(raw, number)
        except (RuntimeError, TypeError, OverflowError):
            check_number(kind, a, number)
            raise
        out.dims = a.dims
        out.sparse_dim = a.sparse_dim if sparse else None
        out._feature_dim = a._feature_dim
        out._finite = finite
        return out

    binary.__name__ = binary.__qualname__ = kind
    binary.__doc__ = BINARY[kind].doc
    return binary


def _binary_slow(
    kind: str, plans: PlanCache | None, a: Any, b: Any, outer: bool = False, dim_order: Sequence[Dim] | None = None
) -> Any:
    tensor_a, tensor_b = isinstance(a, Tensor), isinstance(b, Tensor)
    if not tensor_a and not tensor_b:
        a, tensor_a = as_tensor(a, kind), True
    if not (tensor_a and tensor_b):
        tensor, number = (a, b) if tensor_a else (b, a)
        number = _as_number(number, kind)
        if isinstance(number, Tensor):
            return _binary_slow(kind, plans, a, number) if tensor_a else _binary_slow(kind, plans, number, b)
        fn = tensor.backend.binary_fn(kind)
        raw, finite = safe_beside_number(kind, tensor, number, left=tensor_b)
        try:
            out = new_tensor(fn(raw, number) if tensor_a else fn(number, raw), tensor.dims, tensor, finite)
        except (RuntimeError, TypeError, OverflowError):
            check_number(kind, tensor, number)
            raise
        if kind in _GIVE_BOOLS:
            out.sparse_dim = None
        return out
    together = aligned(kind, (a, b))
    if together is not None:
        if dim_order is not None:
            dim_order = in_order(dim_order, together)
        a, b = together
        return _binary_slow(kind, None, a, b, outer, dim_order)
    need_values(kind, a, b)
    if kind.startswith("logical") and not a.dtype == b.dtype == "bool":
        raise _not_bool(kind, a, b)
    order = None if dim_order is None else tuple(dim_order)
    space = a.sparse_dim if a.sparse_dim is b.sparse_dim else None
    key, given = (a._raw.__class__, b._raw.__class__, a.dims, b.dims), (kind, a, b, outer, order, space)
    one_has_all = set(a.dims) <= set(b.dims) or set(b.dims) <= set(a.dims)
    if plans is _shaped_plans:
        plan = plans.make((kind, *key, outer, order, space), _plan, *given)
    elif plans is None or not (space is None or one_has_all):  # plans know no sparse_dim
        plan = _plan(*given)
    else:
        plan = plans.make(key, _plan, *given)
    try:
        return _computed(kind, plan, a, b)
    except (RuntimeError, TypeError) as error:
        if not isinstance(error, _OtherDtype):
            check_dtypes(kind, a=a, b=b)
        raise


def _computed(kind: str, plan: tuple[Any, ...], a: Tensor, b: Tensor) -> Tensor:
    fn, dims, whole_a, whole_b, grad_enabled, tracks = plan
    raw_a, raw_b, finite = a._raw, b._raw, kind in KEEP_FINITE and (whole_a or a._finite) and (whole_b or b._finite)
    if grad_enabled is not None and not finite and grad_enabled() and tracks(raw_a, raw_b):
        raw_a, raw_b, finite = safe_operands(kind, a, b)
    out = keep_marks(new_tensor(fn(raw_a, raw_b), dims, a, finite), b)
    if kind in _GIVE_BOOLS:
        out.sparse_dim = None
    return out


def _plan(kind: str, a: Tensor, b: Tensor, outer: bool, order: Any, space: Dim | None) -> tuple[Any, ...]:
    backend = common_backend(kind, a, b)
    dims = union(kind, [("a", a.dims), ("b", b.dims)], outer=outer, order=order, index_space=space)
    fn = composed(backend.binary_tensors_fn(kind), view(a.dims, dims, backend), view(b.dims, dims, backend))
    if kind.startswith("logical"):
        fn = _of_bools(fn, backend.dtype_key_raw, backend.dtype_key_raw(a._raw))
    whole_a, whole_b = (whole_padding(x.dims, backend) is None for x in (a, b))
    grad_enabled, tracks = backend.grad_enabled, backend.tracks_gradients_raw
    if kind not in FROM_OPERANDS or (whole_a and whole_b):
        grad_enabled, tracks = (backend.grad_enabled, tracked_in_step) if kind in SAFE else (None, None)
    return fn, dims, whole_a, whole_b, grad_enabled, tracks


class _OtherDtype(RuntimeError):
    """Raised if the next operands with the same dims are not bools."""


def _of_bools(fn: Any, dtype_of: Any, bools: Any) -> Any:
    def checked(a: Any, b: Any) -> Any:
        if not dtype_of(a) == dtype_of(b) == bools:
            raise _OtherDtype
        return fn(a, b)

    return checked


def _as_number(value: Any, kind: str) -> Any:
    value = plain_number(value)
    return value if isinstance(value, (bool, int, float, complex)) else as_tensor(value, kind)


def _not_bool(kind: str, *tensors: Tensor) -> TypeError:
    rows = [(label, f"{dims_text(tensor.dims)} {tensor.dtype}") for label, tensor in zip("ab", tensors)]
    return type_error(f"{kind}: not bool.", rows, "Logic is about bools. Say when a value counts as True:", "a != 0")


add = _binary("add")
sub = _binary("sub")
mul = _binary("mul")
true_divide = _binary("truediv")
floor_divide = _binary("floordiv")
mod = _binary("mod")
pow = _binary("pow")
squared_difference = _binary("squared_difference")
logical_and = _binary("logical_and")
logical_or = _binary("logical_or")
log_add_exp = _binary("log_add_exp")
equal = _binary("equal")
not_equal = _binary("not_equal")
less = _binary("less")
less_equal = _binary("less_equal")
greater = _binary("greater")
greater_equal = _binary("greater_equal")
_maximum = _binary("maximum")
_minimum = _binary("minimum")
_BY_KIND = {
    "add": add, "sub": sub, "mul": mul, "truediv": true_divide, "floordiv": floor_divide, "mod": mod, "pow": pow,
    "squared_difference": squared_difference, "logical_and": logical_and, "logical_or": logical_or, "log_add_exp": log_add_exp,
    "maximum": _maximum, "minimum": _minimum, "equal": equal, "not_equal": not_equal, "less": less, "less_equal": less_equal,
    "greater": greater, "greater_equal": greater_equal,
}  # fmt: skip


def kind_of(kind: str) -> str:
    """The word for a symbol: "add" for "+"."""
    return _SYMBOLS.get(kind, kind)


def _kind(kind: str, kinds: Sequence[str], what: str) -> str:
    name = kind_of(kind)
    if name not in kinds:
        raise value_error(
            f'{what}: unknown kind "{kind}".', {"known": ", ".join(kinds)}, "A kind is a word or a symbol."
        )
    return name


@op
def combine(
    a: Any,
    kind: str,
    b: Any,
    *extra: Never,
    allow_broadcast_all_sources: bool | None = None,
    dim_order: Sequence[Dim] | None = None,
    **unknown: Never,
) -> Any:
    """Elementwise binary op by word or symbol ("add", "+").

    Args:
        a, b: Tensors or numbers; {any dims}.
        allow_broadcast_all_sources: True allows an outer product.
        dim_order: Order of the dims of the result.

    Raises:
        DimError: For an outer product that is not allowed.
    """
    return _by_kind(_kind(kind, protocol.BINARY_KINDS, "combine"), a, b, allow_broadcast_all_sources, dim_order)


def _by_kind(kind: str, a: Any, b: Any, outer: bool | None, dim_order: Sequence[Dim] | None) -> Any:
    if not outer and dim_order is None:
        return _BY_KIND[kind](a, b)
    outer, order = bool(outer), None if dim_order is None else tuple(dim_order)
    try:
        space = a.sparse_dim if a.sparse_dim is b.sparse_dim else None
        plan = _shaped_plans[kind, a._raw.__class__, b._raw.__class__, a.dims, b.dims, outer, order, space]
    except (KeyError, AttributeError):
        return _binary_slow(kind, _shaped_plans, a, b, outer, order)
    try:
        return _computed(kind, plan, a, b)
    except RuntimeError as error:
        check_devices(kind, a, b)
        if isinstance(error, _OtherDtype):
            raise _not_bool(kind, a, b) from None
        check_dtypes(kind, a=a, b=b)
        raise


_shaped_plans = PlanCache()  # of outer products, and of results whose order is given


@op
def combine_bc(
    a: Any, kind: str, b: Any, *extra: Never, dim_order: Sequence[Dim] | None = None, **unknown: Never
) -> Any:
    """`combine`, allowing an outer product."""
    return combine(a, kind, b, allow_broadcast_all_sources=True, dim_order=dim_order)


@op
def compare(
    a: Any,
    kind: str,
    b: Any,
    *extra: Never,
    allow_broadcast_all_sources: bool | None = None,
    dim_order: Sequence[Dim] | None = None,
    **unknown: Never,
) -> Any:
    """Elementwise comparison by word or symbol ("less", "<"); bool. Dims as in `combine`."""
    return _by_kind(_kind(kind, protocol.COMPARE_KINDS, "compare"), a, b, allow_broadcast_all_sources, dim_order)


@op
def compare_bc(
    a: Any, kind: str, b: Any, *extra: Never, dim_order: Sequence[Dim] | None = None, **unknown: Never
) -> Any:
    """`compare`, allowing an outer product."""
    return compare(a, kind, b, allow_broadcast_all_sources=True, dim_order=dim_order)


@op
def maximum(a: Any, b: Any, *other_tensors: Any, **unknown: Never) -> Any:
    """The largest of all arguments, elementwise; for plain numbers a plain number."""
    if not other_tensors and isinstance(a, Tensor):
        return _maximum(a, b)
    return _fold(max, _maximum, (a, b, *other_tensors))


@op
def minimum(a: Any, b: Any, *other_tensors: Any, **unknown: Never) -> Any:
    """The smallest of all arguments, elementwise; for plain numbers a plain number."""
    if not other_tensors and isinstance(a, Tensor):
        return _minimum(a, b)
    return _fold(min, _minimum, (a, b, *other_tensors))


def _fold(of_numbers: Any, of_tensors: Any, values: tuple[Any, ...]) -> Any:
    if not any(isinstance(value, Tensor) for value in values):
        return of_numbers(values)
    result = values[0]
    for value in values[1:]:
        result = of_tensors(result, value)
    return result


def _unary(kind: str) -> Callable[[Tensor], Tensor]:
    fns: dict[type, Any] = {}
    keeps, sparse = kind in KEEP_FINITE, kind not in _GIVE_BOOLS

    @op
    def unary(a: Tensor, *extra: Never, **unknown: Never) -> Tensor:
        try:
            raw, finite = a._raw, keeps and a._finite
        except AttributeError:
            return unary(as_tensor(a, kind))
        try:
            fn, grad_enabled, tracks = fns[raw.__class__]
        except KeyError:
            need_values(kind, a)
            backend = a.backend
            grad_enabled = backend.grad_enabled if kind in FROM_OPERANDS else None
            plan = backend.unary_fn(kind), grad_enabled, backend.tracks_gradient_raw
            fn, grad_enabled, tracks = fns[raw.__class__] = plan
        if grad_enabled is not None and not finite and grad_enabled() and tracks(raw):
            raw, finite = safe_operand(kind, a), True
        out = _make()
        try:
            out._raw = fn(raw)
        except (RuntimeError, TypeError):
            check_dtypes(kind, a=a)
            raise
        out.dims = a.dims
        out.sparse_dim = a.sparse_dim if sparse else None
        out._feature_dim = a._feature_dim
        out._finite = finite
        return out

    unary.__name__ = unary.__qualname__ = kind
    unary.__doc__ = f"{UNARY[kind].doc} Keeps the dims."
    return unary


neg = _unary("neg")
exp = _unary("exp")
expm1 = _unary("expm1")
log = _unary("log")
log1p = _unary("log1p")
sqrt = _unary("sqrt")
rsqrt = _unary("rsqrt")
square = _unary("square")
abs = _unary("abs")
tanh = _unary("tanh")
sigmoid = _unary("sigmoid")
log_sigmoid = _unary("log_sigmoid")
sin = _unary("sin")
cos = _unary("cos")
ceil = _unary("ceil")
floor = _unary("floor")
round = _unary("round")
relu = _unary("relu")
elu = _unary("elu")
selu = _unary("selu")
silu = _unary("silu")
swish = silu
gelu = _unary("gelu")
reciprocal = _unary("reciprocal")
logical_not = _unary("logical_not")
is_finite = _unary("is_finite")
is_infinite = _unary("is_infinite")
is_neg_infinite = _unary("is_neg_infinite")


@op
def identity(x: Tensor, *extra: Never, **unknown: Never) -> Tensor:
    """x itself."""
    return x


@op
def relu_square(x: Tensor, *extra: Never, **unknown: Never) -> Tensor:
    """relu(x)² (So et al. 2021). Keeps the dims."""
    return square(relu(x))


@op
def ceil_divide(a: Any, b: Any, *extra: Never, **unknown: Never) -> Any:
    """a / b rounded up."""
    if any(isinstance(x, Tensor) and x.dtype == "uint8" for x in (a, b)):  # which has no -a
        return floor_divide(a, b) + not_equal(mod(a, b), 0)
    return neg(floor_divide(neg(a) if isinstance(a, Tensor) else -a, b))


_SMALLEST_NORMAL = {"float16": 2.0**-14, "float64": 2.0**-1022}  # the others have the exponents of float32


@op
def safe_log(a: Tensor, *extra: Never, eps: float | None = None, **unknown: Never) -> Tensor:
    """log(max(a, eps)); eps defaults to the smallest positive normal number of the dtype. Keeps the dims."""
    need_tensors("safe_log", a)
    tiny = _SMALLEST_NORMAL.get(a.dtype, 2.0**-126) if eps is None else eps
    return log(maximum(a, tiny))


@op
def clip_by_value(
    x: Tensor,
    clip_value_min: Any = None,
    clip_value_max: Any = None,
    *extra: Never,
    allow_broadcast_all_sources: bool = False,
    **unknown: Never,
) -> Tensor:
    """x clipped to at least `clip_value_min` and at most `clip_value_max` (numbers or Tensors; None for no bound)."""
    if not isinstance(x, Tensor):
        x = as_tensor(x, "clip_by_value")
    if clip_value_min is clip_value_max is None:
        return x
    if clip_value_min.__class__ in _BOUNDS and clip_value_max.__class__ in _BOUNDS:
        return new_tensor(x.backend.clip_raw(x._raw, clip_value_min, clip_value_max), x.dims, x, x._finite)
    if clip_value_min is not None:
        x = combine(x, "maximum", clip_value_min, allow_broadcast_all_sources=allow_broadcast_all_sources)
    if clip_value_max is not None:
        x = combine(x, "minimum", clip_value_max, allow_broadcast_all_sources=allow_broadcast_all_sources)
    return x


@op
def lerp(
    start: Tensor, end: Tensor, weight: Any, *extra: Never, allow_broadcast_all_sources: bool = False, **unknown: Never
) -> Tensor:
    """start + weight * (end - start); integers are converted to floats. Keeps the union of the dims."""
    outer = allow_broadcast_all_sources
    start, end = (_with_fractions(x) for x in (start, end))
    delta = combine(end, "sub", start, allow_broadcast_all_sources=outer)
    part = combine(delta, "mul", weight, allow_broadcast_all_sources=outer)
    return combine(start, "add", part, allow_broadcast_all_sources=outer)


def _with_fractions(x: Any) -> Any:
    return cast(x, get_default_float_dtype()) if isinstance(x, Tensor) and not has_fractions(x.dtype) else x
