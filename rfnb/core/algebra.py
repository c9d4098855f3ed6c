"""The non-commutative algebra of dims: normal forms of expressions like `time + 2` or `2 * (time + 1)`.

An expression is an ordered sum of ordered products. Order matters, because a frame before is not a frame after, and the
major dim of a merge is not the minor one: `a + 1` differs from `1 + a`, and `2 * a` (which is `a + a`) from `a * 2`.

    sum     = tuple of terms, in order
    term    = (coefficient, factors): coefficient is an int from the left, factors are atoms and ints, in order
    atom    = anything hashable by identity: a Dim, or an interned division `Division`

Two expressions are the same dim exactly if their normal forms are equal, so interning by normal form (in `core/dim.py`)
makes equality identity.
"""

from __future__ import annotations

from typing import Any, NamedTuple

Term = tuple[int, tuple[Any, ...]]
Sum = tuple[Term, ...]

_EXPAND_LIMIT = 64  # `n * (a + b)` is written out up to this many terms, as `2 * a` is `a + a`


class Division(NamedTuple):
    """A division that does not cancel: `kind` is "floordiv", "ceildiv", each "_left" or "_right"."""

    kind: str
    numerator: Any
    denominator: Any


def constant(value: int) -> Sum:
    return ((value, ()),) if value else ()


def atom(value: Any) -> Sum:
    return ((1, (value,)),)


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
    return tuple((-coefficient, factors) for coefficient, factors in reversed(expr))


def mul(left: Sum, right: Sum, as_atom: Any) -> Sum:
    """Product. `as_atom(sum)` interns a sum that has to stand as one factor."""
    if not left or not right:
        return ()
    number = as_int(left)
    if number is not None and len(right) > 1:
        if abs(number) * len(right) <= _EXPAND_LIMIT:
            result: Sum = ()
            for _ in range(abs(number)):
                result = add(result, right)
            return result if number > 0 else neg(result)
        right = atom(as_atom(right))
    if len(right) > 1:
        right = atom(as_atom(right))
    result = ()
    for term in left:  # only the left factor distributes: (a + 1) * b == a * b + b
        result = add(result, (_mul_terms(term, right[0]),))
    return result


def _mul_terms(left: Term, right: Term) -> Term:
    if not left[1]:
        return left[0] * right[0], right[1]
    factors = left[1]
    middle = (right[0],) if right[0] != 1 else ()
    for factor in middle + right[1]:
        if isinstance(factor, int) and isinstance(factors[-1], int):
            factors = factors[:-1] + (factors[-1] * factor,)
        else:
            factors += (factor,)
    return left[0], factors


def div_right(expr: Sum, divisor: Sum) -> Sum | None:
    """The exact quotient from the right, `(a * b) // b == a`; None if it does not cancel."""
    if len(divisor) != 1 or not expr:
        return () if not expr else None
    terms = [_strip_right(term, divisor[0]) for term in expr]
    return None if any(term is None for term in terms) else _sum_of(terms)


def div_left(expr: Sum, divisor: Sum) -> Sum | None:
    """The exact quotient from the left, `(b * a).div_left(b) == a`; None if it does not cancel."""
    if len(divisor) != 1 or not expr:
        return () if not expr else None
    terms = [_strip_left(term, divisor[0]) for term in expr]
    return None if any(term is None for term in terms) else _sum_of(terms)


def _sum_of(terms: Any) -> Sum:
    result: Sum = ()
    for term in terms:
        result = add(result, (term,))
    return result


def _strip_right(term: Term, divisor: Term) -> Term | None:
    coefficient, factors = term
    number, suffix = divisor
    if suffix:
        if factors[len(factors) - len(suffix) :] != suffix or len(factors) < len(suffix):
            return None
        factors = factors[: len(factors) - len(suffix)]
    if number == 1:
        return coefficient, factors
    if not factors:
        return (coefficient // number, ()) if coefficient % number == 0 else None
    if isinstance(factors[-1], int) and factors[-1] % number == 0:
        last = factors[-1] // number
        return coefficient, factors[:-1] + ((last,) if last != 1 else ())
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
