"""Softmaxes in users' modules, in any form, and the use of their results.

    F.softmax(s, -1), s.softmax(-1), nn.Softmax(-1)(s), s.exp() / s.exp().sum(-1, keepdim=True), s.log_softmax(-1).exp(), ...

A function mode observes each torch call in the code of these modules, and nothing else: it is off inside modules of
torch.nn and of transformers, so these keep their fast paths. It changes no call. The result of a softmax is followed
through dropout, masks, casts and views until it is multiplied with values and summed over its axis:
`found_attention.py` decides whether that is attention.
"""

from __future__ import annotations

import linecache
import re
import sys
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import nn

from rfnb.interop.seen.axis_flow import PART, REDUCTIONS, AxisNode, product, reduced, word_of
from rfnb.interop.seen.calls import Call, current, is_parameter, tensors_of
from rfnb.interop.seen.function_calls import Looks, is_unheard
from rfnb.interop.seen.snapshot import ValueSnapshot
from rfnb.interop.seen.written_loops import THROUGH, LoopSearch

_ALIASES = {
    "truediv": "div", "true_divide": "div", "divide": "div", "itruediv": "div", "idiv": "div", "multiply": "mul", "rmul": "mul",
    "imul": "mul", "radd": "add", "iadd": "add", "isub": "sub", "subtract": "sub", "concat": "cat", "concatenate": "cat",
    "swapaxes": "transpose", "swapdims": "transpose", "moveaxis": "movedim", "special_softmax": "softmax",
    "special_log_softmax": "log_softmax", "clip": "clamp", "special_logsumexp": "logsumexp",
}  # fmt: skip
_NO_TENSORS = {
    "shape", "size", "dim", "ndim", "ndimension", "dtype", "device", "numel", "nelement", "item", "tolist", "stride", "len", "bool",
    "int", "float_", "repr", "is_floating_point", "is_contiguous", "is_cuda", "requires_grad", "layout", "data_ptr", "backward",
    "hash", "is_nested", "is_sparse", "grad", "grad_fn", "storage_offset", "untyped_storage", "element_size", "is_leaf", "_version",
}  # fmt: skip
_ENDS = {
    "log", "topk", "sort", "argsort", "argmax", "argmin", "multinomial", "gather", "one_hot", "gt", "ge", "lt", "le", "eq", "ne",
    "nonzero", "bool", "long", "int", "kthvalue", "bernoulli",
}  # fmt: skip
_ARITHMETIC = {"mul", "div", "add", "sub", "masked_fill", "where", "nan_to_num", "clamp"}
_SOFTMAX_MODULES = {nn.Softmax: "softmax", nn.Softmin: "softmax", nn.LogSoftmax: "log_softmax"}
_NOTHING: dict[str, Any] = {}
_names: dict[Any, tuple[str, bool] | None] = {}


def _operation(func: Any) -> tuple[str, bool] | None:
    """The name of a torch function, the same for all its forms, and whether it writes into its input; None for irrelevant ones."""
    name = getattr(func, "__name__", "")
    if name == "__get__":
        name = getattr(func.__self__, "__name__", "")
    word = name.strip("_")
    in_place = (name.endswith("_") and not name.startswith("__")) or name in ("__setitem__", "__iadd__", "__imul__",
                                                                                "__itruediv__", "__idiv__", "__isub__")  # fmt: skip
    known = _names[func] = None if word in _NO_TENSORS or not word else (_ALIASES.get(word, word), in_place)
    return known


class WrittenSoftmax:
    """One softmax.

    Attributes:
        home: The call in which it was made; inside a module of torch.nn, the enclosing call.
        scores: The node of the softmax's input.
        axis: The axis of the softmax.
        kept: Its result, or that after masking and dividing, but before dropout.
        line: The location in the user's code.
        reason: Why it is not attention; None if it is, "" if nothing was summed with it yet.
        shared: The axes that it shares with the values; others are targets.
        used: The node of the sum.
        words: The names of some axes of the weights in the user's code.
        told: Whether its call, at whose end it is sent, has ended.
        drawn: Whether it is a random draw.
        is_table: Whether it was summed with a parameter.
    """

    __slots__ = (
        "home",
        "scores",
        "axis",
        "kept",
        "line",
        "reason",
        "shared",
        "used",
        "told",
        "drawn",
        "is_table",
        "words",
    )

    def __init__(self, home: Call, scores: AxisNode, axis: int, raw: torch.Tensor, *, drawn: bool = False):
        self.home, self.scores, self.axis = home, scores, axis
        self.kept, self.line, self.drawn = ValueSnapshot(raw), _lines(), drawn
        self.reason: str | None = ""
        self.shared: frozenset[int] = frozenset()
        self.used: AxisNode | None = None
        self.words: dict[int, str] = {}
        self.told = self.is_table = False

    def word_of(self, axis: int) -> str | None:
        """The name of an axis in the user's code, of the weights or their inputs, or None."""
        return self.words.get(axis) or word_of(self.scores, axis)

    @property
    def shape(self) -> torch.Size:
        """The shape of the weights."""
        return self.kept.raw.shape


