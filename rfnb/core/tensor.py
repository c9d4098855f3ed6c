"""Tensor: a raw array with one Dim per axis.

    x = Tensor("x", dims=[batch, time, feat], dtype="float32", raw_tensor=array)
    x.copy_transpose([time, batch, feat]).raw_tensor

The operators (`+`, `<`, ...) are bound by `rfnb/ops/operators.py`, since what they compute is an op.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.backends import protocol
from rfnb.core.dim import Dim
from rfnb.core.errors import DimError, ShapeError, message

if TYPE_CHECKING:
    from rfnb.core.marked_dim import MarkedDim


class Tensor:
    """A raw array with one Dim per axis, in the order of the axes.

    Args:
        name: For messages and views.
        dims: One Dim per axis; no Dim twice (a square weight uses a dim and its twin `dim.copy(match_priority=1)`).
        dtype: "float32", "int64", "bool", ...; taken from the raw array if there is one.
        sparse_dim: The dim that the integers of this tensor index into, e.g. a vocabulary.
        feature_dim: A marked default axis, one of `dims`.
        raw_tensor: The array; None makes a template.

    Raises:
        DimError: A dim twice, or a feature_dim that is not among the dims.
        ShapeError: If the raw array does not fit the dims.
    """

    __array_ufunc__ = None  # `np.zeros(3) + x` is for x to answer, not an array of three Tensors
    # Class-level defaults: a result of an op sets only what it has, which keeps making one cheap.
    name: str | None = None
    sparse_dim: Dim | None = None
    _feature_dim: Dim | None = None
    _dtype: str | None = None
    _raw: Any = None
    dims: tuple[Dim, ...] = ()

    def __init__(
        self,
        name: str | None = None,
        dims: Sequence[Dim] = (),
        dtype: str | None = None,
        *,
        sparse_dim: Dim | None = None,
        feature_dim: Dim | None = None,
        raw_tensor: Any = None,
    ):
        self.name = name
        self.dims = check_unique(tuple(dims), f'Tensor "{name}"')
        if dtype is not None:
            self._dtype = dtype
        if sparse_dim is not None:
            self.sparse_dim = sparse_dim
        if feature_dim is not None:
            self.feature_dim = feature_dim
        if raw_tensor is not None:
            self.raw_tensor = raw_tensor

    @property
    def raw_tensor(self) -> Any:
        """The raw array. Assigning checks rank, sizes and dtype."""
        return self._raw

    @raw_tensor.setter
    def raw_tensor(self, raw: Any) -> None:
        if raw is not None:
            backend = protocol.get_backend_by_raw_tensor_type(type(raw))
            check_shape(self, backend.get_shape_tuple_raw(raw))
            got = backend.get_dtype_name_raw(raw)
            if self._dtype is not None and got != self._dtype:
                raise ShapeError(
                    message(
                        f'Tensor "{self.name}": dtype differs.',
                        [("tensor", self._dtype), ("array", got)],
                        "A tensor keeps the dtype it was declared with. Declare the one of the array:",
                        f'Tensor("{self.name}", dims=[...], dtype="{got}")',
                    )
                )
        self._raw = raw

    @property
    def feature_dim(self) -> Dim | None:
        return self._feature_dim

    @feature_dim.setter
    def feature_dim(self, dim: Dim | None) -> None:
        if dim is not None and dim not in self.dims:
            raise DimError(
                message(
                    "feature_dim is not a dim of the tensor.",
                    [("tensor", shape_of(self)), ("feature_dim", dim.short_repr())],
                    "The feature dim is one of the dims.",
                )
            )
        self._feature_dim = dim

    @property
    def dtype(self) -> str:
        raw = self._raw
        if raw is None:
            return self._dtype or "float32"
        return protocol.get_backend_by_raw_tensor_type(type(raw)).get_dtype_name_raw(raw)

    @dtype.setter
    def dtype(self, dtype: str) -> None:
        self._dtype = dtype

    @property
    def device(self) -> str | None:
        """ "cpu", "cuda:0", ... or None for a template."""
        raw = self._raw
        return None if raw is None else protocol.get_backend_by_raw_tensor_type(type(raw)).get_device_raw(raw)

    @property
    def backend(self) -> Any:
        """The backend of the raw array; of a template the selected one."""
        return protocol.selected() if self._raw is None else protocol.get_backend_by_raw_tensor_type(type(self._raw))

    @property
    def dims_set(self) -> set[Dim]:
        return set(self.dims)

    @property
    def batch_ndim(self) -> int:
        """Number of axes."""
        return len(self.dims)

    def remaining_dims(self, remove: Dim | Sequence[Dim] | None = None) -> list[Dim]:
        """The dims without those of `remove`, in order.

        Raises:
            DimError: If one of `remove` is not there.
        """
        remove = [] if remove is None else [remove] if isinstance(remove, Dim) else list(remove)
        for dim in remove:
            self.axis_of(dim, "remaining_dims")
        return [dim for dim in self.dims if dim not in remove]

    def axis_of(self, dim: Dim, what: str = "axis_of") -> int:
        """Index of `dim` in the raw array; the twin of a dim stands in for it where the dim itself is not there."""
        try:
            return self.dims.index(dim)
        except ValueError:
            pass
        raise missing_dim(what, self, dim)

    get_axis_from_description = axis_of

    def has_axis(self, dim: Dim) -> bool:
        return dim in self.dims

    def copy(self, name: str | None = None) -> Tensor:
        """Another Tensor of the same raw array."""
        return self._like(self._raw, self.dims, name)

    def copy_template(self, name: str | None = None, *, dtype: str | None = None) -> Tensor:
        """Same dims and marks, without raw array."""
        return Tensor(
            name or self.name, self.dims, dtype or self.dtype, sparse_dim=self.sparse_dim, feature_dim=self._feature_dim
        )

    def copy_template_new_dim_tags(self, new_dims: Sequence[Dim], *, name: str | None = None) -> Tensor:
        feature = self._feature_dim if self._feature_dim in new_dims else None
        return Tensor(name or self.name, new_dims, self.dtype, sparse_dim=self.sparse_dim, feature_dim=feature)

    def copy_template_replace_dim_tag(self, *, axis: int, new_dim_tag: Dim) -> Tensor:
        dims = list(self.dims)
        dims[axis] = new_dim_tag
        return self.copy_template_new_dim_tags(dims)

    def copy_transpose(self, perm: Sequence[Dim | int]) -> Tensor:
        """The same tensor with its axes in another order.

        Raises:
            DimError: If `perm` is not exactly the dims of this tensor.
        """
        order = [item if isinstance(item, int) else self.axis_of(item, "copy_transpose") for item in perm]
        if sorted(order) != list(range(len(self.dims))):
            raise DimError(
                message(
                    "copy_transpose: the order must name each dim once.",
                    [("tensor", shape_of(self)), ("order", ", ".join(map(_show, perm)))],
                    "A transposition keeps all dims.",
                )
            )
        if order == list(range(len(order))):
            return self
        dims = tuple(self.dims[axis] for axis in order)
        return self._like(None if self._raw is None else self.backend.transpose_raw(self._raw, order), dims)

    def copy_compatible_to_dims(self, dims: Sequence[Dim]) -> Tensor:
        """Axes in the order of `dims`, a superset; missing ones get a static dim of size 1."""
        raw = self.copy_compatible_to_dims_raw(dims)
        return self._like(raw, tuple(dim if dim in self.dims else Dim(1, name=f"{dim.name}:1") for dim in dims))

    def copy_compatible_to_dims_raw(self, dims: Sequence[Dim]) -> Any:
        """The raw array in the order of `dims`, with axes of length 1 for those that this tensor lacks."""
        out = self.copy_transpose([dim for dim in dims if dim in self.dims])._raw
        for axis, dim in enumerate(dims):
            if dim not in self.dims:
                out = self.backend.expand_dims_raw(out, axis)
        return out

    def copy_masked(self, mask_value: float | int | bool, *, dims: Sequence[Dim] | None = None) -> Tensor:
        """A copy in which the padding (of all dims, or of `dims`) is `mask_value`.

        A dim is only masked where the dims that its lengths are over are here.
        """
        raw = self._raw
        for dim in self.dims if dims is None else dims:
            if dim.has_padding() and all(over in self.dims for over in dim.length_dims):
                mask = raw_mask_for(self, dim)
                raw = self.backend.where_raw(mask, raw, mask_value)
        return self._like(raw, self.dims)

    def numpy(self) -> np.ndarray:
        """The values on the host, axes in the order of `dims` (waits for a GPU).

        Raises:
            ValueError: Of a template.
        """
        if self._raw is None:
            raise ValueError(
                message("numpy: a template has no values.", [("tensor", repr(self))], "Assign x.raw_tensor first.")
            )
        return self.backend.raw_to_numpy(self._raw)

    def num_elements(self) -> int:
        """Number of valid (not padding) elements."""
        total = 1
        for dim in self.dims:
            total *= dim.extent
        raggeds = [dim for dim in self.dims if dim.has_padding()]
        if not raggeds:
            return total
        ones = np.ones([dim.extent for dim in self.dims], dtype=bool)
        for dim in raggeds:
            if set(dim.length_dims) <= set(self.dims):
                ones &= dim.host_mask(self.dims)
        return int(ones.sum())

    def verify_out_shape(self, out_shape: set[Dim | MarkedDim], *, allow_missing_implicit_dims: bool = False) -> Tensor:
        """Check the set of dims; returns self.

        Args:
            out_shape: The dims, and those that the tensor depends on without an axis, marked (`rfnb.tensor`):
                `ImplicitSparseDim(vocab)` for its sparse dim, `ImplicitDynSizeDim(batch)` for what lengths are over.
                `OptionalDim(dim)` may be there or not.
            allow_missing_implicit_dims: True: those without an axis need not be named.

        Raises:
            VerifyOutShapeException: If it differs.
        """
        from rfnb.core import marked_dim  # same layer: a tensor shows what its marks are

        different = marked_dim.differences(self, out_shape, allow_missing_implicit_dims)
        if different:
            raise VerifyOutShapeException(
                message(
                    "verify_out_shape: other dims than expected.",
                    [("tensor", repr(self)), ("expected", marked_dim.text(self, out_shape)), *different],
                    "The dims must be the same set, and those without an axis named too. As it is:",
                    f"x.verify_out_shape({marked_dim.code(self)})",
                )
            )
        return self

    def reset(self) -> None:
        """Drop the raw array."""
        self._raw = None

    def _like(self, raw: Any, dims: tuple[Dim, ...], name: str | None = None) -> Tensor:
        out = new_tensor(raw, dims)
        if raw is None:
            out._dtype = self.dtype
        if name or self.name:
            out.name = name or self.name
        if self.sparse_dim is not None:
            out.sparse_dim = self.sparse_dim
        if self._feature_dim is not None and self._feature_dim in dims:
            out._feature_dim = self._feature_dim
        return out

    def __repr__(self) -> str:
        extra = f" sparse over {self.sparse_dim.short_repr()}" if self.sparse_dim is not None else ""
        raw = "" if self._raw is not None else " (template)"
        dtype = "" if self.dtype == "float32" else f" {self.dtype}"
        return f"Tensor{{{self.name or ''!r}, {shape_of(self)}{dtype}{extra}{raw}}}"

    def __bool__(self) -> bool:
        raise TypeError(
            message(
                "A Tensor has no truth value.",
                [("tensor", shape_of(self))],
                "Branching on values needs one Python bool.",
                "bool(x.raw_tensor)            # a scalar\nrf.reduce_any(x, axis=...)    # first reduce",
            )
        )

    __hash__ = object.__hash__

    if TYPE_CHECKING:  # bound by rfnb/ops/operators.py

        def __add__(self, other: Any) -> Tensor: ...
        def __radd__(self, other: Any) -> Tensor: ...
        def __sub__(self, other: Any) -> Tensor: ...
        def __rsub__(self, other: Any) -> Tensor: ...
        def __mul__(self, other: Any) -> Tensor: ...
        def __rmul__(self, other: Any) -> Tensor: ...
        def __truediv__(self, other: Any) -> Tensor: ...
        def __rtruediv__(self, other: Any) -> Tensor: ...
        def __floordiv__(self, other: Any) -> Tensor: ...
        def __rfloordiv__(self, other: Any) -> Tensor: ...
        def __mod__(self, other: Any) -> Tensor: ...
        def __rmod__(self, other: Any) -> Tensor: ...
        def __pow__(self, other: Any) -> Tensor: ...
        def __rpow__(self, other: Any) -> Tensor: ...
        def __and__(self, other: Any) -> Tensor: ...
        def __or__(self, other: Any) -> Tensor: ...
        def __lt__(self, other: Any) -> Tensor: ...
        def __le__(self, other: Any) -> Tensor: ...
        def __gt__(self, other: Any) -> Tensor: ...
        def __ge__(self, other: Any) -> Tensor: ...
        def __eq__(self, other: Any) -> Any: ...
        def __ne__(self, other: Any) -> Any: ...
        def __neg__(self) -> Tensor: ...
        def __abs__(self) -> Tensor: ...
        def __invert__(self) -> Tensor: ...


class VerifyOutShapeException(DimError):
    """The dims of an output are not the promised ones."""


_make = Tensor.__new__


def new_tensor(raw: Any, dims: tuple[Dim, ...]) -> Tensor:
    """A Tensor without checks, for results of ops."""
    out = _make(Tensor)
    out._raw = raw
    out.dims = dims
    return out


def check_unique(dims: tuple[Dim, ...], what: str) -> tuple[Dim, ...]:
    if len(set(dims)) != len(dims):
        twice = next(dim for dim in dims if dims.count(dim) > 1)
        raise DimError(
            message(
                f"{what}: the same dim twice.",
                [("dims", dims_text(dims)), ("twice", twice.short_repr())],
                "A tensor holds a dim once. A square weight uses the dim and its twin:",
                f"{twice.name}.copy(match_priority=1)",
            )
        )
    return dims


def check_shape(tensor: Tensor, shape: Sequence[int]) -> None:
    """Compare a raw shape with the dims; a dim without size takes it over if nothing else can."""
    dims = tensor.dims
    if len(shape) == len(dims):
        new = [dim for dim in dims if not dim.is_dim_known() and dim.expr is None and not dim.declared_length_dims]
        if all(dim in new or dim.extent == length for dim, length in zip(dims, shape)):
            for dim, length in zip(dims, shape):
                if dim in new:
                    dim.dyn_size_ext = np.int32(length)
            return
    raise _misfit(tensor, tuple(shape))


def _misfit(tensor: Tensor, shape: tuple[int, ...]) -> ShapeError:
    dims, labels = tensor.dims, labels_of(tensor.dims)
    table = [("dim", "needs", "got", "")]
    for axis in range(max(len(dims), len(shape))):
        dim = dims[axis] if axis < len(dims) else None
        needs = "" if dim is None else str(dim.extent) if dim.is_dim_known() else "any"
        got = str(shape[axis]) if axis < len(shape) else ""
        mark = "" if needs == got or (needs == "any" and got) else "<- differs"
        table.append((labels[dim] if dim else "none", needs, got or "none", mark))
    widths = [max(map(len, column)) for column in zip(*table)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in table]
    wrong = [axis for axis, row in enumerate(table[1:]) if row[3]]
    fix = f"Dim({shape[wrong[0]]}, name=...)" if len(wrong) == 1 and len(dims) == len(shape) else None
    name = "" if tensor.name is None else f' "{tensor.name}"'
    return ShapeError(
        message(
            f"Tensor{name}: raw shape {shape} does not fit its dims.",
            zip(["axis", *map(str, range(len(lines) - 1))], lines),
            "The dims of a tensor are in the order of its raw array."
            + (f"\nAxis {wrong[0]} needs the dim that this array was made with:" if fix else ""),
            fix,
        )
    )


def raw_mask_for(tensor: Tensor, dim: Dim) -> Any:
    """The mask of `dim` as raw array that broadcasts against `tensor`."""
    backend = tensor.backend
    own = tuple(other for other in tensor.dims if other is dim or other in dim.length_dims)
    mask = dim.raw_mask(own, backend, backend.get_device_raw(tensor._raw))
    for axis, other in enumerate(tensor.dims):
        if other not in own:
            mask = backend.expand_dims_raw(mask, axis)
    return mask


def labels_of(dims: Iterable[Dim]) -> dict[Dim, str]:
    """How a message writes each of these dims: `time<=7`, and where another one has the same name, `time(train.py:12)<=7`, or
    `time#1<=7` if they were made in the same place."""
    unique = list(dict.fromkeys(dims))
    labels = {}
    for dim in unique:
        alike = [other for other in unique if other.name == dim.name]
        mark = ""
        if len(alike) > 1:
            places = {other.created for other in alike}
            mark = f"({dim.created})" if len(places) == len(alike) else f"#{alike.index(dim) + 1}"
        labels[dim] = f"{dim.name}{mark}{dim.short_repr()[len(dim.name) :]}"
    return labels


def dims_text(dims: Sequence[Dim], labels: dict[Dim, str] | None = None) -> str:
    """`[batch=3, time<=7]`, the dims labelled by `labels_of` of these, or of all in a message."""
    labels = labels_of(dims) if labels is None else labels
    return f"[{', '.join(labels[dim] for dim in dims)}]"


def shape_of(tensor: Tensor) -> str:
    """The dims of a tensor as text, as in all messages."""
    return dims_text(tensor.dims)


def operand_rows(operands: Sequence[tuple[str, Tensor]]) -> list[tuple[str, str]]:
    """The rows of a message that show these operands; equal names among them are told apart."""
    labels = labels_of(dim for _, tensor in operands for dim in tensor.dims)
    return [(label, dims_text(tensor.dims, labels)) for label, tensor in operands]


def missing_dim(
    what: str,
    tensor: Tensor,
    dim: Dim,
    label: str = "tensor",
    operands: Sequence[tuple[str, Tensor]] | None = None,
    role: str | None = None,
) -> DimError:
    """The error for a dim that a tensor does not have, with a hint if another one has the same name or sizes.

    Args:
        label: What the message calls the tensor.
        operands: All that the message shows, if that is more than the tensor.
        role: What the dim is for, e.g. "reduce".
    """
    operands = [(label, tensor)] if operands is None else operands
    labels = labels_of([*(other for _, operand in operands for other in operand.dims), dim])
    rule, fix = f"The dim {labels[dim]} is not among the dims of {label}.", None
    other = next((other for other in tensor.dims if other.name == dim.name), None)
    other = other or next((other for other in tensor.dims if _same_sizes(other, dim)), None)
    if other is not None:
        alike = ["name"] if other.name == dim.name else []
        alike += [_sizes(dim)] if _same_sizes(other, dim) else []
        first, second = (labels[each].removesuffix(each.short_repr()[len(each.name) :]) for each in (dim, other))
        rule = (
            f'"{first}" and "{second}" have the same {" and ".join(alike)} but are different dims.\n'
            "If they are the same axis, replace one first:"
        )
        fix = replace_code(label if label.isidentifier() and label != "tensor" else "x", tensor.dims, other, dim)
    rows = [(name, dims_text(operand.dims, labels)) for name, operand in operands]
    first_line = f"{what}: {f'{label} has ' if role else ''}no dim {labels[dim]}{f' to {role}' if role else ''}."
    return DimError(message(first_line, [*rows, (role or "dim", labels[dim])], rule, fix))


def replace_code(label: str, dims: Sequence[Dim], in_dim: Dim, out_dim: Dim, out_label: str | None = None) -> str:
    """The line to type that replaces `in_dim` of the tensor called `label`; what has no name of its own is named by place."""
    same = in_dim.name == out_dim.name
    old = in_dim.name if in_dim.name.isidentifier() and not same else f"{label}.dims[{list(dims).index(in_dim)}]"
    new = out_dim.name if out_dim.name.isidentifier() else "..."
    return f"{label}, _ = rf.replace_dim({label}, in_dim={old}, out_dim={out_label or new})"


def _same_sizes(a: Dim, b: Dim) -> bool:
    if a.size is not None or b.size is not None:
        return a.size == b.size
    if a.lengths is None or b.lengths is None:
        return False
    return a.lengths.shape == b.lengths.shape and bool((a.lengths == b.lengths).all())


def _sizes(dim: Dim) -> str:
    if dim.lengths is None or not dim.length_dims:
        return f"size {dim.extent}"
    shown = ", ".join(map(str, dim.lengths.ravel()[:8]))
    return f"sizes ({shown}{', ...' if dim.lengths.size > 8 else ''})"


def _show(item: Any) -> str:
    return item.short_repr() if isinstance(item, Dim) else str(item)
