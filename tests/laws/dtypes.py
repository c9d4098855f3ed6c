"""The law of dtypes as functions: every op of floats works in half precision, keeps the dtype and agrees with float32.

Large numbers too: what is in the range of float16 comes out of an op, though sums and squares on the way are not. Only products of
matrices may overflow, as they do in torch. bfloat16 has the range of float32.

A case is that of `laws.py`. The inputs are rounded to the half-precision format first, so that both sides compute from the same
numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from asserting import on_selected_backend, real_frames, using_backend
from laws import Run, parts_in
from torch.utils._python_dispatch import TorchDispatchMode

import rfnb as rf
from rfnb import Tensor

# A result may be off by some roundings of the largest number in it.
TOLERANCE = {"bfloat16": 16 * 2**-8, "float16": 16 * 2**-11}
# Cases whose float results have a dtype of their own.
_OF_INTEGERS = "a function of integers with fractional values is float32, as in torch"
OWN_DTYPE: dict[str, str] = {
    "cast": "that of its argument",
    "Loss": "summed in float32",
    **dict.fromkeys(["NGramLM", "KenLmState"], "the scores of the model are float32"),
    **dict.fromkeys(
        ["ctc_prefix_beam_search", "transducer_beam_search", "transducer_greedy_decode", "transducer_forced_align"],
        "scores are summed in float32",
    ),
    "stft": "there are no complex numbers of 16-bit parts",
    "masked_fraction_of_shape": _OF_INTEGERS,
    **{f"{name} of integers": _OF_INTEGERS for name in "exp sqrt sigmoid true_divide".split()},
}
# Cases whose values in half precision are others, or not there.
NOT_COMPARED: dict[str, str] = {
    "safe_log": "the smallest number that it takes the logarithm of is that of the dtype",
    "GatedDeltaNet a sequence, another one, a step": "the direction of a query or key near 0 is that of what it was rounded by",
    **dict.fromkeys(["make_complex", "complex_as_real", "real_as_complex"], "torch has no complex numbers of bfloat16"),
}


_KERNEL = "the fused kernel of torch multiplies matrices inside, beyond float16"
# Cases that give other values for large numbers in float16.
NOT_LARGE: dict[str, str] = {
    **{f"cross_entropy of probs{kind}": NOT_COMPARED["safe_log"] for kind in ("", " with dense targets")},
    "mod number on the right": "what is left depends on the last digits",
    "gauss_window_attention": "a position of 20000 is rounded to one that 16 bits can hold",
    **dict.fromkeys(["LSTM over time", "NativeLstm", "Rec"], _KERNEL),
    **{f"{unit} {way}": _KERNEL for unit in ("NativeLstm2", "StandardLSTMCell") for way in ("forward", "backward")},
}
_LARGEST = 65504.0
LARGE: dict[str, Callable[[Tensor], Tensor]] = {
    "whose squares overflow": lambda x: x * 100.0,
    "whose squares overflow by far": lambda x: x * 10_000.0,
    "whose sums overflow": lambda x: x * 3_000.0 + 20_000.0,  # of one sign
}


def check_large(run: Run, change: Callable[[Tensor], Tensor]) -> int:
    """Inputs changed to large ones give in float16 what they give in float32, where that is in the range of float16.

    Returns:
        How many numbers were compared; 0 if a product of matrices overflows.
    """
    name, call, inputs = run.name, run.call, run.inputs
    if name in NOT_COMPARED or name in NOT_LARGE:
        return 0
    rounded = [rf.cast(rf.cast(change(x), "float16"), "float32") if x.dtype == "float32" else x for x in inputs]
    with _Products() as products:
        expected = list(parts_in(call(*rounded), Tensor))
    if products.largest > _LARGEST / 2:
        return 0
    with rf.set_default_float_dtype_ctx("float16"):
        got = list(parts_in(call(*(_as(x, "float16") for x in rounded)), Tensor))
    compared = 0
    for x, like in zip(got, expected, strict=True):
        if not rf.is_float_dtype(like.dtype):
            continue  # an index of the largest, say, where large numbers are rounded to the same
        real = real_frames(like.dims)
        wanted = like.numpy()[real].astype(np.float64)
        inside = np.abs(wanted) < _LARGEST / 2  # not NaN either
        values = x.numpy().transpose([x.dims.index(dim) for dim in like.dims])[real].astype(np.float64)[inside]
        off = 0.05 * max(1.0, np.abs(wanted[inside]).max(initial=0.0))  # what is added up is rounded coarsely
        np.testing.assert_allclose(values, wanted[inside], rtol=0, atol=off, err_msg=f"{name}: {like}")
        compared += values.size
    return compared


class _Products(TorchDispatchMode):
    """Watches how large the results of products of matrices get."""

    largest = 0.0
    _of = "mm bmm addmm baddbmm convolution"

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if func.overloadpacket.__name__ in self._of.split() and out.numel():
            finite = torch.nan_to_num(out.detach(), 0.0, 0.0, 0.0)
            self.largest = max(self.largest, float(finite.abs().max()))
        return out


def check_half(run: Run, dtype: str) -> None:
    """In `dtype` an op gives what it gives in float32, in that dtype; in float16 NumPy agrees with torch (it has no bfloat16)."""
    name, call, inputs = run.name, run.call, run.inputs
    if name in NOT_COMPARED:
        return
    rounded = [rf.cast(rf.cast(x, dtype), "float32") if x.dtype == "float32" else x for x in inputs]
    expected = list(parts_in(call(*rounded), Tensor))
    with rf.set_default_float_dtype_ctx(dtype):
        got = list(parts_in(call(*(_as(x, dtype) for x in rounded)), Tensor))
    _compare(name, got, expected, dtype, TOLERANCE[dtype])
    if dtype == "float16":
        with rf.set_default_float_dtype_ctx(dtype), using_backend("numpy"):
            on_numpy = list(parts_in(call(*(on_selected_backend(_as(x, dtype)) for x in inputs)), Tensor))
        _compare(name, got, on_numpy, None, TOLERANCE[dtype])


def _as(x: Tensor, dtype: str) -> Tensor:
    return rf.cast(x, dtype) if x.dtype == "float32" else x


def _compare(name: str, got: list[Tensor], expected: list[Tensor], dtype: str | None, tolerance: float) -> None:
    assert len(got) == len(expected), name
    for x, like in zip(got, expected):
        if name not in OWN_DTYPE:
            wanted = dtype if dtype is not None and like.dtype == "float32" else like.dtype
            assert x.dtype == wanted, f"{name}: dtype {x.dtype}, expected {wanted}"
        real = real_frames(like.dims)
        values = x.numpy().transpose([x.dims.index(dim) for dim in like.dims])[real].astype(np.float64)
        wanted_values = like.numpy()[real].astype(np.float64)
        finite = wanted_values[np.isfinite(wanted_values)]
        off = tolerance * max(1.0, np.abs(finite).max(initial=0.0)) if rf.is_float_dtype(like.dtype) else 0.0
        np.testing.assert_allclose(values, wanted_values, rtol=0, atol=off, err_msg=f"{name}: {like}")