class Use(NamedTuple):
    """An elementwise product of weights and values that may be summed.

    Attributes:
        values: The node of the values.
        axis: The axis of the values that is the softmax's.
        shared: The axes of the weights that the values also have.
    """

    values: AxisNode
    axis: int
    shared: frozenset[int]


class Weights(NamedTuple):
    """A tensor computed from the result of a softmax.

    Attributes:
        candidate: The softmax.
        axis: The position of the softmax's axis.
        lanes: For each axis, the axes of the softmax in it.
        use: Set if it was multiplied with values.
    """

    candidate: WrittenSoftmax
    axis: int
    lanes: tuple[frozenset[int], ...]
    use: Use | None = None


Judge = Callable[[WrittenSoftmax, AxisNode, int, bool], "str | None"]


class SoftmaxSearch(Looks):
    """Observes the torch calls in one outermost call of a model.

    Args:
        judge: Returns why weights summed with values are not attention, None if they are; called with the softmax, the
            values, their axis, and whether they have an axis of their own.
        accept: Called with each softmax that is attention.
        loops: Whether to search for recurrences, too.

    Attributes:
        candidates: The softmaxes.
        scored: Inputs of logarithms of a softmax.
        change: Returns a replacement for the result of a softmax; None without edits.
        loops: The search for recurrences.
        error: The last error in the observation.
    """

    def __init__(
        self,
        root: Call,
        buffers: set[int],
        judge: Judge,
        accept: Callable[[WrittenSoftmax], None],
        *,
        loops: bool = False,
    ):
        super().__init__()
        self.loops = LoopSearch(self.node) if loops else None
        self._judge, self._accept, self._buffers = judge, accept, buffers
        self._nodes: dict[int, AxisNode] = {}
        self.candidates: list[WrittenSoftmax] = []
        self.scored: list[AxisNode] = []
        self.change: Callable[[WrittenSoftmax, torch.Tensor], torch.Tensor] | None = None
        self._begun: tuple[WrittenSoftmax, AxisNode] | None = None
        self.error: Exception | None = None
        for _, raw in root.tensors():
            self._nodes[id(raw)] = AxisNode("input", (raw,), _NOTHING, (), raw.shape, weakref.ref(raw))

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **kwargs) if kwargs else func(*args)
        operation = _names[func] if func in _names else _operation(func)
        if operation is not None and not is_unheard():
            try:
                self._note(*operation, args, kwargs, result)
                if self.loops is not None:
                    self.loops.look(sys._getframe(1), current())
            except Exception as error:  # must not end the run
                self.error = error
            if self._begun is not None:
                begun, self._begun = self._begun, None
                if self.change is not None:
                    return self._changed(*begun, result)
        return result

    def _changed(self, candidate: WrittenSoftmax, node: AxisNode, raw: torch.Tensor) -> torch.Tensor:
        """The result of a softmax with its edits applied."""
        assert self.change is not None
        new = self.change(candidate, raw)
        if new is not raw:
            node.ref = weakref.ref(new)
            self._nodes[id(new)], candidate.kept = node, ValueSnapshot(new)
        return new

    def module_call(self, call: Call, result: Any) -> None:
        """Handle the call of a module that is not searched."""
        op = _SOFTMAX_MODULES.get(type(call.module), "module")
        inputs = tuple([self.node(raw) for _, raw in call.tensors()])
        args, kwargs = (inputs, {"module": call.module}) if op == "module" else (inputs[:1], {"dim": call.module.dim})
        for _, raw in [("", result)] if isinstance(result, torch.Tensor) else tensors_of(result):
            if not inputs or inputs[0].ref() is not raw:
                self._made(op, args, kwargs, inputs, raw)
        self._begun = None  # results of torch.nn are edited where they are made

    def close(self) -> None:
        """End the search, and release objects that only the garbage collector would."""
        self._nodes.clear()
        if self.loops is not None:
            self.loops.close()
            self.loops = None
        for each in self.candidates:
            each.home.seen.pop("softmaxes", None)
            del each.home, each.scores, each.used
        self.candidates.clear()
        self.scored.clear()

    # -- the graph -------------------------------------------------------------------------------------------------------------
    def node(self, raw: torch.Tensor) -> AxisNode:
        """The node of a tensor."""
        node = self._nodes.get(id(raw))
        if node is None or node.ref() is not raw:
            op = "param" if is_parameter(raw) else "buffer" if id(raw) in self._buffers else "other"
            node = self._nodes[id(raw)] = AxisNode(op, (), _NOTHING, (), raw.shape, weakref.ref(raw))
        return node

    def _inside(self, values: Any, inputs: list[AxisNode]) -> tuple[Any, ...]:
        made: list[Any] = []
        for value in values:
            if isinstance(value, torch.Tensor):
                node = self._nodes.get(id(value))
                if node is None or node.ref() is not value:
                    node = self.node(value)
                inputs.append(node)
                made.append(node)
            else:
                made.append(self._inside(value, inputs) if value.__class__ in (list, tuple) else value)
        return tuple(made)

    def _note(self, op: str, in_place: bool, args: Any, kwargs: dict[str, Any] | None, result: Any) -> None:
        if isinstance(result, torch.Tensor):
            made: Sequence[Any] = (result,)
        elif op == "setitem":
            made = args[:1]
        elif isinstance(result, (tuple, list)):
            made = [each for each in result if isinstance(each, torch.Tensor)]
        else:
            return
        inputs: list[AxisNode] = []
        inner = self._inside(args, inputs)
        named = dict(zip(kwargs, self._inside(kwargs.values(), inputs))) if kwargs else _NOTHING
        nodes = tuple(inputs)
        if inner == nodes:
            inner = nodes
        for place, raw in enumerate(made):
            if in_place or not args or raw is not args[0]:
                self._made(op, inner, named if len(made) == 1 else {**named, PART: place}, nodes, raw)

    def _made(self, op: str, args: Any, kwargs: Any, inputs: tuple[AxisNode, ...], raw: torch.Tensor) -> None:
        node = self._nodes[id(raw)] = AxisNode(op, args, kwargs, inputs, raw.shape, weakref.ref(raw))
        if op == "log_softmax" and inputs:
            self.scored.append(inputs[0])
        begins = _SOFTMAX.get(op)
        scores = begins(node) if begins is not None and inputs and raw.ndim else None
        if scores is not None and raw.shape == scores[0].shape:  # also scores that contain earlier weights
            self._begin(node, raw, *scores, drawn=op == "gumbel_softmax")
            return
        for each in inputs:
            if each.weights is not None:
                return self._follow(node, each, raw)

    # -- softmaxes -------------------------------------------------------------------------------------------------------------
    def _begin(self, node: AxisNode, raw: torch.Tensor, scores: AxisNode, axis: int, *, drawn: bool) -> None:
        call = current()
        if call is None or call.seen.get("multi_head"):
            return
        home = call.outer if type(call.module) in _SOFTMAX_MODULES and call.outer is not None else call
        candidate = WrittenSoftmax(home, scores, axis % raw.ndim, raw, drawn=drawn)
        self.candidates.append(candidate)
        home.seen.setdefault("softmaxes", []).append(candidate)
        self._begun = candidate, node
        node.weights = Weights(candidate, axis % raw.ndim, tuple(frozenset([each]) for each in range(raw.ndim)))

    def _follow(self, node: AxisNode, parent: AxisNode, raw: torch.Tensor) -> None:
        of: Weights = parent.weights
        if node.op in _ENDS:
            return
        if node.op == "setitem" and node.inputs[0] is parent:  # entries that the model changes
            node.weights = of
            of.candidate.kept = ValueSnapshot(raw) if of.candidate.reason is not None else of.candidate.kept
            return
        found = product(node)
        if found is not None:
            labels = next(labels for each, labels in found[0] if each is parent)
            if labels[of.axis] not in found[1]:
                return self._summed_product(node, parent, labels, *found)
        elif node.op in REDUCTIONS:
            if of.axis in reduced(node):
                if of.use is not None and node.op in ("sum", "mean", "nansum"):
                    self._used(node, of, of.use.values, of.use.axis, of.use.shared, own=True)
                return
        again = _of_quotient_again(node, parent)
        if again is not None and of.candidate.reason is not None and node.shape == of.candidate.shape:
            of.candidate.axis, of.candidate.kept = again, ValueSnapshot(raw)
            node.weights = of._replace(axis=again)
            return
        use, others = of.use, [each for each in node.inputs if each is not parent]
        if node.op == "mul" and others and use is None:
            use = _multiplied(node, parent, others[0])
        lanes: list[frozenset[int]] = []
        for sources in node.axes():
            lanes.append(frozenset().union(*(of.lanes[axis] for each, axis in sources if each is parent)))
        own = frozenset([of.candidate.axis])
        here = [axis for axis, lane in enumerate(lanes) if lane == own and node.shape[axis] == parent.shape[of.axis]]
        if not here:
            return
        node.weights = Weights(of.candidate, here[0], tuple(lanes), use)
        if (
            use is None
            and node.op in _ARITHMETIC
            and node.shape == of.candidate.shape
            and of.candidate.reason is not None
        ):
            of.candidate.kept = ValueSnapshot(raw)

    def _summed_product(self, node: AxisNode, parent: AxisNode, labels: Any, operands: Any, out: Any) -> None:
        of: Weights = parent.weights
        label = labels[of.axis]
        values = next(((each, other) for each, other in operands if each is not parent and label in other), None)
        if values is None:
            return
        theirs = dict(zip(values[1], values[0].shape))
        both = [of.lanes[axis] for axis, own in enumerate(labels) if own in out and theirs.get(own, 1) > 1]
        own = any(each not in labels and each in out for each in values[1])
        self._used(node, of, values[0], values[1].index(label), frozenset().union(*both), own=own)

    def _used(
        self, node: AxisNode, of: Weights, values: AxisNode, axis: int, shared: frozenset[int], *, own: bool
    ) -> None:
        candidate = of.candidate
        if candidate.reason is None:
            return
        candidate.shared, candidate.used = shared, node
        candidate.reason = self._judge(candidate, values, axis, own)
        if candidate.reason is None:
            self._accept(candidate)


