"""TensorArray: Tensors of one shape, one per step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rfnb.core.dim import Dim
from rfnb.core.errors import dim_error, index_error, message, type_error, value_error
from rfnb.core.fill_values import kind_of_dtype
from rfnb.core.layout import full_shape
from rfnb.core.place import warn_user
from rfnb.core.tensor import Tensor, same_dtype
from rfnb.core.tensor_checks import check_unique
from rfnb.ops.concat import stack
from rfnb.ops.defaults import is_float_dtype
from rfnb.ops.frames import frames, marked_like
from rfnb.ops.out_dim import define_size


class TensorArray:
    """A list of Tensors like `tensor_template` (same dims in any order, sparse_dim of integers, kind of dtype). It is immutable:
    `push_back` returns a longer one, so an earlier one may be kept.

    Integers may have another width than the template's (an argmax has int64), and so may floats (under autocast).

    Args:
        tensor_template: A Tensor, with or without values.
        items: The first entries.
        _backend: Accepted; the backend is that of the entries.
        _enable_delayed_check: Entries may have other dims than the template, e.g. another beam in each step, as long as they are not
            stacked.

    Raises:
        TypeError: If tensor_template is not a Tensor.
    """

    def __init__(
        self,
        tensor_template: Tensor,
        _backend: Any = None,
        _enable_delayed_check: bool = False,
        *,
        items: Sequence[Tensor] = (),
    ):
        if not isinstance(tensor_template, Tensor):
            raise type_error(
                "TensorArray: tensor_template is not a Tensor.",
                {"tensor_template": tensor_template},
                "Its dims and dtype are those of the entries.",
                'rf.TensorArray(rf.Tensor("entry", dims=[...], dtype="float32"))',
            )
        self.tensor_template, self._delayed = tensor_template, _enable_delayed_check
        self._items = tuple(items)
        self._pushed = 0  # how often there was a longer one

    @classmethod
    def unstack(cls, tensor: Tensor, *, axis: Dim) -> TensorArray:
        """One entry per frame of `axis` (padding frames too).

        Raises:
            DimError: If axis is not a dim of tensor.
        """
        index = tensor.axis_of(axis, "TensorArray.unstack")
        dims = (*tensor.dims[:index], *tensor.dims[index + 1 :])
        return cls(tensor.copy_template_new_dim_tags(dims), items=frames(tensor, axis=axis, masked=False))

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: int | Tensor) -> Tensor:
        """The entry at an index, an int or a scalar integer Tensor (which is read by the host); -1 is the last one.

        Raises:
            IndexError: If the index is out of range.
        """
        place = int(index.numpy()) if isinstance(index, Tensor) else index
        try:
            return self._items[place]
        except IndexError:
            count = len(self._items)
            rows = [("entries", count), ("allowed", f"{-count} to {count - 1}" if count else "none: it is empty")]
            raise index_error(
                f"TensorArray: there is no entry {place}.", rows, "Entries count from 0 as they were pushed."
            ) from None

    def push_back(self, tensor: Tensor) -> TensorArray:
        """An array with one more entry.

        Raises:
            DimError: If the Tensor does not match the template.
        """
        like = self.tensor_template
        if not self._delayed:
            check_like("push_back", like, tensor)
        self._pushed += 1
        return TensorArray(like, None, self._delayed, items=(*self._items, tensor))

    def stack(self, *, axis: Dim) -> Tensor:
        """All entries along a new leading `axis`; zeros if there are none.

        Args:
            axis: What a loop has pushed after the longest sequence of a ragged axis has ended is left out: the step in which it
                ends, whose label counts to no length; of more than one, it warns.

        Raises:
            DimError: If axis has another size than there are entries, or entries differ that were not checked before.
            ValueError: If there is no entry, since what push_back gave was not kept.
        """
        ragged = axis.is_dim_known() and axis.need_masking()
        items = self._items[: axis.extent] if ragged else self._items
        if len(items) + 1 < len(self._items):
            _warn_of_rest(len(self._items), axis)
        for item in items if self._delayed else ():
            check_like("stack", items[0], item)
        if items:
            return marked_like(stack(items, out_dim=axis)[0], items[0])  # the marks of floats may differ
        if self._pushed and not self._items:
            raise value_error(
                "TensorArray.stack: no entries.",
                {"pushed": self._pushed, "template": self.tensor_template},
                "An array never changes: push_back returns a new, longer one.",
                "array = array.push_back(tensor)",
            )
        define_size(axis, 0)
        like = self.tensor_template
        dims = check_unique((axis, *like.dims), "TensorArray.stack")
        raw = like.backend.full_raw(full_shape(dims), 0, dtype=like.dtype, device=like.device)
        return like._like(raw, dims)


def _warn_of_rest(count: int, axis: Dim) -> None:
    name = axis.name if axis.name.isidentifier() else "axis"
    text = message(
        f"TensorArray.stack: the last {count - axis.extent} of {count} entries are left out.",
        {"entries": count, "axis": f"{axis.short_repr()} {axis.lengths.ravel()[:8].tolist()}"},  # type: ignore[union-attr]
        "The longest sequence has ended before them. If they belong to it, the lengths are those of another axis; if not, push no more:",
        f"for step in range({name}.extent):    # or a state of a loop over {name}",
    )
    warn_user(text)


def index_space(x: Tensor) -> Dim | None:
    """The dim that the values index into. Floats may carry it from integers they were computed from; they are not indices."""
    return None if is_float_dtype(x.dtype) else x.sparse_dim


def check_like(what: str, like: Tensor, tensor: Tensor) -> None:
    """Raise a DimError if `tensor` cannot be an entry of an array with the template `like`."""
    if tensor.dims == like.dims and tensor.sparse_dim is like.sparse_dim and same_dtype(tensor, like):
        return  # the usual case
    if (
        set(tensor.dims) != set(like.dims)
        or index_space(tensor) is not index_space(like)
        or kind_of_dtype(tensor.dtype) != kind_of_dtype(like.dtype)
    ):
        raise dim_error(
            f"TensorArray.{what}: not like the template.",
            {"template": repr(like), "tensor": repr(tensor)},
            "All entries have the same dims, kind of dtype and sparse_dim.",
        )
