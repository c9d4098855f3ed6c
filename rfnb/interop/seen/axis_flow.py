"""The origins of axes: the graph of torch calls in a forward pass, with the axes of their inputs.

    origin(node, axis)      # ("input", the node of an input, 1): the positions of a model input

A node is one result. It holds no tensors except model inputs, and is released at the end of the outermost call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from torch import nn

from rfnb.interop.seen.calls import argument

PART = "part of the result"
Sources = list[list[tuple["AxisNode", int]]]  # for each axis the input axes that it is made of; empty if it is new


class AxisNode:
    """One tensor of a forward pass.

    Attributes:
        op: Its creator: the name of a torch function, "module", or "input", "param", "buffer", "other".
        args, kwargs: Arguments of the call, with nodes in place of tensors; the index among several results, as PART.
        inputs: The nodes among them.
        weights: Its role among the followed attention weights, or None.
        origins: The known origins of its axes.
        ref: A reference to the tensor.
        words: The names of its axes in the user's code, for this tensor; None for an unnamed axis.
    """

    __slots__ = ("op", "args", "kwargs", "inputs", "shape", "weights", "origins", "ref", "words", "_axes")

    def __init__(
        self,
        op: str,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        inputs: Sequence[AxisNode],
        shape: Sequence[int],
        ref: Callable[[], Any],
    ):
        self.op, self.args, self.kwargs, self.inputs, self.shape, self.ref = op, args, kwargs, inputs, shape, ref
        self.weights: Any = None
        self.words: Sequence[str | None] = ()
        self.origins: dict[int, Origin] = _NONE
        self._axes: Sources | None = None

    def given(self, place: int, name: str, default: Any = None) -> Any:
        """An argument of the call, by position or name."""
        return argument(self.args, self.kwargs, place, name, default)

    def axes(self) -> Sources:
        """The sources of its axes."""
        if self._axes is None:
            rule = _RULES.get(self.op)
            try:
                found = rule(self) if rule is not None else None
            except Exception:  # arguments in an unknown form
                found = None
            self._axes = found if found is not None and len(found) == len(self.shape) else _by_place(self)
        return self._axes


class Origin(NamedTuple):
    """The origin of an axis.

    Attributes:
        kind: "input": a model input; "other": a tensor from elsewhere; "stack": several tensors combined; "param": a
            parameter or buffer; "feature": the output of a product with a parameter; "one": size 1; "made": a constant.
    """

    kind: str
    node: AxisNode
    axis: int


_MOST_HOPS = 200
_NONE: Any = {}  # few nodes are queried
_ITSELF: Any = None
_RANKS = {kind: rank for rank, kind in enumerate(("input", "other", "stack", "param", "feature", "one", "made"))}


def word_of(node: AxisNode, axis: int) -> str | None:
    """The last name that the user's code gave an axis on its way here, or None."""
    for _ in range(_MOST_HOPS):
        if axis < len(node.words) and node.words[axis] is not None:
            return node.words[axis]
        if not node.inputs or not (sources := node.axes()[axis]):
            return None
        node, axis = sources[0]
    return None


def origin(node: AxisNode, axis: int) -> Origin:
    """The origin of an axis. For an axis composed of several, an axis of positions from a model input takes precedence."""
    known = _noted(node, axis) or _straight(node, axis)
    return known if known is not None else _searched(node, axis)


def _straight(node: AxisNode, axis: int) -> Origin | None:
    """The origin if the first source of each step leads to a model input."""
    at, place, passed = node, axis, [(node, axis)]
    for hop in range(1, 10_000):
        if at.op == "input":
            break
        known = _noted(at, place) if at.origins is not _NONE else None
        if known is not None:
            if known.kind != "input":
                return None
            at, place = known.node, known.axis
            break
        if not at.inputs:
            return None
        first = at.inputs[0]
        same = (
            first.shape == at.shape if at.op not in _RULES else at.op == "module" and first.shape[:-1] == at.shape[:-1]
        )
        if same and len(first.shape) == len(at.shape) and (at.op != "module" or place < len(at.shape) - 1):
            at = first
        else:
            sources = at.axes()[place]
            if not sources:
                return None
            at, place = sources[0]
        if hop % 8 == 0:
            passed.append((at, place))
    found = Origin("input", at, place)
    for each, own in passed:  # later nodes on the path share the result
        _note(each, own, found)
    return found


def _note(node: AxisNode, axis: int, found: Origin) -> Origin:
    if node.origins is _NONE:
        node.origins = {}
    # An origin at the node itself is stored without the node: a reference cycle would wait for the garbage collector.
    node.origins[axis] = found._replace(node=_ITSELF) if found.node is node else found
    return found


