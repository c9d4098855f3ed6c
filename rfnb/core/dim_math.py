"""Arithmetic of dims: `time + 2`, `2 * time`, `time // 2` are derived dims, and the same expression is the same dim.

`core/algebra.py` has the expressions; this module combines them with dims and their lengths. A negative length becomes 0, and the dim is
no longer a sum: `time - 3 + 3` is `time` only if every sequence has at least 3 frames (see `DimOperators.open_sum`).
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Container, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from rfnb.core import algebra
from rfnb.core.errors import dim_error
from rfnb.core.lengths import Lengths, valid_lengths
from rfnb.core.op import op
from rfnb.core.size_queries import asked, tell_resized, watching

if TYPE_CHECKING:
    from rfnb.core.dim import Dim

_made: dict[Any, Dim] = {}  # what a thread has made and not yet put to the interned ones
_interned: weakref.WeakValueDictionary[Any, Dim] = weakref.WeakValueDictionary()
# Nobody holds a dim that an op makes on its way (`time + 2` of a padding); made again in each call, it would find no plans.
_recent: deque[Dim] = deque(maxlen=128)


class DimOperators:
    """A part of Dim: its operators. Abstract."""

    expr: algebra.Sum | None

    _clipped: bool | None = None  # see `is_clipped`

    if TYPE_CHECKING:  # of Dim

        def short_repr(self) -> str: ...

    @property
    def open_sum(self) -> algebra.Sum | None:
        """The expression that further arithmetic continues; None for an atom: a dim not made from others, or whose sum is negative for
        some sequence, so that its length differs from it.
        """
        expr = self.expr
        if expr is None or (self._clipped is False and not watching) or algebra.only_more(expr):
            return expr
        clipped = asked(is_clipped, self) if watching else is_clipped(self)
        return None if clipped else expr

    @op
    def __add__(self, other: Dim | int) -> Dim:
        return _sum(self, _expr(other)) if self.expr is not None else _derive(algebra.add(_expr(self), _expr(other)))

    @op
    def __radd__(self, other: Dim | int) -> Dim:
        return _derive(algebra.add(_expr(other), _expr(self)))

    @op
    def __sub__(self, other: Dim | int) -> Dim:
        return _sum(self, algebra.neg(_expr(other)))

    @op
    def __rsub__(self, other: Dim | int) -> Dim:
        return _derive(algebra.add(_expr(other), algebra.neg(_expr(self))))

    sub_right = __sub__

    @op
    def sub_left(self, other: Dim | int) -> Dim:
        """Subtract `other` in front: `(b + a).sub_left(b) == a`."""
        return _sum(self, algebra.neg(_expr(other)), in_front=True)

    @op
    def __mul__(self, other: Dim | int) -> Dim:
        return _derive(algebra.mul(_expr(self), _expr(other), _derive))

    @op
    def __rmul__(self, other: Dim | int) -> Dim:
        return _derive(algebra.mul(_expr(other), _expr(self), _derive))

    @op
    def __neg__(self) -> Dim:
        return -1 * self

    @op
    def __floordiv__(self, other: Dim | int) -> Dim:
        return self._divide("floordiv_right", other)

    @op
    def __rfloordiv__(self, other: int) -> Dim:
        return _derive(algebra.constant(other))._divide("floordiv_right", self)

    div_right = __truediv__ = __floordiv__

    @op
    def div_left(self, other: Dim | int) -> Dim:
        """Undo a product from the left: `(b * a).div_left(b) == a`."""
        return self._divide("floordiv_left", other)

    @op
    def ceildiv_right(self, other: Dim | int) -> Dim:
        """Divide from the right, rounding up; by 2 and then by 3 equals by 6."""
        return self._divide("ceildiv_right", other)

    @op
    def ceildiv_left(self, other: Dim | int) -> Dim:
        """Divide from the left, rounding up."""
        return self._divide("ceildiv_left", other)

    def _divide(self, kind: str, other: DimOperators | int) -> Dim:
        expr, divisor = _expr(self), _expr(other)
        left = kind.endswith("left")
        exact = algebra.div_left(expr, divisor) if left else algebra.div_right(expr, divisor, _derive)
        if exact is not None:
            return _derive(exact)
        number = algebra.as_int(divisor)
        if number == 0:
            raise dim_error("Division of a dim by 0.", {"dim": self}, "The divisor is 1 or more.")
        inner = expr[0][1][0] if len(expr) == 1 and expr[0][0] == 1 and len(expr[0][1]) == 1 else None
        if (
            number is not None
            and isinstance(inner, algebra.Division)
            and inner.kind == kind
            and isinstance(inner.denominator, int)
        ):
            return _derive(algebra.atom(algebra.Division(kind, inner.numerator, inner.denominator * number)))
        return _derive(algebra.atom(algebra.Division(kind, self, number if number is not None else other)))


def lengths_of_parts(self: Dim) -> Lengths | None:
    """The lengths of a derived dim, if those of its parts are known."""
    assert self.expr is not None
    parts = [dim for dim in _atoms(self.expr) if dim.size is None]
    if any(dim._known() is None for dim in parts):
        return None
    over: list[Dim] = []
    for dim in parts:
        over += [other for other in dim.length_dims if other not in over]
    value = np.broadcast_to(_evaluate(self.expr, over), [dim.extent for dim in over])
    if value.size:
        self._clipped = bool((valid_lengths(value, tuple(over)) < 0).any())
    else:
        self._clipped = _evaluate(self.expr, None) < 0
    return Lengths(np.maximum(value, 0).astype(np.int32), over)


def is_clipped(dim: Any) -> bool:
    """True if the expression of a dim is negative for some sequence, whose length is then 0; False while sizes are unknown. A purely
    negative term, like the `-b` in `a + -b`, is not a length.
    """
    if dim.expr is None or algebra.only_less(dim.expr):
        return False
    if dim._clipped is None:
        dim._known()
    return bool(dim._clipped)


def extent_of_parts(self: Dim) -> int:
    """The extent computed from that of its parts, if there are no lengths."""
    assert self.expr is not None
    return max(int(_evaluate(self.expr, None)), 0)


def resized(self: Dim) -> None:
    """Invalidate everything computed from this dim's former lengths: plans, and the lengths of derived dims."""
    tell_resized()
    for dim in list(_interned.values()):
        if dim.size is None and depends_on(dim, self):
            dim._reset()


