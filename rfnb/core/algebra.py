"""The non-commutative algebra of dims: normal forms of expressions such as `time + 2` or `2 * (time + 1)`.

An expression is an ordered sum of ordered products. Order matters, because a frame in front differs from a frame behind, and the major
dim of a merge differs from the minor one: `a + 1` differs from `1 + a`, and `2 * a` (which is `a + a`) from `a * 2`.

    sum     = tuple of terms, in order
    term    = (coefficient, factors): coefficient is an int from the left, factors are atoms and ints, in order
    atom    = anything hashable by identity: a Dim, or an interned division `Division`

A dim that represents a sum reports it by `open_sum`; one whose lengths were clipped is no longer a sum, and is an atom.

Two expressions are the same dim exactly if their normal forms are equal, so interning by normal form (in `core/dim.py`)
makes equality identity.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

Term = tuple[int, tuple[Any, ...]]
Sum = tuple[Term, ...]
AsAtom = Callable[[Sum], Any]

_EXPAND_LIMIT = 64  # `n * (a + b)` is written out up to this many terms, as `2 * a` is `a + a`


class Division(NamedTuple):
    """A division that does not cancel: `kind` is "floordiv" or "ceildiv", each with "_left" or "_right"."""

    kind: str
    numerator: Any
    denominator: Any


def constant(value: int) -> Sum:
    """The sum that equals this number."""
    return ((value, ()),) if value else ()


def atom(value: Any) -> Sum:
    """The sum of one dim (or division)."""
    return ((1, (value,)),)


def only_less(expr: Sum) -> bool:
    """True if every term is negative."""
    return all(map(_takes_away, expr))


def only_more(expr: Sum) -> bool:
    """True if no term is negative."""
    return not any(map(_takes_away, expr))


def _takes_away(term: Term) -> bool:
    coefficient, factors = term
    for factor in factors:
        if factor.__class__ is int and factor < 0:
            coefficient = -coefficient
    return coefficient < 0


def as_int(expr: Sum) -> int | None:
    """The value of a constant expression, else None."""
    if not expr:
        return 0
    if len(expr) == 1 and not expr[0][1]:
        return expr[0][0]
    return None


def add(left: Sum, right: Sum) -> Sum:
    """Concatenation; equal neighbours merge (`a + a` is `2 * a`, `a + 2 - 2` is `a`)."""
    terms, rest = list(left), list(right)
    while terms and rest and terms[-1][1] == rest[0][1]:
        coefficient = terms[-1][0] + rest.pop(0)[0]
        factors = terms.pop()[1]
        if coefficient:
            terms.append((coefficient, factors))
            break
    return tuple(terms + rest)


def neg(expr: Sum) -> Sum:
    """The sum with every sign changed, in reverse order, since -(a + b) = -b + -a."""
    return tuple((-coefficient, factors) for coefficient, factors in reversed(expr))


def mul(left: Sum, right: Sum, as_atom: AsAtom) -> Sum:
    """The product. `as_atom(sum)` interns a sum that must act as a single factor."""
    if not left or not right:
        return ()
    factor = right[0] if len(right) == 1 else (1, (as_atom(right),))
    result: Sum = ()
    for term in left:  # only the left factor distributes: (a + 1) * b == a * b + b
        expanded = _times(term[0], right) if not term[1] else None
        result = add(result, (_mul_terms(term, factor, as_atom),) if expanded is None else expanded)
    return result


def _times(number: int, expr: Sum) -> Sum | None:
    """`number * expr` expanded, as `2 * a` is `a + a`; None if that would be too long."""
    if len(expr) > 1 and abs(number) * len(expr) > _EXPAND_LIMIT:
        return None
    if len(expr) == 1:
        return ((number * expr[0][0], expr[0][1]),)
    result: Sum = ()
    for _ in range(abs(number)):
        result = add(result, expr)
    return result if number > 0 else neg(result)


def flatten(expr: Sum) -> Sum:
    """Expand terms that consist of a single sum as their only factor."""
    result: Sum = ()
    for coefficient, factors in expr:
        inner = _sum_in(factors[0]) if len(factors) == 1 else None
        expanded = None if inner is None else _times(coefficient, inner)
        result = add(result, ((coefficient, factors),) if expanded is None else expanded)
    return result


def _sum_in(factor: Any) -> Sum | None:
    """The sum that this factor represents, if it is one."""
    expr: Sum | None = getattr(factor, "open_sum", None)
    return expr if expr is not None and len(expr) > 1 else None


def _mul_terms(left: Term, right: Term, as_atom: AsAtom) -> Term:
    if not left[1]:
        return left[0] * right[0], right[1]
    factors = left[1]
    middle = (right[0],) if right[0] != 1 else ()
    for factor in middle + right[1]:
        factors = _append(factors, factor, as_atom)
    return left[0], factors


def _append(factors: tuple[Any, ...], factor: Any, as_atom: AsAtom) -> tuple[Any, ...]:
    """Append a factor; numbers and sums combine with the previous one, so that the placement of brackets does not matter."""
    if not factors:
        return (factor,)
    last, left, right = factors[-1], _sum_in(factors[-1]), _sum_in(factor)
    if isinstance(last, int) and isinstance(factor, int):
        return (*factors[:-1], last * factor)
    if left is not None:  # a * ((b + c) * d)
        return (
            *factors[:-1],
            as_atom(mul(left, constant(factor) if isinstance(factor, int) else atom(factor), as_atom)),
        )
    expanded = _times(last, right) if isinstance(last, int) and right is not None else None
    return (*factors, factor) if expanded is None else (*factors[:-1], as_atom(expanded))


def div_right(expr: Sum, divisor: Sum, as_atom: AsAtom) -> Sum | None:
    """The exact quotient from the right, `(a * b) // b == a`; None if it does not cancel."""
    if not expr or not divisor:
        return () if divisor else None
    result: Sum = ()
    while expr:
        taken, quotient = _take_right(expr, divisor, as_atom)
        if quotient is None:
            return None
        expr, result = expr[:-taken], add(quotient, result)
    return result


def _take_right(expr: Sum, divisor: Sum, as_atom: AsAtom) -> tuple[int, Sum | None]:
    """The number of trailing terms that are a multiple of the divisor, and the multiple."""
    if len(divisor) == 1:
        return 1, _strip_right(expr[-1], divisor[0], as_atom)
    coefficient, factors = expr[-1]
    for sign, part in ((1, divisor), (-1, neg(divisor))):
        if expr[-len(part) :] == part:
            return len(part), constant(sign)
    inner = _sum_in(factors[-1]) if factors else None
    quotient = None if inner is None else div_right(inner, divisor, as_atom)
    return 1, None if quotient is None else mul(((coefficient, factors[:-1]),), quotient, as_atom)


def div_left(expr: Sum, divisor: Sum) -> Sum | None:
    """The exact quotient from the left, `(b * a).div_left(b) == a`; None if it does not cancel."""
    if not expr or not divisor:
        return () if divisor else None
    if len(divisor) > 1:  # (b + c) * a was written out as b * a + c * a
        quotients = {div_left((term,), (part,)) for term, part in zip(expr, divisor)}
        return quotients.pop() if len(quotients) == 1 and len(expr) == len(divisor) else None
    terms = [_strip_left(term, divisor[0]) for term in expr]
    return None if any(term is None for term in terms) else _sum_of(terms)


def _sum_of(terms: Any) -> Sum:
    result: Sum = ()
    for term in terms:
        result = add(result, (term,))
    return result


def _strip_right(term: Term, divisor: Term, as_atom: AsAtom) -> Sum | None:
    coefficient, factors = term
    number, suffix = divisor
    keep = len(factors) - len(suffix)
    if keep < 0 or factors[keep:] != suffix or (not suffix and factors and _sum_in(factors[-1])):
        inner = _sum_in(factors[-1]) if factors else None  # (a * (b * d + c * d)) // d
        quotient = None if inner is None else div_right(inner, (divisor,), as_atom)
        return None if quotient is None else mul(((coefficient, factors[:-1]),), quotient, as_atom)
    factors = factors[:keep]
    if number == 1:
        return ((coefficient, factors),)
    if not factors:
        return constant(coefficient // number) if coefficient % number == 0 else None
    if isinstance(factors[-1], int) and factors[-1] % number == 0:
        last = factors[-1] // number
        return ((coefficient, factors[:-1] + ((last,) if last != 1 else ())),)
    return None


def _strip_left(term: Term, divisor: Term) -> Term | None:
    coefficient, factors = term
    number, prefix = divisor
    if coefficient % number:
        return None
    coefficient //= number
    if prefix:
        if coefficient != 1 or factors[: len(prefix)] != prefix:
            return None
        factors = factors[len(prefix) :]
        if factors and isinstance(factors[0], int):
            coefficient, factors = factors[0], factors[1:]
    return coefficient, factors