def _multiplied(node: AxisNode, parent: AxisNode, values: AxisNode) -> Use | None:
    """The product with values, if they have an axis that the weights lack."""
    of: Weights = parent.weights
    count = len(node.shape)

    def size(each: AxisNode, axis: int) -> int:
        place = axis - (count - len(each.shape))
        return each.shape[place] if place >= 0 else 1

    new = [
        axis for axis, lane in enumerate(of.lanes, count - len(parent.shape)) if not lane
    ]  # including an expanded one
    own = [axis for axis in range(count) if size(values, axis) > 1 and (axis in new or size(parent, axis) == 1)]
    axis = of.axis + len(values.shape) - len(parent.shape)
    if not own or axis < 0 or values.shape[axis] != parent.shape[of.axis]:
        return None
    more = count - len(parent.shape)
    shared = (lane for place, lane in enumerate(of.lanes) if size(values, place + more) > 1)
    return Use(values, axis, frozenset().union(*shared) - {of.candidate.axis})


# -- the forms of a softmax ---------------------------------------------------------------------------------------------------------
def _dim(node: AxisNode) -> int:
    dim = node.given(1, "dim", node.kwargs.get("axis"))
    return dim if isinstance(dim, int) else 0 if len(node.shape) in (0, 1, 3) else 1


