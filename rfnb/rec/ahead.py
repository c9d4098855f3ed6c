"""Products of the frames of all steps, made before the first one: of the gates of a cell, `[x, h] W + b`, the part `x W + b` waits for no
state.

    for (x,) in steps:                         for (ahead0,) in steps:
        r1 = cat([x, h], 1)
        r2 = addmm(c0, r1, c1)                     r2 = addmm(ahead0, h, rest0)

One product of all frames takes less than one for each, and what the steps read of the weights again and again is smaller. The sums are
the same in another order. Which calls are such products, and whether it pays for these arrays, says the backend.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rfnb.rec.lowering import LoweredCall

FEWEST = 8  # steps for which it is done


class Product(NamedTuple):
    """One product that is made ahead.

    Attributes:
        name: Of what each step gets of it; `rest` of the weights for what is not known before, `empty` of a matrix without columns if
            that is nothing.
        fn: The function that makes the product in a step.
        parts: Names of what is multiplied, from left to right.
        weight, bias: Names of these.
    """

    name: str
    rest: str
    empty: str | None
    fn: Any
    parts: tuple[str, ...]
    weight: str
    bias: str

    def __str__(self) -> str:
        known = f"[{', '.join(self.parts)}] @ {self.weight} + {self.bias}"
        return f"{self.name} = {known} without what {self.rest} is for, of all steps at once"


def ahead(
    lines: Sequence[LoweredCall], bound: Mapping[str, Any], inputs: Sequence[str], over: Sequence[str], backend: Any
) -> tuple[list[LoweredCall], list[Product]]:
    """The lines of a step without those parts of products that are known for all steps, and these parts.

    Args:
        bound: Names of constants.
        inputs: Names of what the steps carry.
        over: Names that each step is given.
    """
    if any(line.effect for line in lines):  # it may write into what is known
        return [], []
    taken = {*bound, *inputs, *over, *(name for line in lines for name in line.targets)}
    makes = {name: line for line in lines for name in line.targets}
    out: list[LoweredCall] = []
    found: list[Product] = []
    for line in lines:
        places = backend.products_raw.get(line.fn)
        if places is None or len(line.args) <= max(places):
            out.append(line)
            continue
        source, weight, bias = (line.args[place] for place in places)
        parts = (source,) if source in over else _joined(makes.get(source), backend)
        rest = [part for part in parts if part not in over]
        unknown = sum(part not in inputs for part in rest)
        if len(rest) == len(parts) or unknown > 1 or weight not in bound or bias not in bound:
            out.append(line)
            continue
        name, of_rest = _free("ahead", taken), _free("rest", taken)
        empty = None if rest else _free("empty", taken)
        found.append(Product(name, of_rest, empty, line.fn, parts, weight, bias))
        now = empty or rest[0]
        if len(rest) > 1:
            now = _free("joined", taken)
            call = makes[source].text.partition("(")[0]
            out.append(LoweredCall((now,), f"{call}([{', '.join(rest)}], 1)", frozenset(rest), True, False, line.place))
        texts = dict(zip(places, (now, of_rest, name), strict=True))
        args = [texts.get(place, text) for place, text in enumerate(line.args)]
        uses = (line.uses - {source}) | {now, name}
        out.append(line._replace(text=f"{line.text.partition('(')[0]}({', '.join(args)})", uses=uses))
    return out, found


def _joined(line: LoweredCall | None, backend: Any) -> tuple[str, ...]:
    """The names of the matrices that a line puts side by side; none if it does anything else."""
    if line is None or line.fn is not backend.join_raw or len(line.args) != 2 or line.args[1] != "1":
        return ()
    names = line.args[0][1:-1].split(", ")
    return (
        tuple(names) if line.args[0][:1] == "[" and all(re.fullmatch(r"[A-Za-z_]\w*", name) for name in names) else ()
    )


def _free(name: str, taken: set[str]) -> str:
    number = next(number for number in range(len(taken) + 1) if f"{name}{number}" not in taken)
    taken.add(f"{name}{number}")
    return f"{name}{number}"


def values(
    products: Sequence[Product],
    columns: Mapping[str, Sequence[Any]],
    inputs: Mapping[str, Any],
    bound: Mapping[str, Any],
    backend: Any,
) -> tuple[dict[str, Sequence[Any]], list[Any]] | None:
    """For each name of `Product.name` its value in each step, and the values of the other names of the products in order; None, if the
    steps make their products themselves.

    Args:
        columns: Name -> the value of each step.
        inputs: Name -> the value before the first one.
    """
    given: dict[str, Sequence[Any]] = {}
    rests: list[Any] = []
    for product in products:
        weight, bias = bound[product.weight], bound[product.bias]
        parts = [columns[part] if part in columns else inputs.get(part) for part in product.parts]
        made = backend.product_ahead_raw(product.fn, parts, weight, bias)
        if made is None:
            return None
        given[product.name], rest, empty = made
        rests += [rest] if product.empty is None else [rest, empty]
    return given, rests
