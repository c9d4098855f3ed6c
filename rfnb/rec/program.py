"""A program over raw arrays: straight-line Python code from the lines that a step was lowered to.

    def step(state_h, x):
        # linear  decoder.py:21
        r1 = addmm(c0, x, c1)
        # tanh  decoder.py:21
        r2 = tanh(r1)
        return r2

Weights, functions and numbers are bound as names, so bodies with the same ops share their compiled code, whatever arrays they work on.

Where a step multiplies frames of the loop, as in the gates of a cell, `[x, h] W + b`, the part `x W + b` does not depend on the state,
so it is computed for all frames before the first step:

    for (x,) in steps:                         for (ahead0,) in steps:
        r1 = cat([x, h], 1)
        r2 = addmm(c0, r1, c1)                     r2 = addmm(ahead0, h, rest0)

One product over all frames is faster than one per frame, and each step then reads less of the weights. The sums are the same in another
order. The backend decides which calls are such products, and whether this pays for these arrays.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

from rfnb.core.pickling import NotPicklable
from rfnb.rec.loop_compilation import compiled_how, compiled_step, maker
from rfnb.rec.lowering import LoweredCall, needed


class ProgramCode:
    """The lines of a program without the arrays bound to its names; programs of one pattern share it.

    Attributes:
        ahead: The variant with products computed before the first step (`rfnb/rec/program.py`), which are listed in `products`; None
            if there are none.

    Args:
        lines: All lines of a step; those that the results need are used.
        bound: Names from outside the step.
        inputs: The function's parameters, in order.
        results: Its results, as code.
        over: Names whose value differs in each step. With these, the function runs many steps, `run(steps, keep, *inputs)`: their
            values come from `steps`; the first results are the inputs of the next step, the others go to the functions in `keep`.
        given: Parameters of such a function before its inputs, constant over the steps.
    """

    ahead: ProgramCode | None = None
    products: Sequence[Product] = ()

    def __init__(
        self,
        lines: Sequence[LoweredCall],
        bound: Iterable[str],
        inputs: Sequence[str],
        results: Sequence[str],
        over: Sequence[str] | None = None,
        given: Sequence[str] = (),
    ):
        lines, used = needed(lines, results)
        if over is None:
            indent = "    "
            head, tail = [f"def step({', '.join(inputs)}):"], [_tuple(results, "    return ")]
        else:
            indent, count = "        ", len(inputs)
            keep = [f"keep{number}" for number in range(len(results) - count)]
            head = [f"def step({', '.join(['steps', 'keep', *given, *inputs])}):"]
            head += [_tuple(keep, "    ", " = keep"), _tuple(over, "    for ", " in steps:")]
            tail = [f"{indent}{name}({value})" for name, value in zip(keep, results[count:], strict=True)]
            tail += [_tuple(inputs, indent, f" = {_tuple(results[:count])}"), _tuple(inputs, "    return ")]
        self.head, self.tail, self.many = head, tail, over is not None
        self.text = [(line.place, indent + _text(line, used)) for line in lines]
        self.over, self.inputs = list(over or ()), list(inputs)
        self._lines, self._results, self._bound = lines, list(results), list(bound)
        body = "\n".join([*head, *(text for _, text in self.text), *tail]).replace("\n", "\n    ")
        self._source = f"def make({', '.join(self._bound)}):\n    {body}\n    return step"
        self._make: Any = None

    def make_ahead(self, bound: Mapping[str, Any], backend: Any) -> None:
        """Find products that can be computed before the first step."""
        lines, products = ahead(self._lines, bound, self.inputs, self.over, backend)
        if products:
            given = [name for one in products for name in (one.rest, one.empty) if name is not None]
            over = [*self.over, *(one.name for one in products)]
            used = needed(lines, self._results)[1]
            over = [name for name in over if name in used]
            self.ahead = ProgramCode(lines, self._bound, self.inputs, self._results, over, given)
            self.ahead.products = products

    def bind(self, bound: Mapping[str, Any], backend: Any = None) -> Callable[..., tuple[Any, ...]]:
        """The function with these values bound to the names from outside the step."""
        compiled = None
        if backend is not None and compiled_how() is not None:
            code = [text.strip() for _, text in self.text]
            inputs = [*self.over, *self.inputs]
            compiled = compiled_step(backend, bound, self._lines, code, inputs, _tuple(self._results))
        if compiled is not None:
            return partial(_many, compiled, len(self.inputs)) if self.many else lambda *args: compiled()(*args)
        if self._make is None:
            self._make = _maker(self._source)
        run: Callable[..., tuple[Any, ...]] = self._make(*bound.values())
        return run


class Program(NotPicklable):
    """Lines as a function, `run`.

    Attributes:
        listing: The program for display.

    Args:
        bound: Values of the names from outside the step: functions, constants.
        note: Maps the number of an op to the comment above its lines.
        backend: The backend of the arrays, which may compile it (`rfnb/rec/loop_compilation.py`).
    """

    def __init__(self, code: ProgramCode, bound: Mapping[str, Any], note: Callable[[int], str], backend: Any = None):
        self._code, self._bound, self._note, self._backend = code, bound, note, backend
        self.listing = Listing(code, note, bound)
        self.run = code.bind(bound, backend)

    def run_steps(
        self, columns: Sequence[Sequence[Any]], count: int, keep: Sequence[Any], inputs: Sequence[Any]
    ) -> tuple[Any, ...]:
        """Run `count` steps.

        Args:
            columns: The values in all steps of each name that the code is `over`.
        """
        code = self._code.ahead
        # What is compiled is so for one step. A graph is on a GPU, where nothing is made ahead.
        if code is not None and count >= FEWEST and compiled_how() in (None, "cuda_graph"):
            named = dict(zip(self._code.over, columns, strict=True))
            carried = dict(zip(code.inputs, inputs, strict=True))
            made = values(code.products, named, carried, self._bound, self._backend)
            if made is not None:
                named.update(made[0])
                self.listing = Listing(code, self._note, self._bound)
                run = code.bind(self._bound)
                return run(_rows([named[name] for name in code.over], count), keep, *made[1], *inputs)
        return self.run(_rows(columns, count), keep, *inputs)


def _rows(columns: Sequence[Sequence[Any]], count: int) -> Iterable[tuple[Any, ...]]:
    return zip(*columns, strict=True) if columns else [()] * count


def _text(line: LoweredCall, used: set[str]) -> str:
    targets = [name if name in used else "_" for name in line.targets]
    if targets.count("_") == len(targets):
        return line.text
    return f"{', '.join(targets)}{'' if line.single or len(targets) > 1 else ','} = {line.text}"


def _tuple(items: Sequence[str], before: str = "", after: str = "") -> str:
    return f"{before}({', '.join(items)}{',' if len(items) == 1 else ''}){after}"


class Listing:
    """A program for display: its lines below the ops they come from, and its constants. It keeps no array alive."""

    def __init__(self, code: ProgramCode, note: Callable[[int], str], bound: Mapping[str, Any]):
        self._code, self._note, self._ahead = code, note, list(map(str, code.products))
        self._bound = [
            (name, _Array(value.dtype, value.shape) if hasattr(value, "shape") else value)
            for name, value in bound.items()
            if not callable(value)
        ]

    def __str__(self) -> str:
        out, last = list(self._code.head), None
        for place, line in self._code.text:
            if place != last:
                out.append(f"{line[: len(line) - len(line.lstrip())]}# {self._note(place)}")
            out.append(line)
            last = place
        constants = [f"{name} = {value!r}" for name, value in self._bound]
        return "\n".join([*out, *self._code.tail, *self._ahead, *constants])


class _Array(NamedTuple):
    """The description of an array."""

    dtype: Any
    shape: Sequence[int]

    def __repr__(self) -> str:
        return f"{str(self.dtype).removeprefix('torch.')} {list(self.shape)}"


def _many(
    step: Callable[[], Callable[..., tuple[Any, ...]]], count: int, steps: Any, keep: Sequence[Any], *carried: Any
) -> tuple[Any, ...]:
    """Run many steps by a function for one; `count` values are carried."""
    run = step()
    for row in steps:
        results = run(*row, *carried)
        carried = results[:count]
        for to, value in zip(keep, results[count:], strict=True):
            to(value)
    return carried


_maker = lru_cache(maxsize=256)(maker)


FEWEST = 8  # steps for which it is done


class Product(NamedTuple):
    """A product that is computed ahead.

    Attributes:
        name: Name of its part in each step; `rest`: name of the weights for the part not known in advance; `empty`: name of a matrix
            without columns if that part is empty.
        fn: The function that computes the product in a step.
        parts: Names of the factors, from left to right.
        weight, bias: Their names.
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
    """The lines of a step without the parts of products that are known for all steps, and those parts.

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
    """The names of the matrices that a line concatenates; none if it does anything else."""
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
    """For each `Product.name`, its value in each step, and the values of the products' other names in order; None if the steps compute
    their products themselves.

    Args:
        columns: Name -> its value in each step.
        inputs: Name -> its value before the first step.
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