def _of_softmax(node: AxisNode) -> tuple[AxisNode, int]:
    return node.inputs[0], _dim(node)


def _of_exp(node: AxisNode) -> tuple[AxisNode, int] | None:
    """exp(log_softmax(s)), exp(s - logsumexp(s))."""
    inner = node.inputs[0]
    if inner.op == "log_softmax":
        return inner.inputs[0], _dim(inner)
    if inner.op == "sub" and len(inner.inputs) == 2:
        scores, norm = inner.inputs[0], _norm(inner.inputs[1], "logsumexp")
        if norm is not None and norm.inputs[0] is scores and len(reduced(norm)) == 1:
            return scores, next(iter(reduced(norm)))
    return None


def _of_quotient(node: AxisNode) -> tuple[AxisNode, int] | None:
    """e / e.sum(), where e is a result of exp."""
    if len(node.inputs) != 2:
        return None
    top, norm = node.inputs[0], _norm(node.inputs[1], "sum")
    scores = _exponent(top)
    if norm is None or scores is None or not _alike(norm.inputs[0], top) or len(reduced(norm)) != 1:
        return None
    return scores, next(iter(reduced(norm)))


def _of_quotient_again(node: AxisNode, weights: AxisNode) -> int | None:
    """The axis over which weights are divided by their sum again: for slots that compete for inputs."""
    if node.op != "div" or len(node.inputs) != 2 or node.inputs[0] is not weights or weights.weights.use is not None:
        return None
    norm = _norm(node.inputs[1], "sum")
    axes = reduced(norm) if norm is not None and norm.inputs[0] is weights else frozenset()
    return next(iter(axes)) if len(axes) == 1 else None


