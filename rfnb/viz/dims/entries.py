"""The dims in a spec, numbered in order of appearance."""

from __future__ import annotations

from typing import Any

from rfnb.core import algebra
from rfnb.core.dim import Dim
from rfnb.viz.dims.values import lengths_of


class Entries:
    """The *dim entries* of a spec.

    Attributes:
        entries: The entries so far, indexed by their `id`.
    """

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []
        self._ids: dict[int, int] = {}
        self._alive: list[Dim] = []  # keeps the dims alive, so that their ids stay unique

    def id_of(self, dim: Dim, kind: str | None = None) -> int:
        """The number of a dim.

        Args:
            kind: The kind of a dim without one.
        """
        if id(dim) not in self._ids:
            self._ids[id(dim)] = len(self.entries)
            self._alive.append(dim)
            lengths = lengths_of(dim)
            size = dim.extent if lengths is None and dim.is_dim_known() else None
            kind = dim.kind or kind or ("spatial" if lengths is not None else None)
            kind = kind if kind in ("batch", "spatial", "feature", "beam") else None
            entry = {"name": name_of(dim), "size": size, "lengths": lengths, "kind": kind, "id": len(self.entries)}
            origin = origin_of(dim)
            self.entries.append(entry if origin is None else entry | {"origin": origin})
            for over in dim.length_dims:
                self.id_of(over)
        return self._ids[id(dim)]


def name_of(dim: Dim) -> str:
    """The name of a dim in a view: a derived dim's is its arithmetic, without rounding marks, which are in `origin_of`."""
    return dim.name if dim.expr is None else _sum(dim.expr)


def origin_of(dim: Dim) -> str | None:
    """The origin of a dim as text: the arithmetic of a derived dim, the op that made it, and where; whether its name was
    guessed. None for one that user code made directly.
    """
    if dim.guessed or dim.remark:
        return "; ".join(filter(None, [dim.remark, 'guessed: rf.record(dims={"path": [...]}) says it' * dim.guessed]))
    by = dim.made_by
    at = f"made{f' by {by}' if by else ''} at {dim.created}"
    if dim.expr is None:
        return at if by else None
    rounds = _rounds(dim.expr)
    words = ", ".join(
        [_sum(dim.expr), *(["rounded up"] if "up" in rounds else []), *(["rounded down"] if "down" in rounds else [])]
    )
    return f"{words}; {at}"


def _sum(expr: algebra.Sum) -> str:
    return " + ".join(_term(term, len(expr) == 1) for term in expr).replace("+ -", "- ") or "0"


def _term(term: algebra.Term, only: bool) -> str:
    coefficient, factors = term
    alone = len(factors) == 1 and abs(coefficient) == 1
    parts = [_factor(factor, alone=alone and (only or not isinstance(factor, Dim))) for factor in factors]
    if not parts:
        return str(coefficient)
    sign = {1: "", -1: "-"}.get(coefficient, f"{coefficient} * ")
    return sign + " * ".join(parts)


def _factor(factor: Any, *, alone: bool = False) -> str:
    if isinstance(factor, algebra.Division):
        text = f"{_factor(factor.numerator)} / {_factor(factor.denominator)}"
        return text if alone else f"({text})"
    if isinstance(factor, Dim):
        name = name_of(factor)
        return f"({name})" if " " in name and not alone else name
    return str(factor)


def _rounds(expr: algebra.Sum) -> set[str]:
    """The directions ("up", "down") in which divisions in it round."""
    found = set()
    for _, factors in expr:
        for factor in factors:
            parts = [factor]
            if isinstance(factor, algebra.Division):
                found.add("up" if factor.kind.startswith("ceil") else "down")
                parts = [factor.numerator, factor.denominator]
            for part in parts:
                if isinstance(part, Dim) and part.expr is not None:
                    found |= _rounds(part.expr)
    return found
