"""Relations between dims: copies, twins, adoption of sizes, and the promise that two are equal.

`copy`, `declare_same_as`, `copy_from`, `get_same_base` and `get_derived_bases_set` are methods of Dim.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rfnb.core.dim_math import depends_on, intern, parts_of, resized, substituted
from rfnb.core.errors import dim_error
from rfnb.core.size_queries import tell_resized

if TYPE_CHECKING:
    from rfnb.core.dim import Dim


def copy(
    self: Dim,
    same_as_self: bool = True,
    description: str | None = None,
    kind: str | None = None,
    match_priority: int | None = None,
    *,
    name: str | None = None,
) -> Dim:
    """The twin of this dim with `match_priority`, for tensors that have the dim twice (square weights); the same twin each time.
    `matmul`, `gather`, `softmax`, `top_k` and reductions over this dim refer to the twin of the highest priority, so it belongs on
    the input side. Without `match_priority`: this dim, or with `same_as_self=False` a new independent dim of the same size.

    Args:
        match_priority: Distinguishes twins.
        name, description, kind: Attributes of the new dim; default: those of this one.
        same_as_self: False makes an independent dim.
    """
    if same_as_self:
        if match_priority is None or match_priority == self.match_priority:
            return self
        base = self.twin_of or self
        if match_priority == base.match_priority:
            return base
        return intern(("twin", base, match_priority), lambda: _make_twin(base, match_priority))
    dim = _plain(self, name or description or self.name, kind or self.kind)
    if self.size is None:
        dim._lengths = self._known()
    if match_priority is not None:
        dim.match_priority = match_priority
    return dim


def _make_twin(self: Dim, match_priority: int) -> Dim:
    twin = _plain(self, self.name, self.kind)
    twin.match_priority, twin.twin_of = match_priority, self
    return twin


def _plain(self: Dim, name: str, kind: str | None) -> Dim:
    from rfnb.core.dim import Dim  # this is a part of it; the copy of a BeamDim is of no search

    return Dim(self.size, name=name, kind=kind, vocab=self.vocab)


def declare_same_as(self: Dim, other: Dim) -> None:
    """Promise that this dim and `other` have the same sizes; the promise is checked.

    A dim without size gets the sizes of the other one, now or as soon as it has them, and in every batch. If both have sizes, they are
    compared. An op on x over one and y over the other brings them together: its result has `get_same_base()`, which is `other`, or this
    dim if only this one had a size. They remain two dims, and neither changes its hash: a tensor keeps its dim, and its axis is
    addressed by that; `rf.replace_dim` replaces one by the other. (RETURNN merges the two dims, which changes the meaning of existing
    tensors.)

    Raises:
        DimError: If the sizes differ, or if no size is known and both are derived from other dims.
    """
    first, second = self, other
    if representative(first) is representative(second) or first.get_same_base() is second.get_same_base():
        return
    if first.is_dim_known() and second.is_dim_known():
        check_same_sizes(first, second)
        _declare(first, second)
        tell_resized()  # a plan may have been made with the two apart
        return
    if first.is_dim_known() or first.expr is not None or first.twin_of is not None:
        first, second = second, first
    if first.expr is not None or first.twin_of is not None or depends_on(second, first):
        raise dim_error(
            "declare_same_as: neither dim has a size that the other could take.",
            {"dim": self, "other": other},
            "Both are computed from other dims. Declare those the same, or wait until they have sizes.",
        )
    if second.size is not None:
        first.copy_from(second)
    else:
        forward_to(first, second.get_same_base())
    _declare(first, second)


def forward_to(self: Dim, base: Dim) -> None:
    """Let a dim take its sizes from another one as soon as that has them."""
    if self._lengths is not None:
        self._reset()
    self.same_as = base
    intern(("same", id(self)), lambda: self)  # among those that hear of it when the sizes of the base change


def copy_from(self: Dim, other: Dim) -> None:
    """Copy the sizes of `other`, without any further relation.

    Raises:
        DimError: If this dim is static with another size, or computed from other dims.
    """
    if self.size is not None or self.expr is not None or self.twin_of is not None:
        check_same_sizes(self, other)
    elif other.size is not None:
        known = self._lengths is not None
        self._reset()
        self.size = other.size
        if known:
            resized(self)
    elif other.lengths is not None:
        self.dyn_size_ext = other.dyn_size_ext


def get_same_base(self: Dim) -> Dim:
    """The dim that this one is a twin of, or was declared equal to; else itself."""
    dim = self
    while dim.twin_of is not None or dim.same_as is not None or dim.declared_as is not None:
        dim = dim.twin_of or dim.same_as or dim.declared_as or dim
    return dim


def get_derived_bases_set(self: Dim) -> set[Dim]:
    """This dim and all dims that its sizes are computed from."""
    found: list[Dim] = [self]
    for dim in found:
        found += [part for part in parts_of(dim) if part not in found]
    return set(found)


_declarations: list[None] = []  # one is there as soon as any two dims are declared the same


def any_declared() -> bool:
    """True if any two dims have been declared equal."""
    return bool(_declarations)


def _declare(dim: Dim, base: Dim) -> None:
    root = dim
    while root.declared_as is not None:
        root = root.declared_as
    root.declared_as = base
    base.__dict__.setdefault("_declared_here", []).append(root)  # a derived dim is else made anew, when nobody holds it
    _declarations[:] = [None]


def representative(dim: Dim) -> Dim:
    """The representative of all dims declared equal; for a twin or a derived dim, made from the representatives of its parts."""
    if not _declarations:
        return dim
    while dim.declared_as is not None:
        dim = dim.declared_as
    if dim.twin_of is not None:
        base = representative(dim.twin_of)
        return dim if base is dim.twin_of else base.copy(match_priority=dim.match_priority)
    if dim.expr is None:
        return dim
    parts = {part: representative(part) for part in parts_of(dim)}
    return substituted(dim, {part: base for part, base in parts.items() if part is not base})


def same_sizes(a: Dim, b: Dim) -> bool:
    """True if all known sizes are equal: the size, or each length, regardless of the dims of the lengths."""
    if not (a.is_dim_known() and b.is_dim_known()):
        return False
    sizes_a = np.asarray(a.size if a.lengths is None else a.lengths)
    sizes_b = np.asarray(b.size if b.lengths is None else b.lengths)
    if sizes_a.ndim and sizes_b.ndim and sizes_a.shape != sizes_b.shape:
        return False
    return bool((sizes_a == sizes_b).all())


def sizes_text(dim: Dim) -> str:
    """`size 3` or `sizes (7, 5, 3)`."""
    if dim.lengths is None or not dim.length_dims:
        return f"size {dim.extent}"
    shown = ", ".join(map(str, dim.lengths.ravel()[:8]))
    return f"sizes ({shown}{', ...' if dim.lengths.size > 8 else ''})"


def check_same_sizes(a: Dim, b: Dim) -> None:
    """Raise a DimError if the known sizes of two dims differ."""
    if not b.is_dim_known() or same_sizes(a, b):
        return
    raise dim_error(
        "These dims are not the same: their sizes differ.",
        [(dim.name, f"{dim.short_repr()}, {sizes_text(dim)}, created {dim.created}") for dim in (a, b)],
        "Dims that are declared the same have the same size in every sequence.",
    )