def _noted(node: AxisNode, axis: int) -> Origin | None:
    found = node.origins.get(axis)
    return found._replace(node=node) if found is not None and found.node is _ITSELF else found


def _searched(node: AxisNode, axis: int) -> Origin:
    stack = [(node, axis)]
    while stack:
        at, place = stack[-1]
        if place in at.origins:
            stack.pop()
            continue
        known, pending = [], None
        for source in at.axes()[place]:
            found = _noted(*source)
            if found is None:
                pending = pending or source
                continue
            known.append(found)
            if found.kind == "input":
                pending = None
                break
        if pending is not None:
            stack.append(pending)
            continue
        _note(at, place, _best(at, place, known))
        stack.pop()
    found = _noted(node, axis)
    assert found is not None
    return found


def _best(node: AxisNode, axis: int, known: list[Origin]) -> Origin:
    if not known:
        return Origin(_born(node, axis), node, axis)
    best = known[-1] if known[-1].kind == "input" else min(known, key=lambda each: _RANKS[each.kind])
    if best.kind == "one" and node.op == "cat" and node.shape[axis] > 1:
        return Origin("stack", node, axis)
    if best.kind == "param" and node.op in _PRODUCTS and any(bare(each).op == "param" for each in node.inputs):
        return Origin("feature", best.node, best.axis)
    return best


def _born(node: AxisNode, axis: int) -> str:
    if node.op in ("input", "param", "other"):
        return node.op
    if node.op == "buffer":
        return "param"
    if node.op == "stack":
        return "stack"
    if node.shape[axis] == 1 or node.op in ("expand", "expand_as", "broadcast_to", "unsqueeze", "repeat"):
        return "one"
    if node.op == "module":
        return "feature" if isinstance(node.kwargs["module"], _WEIGHTED) else "other"
    return "other" if node.inputs and node.op not in _CONSTANTS else "made"


_CONSTANTS = frozenset(
    [f"new_{word}" for word in ("zeros", "ones", "full", "tensor", "empty")]
    + [f"{word}_like" for word in ("zeros", "ones", "full", "empty", "rand", "randn", "randint")]
)  # their input only determines a type and a device
_WEIGHTED = (nn.Linear, nn.Embedding, nn.modules.conv._ConvNd, nn.RNNBase, nn.RNNCellBase, nn.Bilinear)
_LOOKS = {
    "transpose", "permute", "movedim", "mT", "T", "mH", "H", "t", "unsqueeze", "squeeze", "view", "reshape", "flatten",
    "unflatten", "expand", "expand_as", "broadcast_to", "contiguous", "clone", "to", "float", "half", "bfloat16", "double",
    "type_as", "detach", "type", "getitem", "select", "narrow", "repeat", "view_as", "reshape_as", "data", "requires_grad",
}  # fmt: skip


def bare(node: AxisNode) -> AxisNode:
    """The node behind views and casts: the same values in another shape or dtype."""
    while node.op in _LOOKS and node.inputs:
        node = node.inputs[0]
    return node


def folded(node: AxisNode, axis: int) -> tuple[int, bool] | None:
    """The number of heads that share an axis with the batch, and whether they come before it: view(batch * heads, ...),
    the same on permuted axes, cat(split(heads), 0); None if there are none.
    """
    for _ in range(200):
        sources = node.axes()[axis]
        if node.op == "cat" and node.given(1, "dim", 0) % len(node.shape) == axis:
            split = {id(each.inputs[0]) for each in node.inputs if each.op in _PARTS}
            return (len(node.inputs), True) if len(split) == 1 < len(node.inputs) else None
        if len(sources) > 1 and node.op in _REGROUPING:
            heads = [origin(*each).kind in ("feature", "stack") for each in sources]
            if len(sources) != 2 or heads[0] == heads[1]:
                return None
            batch, at = sources[heads.index(False)]
            return node.shape[axis] // batch.shape[at], heads[0]
        if not sources:
            return None
        node, axis = sources[0]
    return None


def reaches(node: AxisNode, earlier: AxisNode, most: int = 4000) -> bool:
    """Whether a tensor is computed from another one."""
    todo, seen = [node], {id(node)}
    while todo and len(seen) < most:
        at = todo.pop()
        if at is earlier:
            return True
        for each in at.inputs:
            if id(each) not in seen:
                seen.add(id(each))
                todo.append(each)
    return False


