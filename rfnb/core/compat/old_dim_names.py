"""Names that a Dim has for programs written for graphs. Nothing in this package uses them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rfnb.core import algebra, dim_sizes
from rfnb.core.dim_math import parts_of
from rfnb.core.op import op

if TYPE_CHECKING:
    import numpy as np

    from rfnb.core.dim import Dim, Dims
    from rfnb.core.tensor import Tensor


class OldDimNames:
    """A part of Dim: what is there for older programs. Abstract."""

    _capacity: int | None = None

    if TYPE_CHECKING:  # of Dim
        name: str
        kind: str | None
        size: int | None
        expr: algebra.Sum | None
        special: bool
        declared_length_dims: Dims
        dyn_size_ext: Any

        @property
        def lengths(self) -> np.ndarray | None: ...
        @property
        def length_dims(self) -> Dims: ...
        @property
        def extent(self) -> int: ...
        def is_dim_known(self) -> bool: ...
        def need_masking(self) -> bool: ...
        def check_assignable(self, what: str) -> None: ...
        def reset_eager(self) -> None: ...
        def get_size_tensor(self, *, device: str | None = None) -> Tensor: ...
        def _extent_tensor(self) -> Tensor: ...
        def copy_from(self, other: Dim) -> None: ...
        def get_same_base(self) -> Dim: ...
        def get_derived_bases_set(self) -> set[Dim]: ...

    @property
    def dimension(self) -> int | None:
        """Static size, or None."""
        return self.size

    @property
    def capacity(self) -> int | None:
        """The capacity that was given, else the static size or None. Storage is never larger than the size."""
        return self._capacity or self.size

    @capacity.setter
    def capacity(self, capacity: int | None) -> None:
        self._capacity = capacity

    @property
    def undefined(self) -> bool:
        """Whether there is no size, and none can be computed."""
        return not self.is_dim_known()

    def reset_raw(self, *, only_self: bool = False, include_parents: bool = False) -> None:
        """The same as `reset_eager`; dims that are computed from this one forget their lengths in any case.

        Args:
            only_self: Taken, without effect: what is computed from a dim without size has none.
            include_parents: Also of the dims that this one is computed from.
        """
        for dim in self.get_derived_bases_set() if include_parents else (self,):
            dim.reset_eager()

    def is_dynamic_seq_length(self) -> bool:
        """The same as `need_masking`."""
        return self.need_masking()

    @property
    def dyn_size(self) -> Any:
        """The lengths as a raw array on the CPU; None if static or not known yet. Assigning needs to know over which dims they are:
        from lengths that were there, or from the template that the dim was made with."""
        sizes = self.dyn_size_ext
        return None if sizes is None else sizes.raw_tensor

    @dyn_size.setter
    def dyn_size(self, sizes: Any) -> None:
        over = self.length_dims or self.declared_length_dims
        if over and not hasattr(sizes, "dims"):
            sizes = dim_sizes.tensor_of(f"{self.name}:size", over, sizes)
        self.dyn_size_ext = sizes

    @op
    def get_size_tensor_or_int(self, *, device: str | None = None) -> Tensor | int:
        """The size of a static dim, else the lengths as a Tensor."""
        return self.size if self.size is not None else self.get_size_tensor(device=device)

    @op
    def get_dyn_size_ext_for_device(self, device: str | None) -> Tensor | None:
        """The lengths on a device, copied there once; None if static or not known yet."""
        return None if self.lengths is None else self.get_size_tensor(device=device or "cpu")

    def get_dim_value(self) -> int:
        """The length of the axis in the raw array (= `extent`); always an int, since lengths are on the host."""
        return self.extent

    @op
    def get_dim_value_tensor(self) -> Tensor | int:
        """The size of a static dim, else `extent` as a scalar Tensor."""
        return self.size if self.size is not None else self._extent_tensor()

    def transform_tensors(self, func: Callable[[Tensor], Tensor | None]) -> None:
        """Change the lengths by `func`; what was computed from the old ones is forgotten.

        Args:
            func: Gives the lengths their new raw array (`sizes.raw_tensor = ...`), or returns other lengths.

        Raises:
            DimError: Of a derived dim, whose lengths are computed.
        """
        if self.lengths is None:
            return
        self.check_assignable("transform_tensors")
        other = func(self.get_size_tensor())
        if other is not None:
            self.dyn_size_ext = other

    def complete_dyn_size(self, *, template_only: bool = False) -> None:
        """Compute the lengths of a derived dim now, if those of its parts are known; asking for them does so too.

        Args:
            template_only: Only over which dims they will be, which is always known here.
        """
        if not template_only:
            _ = self.lengths

    def derive_from(self, base: Dim, *, set_derived_from_flag: bool = True) -> None:
        """`copy_from`, if this dim has no size yet. `set_derived_from_flag`: taken, without effect."""
        if not self.is_dim_known():
            self.copy_from(base)

    def get_same_derived_base(self, *, same_dim: bool = False) -> Dim:
        """The first dim in the expression of a derived dim (of `2 * time + 1` it is `time`), else `get_same_base()`; always the
        latter with `same_dim`, since another expression is another dim."""
        dim = self.get_same_base()
        while dim.expr is not None and not same_dim:
            part = next(iter(parts_of(dim)), None)
            if part is None:
                break
            dim = part.get_same_base()
        return dim

    def is_constant_static_dim(self) -> bool:
        """Whether dim arithmetic made it from a plain int."""
        return self.expr is not None and algebra.as_int(self.expr) is not None

    @property
    def description(self) -> str:
        """The name."""
        return self.name

    def is_feature_dim(self) -> bool:
        """Whether it is of kind "feature"."""
        return self.kind == "feature"

    def can_be_used_as_dim(self) -> bool:
        """Whether a tensor may have it; not so `single_step_dim`."""
        return not self.special
