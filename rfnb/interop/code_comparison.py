"""The first difference between two codes of one model, a port and its original, regardless of the names of their modules.

    d = rf.diff(mine, theirs, inputs=ids)
    d.place, d.theirs, d.cause

Both run in float64, on tapes. A value of one is known to the other if it has a value with the same size and the same
power sums: regardless of shape and order of entries. The difference begins in the first call whose operands the other
code knows and whose result it does not, if only unknown values lead from it to the output: so a fused product, another
layout or another table of angles is no difference if the codes agree again later.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from rfnb.interop.tape import Tape, TapeCall, tensors_in
from rfnb.interop.tape_comparison import relative

_CUTS = ("unbind", "chunk", "split", "tensor_split", "select", "narrow", "__getitem__")
_WEIGHT_PRODUCTS = ("linear", "addmm", "matmul", "__matmul__", "__rmatmul__", "mm", "einsum", "bmm", "conv1d")


ACTIVATION_NAMES = (
    "relu", "gelu", "silu", "tanh", "sigmoid", "mish", "hardsigmoid", "leaky_relu", "elu", "celu", "prelu", "rrelu", "softplus",
    "hardswish", "hardtanh", "relu6", "selu", "threshold", "logsigmoid",
)  # fmt: skip
_RECURRENCES = ("gru", "lstm", "rnn_tanh", "rnn_relu")
_MOST_BEGINS = 8


class Sums:
    """The values of a tape, by features that do not depend on shape and order."""

    def __init__(self, tape: Tape, tolerance: float):
        self._tolerance = tolerance
        self._by_size: dict[int, list[tuple[torch.Tensor, TapeCall, int]]] = {}
        for call in tape.calls:
            for number, made in enumerate(call.made):
                self._by_size.setdefault(made.numel(), []).append((sums_of(made), call, number))

    def find(self, value: torch.Tensor) -> tuple[TapeCall, int] | None:
        """The first call that made such a value, and the index of the result; None if there is none."""
        own = sums_of(value)
        for sums, call, number in self._by_size.get(value.numel(), ()):
            if self._near(own, sums):
                return call, number
        return None

    def are_same(self, one: torch.Tensor, other: torch.Tensor) -> bool:
        """Whether two values are equal up to shape and order."""
        return one.numel() == other.numel() and self._near(sums_of(one), sums_of(other))

    def _near(self, own: torch.Tensor, sums: torch.Tensor) -> bool:
        return bool(((own - sums).abs() <= self._tolerance * own[1::2].repeat_interleave(2) + 1e-12).all())


def sums_of(value: torch.Tensor) -> torch.Tensor:
    """The sums of the finite entries to the powers 1, 2 and 3: signed, and of magnitudes, which scale the tolerance."""
    if value.is_complex():
        value = torch.view_as_real(value.resolve_conj())
    x = value.detach().double().reshape(-1)
    x = x[torch.isfinite(x) & (x.abs() < 1e30)]
    size = x.abs()
    return torch.stack([each.sum() for power in (1, 2, 3) for each in (x.sign() * size**power, size**power)])


class OneSide:
    """A tape with the values of another code.

    Attributes:
        known: For each result of each call, whether the other code has it.
        content: For each call, whether it depends on parameters or on real-valued inputs: not tables, masks and positions.
    """

    def __init__(self, tape: Tape, model: torch.nn.Module, inputs: Any, others: Sums):
        self.tape, self.others = tape, others
        weights = {id(each) for each in model.parameters()}
        weights |= {id(each) for each in tensors_in(inputs) if each.is_floating_point()}
        self.known: list[list[bool]] = []
        self.content: list[bool] = []
        for call in tape.calls:
            own = any(id(each) in weights for each in call.given) or any(self.content[read] for read, _ in call.reads)
            self.content.append(own)
            moved = not call.reads and len(call.given) == 1 and id(call.given[0]) in weights
            self.known.append(
                [
                    not own or (moved and others.are_same(made, call.given[0])) or others.find(made) is not None
                    for made in call.made
                ]
            )
        self._cut({id(each) for each in tensors_in(inputs)})

    def _cut(self, inputs: set[int]) -> None:
        """Mark the parts of a known value as known if together they cover it, such as the steps of a loop that is one call in theirs."""
        parts: dict[Any, list[TapeCall]] = {}
        wholes: dict[Any, torch.Tensor] = {}
        for call in self.tape.calls:
            if call.name in _CUTS and self.content[call.index] and len(call.reads) + len(call.given) == 1:
                key: Any = call.reads[0] if call.reads else id(call.given[0])
                if call.reads or key in inputs:
                    parts.setdefault(key, []).append(call)
                    wholes[key] = self.tape.value(key) if call.reads else call.given[0]
        for key, calls in parts.items():
            size = sum(made.numel() for call in calls for made in call.made)
            if (key in inputs or self.is_known(key)) and size == wholes[key].numel():
                for call in calls:
                    self.known[call.index] = [True] * len(call.made)

    def is_known(self, read: tuple[int, int]) -> bool:
        """Whether the other code has a value, or it is not content."""
        return self.known[read[0]][read[1]]

    def origins(self, outputs: Iterable[tuple[int, int] | None]) -> list[TapeCall]:
        """The calls with known operands and an unknown result, from which unknown values lead to these results."""
        calls = {index for index, _ in self.tape.behind(outputs, lambda each: not self.is_known(each))}
        begins = [each for each in calls if all(self.is_known(read) for read in self.tape.calls[each].reads)]
        return [self.tape.calls[each] for each in sorted(begins)]

    def operand(self, call: TapeCall) -> tuple[int, int] | None:
        """The last content operand of a call: the value that it works on."""
        found = [read for read in call.reads if self.content[read[0]]]
        return found[0] if found else None

    def weights(self, call: TapeCall) -> list[torch.Tensor]:
        """The inputs, parameters and buffers that a call reads, directly or through one other call, such as `weight.T`."""
        before = [self.tape.calls[read] for read, _ in call.reads]
        return [*call.given, *(each for other in before if not other.reads for each in other.given)]

    def readers(self, call: TapeCall, depth: int = 4) -> list[TapeCall]:
        """The calls that read the result of a call, directly or indirectly."""
        found: list[TapeCall] = []
        front = {call.index}
        for other in self.tape.calls[call.index + 1 :]:
            if len(found) > 12 or depth < 0:
                break
            if any(read in front for read, _ in other.reads):
                found.append(other)
                front.add(other.index)
                depth -= 1
        return found


def begins(
    mine: OneSide,
    results: Iterable[tuple[int, int] | None],
    theirs: OneSide,
    other_results: Iterable[tuple[int, int] | None],
) -> tuple[TapeCall | None, TapeCall | None]:
    """The call of each code in which the difference begins: a pair that reads the same value if there is one, otherwise the first of each.

    A part that is merely written differently also begins somewhere, but rarely in a call that reads the same value.
    """
    own, others = mine.origins(results), theirs.origins(other_results)
    for call in own[:_MOST_BEGINS]:
        for other in others[:_MOST_BEGINS]:
            if mine.operand(call) is not None and meet(mine, call, theirs, other):
                return call, other
    # a weight that is cut or turned is rarely where they part
    return next((call for call in own if mine.operand(call) is not None), next(iter(own), None)), next(
        iter(others), None
    )


def common(path: str, other: str) -> str:
    """The innermost module that contains both."""
    shared = []
    for a, b in zip(path.split("."), other.split(".")):
        if a != b:
            break
        shared.append(a)
    return ".".join(shared)


def place_of(mine: OneSide, own: TapeCall, theirs: OneSide, other: TapeCall | None) -> str:
    """The path of the difference in mine: that of the call or, if mine lacks a call of theirs, that of the code that should make it."""
    operand = mine.operand(own)
    if other is not None and other.name in _RECURRENCES and own.name not in _RECURRENCES:
        return _of_loop(mine, own, other.made[0].numel())
    if other is None or operand is None or _family(own.name) == _family(other.name):
        return own.path
    if any(each.numel() > 1 for each in other.given) or not meet(mine, own, theirs, other):
        return own.path
    if own.name in ACTIVATION_NAMES and not any(each.name == own.name for each in theirs.readers(other)):
        return own.path  # theirs has something else there, not an additional step before it
    maker, operand_there = mine.tape.calls[operand[0]], theirs.operand(other)
    inside_there = operand_there is not None and is_inside(theirs.tape.calls[operand_there[0]].path, other.path)
    if inside_there and not is_inside(maker.path, own.path):
        return common(maker.path, own.path)
    return own.path


def _of_loop(mine: OneSide, own: TapeCall, size: int) -> str:
    """The innermost module that contains all steps of a loop that is one call in theirs, from its first call to the joined results."""
    made, path = {own.index}, own.path
    for call in mine.tape.calls[own.index + 1 :]:
        if any(read in made for read, _ in call.reads):
            made.add(call.index)
            if call.name in ("stack", "cat") and call.made[0].numel() == size:
                return path
            path = path if call.name in _CUTS else common(path, call.path)
    return own.path


def _family(name: str) -> str:
    return "product" if name in _WEIGHT_PRODUCTS else name


def meet(mine: OneSide, own: TapeCall, theirs: OneSide, other: TapeCall) -> bool:
    """Whether both calls read the same value."""
    operand, there = mine.operand(own), theirs.operand(other)
    if operand is None or there is None:
        return operand is there
    a, b = mine.tape.value(operand), theirs.tape.value(there)
    return mine.others.are_same(a, b)


def is_inside(path: str, outer: str) -> bool:
    """Whether a module is another one or inside it."""
    return not outer or path == outer or path.startswith(f"{outer}.")


def equal(mine: Any, theirs: Any, tolerance: float) -> bool:
    """Whether two codes gave equal results: the first numeric result of each."""
    a, b = result_of(mine), result_of(theirs)
    return a is not None and b is not None and a.shape == b.shape and float(relative(a, b).max()) <= tolerance


def result_of(output: Any) -> torch.Tensor | None:
    """The result to compare: logits, or the first numeric tensor."""
    for name in ("logits", "last_hidden_state"):
        found = output.get(name) if isinstance(output, dict) else getattr(output, name, None)
        if isinstance(found, torch.Tensor):
            return found
    return next((each for each in tensors_in(output) if each.is_floating_point() and each.ndim), None)