def uses_of(node: AxisNode, most: int = 1000) -> Counter[int]:
    """The weights, and modules with weights, on the path to a tensor, with the number of uses."""
    todo, seen, found = [node], {id(node)}, Counter[int]()
    while todo and len(seen) < most:
        at = todo.pop()
        if at.op == "module" and next(at.kwargs["module"].parameters(), None) is not None:
            found[id(at.kwargs["module"])] += 1
        for each in at.inputs:
            if each.op == "param":
                found[id(each)] += 1
            elif id(each) not in seen:
                seen.add(id(each))
                todo.append(each)
    return found


# -- products ---------------------------------------------------------------------------------------------------------------------
Labels = tuple[list[tuple[AxisNode, list[Any]]], list[Any]]
_PRODUCTS = {
    "matmul",
    "rmatmul",
    "bmm",
    "mm",
    "mv",
    "dot",
    "inner",
    "baddbmm",
    "addmm",
    "addbmm",
    "einsum",
    "tensordot",
    "linear",
}


def product(node: AxisNode) -> Labels | None:
    """The operands of a product with a label for each axis, and the labels of its result; None if it is not a product."""
    if node.op not in _PRODUCTS:
        return None
    try:
        return _einsum(node) if node.op == "einsum" else _tensordot(node) if node.op == "tensordot" else _matmul(node)
    except Exception:
        return None


def _matmul(node: AxisNode) -> Labels:
    if node.op in ("baddbmm", "addmm", "addbmm"):
        left, right = node.inputs[1], node.inputs[2]
    else:
        left, right = node.inputs[0], node.inputs[1]
        if node.op == "rmatmul":
            left, right = right, left
    if node.op == "linear":
        front = [f"b{axis}" for axis in range(len(left.shape) - 1)]
        return [(left, [*front, "k"]), (right, ["j", "k"][2 - len(right.shape) :])], [*front, "j"][: len(node.shape)]
    many = max(len(left.shape), len(right.shape)) - 2
    batch = [f"b{axis}" for axis in range(max(many, 0))]

    def own(each: AxisNode, last: list[str], vector: list[str]) -> list[str]:
        count = len(each.shape)
        return vector if count == 1 else [*batch[len(batch) - (count - 2) :], *last]

    rows, columns = own(left, ["i", "k"], ["k"]), own(right, ["k", "j"], ["k"])
    out = [*batch, *(["i"] if len(left.shape) > 1 else []), *(["j"] if len(right.shape) > 1 else [])]
    return [(left, rows), (right, columns)], out


def _tensordot(node: AxisNode) -> Labels:
    left, right, dims = node.inputs[0], node.inputs[1], node.given(2, "dims", 2)
    if isinstance(dims, int):
        dims = list(range(len(left.shape) - dims, len(left.shape))), list(range(dims))
    rows: list[Any] = [f"i{axis}" for axis in range(len(left.shape))]
    columns: list[Any] = [f"j{axis}" for axis in range(len(right.shape))]
    for number, (one, other) in enumerate(zip(*dims)):
        rows[one] = columns[other] = f"k{number}"
    return [(left, rows), (right, columns)], [label for label in rows + columns if label[0] != "k"]


def _einsum(node: AxisNode) -> Labels:
    equation = node.args[0].replace(" ", "")
    inputs, arrow, out = equation.partition("->")
    terms = inputs.split(",")
    longest = max(
        len(each.shape) - len(term.replace("...", "")) if "..." in term else 0 for term, each in zip(terms, node.inputs)
    )

    def labels(term: str, count: int) -> list[str]:
        before, dots, behind = term.partition("...")
        own = count - len(before) - len(behind)
        return [*before, *([f"dot{axis}" for axis in range(longest - own, longest)] if dots else []), *behind]

    if not arrow:
        letters = inputs.replace(",", "").replace("...", "")
        out = ("..." if "..." in inputs else "") + "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
    operands = [(each, labels(term, len(each.shape))) for term, each in zip(terms, node.inputs)]
    return operands, labels(out, len(node.shape))


def _of_product(node: AxisNode) -> Sources | None:
    found = product(node)
    if found is None:
        return None
    operands, out = found
    return [
        [
            (each, axis)
            for each, labels in operands
            for axis, own in enumerate(labels)
            if own == label and (each.shape[axis] != 1 or size == 1)
        ]
        for label, size in zip(out, node.shape)
    ]


