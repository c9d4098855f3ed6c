"""Pickling of objects: `torch.save`, other processes (`DataLoader`, `multiprocessing`), `copy.copy` and `deepcopy`.

A Dim is an identity, so a loaded dim is a new one, shared by all tensors of the same pickle. Derived dims are interned as usual: the
same expression of loaded dims is the same dim. `batch_dim` and `single_step_dim` are those of the loading process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import numpy as np

from rfnb.core.algebra import Sum
from rfnb.core.dim_math import derived
from rfnb.core.errors import dim_error, type_error

if TYPE_CHECKING:
    from rfnb.core.dim import Dim

# Of a Dim, but not of its copy elsewhere.
_NOT_PICKLED: dict[str, Any] = {
    "_structure": None,
    "_plans": None,
    "_memo": None,
    "_size_tensor": None,
    "_extent": None,
    "_declared": None,
}
_OWN = ("kind", "vocab", "_place", "_way", "by_user")  # what a dim has of its own although it is made of others


def reduce_dim(dim: Dim, special: str | None) -> Any:
    """The function and arguments that pickle requests.

    Args:
        special: The name of the dim if each process has its own.
    """
    if special is not None:
        return special_dim, (special, dim.lengths)
    state = {**dim.__dict__, **_NOT_PICKLED, "_place": dim.created, "_way": dim.made_by}
    own = {name: state[name] for name in _OWN if name in state}
    if dim.expr is not None:
        return derived_dim, (dim.expr, {**own, "name": dim.name})
    if dim.twin_of is not None:
        return twin_dim, (dim.twin_of, dim.match_priority, own)
    return new_dim, (type(dim),), state


def special_dim(name: str, length: np.ndarray | None) -> Dim:
    """This process's dim; it takes its size from the loaded values, as from the first array it is used with.

    Raises:
        DimError: If it has another size here.
    """
    from rfnb.core import dim as dims  # a Dim is reduced by this

    dim: Dim = getattr(dims, name)
    if length is None:
        return dim
    if not dim.is_dim_known():
        dim.dyn_size_ext = length
    elif dim.extent != int(length):
        raise dim_error(
            f"Loading a pickle: rf.{name} has another size here.",
            {"here": dim.extent, "pickle": int(length)},
            f"There is one {name} in a process, and it has one size. Let it forget that of the last batch:",
            f"rf.{name}.reset_eager()",
        )
    return dim


def derived_dim(expr: Sum, own: dict[str, Any]) -> Dim:
    """The dim of an expression of loaded dims."""
    return derived(expr, own)


def twin_dim(base: Dim, match_priority: int, own: dict[str, Any]) -> Dim:
    """The twin of a loaded dim."""
    twin = base.copy(match_priority=match_priority)
    twin.__dict__.update(own)
    return twin


def new_dim(cls: type[Dim]) -> Dim:
    """An empty dim, which pickle fills in."""
    return cls.__new__(cls)


class NotPicklable:
    """Base class for objects bound to a running loop: their values belong to one step, their plan to this process."""

    _not_pickled: ClassVar[tuple[str, str, str]] = (
        "A loop",
        "What it carries and records belongs to its run. Take what comes out of it:",
        "outputs, last = loop.stack(h), loop.state.h    # `last` after the loop",
    )

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        what, rule, fix = self._not_pickled
        raise type_error(f"{what} cannot be pickled or copied.", {"object": type(self).__name__}, rule, fix)