def _alike(one: AxisNode, other: AxisNode, depth: int = 6) -> bool:
    """Whether two nodes are the same, or equal calls on equal inputs."""
    if one is other:
        return True
    if (
        not depth
        or not one.inputs
        or (one.op, one.shape, one.kwargs) != (other.op, other.shape, other.kwargs)
        or one.op == "dropout"
    ):
        return False
    plain, theirs = ([each for each in node.args if not isinstance(each, AxisNode)] for node in (one, other))
    same = plain == theirs and len(one.inputs) == len(other.inputs)
    return same and all([_alike(*pair, depth - 1) for pair in zip(one.inputs, other.inputs)])


def _of_normalize(node: AxisNode) -> tuple[AxisNode, int] | None:
    """F.normalize(e, p=1), where e is a result of exp."""
    scores = _exponent(node.inputs[0])
    return (scores, int(node.given(2, "dim", 1))) if scores is not None and node.given(1, "p", 2.0) == 1 else None


def _norm(node: AxisNode, op: str) -> AxisNode | None:
    """The sum in a divisor, allowing a small added constant or an additional axis."""
    for _ in range(4):
        if node.op == op:
            return node
        if node.op not in (
            "add",
            "clamp",
            "clamp_min",
            "maximum",
            "unsqueeze",
            "expand",
            "expand_as",
            "view",
            "reshape",
            "getitem",
        ):
            return None
        node = node.inputs[0]
    return None


def _exponent(node: AxisNode, depth: int = 4) -> AxisNode | None:
    if node.op == "exp":
        return node.inputs[0] if node.inputs[0].shape == node.shape else node
    if depth and node.op in ("mul", "masked_fill", "where", "dropout", "nan_to_num", "clamp", "to", "float"):
        return next((found for each in node.inputs if (found := _exponent(each, depth - 1)) is not None), None)
    return None


_SOFTMAX: dict[str, Callable[[AxisNode], tuple[AxisNode, int] | None]] = {
    "softmax": _of_softmax, "softmin": _of_softmax, "gumbel_softmax": lambda node: (node.inputs[0], node.given(4, "dim", -1)),
    "exp": _of_exp, "div": _of_quotient, "normalize": _of_normalize,
}  # fmt: skip


# -- locations in the code ----------------------------------------------------------------------------------------------------------
_OURS = __file__.rpartition("interop")[0]
_OWN = (torch.__path__[0], _OURS)


def _lines() -> tuple[tuple[str, int, int], ...]:
    """The calls in the user's code that lead to the running function, innermost first, up to the forward of the module:
    file, line, instruction.
    """
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_OWN):
        frame = frame.f_back
    found: list[tuple[str, int, int]] = []
    while frame is not None and len(found) < 20:
        if frame.f_code.co_filename.startswith(_OURS) and frame.f_code.co_name != THROUGH:
            break
        if not frame.f_code.co_filename.startswith(_OWN):
            found.append((frame.f_code.co_filename, frame.f_lineno, frame.f_lasti))
        frame = frame.f_back
    return tuple(found)


def variables_of(lines: Sequence[tuple[tuple[str, int, int], ...]]) -> list[str]:
    """A name for each of several locations: the variable that gets the result there, or in the caller; else its index."""
    for depth in range(min(map(len, lines))):
        found = [
            re.match(r"\s*(?:self\.)?([A-Za-z_]\w*)\s*=[^=]", linecache.getline(*line[depth][:2])) for line in lines
        ]
        names = [each[1] for each in found if each]
        if len(set(names)) == len(lines):
            return names
    return [f"softmax_{number + 1}" for number in range(len(lines))]