# -- views ------------------------------------------------------------------------------------------------------------------------
def _picked(node: AxisNode, order: Sequence[int | None]) -> Sources:
    (first, *_), count = node.inputs, len(node.inputs[0].shape)
    return [[] if axis is None else [(first, axis % count)] for axis in order]


def _transpose(node: AxisNode) -> Sources:
    order = list(range(len(node.inputs[0].shape)))
    one, other = node.given(1, "dim0", node.kwargs.get("axis0")), node.given(2, "dim1", node.kwargs.get("axis1"))
    order[one], order[other] = order[other], order[one]
    return _picked(node, order)


def _flipped(node: AxisNode) -> Sources:
    order = list(range(len(node.inputs[0].shape)))
    if node.op in ("T", "t", "H"):
        return _picked(node, order[::-1])
    return _picked(node, [*order[:-2], order[-1], order[-2]])


def _numbers(node: AxisNode, name: str) -> list[int]:
    given = node.args[1:] or [node.kwargs.get(name, ())]
    return list(given[0]) if isinstance(given[0], (list, tuple)) else [each for each in given if isinstance(each, int)]


def _movedim(node: AxisNode) -> Sources:
    count = len(node.shape)
    source, to = (
        [axis % count for axis in ([each] if isinstance(each, int) else each)]
        for each in (node.given(1, "source"), node.given(2, "destination"))
    )
    order = [axis for axis in range(count) if axis not in source]
    for at, axis in sorted(zip(to, source)):
        order.insert(at, axis)
    return _picked(node, order)


def _unsqueeze(node: AxisNode) -> Sources:
    order: list[int | None] = list(range(len(node.inputs[0].shape)))
    order.insert(node.given(1, "dim") % len(node.shape), None)
    return _picked(node, order)


def _squeeze(node: AxisNode) -> Sources:
    shape, dims = node.inputs[0].shape, node.given(1, "dim")
    dims = range(len(shape)) if dims is None else [dims] if isinstance(dims, int) else dims
    gone = {axis % len(shape) for axis in dims if shape[axis] == 1}
    return _picked(node, [axis for axis in range(len(shape)) if axis not in gone])


def _expand(node: AxisNode) -> Sources:
    shape, more = node.inputs[0].shape, len(node.shape) - len(node.inputs[0].shape)
    return _picked(
        node,
        [
            None if axis < more or shape[axis - more] == 1 != size else axis - more
            for axis, size in enumerate(node.shape)
        ],
    )


def _regrouped(node: AxisNode) -> Sources:
    """Axes that were split or merged, identified by their sizes."""
    (first, *_), out = node.inputs, node.shape
    sources: Sources = [[] for _ in out]
    one, other, old, new = 0, 0, len(first.shape), len(out)
    while one < old and other < new:
        left, right, own, to = first.shape[one], out[other], [one], [other]
        if left != 1 == right:
            other += 1
            continue
        if left == 1 != right:
            one += 1
            continue
        one, other = one + 1, other + 1
        while left != right:
            if left < right:
                left, own, one = left * first.shape[one], [*own, one], one + 1
            else:
                right, to, other = right * out[other], [*to, other], other + 1
        for axis in to:
            if out[axis] != 1 or len(to) == 1:
                sources[axis] = [(first, each) for each in own if first.shape[each] != 1 or len(own) == 1]
    return sources


def _getitem(node: AxisNode) -> Sources:
    index = node.args[1]
    index = list(index) if isinstance(index, tuple) else [index]
    if any(isinstance(each, (AxisNode, tuple)) for each in index):  # advanced indexing
        if len(index) == 1 and isinstance(index[0], AxisNode):
            (first, at), rows = node.inputs, len(index[0].shape)
            return [[(at, axis)] for axis in range(rows)] + [[(first, axis)] for axis in range(1, len(first.shape))]
        return _by_place(node)
    count = len(node.inputs[0].shape)
    used = sum(each is not None and each is not Ellipsis for each in index)
    order: list[int | None] = []
    axis = 0
    for each in index if Ellipsis in index else [*index, Ellipsis]:
        if each is None:
            order.append(None)
        elif each is Ellipsis:
            order += range(axis, axis + count - used)
            axis += count - used
        else:
            order += [axis] if isinstance(each, slice) else []
            axis += 1
    return _picked(node, order)


def _without(node: AxisNode) -> Sources:
    count = len(node.inputs[0].shape)
    dim = node.given(1, "dim", 0) % count
    return _picked(node, [axis for axis in range(count) if axis != dim])


