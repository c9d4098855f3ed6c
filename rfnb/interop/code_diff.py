"""Compare two models with different code: the first place where they diverge, and the cause whose correction makes them equal.

d = rf.diff(mine, theirs, inputs=ids)
print(d)                        # place, cause, confidence
d.place, d.cause.name, d.cause.sure
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np
import torch

from rfnb.core.errors import NearNames, runtime_error, value_error
from rfnb.core.place import place_text, source_line
from rfnb.interop.causes import Parting, Try, tries
from rfnb.interop.code_comparison import OneSide, Sums, begins, equal, place_of, result_of
from rfnb.interop.measurement import Measurement
from rfnb.interop.measurement import spec as spec_of_map
from rfnb.interop.metrics import called, check_model
from rfnb.interop.tape import Tape, TapeCall, copied, kind_of, raised
from rfnb.interop.tape_comparison import relative
from rfnb.viz.markup import table
from rfnb.viz.spec import Spec
from rfnb.viz.terminal import aligned

_TOLERANCE = 1e-7
_MOST = 400  # passes
_LINES, _WIDE = 32, 64  # of a view: lines of code, letters of a line


@dataclass(frozen=True)
class Cause:
    """A tested cause.

    Attributes:
        name: "rotary base", "norm epsilon", ...
        said: A sentence.
        sure: Whether its correction, and no other tested one, makes mine equal to theirs.
    """

    name: str
    said: str
    sure: bool


@dataclass
class CodeDiff(NearNames):
    """The comparison of two codes of one model; made by `rf.diff(mine, theirs, inputs=...)`.

    Attributes:
        same: Whether both give the same results in float64.
        apart: The largest relative difference of the results; infinity if their shapes differ.
        place: The path of the module in mine at which they diverge; "" is the model itself. None if they are equal.
        kind: The class of this module.
        call: The function of torch there.
        line, code: The line of mine that calls it, "cell 5, line 7", and its text; "" if the results are the same.
        lines: The same of each line of mine, in the order of calls: place, text, how many of its values theirs has and lacks.
        theirs: The path and the function in theirs whose result mine lacks.
        causes: The explanations: a sure one, or several possible ones.
        tried: Number of passes made to test causes.
        values: For each module of mine, in the order of calls: how many of its values theirs has, and how many it lacks.
    """

    same: bool
    apart: float
    place: str | None
    kind: str
    call: str
    theirs: tuple[str, str] | None
    causes: list[Cause]
    tried: int
    names: tuple[str, str]
    values: list[tuple[str, int, int]] = field(default_factory=list)
    line: str = ""
    code: str = ""
    lines: list[tuple[str, str, int, int]] = field(default_factory=list)

    @property
    def cause(self) -> Cause | None:
        """The cause, if one was found."""
        return self.causes[0] if self.causes else None

    @property
    def text(self) -> str:
        """The whole report as text, as printed."""
        return repr(self)

    def _lines(self) -> list[str]:
        mine, theirs = self.names
        if self.same:
            return [f"{mine} and {theirs} give the same in float64: at most {self.apart:.2g} apart."]
        if self.place is None:
            return [f"{mine} and {theirs} give results of other shapes or values, and all earlier values agree."]
        at, there = (f'"{path}"' if path else "the model itself" for path in (self.place, (self.theirs or ("",))[0]))
        lines = [
            f"{mine} and {theirs} part in {at} ({self.kind}), in {self.call}; the results are {self.apart:.2g} apart."
        ]
        if self.line:
            lines.append(f"The line is {self.line}" + (f": `{self.code}`." if self.code else "."))
        if self.theirs is not None:
            lines.append(f"In {theirs} that is {self.theirs[1]} in {there}.")
        for cause in self.causes:
            how = "with that changed both give the same" if cause.sure else "it could be"
            lines.append(f"{cause.name[0].upper()}{cause.name[1:]} ({how}): {cause.said}.")
        if not self.causes:
            lines.append(f"None of the usual causes makes them equal ({self.tried} passes).")
        return lines

    def _rows(self) -> list[list[str]]:
        return [[path or "the model", str(known), str(unknown)] for path, known, unknown in self.values]

    def _shown(self) -> list[tuple[str, int, int]]:
        """The rows of a view: lines of code by number and text, an arrow at the difference; modules if there are too many lines."""
        if not 0 < len(self.lines) <= _LINES:
            return [(path or "the model", known, unknown) for path, known, unknown in self.values]
        return [
            (f"{'→ ' if place == self.line else ''}{re.split(r'[ :]', place)[-1]} {_short(code)}", known, unknown)
            for place, code, known, unknown in self.lines
        ]

    def __repr__(self) -> str:
        head = ["module", "values in both", "only here"]
        return "\n".join([*self._lines(), *aligned([head, *self._rows()[:24]])])

    def _repr_html_(self) -> str:
        said = "".join(f"<p>{escape(line)}</p>" for line in self._lines())
        return said + table(self._rows()[:60], ["module", "values in both", "only here"], named=True)


def spec(diff: CodeDiff, *, title: str | None = None) -> Spec:
    """The spec of its view: the lines of mine, by the fraction of their values that theirs has; the modules where there are too many lines.

    Args:
        title: Default: the place.
    """
    rows = diff._shown() or [("nothing", 0, 0)]
    values = np.array([[known, unknown] for _, known, unknown in rows], float)
    made = Measurement(
        "values",
        values / np.maximum(values.sum(1, keepdims=True), 1),
        ("line", [name for name, *_ in rows]),
        ("its values", [f"{diff.names[1]} has", f"only {diff.names[0]} has"]),
        remark=" ".join(diff._lines()).rstrip("."),
    )
    where = diff.place or (f"the line `{_short(diff.code)}`" if diff.code else "the model")
    return spec_of_map(made, title=title or "Two codes: " + ("the same" if diff.same else f"they part in {where}"))


def _short(code: str) -> str:
    return code if len(code) <= _WIDE else f"{code[: _WIDE - 1]}…"


def diff_codes(
    mine: Any,
    theirs: Any,
    inputs: Any,
    inputs_b: Any = None,
    tolerance: float | None = None,
    names: Sequence[str] = ("mine", "theirs"),
) -> CodeDiff:
    """See `rf.diff` for two models."""
    for model in (mine, theirs):
        check_model("diff", model)
    if inputs is None:
        raise value_error(
            "diff: two models are compared by running them.",
            [(names[0], type(mine).__name__), (names[1], type(theirs).__name__)],
            "Pass their inputs: a tensor, a tuple of arguments, or a dict of named ones.",
            "rf.diff(mine, theirs, inputs=ids)",
        )
    return _Codes(
        mine, theirs, inputs, inputs if inputs_b is None else inputs_b, tolerance or _TOLERANCE, (names[0], names[1])
    ).run()


class _Codes:
    """The passes of a comparison."""

    def __init__(
        self,
        mine: torch.nn.Module,
        theirs: torch.nn.Module,
        inputs: Any,
        inputs_b: Any,
        tolerance: float,
        names: tuple[str, str],
    ):
        self.mine, self.theirs, self.tolerance, self.names = (
            copied(mine, torch.float64),
            copied(theirs, torch.float64),
            tolerance,
            names,
        )
        self.inputs, self.other_inputs = raised(inputs, torch.float64), raised(inputs_b, torch.float64)
        _snap(self.mine, self.theirs)
        self.passes = 0

    def run(self) -> CodeDiff:
        theirs, expected = self._tape(self.theirs, self.other_inputs)
        _, again = self._tape(self.theirs, self.other_inputs)
        if not equal(expected, again, self.tolerance):
            raise runtime_error(
                f"diff: {self.names[1]} is not deterministic.",
                {self.names[1]: f"{type(self.theirs).__name__}, two passes of it differ"},
                "The reference must be deterministic:",
                "theirs.eval()",
            )
        tape, output = self._tape(self.mine, self.inputs)
        a, b = result_of(output), result_of(expected)
        if a is None or b is None:
            raise value_error(
                "diff: the results cannot be compared.",
                [(self.names[0], type(output).__name__), (self.names[1], type(expected).__name__)],
                "Both models must return a tensor of numbers, or an object that contains one.",
            )
        apart = float(relative(a, b).max()) if a.shape == b.shape else float("inf")
        side, other_side = self._sides(tape, theirs)
        values, lines = _by_module(side), _by_line(side)
        if equal(output, expected, self.tolerance):
            return CodeDiff(True, apart, None, "", "", None, [], 0, self.names, values, lines=lines)
        own, other = begins(side, [tape.maker(a)], other_side, [theirs.maker(b)])
        if own is None:
            own = tape.calls[-1] if other is None else self._before(side, other_side, other) or tape.calls[-1]
        place = place_of(side, own, other_side, other)
        found = Parting(side, self.mine, own, other_side, self.theirs, other, place)
        worked = self._worked(found, expected)
        causes = [Cause(name, each.said, len(worked) == 1) for name, each in worked.items()]
        changed = {path for each in worked.values() for path, *_ in each.calls}
        if len(worked) == len(changed) == 1 and (elsewhere := changed.pop()).split(".")[: len(place.split("."))] != (
            place.split(".")
        ):  # theirs has one result for several modules of mine, and it belongs to another one of these
            place = elsewhere if place else place
        if (drawn := self._drawn(tape)) is not None:  # a random call is the first difference
            place, own = drawn.path, drawn
            if not causes:
                causes = [Cause("randomness", f"{self.names[0]} draws in {own.name}: two passes of it differ", False)]
        there = None if other is None else (other.path, other.name)
        kind = kind_of(self.mine, place)
        line, code = ("", "") if own.line is None else (place_text(own.line), source_line(own.line))
        return CodeDiff(
            False, apart, place, kind, own.name, there, causes, self.passes, self.names, values, line, code, lines
        )

    def _sides(self, tape: Tape, theirs: Tape) -> tuple[OneSide, OneSide]:
        a = OneSide(tape, self.mine, self.inputs, Sums(theirs, self.tolerance))
        return a, OneSide(theirs, self.theirs, self.other_inputs, Sums(tape, self.tolerance))

    def _drawn(self, tape: Tape) -> TapeCall | None:
        """The first call of mine whose result changes between passes."""
        again, _ = self._tape(self.mine, self.inputs)
        for call, other in zip(tape.calls, again.calls):
            pairs = zip(call.made, other.made)
            if "empty" not in call.name and not all(torch.equal(*map(torch.nan_to_num, pair)) for pair in pairs):
                return call
        return None

    def _before(self, side: OneSide, other_side: OneSide, other: TapeCall) -> TapeCall | None:
        """The call of mine that made the value from which theirs continues."""
        operand = other_side.operand(other)
        if operand is None:
            return None
        found = other_side.others.find(other_side.tape.value(operand))
        return None if found is None else next(iter(side.readers(found[0])), found[0])

    def _tape(self, model: torch.nn.Module, inputs: Any, edits: Any = None, keep: bool = True) -> tuple[Tape, Any]:
        with torch.no_grad(), Tape(model, torch.float64, edits, keep, lines=True) as tape:
            output = called(model, inputs)
        return tape, output

    def _worked(self, found: Parting, expected: Any) -> dict[str, Try]:
        """The change that makes both equal, by cause."""
        worked: dict[str, Try] = {}
        for each in tries(found):
            if self.passes >= _MOST:
                break
            if each.cause in worked or not (each.calls or each.values or each.training is not None):
                continue
            self.passes += 1
            made = self._with(each)
            if made is not None and equal(made, expected, self.tolerance):
                worked[each.cause] = each
        return worked

    def _with(self, each: Try) -> Any:
        """The output of mine with a change; None if it cannot be applied."""
        try:
            with _values(self.mine, each.values), _training(self.mine, each.training):
                return self._tape(self.mine, self.inputs, each.calls, keep=False)[1]
        except (RuntimeError, ValueError, TypeError, IndexError, AttributeError):
            return None


@contextlib.contextmanager
def _values(model: torch.nn.Module, values: Any) -> Iterator[None]:
    """In a with-block, a model with other values of parameters and buffers."""
    own = {**dict(model.named_parameters()), **dict(model.named_buffers())} if values else {}
    before = {name: own[name].data for name in values}
    try:
        for name, value in values.items():
            own[name].data = value
        yield
    finally:
        for name, value in before.items():
            own[name].data = value


@contextlib.contextmanager
def _training(model: torch.nn.Module, flag: bool | None) -> Iterator[None]:
    before = [] if flag is None else [(module, module.training) for module in model.modules()]
    try:
        if flag is not None:
            model.train(flag)
        yield
    finally:
        for module, own in before:
            module.training = own


def _snap(mine: torch.nn.Module, theirs: torch.nn.Module) -> None:
    """Make tables equal that differ only by float32 rounding."""
    others = [each for each in theirs.buffers() if each.is_floating_point()]
    for own in mine.buffers():
        for other in others:
            if own.is_floating_point() and own.shape == other.shape and torch.allclose(own, other, 3e-7, 3e-7):
                own.data.copy_(other)
                break


def _by_module(side: OneSide) -> list[tuple[str, int, int]]:
    return [(path, *counts) for path, counts in _counted(side, lambda call: call.path).items()]


def _by_line(side: OneSide) -> list[tuple[str, str, int, int]]:
    found = _counted(side, lambda call: call.line and (place_text(call.line), source_line(call.line)))
    return [(*line, *counts) for line, counts in found.items() if line]


def _counted(side: OneSide, of: Callable[[TapeCall], Any]) -> dict[Any, tuple[int, int]]:
    """The numbers of values of calls that theirs has and lacks, by what `of` returns for a call."""
    counts: dict[Any, tuple[int, int]] = {}
    for call, known, content in zip(side.tape.calls, side.known, side.content):
        if content:
            (had, lacked), has = counts.get(key := of(call), (0, 0)), sum(known)
            counts[key] = had + has, lacked + len(known) - has
    return counts
