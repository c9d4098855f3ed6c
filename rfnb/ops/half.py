"""Numbers of 16 bits: what sums or squares many of them is computed in float32, and cast at the end, as torch's kernels do.

In float16 a sum is infinite from 65520 on and the square of 256 too; in bfloat16 257 is not a number.
"""

from __future__ import annotations

from typing import Any

from rfnb.core.op import op
from rfnb.core.tensor import Tensor
from rfnb.ops.amp import get_amp_policy
from rfnb.ops.cast import cast
from rfnb.ops.default import get_default_float_dtype

HALF = ("float16", "bfloat16")
_WIDE = ("float32", "float64", "complex64", "complex128")


@op
def widened(x: Tensor) -> Tensor:
    """x, in float32 if it has 16 bits, or integers or bools; {...} -> {...}."""
    return x if x.dtype in _WIDE else cast(x, "float32")


@op
def narrowed(out: Tensor, like: Tensor) -> Tensor:
    """The result of what was computed from `widened(like)`, in the dtype of `like` (the default one of floats, for integers); {...} ->
    {...}.

    It stays in float32 under a policy of mixed precision, for which norms and sums give that.
    """
    dtype = like.dtype
    if dtype in _WIDE:
        return out
    to = dtype if dtype in HALF else get_default_float_dtype()
    return cast(out, to) if to in HALF and get_amp_policy() is None else out


def in_float32(fn: Any, dtype: str, backend: Any) -> Any:
    """fn (raw, *more) -> raw, computed in float32 if `dtype`, that of raw, has 16 bits."""
    if dtype not in HALF:
        return fn
    cast_raw = backend.cast_raw

    def wide(raw: Any, *more: Any) -> Any:
        out = fn(cast_raw(raw, "float32"), *more)
        return cast_raw(out, dtype) if get_amp_policy() is None else out

    return wide
