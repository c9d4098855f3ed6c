"""Mixed precision: products in a 16-bit dtype, the rest in float32. Off until a policy is set, and free of cost until then.

    with rf.set_amp_policy_ctx(rf.AmpPolicy("bfloat16")):
        loss = model(x)             # Linear, convolution, LSTM and attention multiply in bfloat16

On torch this is torch's autocast (so `torch.autocast` around rfnb works as well), with one addition: softmax, norms, sums and losses
return float32 on every device. Parameters stay in float32. A policy applies to the current thread.

Ops that sum or square many 16-bit numbers compute in float32 and cast the result, as torch's kernels do.

In float16, sums from 65520 on and the square of 256 are infinite; bfloat16 cannot represent 257.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Never

from rfnb.backends import registry
from rfnb.core.block import block
from rfnb.core.errors import value_error
from rfnb.core.intercept import OfThread
from rfnb.core.op import op
from rfnb.core.tensor import Tensor
from rfnb.ops.cast import cast
from rfnb.ops.defaults import get_default_float_dtype

_DTYPES = ("bfloat16", "float16")


@dataclass(frozen=True)
class AmpPolicy:
    """The dtypes in which products are computed.

    Args:
        compute_dtype: "bfloat16", which has the range of float32, or "float16", for which a loss has to be scaled
            (`torch.amp.GradScaler`).

    Raises:
        ValueError: For another dtype.
    """

    compute_dtype: str = "bfloat16"

    def __post_init__(self) -> None:
        if self.compute_dtype not in _DTYPES:
            raise value_error(
                f'AmpPolicy: compute_dtype "{self.compute_dtype}".',
                {"known": ", ".join(_DTYPES)},
                "Mixed precision is for a dtype of 16 bits; to compute all in another one, choose it for new tensors:",
                f'rf.set_default_float_dtype("{self.compute_dtype}")',
            )


# `scope`: what the backend made, open as long as the policy is set
_state = OfThread(policy=None, scope=None)


def get_amp_policy(*extra: Never, **unknown: Never) -> AmpPolicy | None:
    """The policy of this thread; None if products are computed in the dtype of their operands."""
    return _state.policy


def set_amp_policy(policy: AmpPolicy | str | None, *extra: Never, **unknown: Never) -> None:
    """Set the policy for later computations with the selected backend; None removes it.

    Args:
        policy: A policy, or its dtype for products.

    Raises:
        ValueError: If the dtype does not have 16 bits.
        NotImplementedError: If the backend has no mixed precision.
    """
    if isinstance(policy, str):
        policy = AmpPolicy(policy)
    scope = None if policy is None else registry.selected().autocast_raw(policy.compute_dtype)
    if _state.scope is not None:
        _state.scope.__exit__(None, None, None)
        _state.policy = _state.scope = None
    if scope is not None:
        scope.__enter__()
        _state.policy, _state.scope = policy, scope


@block
def set_amp_policy_ctx(policy: AmpPolicy | str | None) -> Iterator[None]:
    """`set_amp_policy` for a with-block."""
    before = _state.policy
    set_amp_policy(policy)
    try:
        yield
    finally:
        set_amp_policy(before)


@op
def amp_cast_compute(*tensors: Tensor, **unknown: Never) -> Any:
    """Cast float32 Tensors to the dtype of the policy; others, or all without a policy, stay unchanged.

    {...} -> {...} each.

    Returns:
        A Tensor for one, else a tuple.
    """
    policy = _state.policy
    if policy is None:
        return _one_or_all(tensors)
    return _one_or_all(tuple(_cast(tensor, ("float32",), policy.compute_dtype) for tensor in tensors))


@op
def amp_cast_float32(*tensors: Tensor, **unknown: Never) -> Any:
    """Cast 16-bit floats to float32; other Tensors, or all without a policy, stay unchanged.

    {...} -> {...} each.

    The state of a Loop keeps its dtype: `loop.state.h = rf.amp_cast_float32(rf.tanh(linear(x)))`.

    Returns:
        A Tensor for one, else a tuple.
    """
    if _state.policy is None:
        return _one_or_all(tensors)
    return _one_or_all(tuple(_cast(tensor, _DTYPES, "float32") for tensor in tensors))


def _cast(tensor: Tensor, from_dtypes: tuple[str, ...], dtype: str) -> Tensor:
    if tensor.dtype not in from_dtypes:
        return tensor
    return tensor._like(tensor.backend.cast_raw(tensor._raw, dtype), tensor.dims)


def _one_or_all(tensors: tuple[Tensor, ...]) -> Any:
    return tensors[0] if len(tensors) == 1 else tensors


HALF = ("float16", "bfloat16")
_WIDE = ("float32", "float64", "complex64", "complex128")


@op
def widened(x: Tensor) -> Tensor:
    """x, in float32 if it has 16 bits, or integers or bools; {...} -> {...}."""
    return x if x.dtype in _WIDE else cast(x, "float32")


@op
def narrowed(out: Tensor, like: Tensor) -> Tensor:
    """The result of a computation on `widened(like)`, in the dtype of `like` (for integers the default float dtype); {...} -> {...}.

    Under a mixed precision policy it stays in float32, as the results of norms and sums do.
    """
    dtype = like.dtype
    if dtype in _WIDE:
        return out
    to = dtype if dtype in HALF else get_default_float_dtype()
    return cast(out, to) if to in HALF and get_amp_policy() is None else out


def in_float32(fn: Any, dtype: str, backend: Any) -> Any:
    """fn (raw, *more) -> raw, computed in float32 if `dtype`, the dtype of raw, has 16 bits."""
    if dtype not in HALF:
        return fn
    cast_raw = backend.cast_raw

    def wide(raw: Any, *more: Any) -> Any:
        out = fn(cast_raw(raw, "float32"), *more)
        return cast_raw(out, dtype) if get_amp_policy() is None else out

    return wide
