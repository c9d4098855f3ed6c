"""The operations that an array library must provide.

A backend works on raw arrays, axes and ints only; it never sees a Dim. Ops (`rfnb/ops/`) are written once on top of these methods. torch
is the default; NumPy (`backends/numpy_*.py`) is the readable reference.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rfnb.backends.elementwise import BINARY, COMPARISONS, UNARY
from rfnb.backends.missing_methods import written_by_backend
from rfnb.backends.protocol_gradients import Gradients
from rfnb.backends.protocol_kernels import Kernels

BINARY_KINDS = [kind for kind in BINARY if kind not in COMPARISONS]
COMPARE_KINDS = list(COMPARISONS)
UNARY_KINDS = list(UNARY)
REDUCE_KINDS = "sum max min mean logsumexp any all argmax argmin".split()


class Backend(Kernels, Gradients):
    """The documented backend class: raw-array methods that an array library implements; docs/backend.md tells how.

    `raw` is an array of the library, `axis` a non-negative int, `dtype` a name like "float32", `device` a name like "cpu".

    The documented methods on Tensors are the functions of rfnb (`Backend.matmul` is `rf.matmul`), the same for every backend;
    `nn/backend/methods.py` binds them. A backend accelerates one through the raw method behind it (`lstm_raw`, `attention_raw`, ...; see
    `protocol_kernels.py`): a plan holds that very method, so this costs nothing per op.
    """

    name = "abstract"
    RawTensorType: type = object
    is_tensorflow = False
    is_backend_raw_tensor_dim_tag_independent = True  # a raw array knows nothing of dims
    TensorArrayType = list
    _of_tensors: frozenset[str] = frozenset()  # names of the methods that take Tensors

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        wrong = sorted(Backend._of_tensors & vars(cls).keys())
        if wrong:
            raise TypeError(
                f"Backend {cls.__name__}: {wrong[0]} takes Tensors, and is the same function for every backend.\n"
                f"  overridden  {', '.join(wrong)}\n"
                "The functions of rfnb call raw methods, and only those are a backend's own. Override what computes it:\n"
                "    help(rf.Backend)      # the methods named ..._raw and ..._fn"
            )

    # -- what there is -------------------------------------------------------------------------------------------------
    @classmethod
    def executing_eagerly(cls) -> bool:
        """True if values are available as soon as an op is called: always."""
        return True

    @written_by_backend
    def get_dtype_name_raw(cls, raw: Any) -> str:
        """The name of the dtype, e.g. "float32"."""

    @classmethod
    def dtype_key_raw(cls, raw: Any) -> Any:
        """A key that distinguishes dtypes: hashable, and faster to get than the name, since ops need it in each call."""
        return cls.get_dtype_name_raw(raw)

    @written_by_backend
    def as_dtype_raw(cls, dtype_name: str) -> Any:
        """The library's dtype with this name."""

    @classmethod
    def get_ndim_raw(cls, raw: Any) -> int:
        """The number of axes."""
        return len(cls.get_shape_tuple_raw(raw))

    @classmethod
    def get_shape_tuple_raw(cls, raw: Any) -> tuple[int, ...]:
        """The lengths of the axes."""
        return tuple(raw.shape)

    get_shape_raw = get_known_shape_raw = get_shape_tuple_raw

    @written_by_backend
    def get_device_raw(cls, raw: Any) -> str:
        """The name of the device, e.g. "cuda:0"."""

    @classmethod
    def check_device_name(cls, name: str) -> None:
        """Raise an error for a name that no device can have, available or not."""
        cls.to_device_raw(None, name)

    @classmethod
    def device_key_raw(cls, raw: Any) -> Any:
        """A key that distinguishes devices, like `dtype_key_raw`."""
        return cls.get_device_raw(raw)

    @classmethod
    def num_bytes_raw(cls, raw: Any) -> int:
        """The size of the values in bytes."""
        return cls.raw_to_numpy(raw).nbytes

    @classmethod
    def is_on_host_raw(cls, raw: Any) -> bool:
        """True if the host computes with it; ops query this in each call."""
        return cls.get_device_raw(raw) in ("cpu", None)

    @classmethod
    def is_finite_raw(cls, raw: Any) -> bool:
        """True if all numbers are finite, which the host reads. May be False if only their sum is not."""
        return bool(np.isfinite(cls.raw_to_numpy(raw)).all())

    @classmethod
    def assert_raw(cls, condition: Any, text: str) -> None:
        """Raise an AssertionError unless the scalar `condition` is True; on a GPU at some later time."""
        if not bool(condition):
            raise AssertionError(text)

    # -- in and out ----------------------------------------------------------------------------------------------------
    @written_by_backend
    def from_numpy(cls, array: np.ndarray, *, dtype: str | None = None, device: str | None = None) -> Any:
        """A raw array with the values of `array` (a copy), on `device` (None: the default one)."""

    @written_by_backend
    def raw_to_numpy(cls, raw: Any) -> np.ndarray:
        """The values on the host (bfloat16 as float32); may share memory."""

    @classmethod
    def raws_to_numpy(cls, raws: Sequence[Any]) -> list[np.ndarray]:
        """`raw_to_numpy` for several arrays, waiting for a GPU only once."""
        return [cls.raw_to_numpy(raw) for raw in raws]

    @classmethod
    def full_raw(cls, shape: Sequence[int], value: Any, *, dtype: str, device: str | None = None) -> Any:
        """A new array with `value` everywhere."""
        return cls.from_numpy(np.full(tuple(shape), value), dtype=dtype, device=device)

    @classmethod
    def arange_raw(cls, size: int, *, dtype: str, device: str | None = None) -> Any:
        """0, 1, ... size - 1."""
        return cls.from_numpy(np.arange(size), dtype=dtype, device=device)

    @written_by_backend
    def random_raw(
        cls, shape: Sequence[int], distribution: str, *, dtype: str, device: str | None, low: float, high: float,
        generator: Any | None = None,
    ) -> Any:  # fmt: skip
        """ "uniform": [low, high), also for integers; "normal": mean `low`, standard deviation `high`; "truncated_normal": a standard
        normal restricted to [low, high]. `generator`: None for that of the backend.
        """

    @written_by_backend
    def generator_raw(cls, device: str | None, *, seed: int | None = None, state: bytes | None = None) -> Any:
        """A separate generator for `random_raw`, from a seed or a state."""

    @written_by_backend
    def generator_state_raw(cls, generator: Any) -> bytes:
        """The state, of a fixed length."""

    @written_by_backend
    def set_random_seed(cls, seed: int) -> None:
        """Restart the generator of `random_raw` and `dropout_raw`."""

    @written_by_backend
    def get_random_state(cls) -> dict[str, bytes]:
        """The state of the generator, by device; for a kind of device not yet in use, empty under the name of the kind."""

    @written_by_backend
    def set_random_state(cls, state: dict[str, bytes]) -> None:
        """Restore a state from `get_random_state`."""

    @written_by_backend
    def copy_raw(cls, raw: Any) -> Any:
        """A copy with its own storage."""

    @classmethod
    def read_only_raw(cls, raw: Any, refused: Callable[[], Exception]) -> Any:
        """The same array, on the CPU, for reading; writing into it raises `refused()`, or the library's own error."""
        return raw

    @written_by_backend
    def cast_raw(cls, raw: Any, dtype: str) -> Any:
        """The same values in another dtype."""

    @written_by_backend
    def to_device_raw(cls, raw: Any, device: str) -> Any:
        """The same values on another device."""

    # -- axes ----------------------------------------------------------------------------------------------------------
    @written_by_backend
    def transpose_raw(cls, raw: Any, perm: Sequence[int]) -> Any:
        """Axis i of the result is axis `perm[i]`."""

    @written_by_backend
    def reshape_raw(cls, raw: Any, shape: Sequence[int]) -> Any:
        """The same values in the same order, with other axes."""

    @classmethod
    def expand_dims_raw(cls, raw: Any, axis: int) -> Any:
        """A new axis of length 1 before `axis`."""
        shape = cls.get_shape_tuple_raw(raw)
        return cls.reshape_raw(raw, (*shape[:axis], 1, *shape[axis:]))

    @classmethod
    def squeeze_raw(cls, raw: Any, axes: Sequence[int]) -> Any:
        """The array without these axes of length 1."""
        shape = cls.get_shape_tuple_raw(raw)
        return cls.reshape_raw(raw, [length for axis, length in enumerate(shape) if axis not in axes])

    @written_by_backend
    def broadcast_raw(cls, raw: Any, shape: Sequence[int]) -> Any:
        """Broadcast to `shape` without copying."""

    @classmethod
    def expand_raw(cls, raw: Any, axis: int, dim: int) -> Any:
        """Expand an axis of length 1 to length `dim`, without copying."""
        shape = list(cls.get_shape_tuple_raw(raw))
        shape[axis] = dim
        return cls.broadcast_raw(raw, shape)

    @written_by_backend
    def slice_raw(cls, raw: Any, axis: int, start: int, end: int) -> Any:
        """The entries of an axis from `start` to `end` (excluded)."""

    @classmethod
    def split_raw(cls, raw: Any, sizes: Sequence[int], axis: int) -> Sequence[Any]:
        """Consecutive slices of these sizes, which add up to the length of the axis."""
        ends = np.cumsum(sizes)
        return [cls.slice_raw(raw, axis, int(end) - size, int(end)) for size, end in zip(sizes, ends)]

    @classmethod
    def select_raw(cls, raw: Any, axis: int, index: int) -> Any:
        """One entry of an axis, which is dropped."""
        return cls.squeeze_raw(cls.slice_raw(raw, axis, index, index + 1), (axis,))

    @classmethod
    def unbind_raw(cls, raw: Any, axis: int) -> Sequence[Any]:
        """All entries of an axis, which is dropped."""
        return [cls.select_raw(raw, axis, index) for index in range(cls.get_shape_tuple_raw(raw)[axis])]

    @written_by_backend
    def flip_raw(cls, raw: Any, axis: int) -> Any:
        """Reverse an axis."""

    @written_by_backend
    def concat_raw(cls, raws: Sequence[Any], axis: int) -> Any:
        """Concatenate along an axis."""

    @classmethod
    def stack_raw(cls, raws: Sequence[Any], axis: int) -> Any:
        """Stack along a new axis."""
        return cls.concat_raw([cls.expand_dims_raw(raw, axis) for raw in raws], axis)

    @written_by_backend
    def pad_raw(cls, raw: Any, widths: Sequence[tuple[int, int]], value: Any) -> Any:
        """`value` before and after each axis, by the (left, right) widths; a negative width cuts off that many entries."""

    # -- maths: these return functions, so that a plan holds the very function it calls ---------------------------------
    @written_by_backend
    def binary_fn(cls, kind: str) -> Callable[[Any, Any], Any]:
        """One of BINARY_KINDS or COMPARE_KINDS, broadcasting; either operand may be a Python number."""

    @classmethod
    def binary_tensors_fn(cls, kind: str) -> Callable[[Any, Any], Any]:
        """Like `binary_fn`, for two arrays, where a backend may have a faster function."""
        return cls.binary_fn(kind)

    @written_by_backend
    def unary_fn(cls, kind: str) -> Callable[[Any], Any]:
        """One of UNARY_KINDS."""

    @classmethod
    def combine_raw(cls, a: Any, kind: str, b: Any) -> Any:
        """`binary_fn(kind)(a, b)`."""
        return cls.binary_fn(kind)(a, b)

    compare_raw = combine_raw

    @classmethod
    def activation_raw(cls, raw: Any, func: str) -> Any:
        """`unary_fn(func)(raw)`."""
        return cls.unary_fn(func)(raw)

    @written_by_backend
    def where_raw(cls, mask: Any, true: Any, false: Any) -> Any:
        """Broadcasting; `true` or `false` may be Python numbers."""

    @classmethod
    def clip_raw(cls, raw: Any, low: float | None, high: float | None) -> Any:
        """The values clipped to at least `low` and at most `high`; None for no bound, but not for both."""
        raw = raw if low is None else cls.binary_fn("maximum")(raw, low)
        return raw if high is None else cls.binary_fn("minimum")(raw, high)

    @written_by_backend
    def reduce_raw(cls, raw: Any, kind: str, axes: tuple[int, ...]) -> Any:
        """One of REDUCE_KINDS over `axes` (arg* over one axis), which are dropped."""

    @classmethod
    def reduce_fn(cls, kind: str, axes: tuple[int, ...]) -> tuple[Callable[[Any, Any], Any], Any]:
        """A function and its second argument, to reduce over `axes`: fn(raw, extra)."""
        return (lambda raw, axes: cls.reduce_raw(raw, kind, axes)), axes

    @classmethod
    def extreme_value(cls, dtype: str, sign: int) -> Any:
        """The smallest (sign < 0) or largest value, from which reductions of this dtype start."""
        if dtype.startswith(("float", "bfloat")):
            return sign * float("inf")
        if dtype == "bool":
            return sign > 0
        if dtype.startswith("complex"):
            raise TypeError(
                f"{dtype}: complex numbers have no order.\n  dtype  {dtype}\nWhich one is the largest is not defined. Take absolute "
                "values:\n    rf.abs(x)"
            )
        info = np.iinfo(dtype)
        return int(info.max if sign > 0 else info.min)

    @classmethod
    def softmax_raw(cls, raw: Any, axis: int) -> Any:
        """The softmax over an axis. Raises an error for anything but floats."""
        return cls.unary_fn("exp")(cls.log_softmax_raw(raw, axis))

    @classmethod
    def log_softmax_raw(cls, raw: Any, axis: int) -> Any:
        """The logarithm of `softmax_raw`, stable; same errors."""
        if not cls.get_dtype_name_raw(raw).startswith(("float", "bfloat")):
            raise TypeError(f"softmax of {cls.get_dtype_name_raw(raw)}")
        return cls.binary_fn("sub")(raw, cls.expand_dims_raw(cls.reduce_raw(raw, "logsumexp", (axis,)), axis))

    @classmethod
    def layer_norm_raw(cls, raw: Any, scale: Any, bias: Any | None, eps: float) -> Any:
        """Normalise to mean 0 and variance 1 over the last axes, those of `scale` and `bias`; then multiply by scale and add bias."""
        shape, count = cls.get_shape_tuple_raw(raw), cls.get_ndim_raw(scale)
        axes = tuple(range(len(shape) - count, len(shape)))
        ones = (*shape[: len(shape) - count], *([1] * count))
        mean = lambda x: cls.reshape_raw(cls.reduce_raw(x, "mean", axes), ones)  # noqa: E731
        centred = cls.combine_raw(raw, "sub", mean(raw))
        variance = mean(cls.combine_raw(centred, "mul", centred))
        out = cls.combine_raw(centred, "mul", cls.unary_fn("rsqrt")(cls.combine_raw(variance, "add", eps)))
        out = cls.combine_raw(out, "mul", scale)
        return out if bias is None else cls.combine_raw(out, "add", bias)

    @classmethod
    def rms_norm_raw(cls, raw: Any, scale: Any, bias: Any | None, eps: float) -> Any:
        """Divide by the root mean square (plus eps) over the last axes, those of `scale`; then multiply by scale and add bias."""
        shape, count = cls.get_shape_tuple_raw(raw), cls.get_ndim_raw(scale)
        squares = cls.reduce_raw(cls.combine_raw(raw, "mul", raw), "mean", tuple(range(len(shape) - count, len(shape))))
        squares = cls.reshape_raw(squares, (*shape[: len(shape) - count], *([1] * count)))
        out = cls.combine_raw(raw, "mul", cls.unary_fn("rsqrt")(cls.combine_raw(squares, "add", eps)))
        out = cls.combine_raw(out, "mul", scale)
        return out if bias is None else cls.combine_raw(out, "add", bias)

    @written_by_backend
    def matmul_raw(cls, a: Any, b: Any) -> Any:
        """[..., m, k] x [..., k, n] with broadcasting batch axes, or a 2-D b."""

    @classmethod
    def batched_matmul_raw(cls, a: Any, b: Any) -> Any:
        """[batch, m, k] x [batch, k, n]."""
        return cls.matmul_raw(a, b)

    @classmethod
    def add_matmul_raw(cls, bias: Any, a: Any, b: Any) -> Any:
        """[m, k] x [k, n] + [n]."""
        return cls.combine_raw(cls.matmul_raw(a, b), "add", bias)  # not +: an array need not have operators

    @written_by_backend
    def take_raw(cls, raw: Any, indices: Any, axis: int) -> Any:
        """Replace `axis` by the axes of `indices` (an embedding, if axis is 0)."""

    @written_by_backend
    def batched_take_raw(cls, raw: Any, indices: Any, num_batch: int) -> Any:
        """raw [*batch, n, *rest], indices [*batch, *own] -> [*batch, *own, *rest]; `num_batch` leading axes in common."""

    @written_by_backend
    def scatter_raw(cls, raw: Any, indices: Any, size: int, kind: str, neutral: Any) -> Any:
        """raw [batch, n, rest], indices [batch, n] -> [batch, size, rest]: the sum, max or min of the entries of each index,
        `neutral` where there is none."""

    @written_by_backend
    def sort_raw(cls, raw: Any, axis: int, descending: bool, stable: bool) -> tuple[Any, Any]:
        """The sorted values, and the int64 indices of their former places."""

    @written_by_backend
    def search_sorted_raw(cls, sorted_raw: Any, values: Any, right: bool) -> Any:
        """sorted [batch, n], values [batch, m] -> int64 [batch, m]: where to insert them to keep the order."""

    @written_by_backend
    def top_k_raw(cls, raw: Any, k: int, sorted: bool) -> tuple[Any, Any]:
        """Values and int64 indices of the k largest entries of the last axis; ties in any order. An error if it has
        fewer.
        """

    @classmethod
    def first_top_k_raw(cls, raw: Any, k: int) -> tuple[Any, Any]:
        """Values and int64 indices of the k largest entries of the last axis, largest first (NaN before all), ties by order. Computed
        on the array's device, where checking for ties would wait.
        """
        axis = cls.get_ndim_raw(raw) - 1
        best, index = cls.sort_raw(raw, axis, True, True)
        return cls.slice_raw(best, axis, 0, k), cls.slice_raw(index, axis, 0, k)

    @written_by_backend
    def cumsum_raw(cls, raw: Any, axis: int) -> Any:
        """The running sum along an axis."""

    @written_by_backend
    def one_hot_raw(cls, raw: Any, size: int, on: float, off: float, dtype: str) -> Any:
        """A new last axis of length `size`."""

    @written_by_backend
    def dropout_raw(cls, raw: Any, drop_prob: float, noise_shape: Sequence[int] | None) -> Any:
        """Set values to zero with `drop_prob`, and scale the rest by 1 / (1 - drop_prob); axes of length 1 in `noise_shape` share the
        choice.
        """

    @written_by_backend
    def cross_entropy_raw(cls, logits: Any, targets: Any, label_smoothing: float, mask: Any | None) -> Any:
        """logits [n, classes], targets int [n] -> [n]; 0 where `mask` [n] is False, regardless of logits and targets there."""