def reduced(node: AxisNode) -> set[int]:
    """The axes of its input over which a sum or another reduction runs."""
    count, dims = len(node.inputs[0].shape), node.given(1, "dim", node.kwargs.get("axis"))
    if dims is None:
        return set(range(count))
    return {axis % count for axis in ([dims] if isinstance(dims, int) else dims)}


def _reduction(node: AxisNode) -> Sources | None:
    gone, count = reduced(node), len(node.inputs[0].shape)
    if len(node.shape) == count:
        return _picked(node, [None if axis in gone else axis for axis in range(count)])
    return _picked(node, [axis for axis in range(count) if axis not in gone])


def _cat(node: AxisNode) -> Sources:
    return [[(each, axis) for each in node.inputs] for axis in range(len(node.shape))]


def _stack(node: AxisNode) -> Sources:
    new = node.given(1, "dim", 0) % len(node.shape)
    rest = [axis for axis in range(len(node.shape)) if axis != new]
    return [
        [] if axis == new else [(each, rest.index(axis)) for each in node.inputs] for axis in range(len(node.shape))
    ]


def _looked_up(node: AxisNode) -> Sources:
    ids, table = node.inputs[:2]
    return [[(ids, axis)] for axis in range(len(ids.shape))] + [[(table, len(table.shape) - 1)]]


def _module(node: AxisNode) -> Sources | None:
    module, (first, *_) = node.kwargs["module"], node.inputs
    same: Sources = [[(first, axis)] for axis in range(len(first.shape))]
    if isinstance(module, nn.Embedding):
        return [*same, []]
    if isinstance(module, (nn.Linear, nn.RNNBase, nn.RNNCellBase, nn.Bilinear)):
        return [*same[:-1], []]
    if isinstance(module, nn.modules.conv._ConvNd):
        space = len(module.kernel_size)
        return [*same[: -space - 1], [], *same[-space:]]
    if isinstance(module, (nn.Flatten, nn.Unflatten)):
        return _regrouped(node)
    return None


def _by_place(node: AxisNode) -> Sources:
    """Axes of an elementwise function, or else the leading ones with the sizes of an input."""
    sources: Sources = [[] for _ in node.shape]
    count = len(node.shape)
    for each in node.inputs:
        own = len(each.shape)
        if own <= count and all(size in (1, full) for size, full in zip(each.shape[::-1], node.shape[::-1])):
            pairs: Iterator[tuple[int, int]] | list[tuple[int, int]] = zip(range(count - own, count), range(own))
        else:
            equal = [size == full for size, full in zip(each.shape, node.shape)]
            same = own == count
            front = next((axis for axis, fits in enumerate(equal) if not fits), len(equal))
            pairs = [(axis, axis) for axis, fits in enumerate(equal) if fits and (same or axis < front)]
        for axis, place in pairs:
            if node.shape[axis] == each.shape[place] and (node.shape[axis] != 1 or len(node.inputs) == 1):
                sources[axis].append((each, place))
    return sources


_REDUCTIONS = (
    "sum",
    "mean",
    "amax",
    "amin",
    "max",
    "min",
    "prod",
    "std",
    "var",
    "logsumexp",
    "all",
    "any",
    "argmax",
    "nansum",
)
_REGROUPING = ("view", "reshape", "flatten", "unflatten", "view_as", "reshape_as")
_PARTS = ("split", "chunk", "tensor_split", "unbind", "getitem", "narrow")
_RULES: dict[str, Callable[[AxisNode], Sources | None]] = {
    **dict.fromkeys(_PRODUCTS, _of_product), **dict.fromkeys(("T", "t", "H", "mT", "mH", "adjoint"), _flipped),
    **dict.fromkeys(_REDUCTIONS, _reduction), **dict.fromkeys(("select", "unbind"), _without),
    **dict.fromkeys(_REGROUPING, _regrouped),
    **dict.fromkeys(("expand", "expand_as", "broadcast_to"), _expand), "cat": _cat, "stack": _stack, "embedding": _looked_up,
    "transpose": _transpose, "permute": lambda node: _picked(node, _numbers(node, "dims")), "movedim": _movedim,
    "setitem": lambda node: [[] for _ in node.shape], "unsqueeze": _unsqueeze, "squeeze": _squeeze, "getitem": _getitem, "module": _module,
    **dict.fromkeys(_CONSTANTS, lambda node: [[] for _ in node.shape]),
    **dict.fromkeys(("to", "type_as", "chunk", "split", "narrow", "tensor_split", "flip", "roll"),
                    lambda node: _picked(node, range(len(node.shape)))),
}  # fmt: skip
REDUCTIONS = frozenset(_REDUCTIONS)