def _is_dim(value: Any) -> TypeGuard[Dim]:
    return isinstance(value, DimOperators)  # every one is a Dim


def _expr(value: DimOperators | int) -> algebra.Sum:
    if isinstance(value, DimOperators):
        expr = None if value.expr is None else value.open_sum
        return algebra.atom(value) if expr is None else expr
    if isinstance(value, (int, np.integer)):
        return algebra.constant(int(value))
    raise dim_error(
        "Arithmetic of dims takes dims and ints.", {"got": type(value).__name__}, "Sizes are whole numbers."
    )


def _sum(dim: DimOperators, more: algebra.Sum, *, in_front: bool = False) -> Dim:
    # Of a clipped length, too, `time - 3 - 2` is `time - 5`: what is 0 already stays 0.
    own = dim.expr if dim.expr is not None and algebra.only_less(more) else _expr(dim)
    return _derive(algebra.add(more, own) if in_front else algebra.add(own, more))


def _derive(expr: algebra.Sum) -> Dim:
    expr = algebra.flatten(expr)
    if len(expr) == 1 and expr[0][0] == 1 and len(expr[0][1]) == 1 and _is_dim(expr[0][1][0]):
        return expr[0][1][0]
    return intern(expr, lambda: _make_derived(expr))


def derived(expr: algebra.Sum, own: Mapping[str, Any]) -> Dim:
    """The dim of an expression in normal form; a new dim gets these attributes."""

    def make() -> Dim:
        dim = _make_derived(expr)
        dim.__dict__.update(own)
        return dim

    return intern(expr, make)


def intern(key: Any, make: Callable[[], Dim]) -> Dim:
    """The dim kept for `key`, made by `make` if there is none.

    Concurrent threads get the same dim. There is no lock, which an interrupt could leave locked: the first dim wins (`setdefault` is
    atomic), and it is interned before it is removed from `_made`.
    """
    dim = _interned.get(key)
    if dim is None:
        first = _made.setdefault(key, make())
        dim = _interned.get(key)  # another thread may have been done before
        if dim is None:
            dim = _interned[key] = first
            _recent.append(dim)
        _made.pop(key, None)
    return dim


