"""Tensor: a raw array with one Dim per axis.

    x = Tensor("x", dims=[batch, time, feat], dtype="float32", raw_tensor=array)
    x.copy_transpose([time, batch, feat]).raw_tensor

`rfnb/ops/operators.py` binds the operators (`+`, `<`, ...), since they are ops.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from types import GenericAlias
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.backends import registry
from rfnb.core import marked_dim, tensor_copies, tensor_mask
from rfnb.core.compat.attribute_hints import old_options_error, put_all_absent
from rfnb.core.compat.old_tensor_names import OldTensorNames
from rfnb.core.dim import Dim, Dims
from rfnb.core.errors import DimError, dim_error, message, operand_text, shape_error, value_error
from rfnb.core.not_specified import NotSpecified, is_specified
from rfnb.core.tensor_checks import check_shape, check_unique
from rfnb.core.tensor_operators import TensorOperators
from rfnb.core.tensor_text import missing_dim, shape_of
from rfnb.core.vocabulary import labels_of

if TYPE_CHECKING:
    from rfnb.core.marked_dim import MarkedDim


NOTES_OF_DEBUGGING = "_poisoned", "_made_in", "_nan_error"  # of `poison.py`, about this run only


class Tensor(TensorOperators, OldTensorNames):
    """A raw array with one Dim per axis, in the order of the axes.

    Args:
        name: For messages and views.
        dims: One Dim per axis (`dim_tags` is its old name); no Dim may occur twice (a square weight uses a dim and its twin
            `dim.copy(match_priority=1)`).
        dtype: "float32", "int64", "bool", ...; taken from the raw array if given.
        sparse_dim: The dim that the integers of this tensor index into, e.g. a vocabulary.
        feature_dim: A marked default axis, one of `dims`; or `feature_dim_axis`, its index.
        raw_tensor: The array; None makes a template.
        version: Version of the documented behaviour. Accepted without effect: axes are never marked automatically here.
        available_for_inference: For data feeding: whether it is available at inference, not only in training.
        vocab: Labels of the indices, given to `sparse_dim`: a list, a `Vocabulary` or its options.

    Raises:
        TypeError: For options of older documented versions (`shape`, `sparse`, `batch_dim_axis`, ...); the message has the new ones.
        DimError: For a duplicate dim, or a feature_dim that is not among the dims.
        ShapeError: If the raw array does not match the dims.
    """

    __class_getitem__: Any = classmethod(GenericAlias)  # rf.Tensor[torch.Tensor] as annotation
    # Class-level defaults: a result of an op sets only what it has, which keeps making one cheap.
    name: str | None = None
    sparse_dim: Dim | None = None
    _feature_dim: Dim | None = None
    _finite = False  # whether the padding is known to hold neither NaN nor infinity
    _roles: Mapping[str, Dim] | None = None  # of what was recorded: which dim is "axis", "target", "step"; for views
    _dtype: str | None = None
    available_for_inference = True
    _is_softmax = False  # whether it is the very result of one, for a loss that wants logits
    _raw: Any = None
    dims: tuple[Dim, ...] = ()

    def __init__(
        self,
        name: str | None = None,
        dims: Sequence[Dim] | None = None,
        dtype: str | None = None,
        *,
        sparse_dim: Dim | None = None,
        feature_dim: Dim | None = None,
        feature_dim_axis: int | None | type[NotSpecified] = None,
        raw_tensor: Any = None,
        version: int | None = None,
        available_for_inference: bool = True,
        vocab: Any = None,
        **old_options: Any,
    ):
        self.name = name
        if dims is None and "dim_tags" in old_options:
            dims = old_options.pop("dim_tags")  # its old name, with which most public configs describe their data
        if old_options:
            raise old_options_error(name, old_options)
        if dims is None:
            dims = ()
        elif isinstance(dims, Dim):
            dims = (dims,)
        if not available_for_inference:
            self.available_for_inference = False
        self.dims = check_unique(tuple(dims), f'Tensor "{name}"')
        if dtype is not None:
            self._dtype = dtype
        self.sparse_dim = sparse_dim
        if vocab is not None:
            self.vocab = labels_of(vocab)
        self._feature_dim = None
        if isinstance(feature_dim_axis, int):
            feature_dim = self.dims[feature_dim_axis]
        elif feature_dim_axis is not None and is_specified(feature_dim_axis):
            raise TypeError(f'Tensor "{name}": feature_dim_axis is an index, not {feature_dim_axis!r}.')
        if feature_dim is not None:
            self.feature_dim = feature_dim
        if raw_tensor is not None:
            self.raw_tensor = raw_tensor

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in NOTES_OF_DEBUGGING}

    @property
    def raw_tensor(self) -> Any:
        """The raw array. Assigning checks rank, sizes and dtype."""
        return self._raw

    @raw_tensor.setter
    def raw_tensor(self, raw: Any) -> None:
        if raw is not None:
            backend = registry.BY_TYPE[type(raw)]
            check_shape(self, backend.get_shape_tuple_raw(raw))
            if self._dtype is not None and (got := backend.get_dtype_name_raw(raw)) != self._dtype:
                raise shape_error(
                    f'Tensor "{self.name}": dtype differs.',
                    {"tensor": self._dtype, "array": got},
                    "A tensor keeps the dtype it was declared with. Declare the one of the array:",
                    f'Tensor("{self.name}", dims=[...], dtype="{got}")',
                )
        self._raw = raw
        self.__dict__.pop("_finite", None)

    placeholder = raw_tensor  # its old name

    @property
    def feature_dim(self) -> Dim | None:
        return self._feature_dim

    @feature_dim.setter
    def feature_dim(self, dim: Dim | None) -> None:
        if dim is not None and dim not in self.dims:
            raise dim_error(
                "feature_dim is not a dim of the tensor.",
                {"tensor": self, "feature_dim": dim},
                "The feature dim is one of the dims.",
            )
        self._feature_dim = dim

    @property
    def dtype(self) -> str:
        raw = self._raw
        if raw is None:
            return self._dtype or ("float32" if self.sparse_dim is None else "int32")
        return registry.BY_TYPE[type(raw)].get_dtype_name_raw(raw)

    @dtype.setter
    def dtype(self, dtype: str) -> None:
        self._dtype = dtype

    @property
    def device(self) -> str | None:
        """ "cpu", "cuda:0", ... or None for a template."""
        raw = self._raw
        return None if raw is None else registry.BY_TYPE[type(raw)].get_device_raw(raw)

    @property
    def backend(self) -> Any:
        """The backend of the raw array; for a template the selected one."""
        raw = self._raw
        return registry.selected() if raw is None else registry.BY_TYPE[type(raw)]

    def numpy(self) -> np.ndarray:
        """The values on the host, axes in the order of `dims` (waits for a GPU).

        Raises:
            ValueError: For a template.
        """
        if self._raw is None:
            raise value_error("numpy: a template has no values.", {"tensor": repr(self)}, "Assign x.raw_tensor first.")
        return self.backend.raw_to_numpy(self._raw)

    @property
    def dims_set(self) -> set[Dim]:
        """The dims as a set."""
        return set(self.dims)

    @property
    def feature_dim_axis(self) -> int | None:
        """The index of the feature dim. Assigning an index, or None, marks that dim."""
        return None if self._feature_dim is None else self.dims.index(self._feature_dim)

    @feature_dim_axis.setter
    def feature_dim_axis(self, axis: int | None) -> None:
        if axis is None or is_specified(axis):
            self.feature_dim = None if axis is None else self.dims[axis]

    @property
    def sparse(self) -> bool:
        """True if the values are indices into `sparse_dim`. Assigning False removes this mark."""
        return self.sparse_dim is not None

    @sparse.setter
    def sparse(self, sparse: bool) -> None:
        if not sparse:
            self.sparse_dim = None
        elif self.sparse_dim is None:
            raise self._no_sparse_dim("sparse")

    def _no_sparse_dim(self, what: str) -> DimError:
        return dim_error(
            f"{what}: the tensor has no sparse_dim.",
            {"tensor": self},
            "Into what the values are indices is a Dim:",
            'x.sparse_dim = Dim(n, name="vocab")',
        )

    @property
    def vocab(self) -> Any:
        """Labels of the indices, or None. Assigning sets those of the sparse_dim, which must have none or the same.

        Raises:
            DimError: If there is no sparse_dim.
            ValueError: If it has other labels, or another size.
        """
        return None if self.sparse_dim is None else self.sparse_dim.vocab

    @vocab.setter
    def vocab(self, labels: Any) -> None:
        if self.sparse_dim is None:
            raise self._no_sparse_dim("vocab")
        before, size = self.sparse_dim.vocab, self.sparse_dim.size
        own = getattr(before, "labels", before)
        given = getattr(labels, "labels", labels)  # vocabularies of other packages are no lists
        if labels is not None and (len(given) != (size or len(given)) or list(own or given) != list(given)):
            raise value_error(
                "vocab: the labels do not fit.",
                {"sparse_dim": repr(self.sparse_dim), "its labels": own and len(own), "labels": len(given)},
                "Each class of a dim has one label, in all Tensors.",
            )
        self.sparse_dim.vocab = labels

    def remaining_dims(self, remove: Dim | Sequence[Dim] | None = None) -> list[Dim]:
        """The dims except those in `remove`, in order.

        Raises:
            DimError: If one of `remove` is missing.
        """
        remove = [] if remove is None else [remove] if isinstance(remove, Dim) else list(remove)
        for dim in remove:
            self.axis_of(dim, "remaining_dims")
        return [dim for dim in self.dims if dim not in remove]

    def axis_of(self, dim: Dim, what: str = "axis_of") -> int:
        """The index of `dim` in the raw array.

        Raises:
            DimError: If it is missing.
        """
        try:
            return self.dims.index(dim)
        except ValueError:
            pass
        raise missing_dim(what, self, dim)

    def has_axis(self, axis: Dim) -> bool:
        """True if the tensor has this dim."""
        return axis in self.dims

    def _index(self, axis: Dim | int, what: str) -> int:
        """The index of a dim; an index is checked."""
        if isinstance(axis, int):
            if not -len(self.dims) <= axis < len(self.dims):
                raise dim_error(f"{what}: no axis {axis}.", {"tensor": self}, "Axes are counted from 0.")
            return axis % len(self.dims)
        return self.axis_of(axis, what)

    copy = tensor_copies.copy
    copy_template = tensor_copies.copy_template
    copy_transpose = tensor_copies.copy_transpose
    copy_compatible_to_dims = tensor_copies.copy_compatible_to_dims
    copy_compatible_to_dims_raw = tensor_copies.copy_compatible_to_dims_raw

    copy_masked = tensor_mask.copy_masked
    get_sequence_mask_tensor = tensor_mask.get_sequence_mask_tensor
    num_elements = tensor_mask.num_elements

    def verify_out_shape(self, out_shape: set[Dim | MarkedDim], allow_missing_implicit_dims: bool = False) -> Tensor:
        """Check the set of dims; return self.

        Args:
            out_shape: The dims, including those that the tensor depends on without an axis, marked (`rfnb.tensor`):
                `ImplicitSparseDim(vocab)` for its sparse dim, `ImplicitDynSizeDim(batch)` for dims of lengths. `OptionalDim(dim)` may be
                missing.
            allow_missing_implicit_dims: If True, dims without an axis need not be named.

        Raises:
            VerifyOutShapeException: If the dims differ.
        """
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

    def sanity_check(self, ignore_placeholder: bool = False, assume_complete: bool = True) -> None:
        """Check that dims, marks and raw array are consistent; useful after other code has modified them.

        Args:
            ignore_placeholder: Do not check the raw array.
            assume_complete: All sizes must be known.

        Raises:
            DimError: For a duplicate dim, a missing feature_dim, or an unknown size.
            ShapeError: If the raw array does not match the dims.
        """
        check_unique(self.dims, f'Tensor "{self.name}"')
        self.feature_dim = self._feature_dim
        if assume_complete:
            _ = [dim.extent for dim in self.dims]
        if not ignore_placeholder:
            self.raw_tensor = self._raw

    def _like(self, raw: Any, dims: Dims, name: str | None = None) -> Tensor:
        """`new_tensor` with the name kept; for a template a template."""
        out = new_tensor(raw, dims, self)
        if raw is None:
            out._dtype = self.dtype
        if name or self.name:
            out.name = name or self.name
        return out

    def _template(self, dims: Sequence[Dim], name: str | None = None, dtype: str | None = None) -> Tensor:
        """A template with other dims; marks are kept where they still apply."""
        feature = self._feature_dim if self._feature_dim in dims else None
        out = Tensor(name or self.name, dims, dtype or self.dtype, sparse_dim=self.sparse_dim, feature_dim=feature)
        if not self.available_for_inference:
            out.available_for_inference = False
        return out

    def __repr__(self) -> str:
        extra = f" sparse over {self.sparse_dim.short_repr()}" if self.sparse_dim is not None else ""
        if self._feature_dim is not None:
            extra += f" feature {self._feature_dim.name}"
        where = self.device
        if where is None:
            extra += " (template)"
        elif where != "cpu":
            extra += f" on {where}"
        dtype = "" if self.dtype == "float32" else f" {self.dtype}"
        return f"Tensor{{{self.name or ''!r}, {shape_of(self)}{dtype}{extra}}}"


put_all_absent(Tensor)
operand_text.register(Tensor, shape_of)


class VerifyOutShapeException(DimError):
    """The dims of an output differ from the promised ones."""


def same_dtype(a: Tensor, b: Tensor) -> bool:
    """True if two tensors have the same dtype; faster than comparing names."""
    if a.__class__ is b.__class__ is Tensor:  # a StepTensor shows no array
        one, other = a._raw, b._raw
        if one.__class__ is other.__class__ and one is not None:
            dtype_of = registry.BY_TYPE[one.__class__].dtype_key_raw
            return dtype_of(one) == dtype_of(other)
    return a.dtype == b.dtype


_make = partial(Tensor.__new__, Tensor)


def new_tensor(raw: Any, dims: Dims, like: Tensor | None = None, finite: bool = False) -> Tensor:
    """A Tensor without checks, for results of ops. It takes the marks of `like` by one rule; ops state exceptions only.

    - `sparse_dim` says what values mean. What moves, picks, repeats, pads or reduces values, or computes with them element by
      element, has that of `like`. Bools have none; what is found in a dim (argmax, the indices of a sort) indexes into that dim;
      what mixes values into others (products, norms, convolutions) has no `like`.
    - `feature_dim` stays while the dim is there. What puts another dim in its place says so; what is no value per feature any
      more has no mark (reductions: documented).
    - Of several operands, the first one that has a mark gives it: `keep_marks`.
    - `finite`, whether the padding is known to hold neither NaN nor infinity (`core/finite_padding.py`), is up to the op: False is
      always right.
    """
    out = _make()
    out._raw = raw
    out.dims = dims
    if like is None:  # set, so that the next op finds them faster than on the class
        out.sparse_dim = out._feature_dim = None
    else:
        out.sparse_dim = like.sparse_dim
        feature = like._feature_dim
        out._feature_dim = feature if feature is None or feature in dims else None
    out._finite = finite
    return out


def with_raw(of: Mapping[str, Any], raw: Any) -> Tensor:
    """A Tensor with these attributes and another array."""
    out = _make()
    out.__dict__.update(of)
    out._raw = raw
    return out


def keep_marks(out: Tensor, further: Tensor) -> Tensor:
    """`out`, which has the marks of the first operand, completed by those of this further one."""
    if out.sparse_dim is None:
        out.sparse_dim = further.sparse_dim
    if out._feature_dim is None and further._feature_dim in out.dims:
        out._feature_dim = further._feature_dim
    return out
