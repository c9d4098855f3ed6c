"""Complex numbers: composition from two real numbers, and decomposition."""

from __future__ import annotations

from typing import Any, Never

from rfnb.core.dim import Dim, Dims
from rfnb.core.errors import dim_error, type_error
from rfnb.core.generations import aligned
from rfnb.core.layout import PlanCache, union, view
from rfnb.core.op import op
from rfnb.core.tensor import Tensor, keep_marks, new_tensor
from rfnb.core.tensor_text import shape_of
from rfnb.ops.cast import cast
from rfnb.ops.const import full
from rfnb.ops.defaults import is_float_dtype
from rfnb.ops.operands import check_devices, check_dtypes, common_backend, need_tensors
from rfnb.ops.out_dim import settle_size

_plans = PlanCache()
_PARTS = ("float32", "float64")
_pair = Dim(2, name="real_imag")


@op
def make_complex(real: Tensor | float, imag: Tensor | float, *extra: Never, **unknown: Never) -> Tensor:
    """real + i imag.

    Args:
        real, imag: floats {...}, or one of them a number; the dims broadcast as in `add`. 16-bit floats are converted to float32,
            and if one is float64 so is the other.

    Returns:
        complex {...}: the dims of both.

    Raises:
        DimError: If the dims do not broadcast.
        TypeError: If both are numbers, or a part is not a float.
    """
    if not isinstance(real, Tensor):
        real = _like(imag, real)
    if not isinstance(imag, Tensor):
        imag = _like(real, imag)
    if real.dtype != imag.dtype or real.dtype not in _PARTS:
        real, imag = _parts("make_complex", real=real, imag=imag)
    key = (real._raw.__class__, imag._raw.__class__, real.dims, imag.dims)
    try:
        fn, dims = _plans[key]
    except KeyError:
        together = aligned("make_complex", (real, imag))
        if together is not None:
            return make_complex(*together)
        fn, dims = _plans.make(key, _plan, real, imag)
    try:
        raw = fn(real._raw, imag._raw)
    except RuntimeError:
        check_devices("make_complex", real, imag)
        raise
    return keep_marks(new_tensor(raw, dims, real), imag)


def _parts(what: str, **parts: Tensor) -> list[Tensor]:
    """Both parts in the common dtype from which complex numbers are made."""
    if not all(is_float_dtype(part.dtype) for part in parts.values()):
        check_dtypes(what, **parts)
    to = "float64" if any(part.dtype == "float64" for part in parts.values()) else "float32"
    return [cast(part, to) for part in parts.values()]


def _plan(real: Tensor, imag: Tensor) -> tuple[Any, Dims]:
    backend = common_backend("make_complex", real, imag)
    dims = union("make_complex", [("real", real.dims), ("imag", imag.dims)])
    return _made(view(real.dims, dims, backend), view(imag.dims, dims, backend), backend), dims


def _like(tensor: Any, number: float) -> Tensor:
    if not isinstance(tensor, Tensor):
        raise type_error(
            "make_complex: no Tensor.",
            {"got": f"{type(tensor).__name__}, {type(number).__name__}"},
            "One of the parts is a Tensor, which has the dims.",
            "rf.convert_to_tensor(1j)",
        )
    if not is_float_dtype(tensor.dtype):
        check_dtypes("make_complex", x=tensor)
    return full(dims=(), fill_value=number, dtype=tensor.dtype, device=tensor.device)


def _made(view_real: Any, view_imag: Any, backend: Any) -> Any:
    make = backend.make_complex_raw

    def fn(real: Any, imag: Any) -> Any:
        return make(real if view_real is None else view_real(real), imag if view_imag is None else view_imag(imag))

    return fn


@op
def real_as_complex(x: Tensor, *extra: Never, pair_dim: Dim, **unknown: Never) -> Tensor:
    """Pairs of real numbers as complex ones: the first entry of `pair_dim` is the real part, the second the imaginary part.

    Args:
        x: float {..., pair_dim}; 16-bit floats are converted to float32.
        pair_dim: A dim of size 2.

    Returns:
        complex {...}; with torch a view if pair_dim is the last axis.

    Raises:
        DimError: If pair_dim is not in x, or not of size 2.
    """
    need_tensors("real_as_complex", x)
    if x.dtype not in _PARTS:
        (x,) = _parts("real_as_complex", x=x)
    axis = x.axis_of(pair_dim, "real_as_complex")
    if pair_dim.extent != 2:
        raise dim_error(
            "real_as_complex: a pair has two entries.",
            {"x": x, "pair_dim": pair_dim},
            "The entries are the real and the imaginary part.",
        )
    rest = [index for index in range(len(x.dims)) if index != axis]
    raw = x._raw if axis == len(rest) else x.backend.transpose_raw(x._raw, [*rest, axis])
    return x._like(x.backend.real_as_complex_raw(raw), tuple(x.dims[index] for index in rest))


@op
def complex_as_real(x: Tensor, *extra: Never, out_dim: Dim | None = None, **unknown: Never) -> tuple[Tensor, Dim]:
    """Complex numbers as pairs of real ones, along a new last axis.

    Args:
        x: complex {...}
        out_dim: A dim of size 2, or without size. Default: a fixed dim, the same in each call.

    Returns:
        float {..., out_dim}, out_dim; with torch a view.

    Raises:
        DimError: If out_dim has another size.
        TypeError: If x is not complex.
    """
    need_tensors("complex_as_real", x)
    if not x.dtype.startswith("complex"):
        raise type_error(
            "complex_as_real: x is not complex.",
            {"x": f"{shape_of(x)} {x.dtype}"},
            "Only complex numbers have two parts.",
            "rf.make_complex(x, 0.0)",
        )
    out_dim = _pair if out_dim is None else out_dim
    settle_size("complex_as_real", out_dim, 2)
    return x._like(x.backend.complex_as_real_raw(x._raw), (*x.dims, out_dim)), out_dim