def _make_derived(expr: algebra.Sum) -> Dim:
    from rfnb.core.dim import Dim  # a Dim is made of this

    dim = Dim(name=_name_of(expr))
    dim.expr = expr
    atoms = list(_atoms(expr))
    if all(part.size is not None for part in atoms):
        value = int(_evaluate(expr, []))
        dim.size, dim._clipped = max(value, 0), value < 0
    return dim


def _atoms(expr: algebra.Sum) -> Iterator[Dim]:
    for _, factors in expr:
        for factor in factors:
            for part in (factor.numerator, factor.denominator) if isinstance(factor, algebra.Division) else (factor,):
                if _is_dim(part):
                    yield part


def depends_on(dim: Dim, part: DimOperators) -> bool:
    """True if the lengths of `dim` are computed from those of `part`."""
    return depends_on_any(dim, (part,))


def depends_on_any(dim: Dim, parts: Container[Any]) -> bool:
    """True if the lengths of `dim` are computed from those of one of `parts`."""
    return any(source in parts or depends_on_any(source, parts) for source in parts_of(dim))


def parts_of(dim: Dim) -> list[Dim]:
    """The dims from whose sizes those of `dim` are computed or taken, in order."""
    source = dim.twin_of or dim.same_as
    return [source] if source is not None else [] if dim.expr is None else list(_atoms(dim.expr))


def substituted(dim: Dim, dims: dict[Dim, Dim]) -> Dim:
    """The dim whose expression has the keys of `dims` replaced by their values."""
    if dim in dims:
        return dims[dim]
    if dim.expr is None or not depends_on_any(dim, dims):
        return dim
    return rebuilt(dim.expr, lambda part: substituted(part, dims))


def rebuilt(expr: algebra.Sum, put: Callable[[Any], Dim]) -> Dim:
    """The dim of an expression with its atoms replaced by `put`."""

    def of_part(part: Any) -> Any:
        return part if isinstance(part, int) else put(part)

    total: algebra.Sum = ()
    for coefficient, factors in expr:
        product = algebra.constant(coefficient)
        for factor in factors:
            if isinstance(factor, algebra.Division):
                numerator = _derive(_expr(of_part(factor.numerator)))
                value = numerator._divide(factor.kind, of_part(factor.denominator))
            else:
                value = of_part(factor)
            product = algebra.mul(product, _expr(value), _derive)
        total = algebra.add(total, product)
    return _derive(total)


def _evaluate(expr: algebra.Sum, over: list[Dim] | None) -> Any:
    """The lengths over these dims; for None the extent."""
    total: Any = 0
    for coefficient, factors in expr:
        product: Any = coefficient
        for factor in factors:
            product = product * _value_of(factor, over)
        total = total + product
    return total


def _value_of(factor: Any, over: list[Dim] | None) -> Any:
    if isinstance(factor, int):
        return factor
    if _is_dim(factor):
        if factor.size is not None:
            return factor.size
        if over is None:
            return factor.extent
        lengths = factor._known()
        assert lengths is not None
        dims = lengths.over
        order = sorted(range(len(dims)), key=lambda axis: over.index(dims[axis]))
        shape = [dim.extent if dim in dims else 1 for dim in over]
        return lengths.array.transpose(order).reshape(shape).astype(np.int64)
    numerator, denominator = _value_of(factor.numerator, over), _value_of(factor.denominator, over)
    return -(-numerator // denominator) if factor.kind.startswith("ceil") else numerator // denominator


def _name_of(expr: algebra.Sum) -> str:
    def of_factor(factor: Any) -> str:
        if isinstance(factor, algebra.Division):
            sign = "⌈/⌉" if factor.kind.startswith("ceil") else "//"
            return f"({of_factor(factor.numerator)}{sign}{of_factor(factor.denominator)})"
        if _is_dim(factor):
            return f"({factor.name})" if factor.expr and len(factor.expr) > 1 else factor.name
        return str(factor)

    def of_term(term: algebra.Term) -> str:
        coefficient, factors = term
        parts = [of_factor(factor) for factor in factors]
        if not parts:
            return str(coefficient)
        sign = {1: "", -1: "-"}.get(coefficient, f"{coefficient}*")
        return sign + "*".join(parts)

    return "+".join(of_term(term) for term in expr).replace("+-", "-") or "0"
