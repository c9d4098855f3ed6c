"""The operators of a Tensor. `rfnb/ops/operators.py` binds them, since they are ops; here are those that do not exist."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from rfnb.core.compat.attribute_hints import INSTEAD, filled
from rfnb.core.errors import type_error
from rfnb.core.tensor_text import dims_text

if TYPE_CHECKING:
    from rfnb.core.dim import Dim, Dims
    from rfnb.core.tensor import Tensor

# What asks a Tensor where an array stands on the left, and what `np.sum` and its like are called here.
_OPERATORS = {
    "add": "__radd__", "subtract": "__rsub__", "multiply": "__rmul__", "divide": "__rtruediv__", "floor_divide": "__rfloordiv__",
    "remainder": "__rmod__", "power": "__rpow__", "bitwise_and": "__rand__", "bitwise_or": "__ror__", "matmul": "__rmatmul__",
    "less": "__gt__", "less_equal": "__ge__", "greater": "__lt__", "greater_equal": "__le__", "equal": "__eq__", "not_equal": "__ne__",
}  # fmt: skip
_REDUCED = {"add": "sum", "maximum": "max", "minimum": "min", "logical_and": "all", "logical_or": "any"}


class TensorOperators:
    """A part of Tensor: operators. Abstract."""

    dims: Dims

    if TYPE_CHECKING:  # of Tensor

        def numpy(self) -> np.ndarray: ...

    def __bool__(self) -> bool:
        if not self.dims:
            return bool(self._number("bool"))
        raise type_error(
            "A Tensor has no truth value.",
            {"tensor": self},
            "Branching on values needs one Python bool; `==` is elementwise, so `x in [y]` asks for one too.",
            "bool(rf.reduce_any(x, axis=x.dims))    # a scalar has one\n"
            "x is other                             # the same object",
        )

    def __float__(self) -> float:
        """The value of a scalar; waits for a GPU."""
        return float(self._number("float"))

    def __int__(self) -> int:
        """The value of a scalar, converted as by `int`; waits for a GPU."""
        return int(self._number("int"))

    def __format__(self, spec: str) -> str:
        """`f"{loss:.3f}"` of a scalar; without a format the repr."""
        return format(self._number(f"format {spec!r}"), spec) if spec else str(self)

    def _number(self, what: str) -> Any:
        """The single value as a Python number."""
        if self.dims:
            raise type_error(
                f"{what}: a Tensor with dims is not one number.",
                {"tensor": self},
                "Only a scalar is one, a Tensor without dims. Reduce it, or take an entry:",
                filled("rf.reduce_mean(x, axis=x.dims)\nrf.gather(x, axis=..., indices=0)", self.dims),
            )
        return self.numpy().item()

    def __getitem__(self, key: Any) -> NoReturn:
        raise type_error(
            "A Tensor has no [...].",
            {"tensor": self, "key": type(key).__name__},
            "The order of its dims is no part of its meaning. Name the dim:",
            filled("rf.gather(x, axis=..., indices=0)\nrf.slice(x, axis=..., start=0, end=3)", self.dims),
        )

    def __setitem__(self, key: Any, value: Any) -> NoReturn:
        raise type_error(
            "A Tensor has no [...] = ...",
            {"tensor": self, "key": type(key).__name__},
            "Ops make new tensors, and dims are named:",
            "rf.where(mask, value, x)\nrf.scatter(value, indices=..., indices_dim=..., out_dim=...)",
        )

    def __matmul__(self, other: Any) -> NoReturn:
        raise self._no_matmul(self, other)

    def __rmatmul__(self, other: Any) -> NoReturn:
        raise self._no_matmul(other, self)

    def __len__(self) -> int:
        raise type_error(
            "A Tensor has no len().",
            {"tensor": self},
            "Which dim is first is no part of its meaning. Name the dim:",
            "x.dims[0].extent     # longest sequence\nx.batch_ndim         # number of axes\nx.num_elements()     # without padding",
        )

    def __array__(self, dtype: Any = None, copy: Any = None) -> NoReturn:
        raise type_error(
            "A Tensor does not become an array by itself.",
            {"tensor": self},
            "Its dims have no order that an array could rely on. Say the order:",
            filled("x.copy_transpose([...]).numpy()    # or x.numpy() for x.dims", self.dims),
        )

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Decline: `np.zeros(3) + x` is handled by x instead of becoming an array of three Tensors; `np.exp(x)` is not an op."""
        if ufunc.__name__ in _OPERATORS and method == "__call__" and not kwargs and inputs[1] is self:
            return getattr(self, _OPERATORS[ufunc.__name__])(inputs[0])
        name = ufunc.__name__ if method == "__call__" else _REDUCED.get(ufunc.__name__, ufunc.__name__)
        raise self._no_function("np", name, inputs)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> NoReturn:
        raise cls._no_function("torch", getattr(func, "__name__", str(func)), (*args, *(kwargs or {}).values()))

    @staticmethod
    def _no_function(library: str, name: str, args: Any) -> TypeError:
        rows = [("got", dims_text(arg.dims)) for arg in args if isinstance(arg, TensorOperators)]
        rule = (
            "Its functions know axes by their positions. Take the function of rfnb that names dims, or the raw array:"
        )
        dims = next((arg.dims for arg in args if isinstance(arg, TensorOperators)), ())
        fix = filled(INSTEAD.get(name, f"rf.{name}(x)    # if there is one; dir(rf)"), dims)
        raw = "x.numpy()" if library == "np" else "x.raw_tensor"
        other = f"{library}.{name}({raw}{', ...' if len(args) > 1 else ''})"
        return type_error(f"{library}.{name}: of a Tensor of rfnb.", rows, rule, f"{fix}\n{other}")

    @staticmethod
    def _no_matmul(a: Any, b: Any) -> TypeError:
        rows = [
            (label, dims_text(x.dims) if hasattr(x, "dims") else type(x).__name__) for label, x in (("a", a), ("b", b))
        ]
        shared = [dim.name for dim in getattr(a, "dims", ()) if dim in getattr(b, "dims", ())]
        reduce = shared[-1] if shared and shared[-1].isidentifier() else "..."
        rule = "Which dim is summed over does not follow from an order of dims. Name it:"
        return type_error("A Tensor has no @.", rows, rule, f"rf.matmul(a, b, reduce={reduce})")

    __hash__ = object.__hash__

    if TYPE_CHECKING:  # bound by rfnb/ops/operators.py

        def __add__(self, other: Any) -> Tensor: ...

        __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __add__
        __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __add__
        __and__ = __or__ = __lt__ = __le__ = __gt__ = __ge__ = __add__

        def __eq__(self, other: Any) -> Any: ...
        def __ne__(self, other: Any) -> Any: ...
        def __neg__(self) -> Tensor: ...

        __abs__ = __invert__ = __neg__

        # bound by rfnb/nn/run/run_ctx.py
        def mark_as_loss(self, name: str, **options: Any) -> None: ...
        def mark_as_output(
            self, name: str, *, shape: Sequence[Dim] | None = None, dims: Sequence[Dim] | None = None
        ) -> None: ...
        def mark_as_default_output(self, *, shape: Sequence[Dim] | None = None) -> None: ...
