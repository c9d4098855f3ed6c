"""The program of a page: the computation of a call as plain data and weights, for inputs of any length.

The function is called with several texts. Values that are equal in all calls are constants; an array that spells the
text is the input; a number that grows with the text is an affine function of its length. Anything else is refused.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from rfnb.core.beam_dim import is_beam
from rfnb.core.dim import Dim, single_step_dim
from rfnb.core.errors import value_error
from rfnb.core.strict_json import JsonObject
from rfnb.core.tensor import Tensor
from rfnb.core.tree import values_in
from rfnb.ops.gradient import stop_gradient_scope
from rfnb.viz.axes import Axis
from rfnb.viz.runnable.call_notes import LoopNote, Notes, OpNote, StepNote, kind_of_value, noted
from rfnb.viz.runnable.op_lowering import BY_SIZE, DECIDES
from rfnb.viz.runnable.python_loops import FOUND, rolled

_FORMAT = 1


@dataclass(frozen=True)
class PageProgram:
    """A call in the form in which a page repeats it.

    Attributes:
        spec: Dims, inputs, ops and loops, as JSON data.
        tensors: The constants by number, such as parameters.
        weights_seen: By the number of a block that only attends, its weights for the first text: (..., rows, columns).
        shared: The constants that share the memory of arrays of another library.
        results: What the function returned for the first text.
        turns: Of loops of Python, by number and state, its values for the first text: (before the first turn and after each, units).
    """

    spec: JsonObject
    tensors: list[Tensor]
    weights_seen: Mapping[int, np.ndarray] = field(default_factory=dict)
    shared: Sequence[Tensor] = ()
    results: Sequence[Tensor] = ()
    turns: Mapping[tuple[int, str], np.ndarray] = field(default_factory=dict)

    @property
    def weights(self) -> list[np.ndarray]:
        """The constants as arrays."""
        return [each.numpy() for each in self.tensors]

    @staticmethod
    def of(
        fn: Callable[..., Any], text: str, numbers: Mapping[str, Sequence[float]] | None = None, model: Any = None
    ) -> PageProgram:
        """The program of a function's computation for a text.

        Args:
            fn: Called with the text and with variations: other lengths, other order.
            numbers: Further arguments that the page may change, by name: the value, and other values.
            model: The model whose modules give the paths of events, see `rf.record`.

        Raises:
            TypeError: If it calls an op that a page does not support.
            ValueError: If the computation depends on the text other than through its letters and their number.
        """
        numbers = numbers or {}
        first = {name: value for name, (value, *_) in numbers.items()}
        texts = [PageCall(each, first) for each in _like(text)]
        texts += [
            PageCall(texts[0].text, {**first, name: other})
            for name, (_, *others) in numbers.items()
            for other in others
        ]
        constants: dict[Any, Any] = {}

        def recorded(call: PageCall, **options: Any) -> tuple[Notes, Any]:
            with stop_gradient_scope():
                return noted(lambda: fn(call.text, **call.numbers), constants=constants, model=model, **options)

        with stop_gradient_scope():
            records = [recorded(each) for each in texts]
            calls = [_Encoded(*record) for record in records]
            if len(set(counts := [len(each.spec["blocks"]) for each in calls])) > 1:
                by = "word" if any(map(str.isspace, text)) else "letter"
                if not rolled(records, [len(each._replace(by=by).units) for each in texts]):
                    where: list[list[str]] = [[], []]
                    for pick, places in zip((max, min), where):
                        recorded(texts[counts.index(pick(counts))], places=places)
                    raise _other_steps(
                        counts, texts, [place for place in where[0] if where[0].count(place) != where[1].count(place)]
                    )
                calls = [_Encoded(*record) for record in records]
        try:
            made = _program(calls, texts)
        except ValueError as error:
            if not any(map(str.isspace, text)):
                raise
            texts = [each._replace(by="word") for each in texts]
            try:
                made = _program(calls, texts)
            except ValueError as of_words:
                raise (of_words if "the dim" in str(error) else error) from None
        ids = {id(value) for _, value in constants.values()}
        made = replace(made, shared=[value for value in made.tensors if id(value) in ids])
        for number, block in enumerate(made.spec["blocks"]):
            value = block.get("given", {}).get("value")
            if (
                isinstance(value, dict)
                and "letters" in value
                and block["as"][0]["sparse"] is None
                and texts[0].by == "letter"
            ):
                _further_letters(value, number, recorded, texts[0])
        if any(block.get("loop") == FOUND for block in made.spec["blocks"]):
            made.spec["longest"] = max(len(each.units) for each in texts)
        else:
            made.spec.update(_lengths(made.spec, calls, texts, recorded))
        return made


def _lengths(
    spec: JsonObject, calls: Sequence[_Encoded], texts: Sequence[PageCall], recorded: Callable[..., Any]
) -> JsonObject:
    """The lengths for which the computation is known to be the same, found by further calls: two letters, and many different ones.

    One letter is not tried: with an axis of size 1, torch makes other calls for the same values.

    Raises:
        ValueError: If it is another one for other letters.
    """
    own = texts[0].units
    read = [each["given"]["value"] for each in spec["blocks"] if each.get("op") == "convert_to_tensor"]
    known = [{*value["letters"]} for value in read if isinstance(value, dict) and "letters" in value]
    more = sorted(set().union(*known) - {*own}, key=lambda each: (not each.islower(), each))[:_MORE_LETTERS]

    def refused(units: Sequence[str]) -> Exception | None:
        call = texts[0]._replace(text=(" " * (texts[0].by == "word")).join(units))
        try:
            _together([_decided(each.spec) for each in (*calls, _Encoded(*recorded(call)))], [*texts, call], "")
        except Exception as error:
            return error
        return None

    def same(length: int) -> bool:
        return not refused((own * length)[:length])

    longest = len(own) + _MORE_LETTERS
    error = refused((more + own * longest)[:longest])
    most = None if error is None else next(filter(same, range(longest, 0, -1)))
    if most == longest and "A page cannot run" in str(error):
        raise error  # type: ignore[misc]
    least = next(filter(same, range(2, longest)))
    most = most if most != longest else None
    return {"longest": longest, "limit": {"least": least * (least > 2), "most": most, "but": []}}


def _decided(spec: Mapping[str, Any]) -> list[Any]:
    """The decisions of Python in a call: the ops that it calls, with their numbers and arrays."""
    ops = [op for block in spec["blocks"] for op in block.get("ops", [block])]
    plain = (int, float, np.ndarray)
    return [[op["op"], {name: each for name, each in op["given"].items() if isinstance(each, plain)}] for op in ops]


def _program(calls: Sequence[_Encoded], texts: Sequence[PageCall]) -> PageProgram:
    """Separate the parts shared by all calls from those that depend on the text.

    Raises:
        ValueError: If the dependence is unknown.
    """
    if not calls[0].spec["result"] and not calls[0].spec["blocks"]:
        raise value_error(
            "A page cannot run this: it calls no ops of rfnb.",
            {"called with": texts[0]},
            "A page repeats the ops that the function calls.",
        )
    made = _together([each.spec for each in calls], texts, "")
    by = texts[0].by
    for block in made["blocks"]:
        _whole_alphabet(block, made["dims"], by)
    # A constant that differs between calls was computed from the text by unrecorded code.
    for constant, *tensors in zip(made["constants"], *(each.tensors for each in calls), strict=True):
        if any(each is not tensors[0] for each in tensors):
            value = _array([each.numpy() for each in tensors], texts, "an array that was not made by an op")
            if "values" not in value:
                constant["value"] = value
    first = calls[0]
    spec = {"format": _FORMAT, "unit": by, **made}
    return PageProgram(spec, first.tensors, first.weights_seen, results=first.results, turns=first.turns)


class PageCall(NamedTuple):
    """The arguments of one call; the text is read by letters or by words."""

    text: str
    numbers: Mapping[str, float]
    by: str = "letter"

    @property
    def units(self) -> list[str]:
        return units_of(self.text, self.by)

    def __str__(self) -> str:
        return ", ".join([repr(self.text), *(f"{name}={value}" for name, value in self.numbers.items())])


def units_of(text: str, by: str) -> list[str]:
    """The letters or words of a text."""
    return text.split() if by == "word" else list(text)


def _like(text: str) -> list[str]:
    """The text, unless it is very short, and variations of its letters or words: comparing the calls shows what depends on the text."""
    units, join = (text.split(), " ") if len(text.split()) > 1 else (list(text), "")
    while 0 < len(units) < 3:
        units += units
    turned = units[::-1] if units[::-1] != units else units[1:] + units[:1]
    return list(dict.fromkeys(map(join.join, (units, turned, units + units[:1], units + units[:3], units[:-1]))))


class _Each(NamedTuple):
    """A dim that is new in each step of a loop: of a state before or after the step, or made by the step."""

    loop: int
    when: str
    which: str


class _Encoded:
    """The record of one call as plain data, with arrays where the text may be."""

    def __init__(self, notes: Notes, result: Any):
        self._dims: dict[Dim | _Each, int] = {}
        self._same: dict[Dim, _Each] = {}  # the placeholder for a dim in the step being encoded
        self._alike: dict[_Each, list[Dim]] = {}
        self.tensors: list[Tensor] = []
        self._numbers: dict[int, int] = {}
        self._notes = notes
        self.results = [leaf for leaf in values_in(result) if isinstance(leaf, Tensor)]
        refs = [notes.ref(leaf) for leaf in self.results]  # which may be another op: the same array with other dims
        self._loops: list[LoopNote] = []
        self._open = {block.axis for block in notes.blocks if isinstance(block, LoopNote) and not block.given}
        for block in notes.blocks:  # as many labels as were found
            if isinstance(block, OpNote) and block.name in DECIDES:
                self._open |= {dim for dims, _, _ in block.kinds for dim in dims if dim.is_dynamic()}
        self._made: dict[Dim, bool] = {}  # whether the page finds its size in the first array that has it
        for block in notes.blocks:
            for of_value, _, _ in block.kinds:
                for dim in of_value:
                    self._made.setdefault(dim, isinstance(block, OpNote) and block.name not in BY_SIZE)
        self.weights_seen = {
            at: block.weights.numpy()
            for at, block in enumerate(notes.blocks)
            if isinstance(block, OpNote) and block.weights is not None
        }
        blocks = [self._block(block) for block in notes.blocks]
        self.turns = {
            (number, path): np.stack([each.numpy().ravel() for each in turns])
            for number, loop in enumerate(self._loops) for path, turns in loop.turns.items()
        }  # fmt: skip
        found = [self._value(ref) for ref in refs]
        named = {str(self._dims[dim]): [*ref] for dim, ref in notes.tokens.items() if dim in self._dims}
        constants = [self._constant(number) for number in self._numbers]
        dims = [self._dim(dim) for dim in self._dims]
        self.spec = {"dims": dims, "constants": constants, "blocks": blocks, "result": found, "named": named}

    def _block(self, block: OpNote | LoopNote) -> JsonObject:
        return self._op(block) if isinstance(block, OpNote) else self._loop(block)

    def _op(self, op: OpNote) -> JsonObject:
        made = {"op": op.name, "given": {name: self._value(value) for name, value in op.given.items()}}
        kinds = [self._kind(kind) for kind in op.kinds]
        return {**made, "results": list(op.results), "as": kinds, "offers": [list(each) for each in op.offers]}

    def _kind(self, kind: tuple[tuple[Dim, ...], Dim | None, bool]) -> JsonObject:
        dims, sparse, whole = kind
        return {
            "dims": [self._at(dim) for dim in dims], "sparse": None if sparse is None else self._at(sparse), "whole": whole
        }  # fmt: skip

    def _loop(self, loop: LoopNote) -> JsonObject:
        noted = loop.steps[:-1] if len(loop.steps) > 1 and loop.stop and not loop.steps[-1].ops else loop.steps
        grows = {
            path: dim for path, dim in loop.steps[0].dims.items() if loop.steps[0].next_dims.get(path, dim) is not dim
        }
        grows = {path: dim for dim, path in {dim: path for path, dim in reversed(grows.items())}.items()}  # one per dim
        initial = {path: self._value(ref) for path, ref in loop.initial.items()}
        number, before = len(self._loops), dict(self._same)
        self._loops.append(loop)
        begin = {path: self._at(dim) for path, dim in grows.items()}
        seen = [self._dims_in(step) for step in noted]
        # A recorded loop says once where values go, and computes once what is the same in each step: its first step has it all.
        is_recorded = len(noted) > 1 and not any(step.next or step.outputs for step in noted[1:])
        steps = []
        for step, own in zip(noted, seen, strict=True):
            others = {dim for each in seen if each is not own for dim in each}
            own = [dim for dim in own if not is_beam(dim)]
            self._same = {dim: each for dim, each in before.items() if dim not in step.dims.values()}
            for dims, when in ((step.dims, "before"), (step.next_dims, "after")):
                for path in grows:
                    self._is(dims.get(path), _Each(number, when, path))
            if len(noted) > 1 and not (is_recorded and step is noted[0]):
                made = [dim for dim in own if dim not in others and dim not in self._dims and dim not in self._same]
                for at, dim in enumerate(made):
                    self._is(dim, _Each(number, "made", str(at)))
            steps.append(self._step(step))
        renamed = [
            [begin[path], *(self._number(_Each(number, when, path)) for when in ("before", "after"))] for path in grows
        ]
        self._same = before
        for path in grows:
            self._is(noted[-1].next_dims.get(path), _Each(number, "before", path))
        usual = steps[1:] or steps
        first, then = ([op["op"] for op in step["ops"]] for step in (steps[0], usual[0]))
        _same(usual, loop, len(steps) - len(usual) + 1)
        rest = iter(first)
        is_like = (
            all(name in rest for name in then)
            if is_recorded
            else first == then and '["earlier"' not in _text_of(usual[0])
        )
        if not is_like:
            raise value_error(
                f'A page cannot run loop "{loop.name}": its first step differs.',
                {"first step": ", ".join(first)[:60], "step 2": ", ".join(then)[:60]}
                | ({"of an earlier step": "a value that step 2 reads"} if first == then else {}),
                "A page repeats one step: values that change are in a state, constant ones are computed before the loop.",
            )
        most = loop.most
        return {
            "loop": loop.name,
            "axis": self._at(loop.axis),
            "over": loop.given,
            "most": None if most is None else int(most.numpy().max()) if isinstance(most, Tensor) else int(most),
            "path": loop.steps[0].path,
            "stop": loop.stop,
            "initial": initial,
            "grows": renamed,
            **(steps if is_recorded else usual)[0],
            "as": [self._kind(kind) for kind in loop.kinds],
        }

    def _is(self, dim: Dim | None, each: _Each) -> None:
        if dim is not None and dim not in self._same:
            self._same[dim] = each
            self._alike.setdefault(each, []).append(dim)

    def _dims_in(self, step: StepNote) -> list[Dim]:
        """The dims in arguments and results of a step's ops, in order."""
        found = [*step.dims.values(), *step.next_dims.values()]
        for op in step.ops:
            found += [each for given in op.given.values() for each in values_in(given) if isinstance(each, Dim)]
            found += [dim for dims, sparse, _ in op.kinds for dim in (*dims, sparse) if dim is not None]
        return list(dict.fromkeys(found))

    def _step(self, step: StepNote) -> JsonObject:
        return {
            "ops": [self._op(op) for op in step.ops],
            "next": {path: self._value(ref) for path, ref in step.next.items()},
            "outputs": [{"value": self._value(ref), "last": last, "state": state} for ref, last, state in step.outputs],
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
            value = value.item()
        return {"number": _written(value)} if isinstance(value, float) and not math.isfinite(value) else value

    def _at(self, dim: Dim) -> int | str:
        if is_beam(dim):
            return "beam"
        if dim is single_step_dim:
            return "single"
        return self._number(self._same.get(dim, dim))

    def _number(self, dim: Dim | _Each) -> int:
        return self._dims.setdefault(dim, len(self._dims))

    def _dim(self, key: Dim | _Each) -> JsonObject:
        dims = self._alike[key] if isinstance(key, _Each) else [key]
        dim, sizes = dims[0], {each.extent for each in dims} if isinstance(key, _Each) else ()
        limits = [self._notes.limits[each] for each in dims if each in self._notes.limits]
        limit: JsonObject = (
            {"limit": limits[-1]} if limits else {}
        )  # of a later step, as later steps are what is repeated
        limit["made"] = not isinstance(key, _Each) and self._made.get(key, False)
        if len(sizes) > 1 or (isinstance(key, _Each) and key.when != "made"):
            return {"name": dim.name or "", "kind": dim.kind, "size": None, "vocab": None, **limit}
        vocab = None if dim.vocab is None else list(dim.vocab)
        return {
            "name": dim.name or "",
            "kind": Axis(dim.name, 1, dim).kind,
            "size": dim.extent if dim.is_dim_known() and dim not in self._open else None,
            "vocab": vocab,
            **limit,
        }

    def _constant(self, number: int) -> JsonObject:
        value = self._notes.constants[number]
        self.tensors.append(value)
        return self._kind(kind_of_value(value))


def _same(steps: Sequence[Any], loop: LoopNote, first: int) -> None:
    """Refuse steps that differ; `first` is the index of the first step."""
    for number, step in enumerate(steps, first):
        if _text_of(step) != _text_of(steps[0]):
            raise value_error(
                f'A page cannot run loop "{loop.name}": its steps are not the same.',
                [(f"step {at}", f"{len(each['ops'])} ops") for at, each in ((first, steps[0]), (number, step))],
                "A page repeats one step. Decisions in the loop have to be ops, not Python.",
            )


def _text_of(step: Any) -> str:
    return json.dumps(step, default=np.ndarray.tolist)


def _together(found: Sequence[Any], texts: Sequence[PageCall], where: str) -> Any:
    """Combine the records of all calls, and express each dependence on the text."""
    first = found[0]
    if isinstance(first, np.ndarray):
        return _array(found, texts, where)
    if isinstance(first, dict):
        if any(not isinstance(each, dict) or list(each) != list(first) for each in found):
            raise _differs(where, [str(each)[:40] for each in found], texts)
        if where.startswith(".dims."):  # lengths may be part of its name
            where = f'the dim "{first["name"]}"'
            sizes, made = [each["size"] for each in found], all(each["made"] for each in found)
            found = [{what: each[what] for what in each if what not in ("name", "size", "made")} for each in found]
            own = {"name": first["name"], "size": None}
            try:
                own["size"] = _together(sizes, texts, f"{where}.size")
            except ValueError:
                if not made:
                    raise
            return {
                **own,
                **{what: _together([each[what] for each in found], texts, f"{where}.{what}") for what in found[0]},
            }
        at = first.get("op", where)
        return {name: _together([each[name] for each in found], texts, f"{at}.{name}") for name in first}
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


def _other_steps(counts: Sequence[int], texts: Sequence[PageCall], where: Sequence[str]) -> ValueError:
    """`where`: the places that make more ops for the longer text."""
    lines = list(dict.fromkeys(where))
    return value_error(
        "A page cannot run this: the number of ops depends on the text or a number.",
        [*((str(given)[:30], f"{count} ops") for given, count in zip(texts, counts, strict=True)),
         *([("more often in", ", ".join(lines[:3]) + " ..." * (len(lines) > 3))] if lines else [])],
        "A page repeats one computation: `torch.where` chooses by values. A Python loop over the text\n"
        "has the same ops in each turn, and reads only the turn before. Write other loops as one call over the axis, or as rf.Loop:",
        "for _ in (loop := rf.Loop(axis=time)): ...",
    )  # fmt: skip


def _affine(found: Sequence[int], texts: Sequence[PageCall], where: str) -> JsonObject:
    """The number as a * length + b."""
    lengths = [len(each.units) for each in texts]
    other = next((at for at, length in enumerate(lengths) if length != lengths[0]), None)
    if other is not None:
        slope, rest = divmod(found[other] - found[0], lengths[other] - lengths[0])
        begin = found[0] - slope * lengths[0]
        if not rest and all(slope * length + begin == each for length, each in zip(lengths, found, strict=True)):
            return {"times": slope, "plus": begin}
    raise _differs(where, list(found), texts)


def _array(found: Sequence[np.ndarray], texts: Sequence[PageCall], where: str) -> JsonObject:
    """An array made in the call: a constant, or the labels of the text's letters."""
    first = found[0]
    if all(each.shape == first.shape and np.array_equal(each, first) for each in found):
        return {
            "values": [_written(each) for each in first.ravel().tolist()],
            "shape": list(first.shape),
            "dtype": str(first.dtype),
        }
    for read in (_labels, _counts, _sizes) if np.issubdtype(first.dtype, np.integer) else (_counts, _sizes):
        value = read(found, texts, where)
        if value is not None:
            return {**value, "dtype": str(first.dtype)}
    raise _differs(where, [_shown(each) for each in found], texts)


def _labels(found: Sequence[np.ndarray], texts: Sequence[PageCall], where: str) -> JsonObject | None:
    """The labels of the units, surrounded by constant ones; several units may have the same label."""
    flat = [each.ravel().tolist() for each in found]
    further = {len(each) - len(call.units) for each, call in zip(flat, texts)}
    for begin in range(further.pop() + 1 if len(further) == 1 else 0):
        labels: dict[str, int] = {}
        rests = [(each[:begin], each[begin + len(call.units) :]) for each, call in zip(flat, texts)]
        pairs = [pair for each, call in zip(flat, texts) for pair in zip(call.units, each[begin:])]
        if all(rest == rests[0] for rest in rests) and all(labels.setdefault(*pair) == pair[1] for pair in pairs):
            return {"letters": labels, "before": rests[0][0], "after": rests[0][1]}
    return None


def _counts(found: Sequence[np.ndarray], texts: Sequence[PageCall], where: str) -> JsonObject | None:
    """0, 1, 2, ... from some offset on."""
    begin = found[0].ravel()[:1].tolist()
    if begin and all(np.array_equal(each.ravel(), np.arange(each.size) + begin[0]) for each in found):
        return {"from": begin[0]}
    return None


def _sizes(found: Sequence[np.ndarray], texts: Sequence[PageCall], where: str) -> JsonObject | None:
    """A fixed number of sizes, each growing with the text."""
    if any(each.shape != found[0].shape or not np.array_equal(each, np.round(each)) for each in found):
        return None
    columns = zip(*(each.ravel().astype(int).tolist() for each in found), strict=True)
    sizes = [_together(column, texts, where) for column in columns]
    return {"sizes": sizes, "shape": list(found[0].shape)}


def _written(number: Any) -> Any:
    """A number, or what JavaScript calls one that JSON does not have."""
    if not isinstance(number, float) or math.isfinite(number):
        return number
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def _shown(array: np.ndarray) -> str:
    return str(array.ravel().tolist())[:40] if array.dtype.kind in "iu" else f"{array.dtype} {array.shape}"


def _whole_alphabet(block: Any, dims: Sequence[Any], by: str) -> None:
    """Extend labels to all letters or words of the vocabulary, if those of the text are labelled according to it."""
    value = block.get("given", {}).get("value")
    if isinstance(value, dict) and "letters" in value:
        vocab = dims[block["as"][0]["sparse"]]["vocab"] if block["as"][0]["sparse"] is not None else None
        if vocab is not None and all(
            vocab[label] == letter or letter not in vocab for letter, label in value["letters"].items()
        ):
            whole = {letter: label for label, letter in enumerate(vocab) if units_of(letter, by) == [letter]}
            value["letters"] = whole | value["letters"]


_MORE_LETTERS = 32  # by how much a trial is longer than the text
# What a letter may be, where no vocabulary says it: ASCII, Latin-1, Greek, Cyrillic.
_LETTERS = [*map(chr, (*range(0x20, 0x7F), *range(0xA1, 0x100), *range(0x391, 0x3CA), *range(0x410, 0x450)))]


def _further_letters(value: JsonObject, number: int, recorded: Callable[..., Any], call: PageCall) -> None:
    """Find the labels of letters that are not in the text.

    Args:
        value: The labels that are known; further ones are added.
        number: The block that reads the text. The function is called for each letter in place of the last one, as far as this block.
    """
    known, units = value["letters"], call.units
    begin = [*value["before"], *(known[unit] for unit in units[:-1])]
    for letter in _LETTERS:
        if letter in known:
            continue
        with suppress(Exception):  # the function does not know it
            notes, _ = recorded(call._replace(text="".join([*units[:-1], letter])), until=number)
            labels = np.asarray(notes.blocks[number].given["value"]).ravel().tolist()
            if labels[: len(begin)] == begin and labels[len(begin) + 1 :] == value["after"]:
                known[letter] = labels[len(begin)]


def _differs(where: str, found: Sequence[Any], texts: Sequence[PageCall]) -> ValueError:
    rows = [(str(given)[:30], str(each)) for given, each in zip(texts, found, strict=False)]
    by = "the text or a number" if texts[0].numbers else "the text"
    return value_error(
        f"A page cannot run this: {where.strip('.').replace('.given', '')} depends on {by} in an unknown way.",
        rows,
        "A page supports the labels of letters or words, numbers that grow linearly with the length of the text, and numbers of\n"
        "fields as they are: ops compute with them (`logits * k`), and Python does not decide by them.",
    )
