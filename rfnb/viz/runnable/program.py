"""The program of a page: what a call has computed, as plain data and weights, for inputs of any length.

The function is called with several texts. What is the same each time is a constant; an array that spells the text is the input; a number
that grows with the text is an affine function of its length. What is neither is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from rfnb.core.beam_dim import is_beam
from rfnb.core.dim import Dim, single_step_dim
from rfnb.core.errors import value_error
from rfnb.core.tensor import Tensor
from rfnb.core.tree import values_in
from rfnb.ops.gradient import stop_gradient_scope
from rfnb.viz.axes import Axis
from rfnb.viz.runnable.noted import LoopNote, Notes, OpNote, StepNote, noted

_FORMAT = 1


@dataclass(frozen=True)
class PageProgram:
    """A call as a page repeats it.

    Attributes:
        spec: Dims, inputs, ops and loops, as JSON has them.
        tensors: The constants by their number in it, as parameters.
    """

    spec: dict[str, Any]
    tensors: list[Tensor]

    @property
    def weights(self) -> list[np.ndarray]:
        """The same as arrays."""
        return [each.numpy() for each in self.tensors]

    @staticmethod
    def of(fn: Callable[..., Any], text: str, numbers: Mapping[str, tuple[float, float]] | None = None) -> PageProgram:
        """The program of what a function computes for a text.

        Args:
            fn: Called with the text, and with some like it: other lengths, other order.
            numbers: Further arguments that the page may change, by name: the value, and another one.

        Raises:
            TypeError: If it calls an op that a page does not have.
            ValueError: If what it computes depends on the text otherwise than by its letters and their number.
        """
        first = {name: value for name, (value, _) in (numbers or {}).items()}
        texts = [PageCall(each, first) for each in _like(text)]
        texts += [PageCall(text, {**first, name: other}) for name, (_, other) in (numbers or {}).items()]
        with stop_gradient_scope():
            calls = [_Encoded(*noted(lambda each=each: fn(each.text, **each.numbers))) for each in texts]
        made = _together([each.spec for each in calls], texts, "")
        for block in made["blocks"]:
            _whole_alphabet(block, made["dims"])
        spec = {"format": _FORMAT, **made}
        tensors = calls[0].tensors
        if any(len(each.tensors) != len(tensors) for each in calls):
            raise _differs("the weights", [len(each.tensors) for each in calls], texts)
        return PageProgram(spec, tensors)


class PageCall(NamedTuple):
    """The arguments of one call."""

    text: str
    numbers: Mapping[str, float]

    def __str__(self) -> str:
        return ", ".join([repr(self.text), *(f"{name}={value}" for name, value in self.numbers.items())])


def _like(text: str) -> list[str]:
    """The text, and others of its letters: by these it is seen what depends on it."""
    turned = text[::-1] if text[::-1] != text else text[1:] + text[:1]
    return list(dict.fromkeys([text, turned, text + text[:1], text + text[:3], text[: max(1, len(text) - 1)]]))


class _Encoded:
    """The notes of one call as plain data; arrays in it where the text may be."""

    def __init__(self, notes: Notes, result: Any):
        self._dims: dict[Dim, int] = {}
        self.tensors: list[Tensor] = []
        self._numbers: dict[int, int] = {}
        self._notes = notes
        self._open = {block.axis for block in notes.blocks if isinstance(block, LoopNote) and not block.given}
        blocks = [self._block(block) for block in notes.blocks]
        found = [self._value(notes.ref(leaf)) for leaf in values_in(result) if isinstance(leaf, Tensor)]
        constants = [self._constant(number) for number in self._numbers]
        dims = [self._dim(dim) for dim in self._dims]
        self.spec = {"dims": dims, "constants": constants, "blocks": blocks, "result": found}

    def _block(self, block: OpNote | LoopNote) -> dict[str, Any]:
        return self._op(block) if isinstance(block, OpNote) else self._loop(block)

    def _op(self, op: OpNote) -> dict[str, Any]:
        made = {"op": op.name, "given": {name: self._value(value) for name, value in op.given.items()}}
        dims = [
            {"dims": [self._at(dim) for dim in dims], "sparse": None if sparse is None else self._at(sparse)}
            for dims, sparse in op.dims
        ]
        return {**made, "results": list(op.results), "as": dims, "offers": [list(each) for each in op.offers]}

    def _loop(self, loop: LoopNote) -> dict[str, Any]:
        noted = loop.steps[:-1] if len(loop.steps) > 1 and loop.stop and not loop.steps[-1].ops else loop.steps
        steps = [self._step(step) for step in noted]
        usual = steps[1:] or steps
        if not any(step["next"] or step["outputs"] for step in usual):  # a recorded loop says that once
            usual = [{**step, **{name: steps[0][name] for name in ("next", "outputs", "end")}} for step in usual]
        _same(usual, loop)
        if [op["op"] for op in steps[0]["ops"]] != [op["op"] for op in usual[0]["ops"]]:
            raise _differs(f'loop "{loop.name}"', ["its first step", "the next"], ())
        most = loop.most
        return {
            "loop": loop.name,
            "axis": self._at(loop.axis),
            "over": loop.given,
            "most": None if most is None else int(most.numpy().max()) if isinstance(most, Tensor) else int(most),
            "path": loop.steps[0].path,
            "stop": loop.stop,
            "initial": {path: self._value(ref) for path, ref in loop.initial.items()},
            **usual[0],
        }

    def _step(self, step: StepNote) -> dict[str, Any]:
        return {
            "ops": [self._op(op) for op in step.ops],
            "next": {path: self._value(ref) for path, ref in step.next.items()},
            "outputs": [{"value": self._value(ref), "last": last} for ref, last in step.outputs],
            "end": None if step.end is None else {"value": self._value(step.end[0]), "included": step.end[1]},
        }

    def _value(self, value: Any) -> Any:
        """A Ref as ["value", 3], a Dim as {"dim": 3}; in a step the sizes of hypotheses are open."""
        if isinstance(value, Dim):
            return {"dim": self._at(value)}
        if isinstance(value, tuple):
            if value[0] == "constant":
                return ["constant", self._numbers.setdefault(value[1], len(self._numbers))]
            return [self._value(each) if isinstance(each, tuple) else each for each in value]
        if isinstance(value, list):
            return {"list": [self._value(each) for each in value]}
        if isinstance(value, Mapping):
            return {"map": {name: self._value(each) for name, each in value.items()}}
        if isinstance(value, np.generic):
            return value.item()
        return value

    def _at(self, dim: Dim) -> int | str:
        if is_beam(dim):
            return "beam"
        if dim is single_step_dim:
            return "single"
        return self._dims.setdefault(dim, len(self._dims))

    def _dim(self, dim: Dim) -> dict[str, Any]:
        vocab = None if dim.vocab is None else list(dim.vocab)
        return {
            "name": dim.name or "",
            "kind": Axis(dim.name, 1, dim).kind,
            "size": dim.extent if dim.is_dim_known() and dim not in self._open else None,
            "vocab": vocab,
        }

    def _constant(self, number: int) -> dict[str, Any]:
        value = self._notes.constants[number]
        self.tensors.append(value)
        sparse = None if value.sparse_dim is None else self._at(value.sparse_dim)
        return {"dims": [self._at(dim) for dim in value.dims], "sparse": sparse, "dtype": value.dtype}


def _same(steps: Sequence[Any], loop: LoopNote) -> None:
    for number, step in enumerate(steps):
        if step != steps[0]:
            raise value_error(
                f'A page cannot run loop "{loop.name}": its steps are not the same.',
                [("step 1", f"{len(steps[0]['ops'])} ops"), (f"step {number + 1}", f"{len(step['ops'])} ops")],
                "A page repeats one step. What Python decides in the loop, an op has to decide.",
            )


def _together(found: Sequence[Any], texts: Sequence[PageCall], where: str) -> Any:
    """Take what is the same in all calls, with what depends on the text said as that."""
    first = found[0]
    if isinstance(first, np.ndarray):
        return _array(found, texts, where)
    if isinstance(first, dict):
        if any(not isinstance(each, dict) or list(each) != list(first) for each in found):
            raise _differs(where, [str(each)[:40] for each in found], texts)
        return {name: _together([each[name] for each in found], texts, f"{where}.{name}") for name in first}
    if isinstance(first, list):
        if any(not isinstance(each, list) or len(each) != len(first) for each in found):
            raise _differs(where, [f"{len(each)} entries" for each in found], texts)
        return [_together(each, texts, f"{where}.{number}") for number, each in enumerate(zip(*found, strict=True))]
    if all(each == first for each in found):
        return first
    for name in texts[0].numbers:
        if all(type(each) is type(of.numbers[name]) and each == of.numbers[name] for each, of in zip(found, texts)):
            return {"input": name}
    if all(isinstance(each, int) for each in found):
        return _affine(found, texts, where)
    raise _differs(where, [str(each)[:40] for each in found], texts)


def _affine(found: Sequence[int], texts: Sequence[PageCall], where: str) -> dict[str, Any]:
    """A number that is a x length + b."""
    lengths = [len(each.text) for each in texts]
    other = next((at for at, length in enumerate(lengths) if length != lengths[0]), None)
    if other is not None:
        slope, rest = divmod(found[other] - found[0], lengths[other] - lengths[0])
        begin = found[0] - slope * lengths[0]
        if not rest and all(slope * length + begin == each for length, each in zip(lengths, found, strict=True)):
            return {"times": slope, "plus": begin}
    raise _differs(where, list(found), texts)


def _array(found: Sequence[np.ndarray], texts: Sequence[PageCall], where: str) -> dict[str, Any]:
    """An array that was made in the call: always the same, or the labels of the letters of the text."""
    first = found[0]
    if all(each.shape == first.shape and np.array_equal(each, first) for each in found):
        return {"values": first.ravel().tolist(), "shape": list(first.shape), "dtype": str(first.dtype)}
    if not np.issubdtype(first.dtype, np.integer):
        raise _differs(where, [f"{each.dtype} {each.shape}" for each in found], texts)
    before = after = None
    labels: dict[str, int] = {}
    for each, (text, _) in zip(found, texts, strict=True):
        flat, more = each.ravel().tolist(), each.size - len(text)
        if more < 0 or (before is not None and more != before[0]):
            raise _differs(where, [f"{each.size} values" for each in found], texts)
        before = (more, flat)
        at = next((begin for begin in range(more + 1) if _spells(flat[begin : begin + len(text)], text, labels)), None)
        if at is None:
            raise _differs(where, [str(each.ravel().tolist())[:40] for each in found], texts)
        rest = flat[:at], flat[at + len(text) :]
        if after is not None and after != rest:
            raise _differs(where, [str(each.ravel().tolist())[:40] for each in found], texts)
        after = rest
    assert after is not None
    return {"letters": labels, "before": after[0], "after": after[1], "dtype": str(first.dtype)}


def _whole_alphabet(block: Any, dims: Sequence[Any]) -> None:
    """All letters of the vocabulary, where those of the text are labelled as it says."""
    value = block.get("given", {}).get("value")
    if isinstance(value, dict) and "letters" in value:
        vocab = dims[block["as"][0]["sparse"]]["vocab"] if block["as"][0]["sparse"] is not None else None
        if vocab is not None and all(vocab[label] == letter for letter, label in value["letters"].items()):
            value["letters"] = {letter: label for label, letter in enumerate(vocab) if len(letter) == 1}


def _spells(values: Sequence[int], text: str, labels: dict[str, int]) -> bool:
    """Whether these are labels of the letters, the same for the same letter in all texts."""
    trial = dict(labels)
    if any(trial.setdefault(letter, value) != value for letter, value in zip(text, values, strict=True)):
        return False
    if len(set(trial.values())) != len(trial):
        return False
    labels.update(trial)
    return True


def _differs(where: str, found: Sequence[Any], texts: Sequence[PageCall]) -> ValueError:
    rows = [(str(given)[:30], str(each)) for given, each in zip(texts, found, strict=False)]
    return value_error(
        f"A page cannot run this: {where.strip('.')} depends on the text in a way that is not known.",
        rows,
        "A page knows the letters of a text, and numbers that grow with how many there are.",
    )
