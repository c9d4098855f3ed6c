"""A backend from outside of rfnb: arrays that are Python lists. It is the example of docs/backend.md.

from backends.list_backend import ListArray, ListBackend
"""

from __future__ import annotations

import itertools
import math
import operator
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rfnb import Backend


class ListArray:
    """Values in a flat list, in the order of a C array. It has none of the attributes that arrays usually have: rfnb asks the backend."""

    def __init__(self, values: list[Any], axes: Sequence[int], numbers: str):
        self.values, self.axes, self.numbers = values, tuple(axes), numbers

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise AssertionError(f"A raw array is asked for {name}.")  # and no AttributeError, which getattr would take

    def at(self, index: Sequence[int]) -> Any:
        """The value at an index; axes of length 1 broadcast, and missing leading ones too."""
        place = 0
        for length, i in zip(self.axes, index[len(index) - len(self.axes) :]):
            place = place * length + (i if length > 1 else 0)
        return self.values[place]


def of_indices(shape: Sequence[int], value_at: Callable[[tuple[int, ...]], Any], dtype: str) -> ListArray:
    return ListArray([value_at(index) for index in itertools.product(*map(range, shape))], shape, dtype)


def elementwise(fn: Callable[..., Any], to_dtype: str | None = None) -> Callable[..., ListArray]:
    """fn over arrays that broadcast, and numbers."""

    def call(*operands: Any) -> ListArray:
        arrays = [item if isinstance(item, ListArray) else ListArray([item], (), "") for item in operands]
        shape = np.broadcast_shapes(*(array.axes for array in arrays))
        dtype = to_dtype or next(array.numbers for array in reversed(arrays) if array.numbers)
        return of_indices(shape, lambda index: fn(*(array.at(index) for array in arrays)), dtype)

    return call


BINARY = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "truediv": operator.truediv, "maximum": max, "minimum": min,
    "logical_and": lambda a, b: a and b,
}  # fmt: skip
COMPARE = {"less": operator.lt, "greater": operator.gt, "equal": operator.eq}
UNARY = {
    "neg": operator.neg,
    "exp": math.exp,
    "tanh": math.tanh,
    "relu": lambda x: max(x, 0.0),
    "rsqrt": lambda x: x**-0.5,
}
REDUCE = {
    "sum": sum, "max": max, "min": min, "mean": lambda values: sum(values) / len(values), "any": any, "all": all,
    "logsumexp": lambda values: math.log(sum(map(math.exp, values))),
}  # fmt: skip


class ListBackend(Backend):
    name = "lists"
    RawTensorType = ListArray

    # -- what there is -------------------------------------------------------------------------------------------------
    @classmethod
    def get_dtype_name_raw(cls, raw):
        return raw.numbers

    @classmethod
    def get_shape_tuple_raw(cls, raw):
        return raw.axes

    @classmethod
    def get_device_raw(cls, raw):
        return "cpu"

    @classmethod
    def from_numpy(cls, array, *, dtype=None, device=None):
        array = np.asarray(array, dtype)
        return ListArray(array.ravel().tolist(), array.shape, array.dtype.name)

    @classmethod
    def raw_to_numpy(cls, raw):
        return np.asarray(raw.values, raw.numbers).reshape(raw.axes)

    @classmethod
    def cast_raw(cls, raw, dtype):
        return cls.from_numpy(cls.raw_to_numpy(raw), dtype=dtype)

    # -- axes ----------------------------------------------------------------------------------------------------------
    @classmethod
    def reshape_raw(cls, raw, shape):
        return ListArray(raw.values, np.empty(raw.axes).reshape(tuple(shape)).shape, raw.numbers)

    @classmethod
    def transpose_raw(cls, raw, perm):
        shape = [raw.axes[axis] for axis in perm]
        back = [list(perm).index(axis) for axis in range(len(perm))]
        return of_indices(shape, lambda index: raw.at([index[axis] for axis in back]), raw.numbers)

    @classmethod
    def broadcast_raw(cls, raw, shape):
        return of_indices(shape, raw.at, raw.numbers)

    # -- maths ---------------------------------------------------------------------------------------------------------
    @classmethod
    def binary_fn(cls, kind):
        return elementwise(COMPARE[kind], "bool") if kind in COMPARE else elementwise(BINARY[kind])

    @classmethod
    def unary_fn(cls, kind):
        return elementwise(UNARY[kind])

    @classmethod
    def where_raw(cls, mask, true, false):
        dtype = (true if isinstance(true, ListArray) else false).numbers
        return elementwise(lambda m, a, b: a if m else b, dtype)(mask, true, false)

    @classmethod
    def reduce_raw(cls, raw, kind, axes):
        kept = [axis for axis in range(len(raw.axes)) if axis not in axes]

        def value_at(outer):
            lines = (range(n) if axis in axes else [outer[kept.index(axis)]] for axis, n in enumerate(raw.axes))
            return REDUCE[kind]([raw.at(index) for index in itertools.product(*lines)])

        return of_indices([raw.axes[axis] for axis in kept], value_at, raw.numbers)

    @classmethod
    def matmul_raw(cls, a, b):
        *outer, rows, inner = a.axes
        columns = b.axes[-1]

        def value_at(index):
            *place, row, column = index
            return sum(a.at([*place, row, i]) * b.at([*place, i, column]) for i in range(inner))

        return of_indices([*outer, rows, columns], value_at, a.numbers)

    # -- parameters ----------------------------------------------------------------------------------------------------
    @classmethod
    def random_raw(cls, shape, distribution, *, dtype, device, low, high, generator=None):
        draw = random.gauss if distribution == "normal" else random.uniform
        return of_indices(shape, lambda index: draw(low, high), dtype)

    @classmethod
    def assign_raw(cls, param, value):
        param.values[:] = cls.broadcast_raw(value, param.axes).values
