"""Attention detected by its computation: a softmax whose result is multiplied with values and summed over its axis.

    weights = softmax(scores, axis); output = sum over axis of weights * values in any form (`softmaxes.py`)

Not every weighted sum is attention. The values must be computed from the data and have their own feature axis, and the
axis of the softmax must be one of positions: those of a model input, of stacked states, or of the inputs of the scores.
So an expert router is not attention (its values come from different modules), nor is softmax @ embedding (the values
are a parameter), a mixture (its components are outputs of a Linear), or a random draw (gumbel). A softmax that is not
attention by these rules is reported, with the reason and the line to type to include it.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Sequence
from types import FunctionType, MethodType
from typing import Any, NamedTuple

import torch
from torch import nn

from rfnb.core.block import Undone
from rfnb.core.dim import Dim
from rfnb.interop.seen import written_attention
from rfnb.interop.seen.annotations import is_of_library
from rfnb.interop.seen.attention import next_step, probe_weights, unchanged
from rfnb.interop.seen.axis_flow import AxisNode, Origin, bare, folded, origin, product, reaches, uses_of
from rfnb.interop.seen.axis_reads import dim_of_origin
from rfnb.interop.seen.calls import SEARCH, Call, tensors_of
from rfnb.interop.seen.function_calls import pause, resume
from rfnb.interop.seen.readers import unseen
from rfnb.interop.seen.sides import heads_in, heads_of, sides, weights_dims
from rfnb.interop.seen.snapshot import attached
from rfnb.interop.seen.softmaxes import SoftmaxSearch, WrittenSoftmax, variables_of
from rfnb.interop.seen.value_edits import LEARNED, as_learned
from rfnb.interop.watch.example import untouched
from rfnb.trace.editing import editing
from rfnb.trace.probe import heard_as, listening, offers_here, probe, trace_context

_ALONE, _HEADS = "softmaxes", "heads of modules"
_POSITIONS = ("input", "other")
_HEAD: Any = Origin("feature", None, 0)  # type: ignore[arg-type]


# -- calls ------------------------------------------------------------------------------------------------------------------------
def is_looked_into(module: nn.Module) -> bool:
    """Whether the code of a module may contain attention that is not seen otherwise: a user's own class."""
    kind: Any = type(module)
    return _is_of_others(kind)


@functools.cache
def _is_of_others(kind: type) -> bool:
    # Sharding a module wraps its class in a class of torch, which keeps its forward.
    homes = kind.__module__, getattr(getattr(kind, "forward", None), "__module__", None) or kind.__module__
    is_of_others = not all(map(is_of_library, homes))
    return is_of_others and not hasattr(kind, "bridged")


def prepare(names: Any, modules: Sequence[nn.Module]) -> None:
    """Collect what the search must know about the models of a recording."""
    names.searched = any(map(is_looked_into, modules))
    names.buffers = {id(each) for module in modules for each in module._buffers.values()}


def begin(call: Call) -> None:
    """Handle the start of an outermost call."""
    if call.names.searched and (listening("attention") or listening("states") or editing.get()):
        loops = listening("states")
        call.seen[SEARCH] = SoftmaxSearch(call, call.names.buffers, why_not, _accepted, loops=loops)


def close(call: Call) -> None:
    """End a call, whether it returned or raised; at the end of an outermost one, report the softmaxes that are not attention."""
    search = call.seen.pop(SEARCH, None)
    if search is None:
        return
    left: dict[tuple[str, str], int] = {}
    for each in search.candidates:
        if each.reason is not None:
            key = each.home.path, each.reason or "it is not multiplied with values and summed over its axis"
            left[key] = left.get(key, 0) + 1
    for (path, reason), count in left.items():
        if f"softmax: {path}: {reason}" not in call.names.said:
            call.names.said.add(f"softmax: {path}: {reason}")
            with trace_context.module(path):
                probe("unseen", module=path or "the model", reason=reason, softmaxes=count)
    if search.error is not None:
        unseen(call, search.error)
    search.close()


def nodes_of(call: Call, result: Any) -> list[AxisNode]:
    """The nodes of the results of a call."""
    search: SoftmaxSearch | None = call.root.seen.get(SEARCH)
    return [] if search is None else [search.node(raw) for _, raw in tensors_of(result)]


def are_scores(call: Call, made: Sequence[AxisNode]) -> bool:
    """Whether detected attention, or log probabilities, in an outermost call is computed from one of these."""
    search: SoftmaxSearch | None = call.root.seen.get(SEARCH)
    found = (
        [] if search is None else [*search.scored, *(each.scores for each in search.candidates if each.reason is None)]
    )
    return any([reaches(scores, node) for scores in found for node in made])


def forward_of(call: Call, forward: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Call the forward of a module, observed if it is a user's own. Modules of torch.nn keep their fast paths."""
    search: SoftmaxSearch | None = call.root.seen.get(SEARCH) if call.names.searched else None
    if search is None or not is_looked_into(call.module):
        return forward(*args, **kwargs)
    resume(search)
    try:
        return forward(*args, **kwargs)
    finally:
        pause()


class Looking(Undone):
    """The with-block of an outermost call: it stops the observation on exit, wherever an interrupt came."""

    def begin(self) -> None:
        pass

    def undo(self) -> None:
        while pause() is not None:
            pass


# -- edits ------------------------------------------------------------------------------------------------------------------------
class Learned(NamedTuple):
    """The mapping from the result of a softmax to weights with named axes.

    Attributes:
        order: The axes of the softmax in the order of the weights.
        sizes: The sizes of the weights.
        axes: The possible names of each axis.
        name: The variable that holds them, if a module has several attentions; else "".
    """

    order: list[int]
    sizes: list[int]
    axes: list[frozenset[str]]
    name: str

    def changed(self, raw: torch.Tensor, change: Callable[[torch.Tensor, Any], torch.Tensor]) -> torch.Tensor:
        """The result with `change` applied to the weights."""
        ordered = raw.permute(self.order)
        back = sorted(range(raw.ndim), key=self.order.__getitem__)
        return change(ordered.reshape(self.sizes), self.axes).reshape(ordered.shape).permute(back)


def learn(call: Call, forward: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> None:
    """Find out which softmaxes of a call are attention before it runs, since this is known only from their later use. The
    call is run once in advance, without side effects.
    """
    search: SoftmaxSearch | None = call.root.seen.get(SEARCH)
    if search is None or not is_looked_into(call.module):
        return
    count, seen, outer = len(search.candidates), dict(call.seen), None if call.outer is None else dict(call.outer.seen)
    loops, change, search.loops, search.change = search.loops, search.change, None, None
    attributes = [(each, dict(vars(each))) for each in call.module.modules()]
    token = editing.set(())
    try:
        with heard_as(lambda *_: ()), untouched(call.module, evaluating=False):
            forward(*_fresh(args), **_fresh(kwargs))
        learned = _all_learned(search.candidates[count:])
    finally:
        editing.reset(token)
        search.loops, search.change = loops, change
        del search.candidates[count:]
        for each, own in attributes:
            vars(each).clear()
            vars(each).update(own)
        for of, before in ((call, seen), (call.outer, outer)):
            if of is not None and before is not None:
                of.seen.clear()
                of.seen.update(before)
    if learned:
        call.root.seen[LEARNED] = call.root.seen.get(LEARNED, {}) | learned
        search.change = lambda candidate, raw: as_learned(candidate.home, raw, 1)


def _all_learned(candidates: list[WrittenSoftmax]) -> dict[str, list[Learned | None]]:
    """The mappings for the softmaxes of each path, in its first call; not for a path that is attention by its name alone."""
    homes: dict[str, Call] = {}
    for each in candidates:
        homes.setdefault(each.home.path, each.home)
    found: dict[str, list[Learned | None]] = {}
    for path, home in homes.items():
        own = [each for each in candidates if each.home is home]
        _read_once_more(own)
        lines = list(dict.fromkeys([each.line for each in own if each.reason is None]))
        if lines or not any([written_attention.is_by_name(home, each) for each in own]):
            names = dict(zip(lines, variables_of(lines) if len(lines) > 1 else [""]))
            found[path] = [_learned(home, each, names[each.line]) if each.reason is None else None for each in own]
    return found


def _learned(call: Call, candidate: WrittenSoftmax, name: str) -> Learned:
    order, targets = _order(candidate)
    dims, sizes = _dims(call, candidate, order, targets)
    axes = [frozenset({dim.name, "batch"} if dim.kind == "batch" else {dim.name}) for dim in dims]
    axes[-1] |= {"source"}
    for place in range(len(axes) - 1 - targets, len(axes) - 1):
        axes[place] |= {"target"}
    return Learned(order, sizes, axes, name)


def _fresh(value: Any, depth: int = 4) -> Any:
    """Copies of argument containers with the same tensors, so that a growing cache does not grow twice."""
    if not depth or isinstance(value, (torch.Tensor, nn.Module, str, int, float)) or value is None:
        return value
    if type(value) in (list, tuple):
        return type(value)([_fresh(each, depth - 1) for each in value])
    if type(value) is dict:
        return {key: _fresh(each, depth - 1) for key, each in value.items()}
    if isinstance(getattr(value, "__dict__", None), dict) and not isinstance(value, (type, FunctionType, MethodType)):
        made = copy.copy(value)
        vars(made).update({name: _fresh(each, depth - 1) for name, each in vars(made).items()})
        return made
    return value


def end(call: Call, result: Any) -> None:
    """Handle the end of a call: send the attention found in it."""
    search: SoftmaxSearch | None = call.root.seen.get(SEARCH) if call.names.searched else None
    if search is None:
        return
    if search.loops is not None:
        search.loops.end(call)
    if not is_looked_into(call.module) and not isinstance(call.module, _CONTAINERS):  # its parts report themselves
        outer = call.outer
        if outer is None or is_looked_into(outer.module) or isinstance(outer.module, _CONTAINERS):
            search.module_call(call, result)
    alone, siblings = call.seen.pop(_ALONE, ()), call.seen.pop(_HEADS, None)
    for group in (siblings or {}).values():
        _offer_siblings(group)
    _read_once_more(alone)
    found = [each for each in alone if each.reason is None]
    for each in alone:
        each.told = True  # from here on it is sent at its use
        if each.reason is not None and (written_attention.is_by_name(call, each) or call.names.taken(call.path)):
            each.reason = None
            with trace_context.module(call.path):
                written_attention.offer(call, each)
    if len(found) == 1 and call.outer is not None and call.path.rpartition(".")[2].isdigit():
        call.outer.seen.setdefault(_HEADS, {}).setdefault(call.path.rpartition(".")[0], []).append(found[0])
        offers_here.count += 1
    elif found:
        _offer_all(call, found)


_CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)


def _accepted(candidate: WrittenSoftmax) -> None:
    if candidate.told:  # its call has ended, so the module returned its weights
        _offer(candidate.home, candidate)


# -- the rules --------------------------------------------------------------------------------------------------------------------
def why_not(candidate: WrittenSoftmax, values: AxisNode, axis: int, own: bool) -> str | None:
    """The reason why weights summed with values are not attention; None if they are."""
    if candidate.home.names.taken(candidate.home.path):
        return None
    if candidate.drawn:
        return "it is a random draw by F.gumbel_softmax"
    if not own:
        return "its operand has no feature axis: a weighted mean of scalars"
    table = bare(values)
    candidate.is_table = table.op in ("param", "buffer")
    if candidate.is_table:
        return f"its operand is a {'parameter' if table.op == 'param' else 'buffer'}, not values of positions"
    there = origin(values, axis)
    if there.node.op == "unfold" and not _is_of_pairs(candidate.scores):
        return "its axis is a window without queries and keys: a convolution kernel"
    if there.kind == "made":
        return "its operand is a constant"
    if there.kind in _POSITIONS or there.kind == "one":
        return None
    same = there[1:] == origin(candidate.scores, candidate.axis)[1:]
    if there.kind == "stack":
        parts = there.node.inputs
        if same or not _are_of_different_modules(parts):
            return None
        return f"it mixes the results of {len(parts)} modules for the same input"
    if same and (there.kind == "param" or _is_of_pairs(candidate.scores)):
        return None
    return "the entries on its axis are features, not positions"


def _read_once_more(candidates: Sequence[WrittenSoftmax]) -> None:
    """A line that reads a parameter or buffer first, and in later turns its updated value, reads a memory: all turns count."""
    lines = {each.line for each in candidates if each.reason is None}
    for each in candidates:
        if each.is_table and each.line in lines:
            each.reason = None


def _are_of_different_modules(parts: Sequence[AxisNode]) -> bool:
    made = [_maker(each) for each in parts]
    return len(parts) > 1 and None not in made and len(set(made)) == len(made)


def _maker(node: AxisNode) -> int | None:
    """The id of the last parameter or module involved in a tensor."""
    for _ in range(60):
        if node.op == "module" and next(node.kwargs["module"].parameters(), None) is not None:
            return id(node.kwargs["module"])
        parameter = next((each for each in node.inputs if bare(each).op == "param"), None)
        if parameter is not None:
            return id(bare(parameter))
        if not node.inputs:
            return None
        node = node.inputs[0]
    return None


def _is_of_pairs(scores: AxisNode) -> bool:
    """Whether scores are products of two computed values, a query and a key."""
    todo = [scores]
    for _ in range(40):
        if not todo:
            return False
        node = todo.pop()
        if product(node) is not None:
            return not any(bare(each).op == "param" for each in node.inputs)
        if node.op != "module":
            todo += node.inputs[::-1]
    return False


# -- events -----------------------------------------------------------------------------------------------------------------------
def _offer_all(call: Call, found: list[WrittenSoftmax]) -> None:
    """Send the attention found in the code of one module: by line, each of which may have run several times."""
    lines: dict[Any, list[WrittenSoftmax]] = {}
    for each in found:
        lines.setdefault(each.line, []).append(each)
    names = variables_of(list(lines)) if len(lines) > 1 else [""]
    for name, group in zip(names, lines.values()):
        if len(group) > 1 and not attached.get() and _are_heads(group):
            _offer_grid(call, group, call.path, name)
            continue
        for step, each in enumerate(group):
            _offer(call, each, name, step=step if len(group) > 1 else None)


def _are_heads(group: Sequence[WrittenSoftmax]) -> bool:
    """Whether maps are parallel heads: equal shapes, and none depends on the output of another."""
    first, second = group[:2]
    before, now = uses_of(first.scores), uses_of(second.scores)
    # If a state passed through the same weights again, these are its steps.
    if any([now[weight] > count for weight, count in before.items()]):
        return False
    if any((each.shape, each.axis, each.shared) != (first.shape, first.axis, first.shared) for each in group):
        return False
    return first.used is not None and not reaches(second.scores, first.used) and not _are_parts_of_targets(group)


def _are_parts_of_targets(group: Sequence[WrittenSoftmax]) -> bool:
    """Whether the targets of several maps together cover one axis of a model input: queries in chunks."""
    first = group[0]
    ends = [origin(first.scores, axis) for axis in set(range(len(first.shape))) - {*first.shared, first.axis}]
    whole = [end.node.shape[end.axis] for end in ends if end.kind == "input"]
    return any(sum(each.shape[axis] for each in group) in whole for axis in range(len(first.shape) - 1))


def _offer_siblings(group: list[WrittenSoftmax]) -> None:
    """Send maps from the modules of one list; heads as one map."""
    paths = {each.home.path for each in group}
    # The stacked map is not a tensor that the model uses.
    if 1 < len(group) == len(paths) and not attached.get() and _are_heads(group):
        outer = group[0].home.outer
        assert outer is not None
        _offer_grid(outer, group, group[0].home.path.rpartition(".")[0], "")
        return
    for each in group:
        _offer(each.home, each)


def _offer_grid(call: Call, group: Sequence[WrittenSoftmax], path: str, name: str) -> None:
    """Send parallel maps as heads of one."""
    first = group[0]
    order, targets = _order(first)
    dims, sizes = _dims(first.home, first, order, targets)
    at = 1 if dims[0].kind == "batch" else 0
    dims.insert(at, heads_of(call.module, len(group)))
    kept = [each.kept for each in group]

    def made() -> torch.Tensor:
        return torch.stack([_arranged(unchanged(each), order, sizes) for each in kept], at)

    with trace_context.module(path):
        probe_weights(made, dims, sum(each.num_bytes for each in kept), targets=targets, name=name)


def _offer(call: Call, candidate: WrittenSoftmax, name: str = "", *, step: int | None = None) -> None:
    """Send the weights of one softmax, at the path of its module."""
    order, targets = _order(candidate)
    dims, sizes = _dims(call, candidate, order, targets)
    kept, swapped = candidate.kept, len(dims) == 4 and dims[1].kind == "batch" and not attached.get()
    if swapped:  # heads before the batch
        dims[:2] = dims[1::-1]
    if targets and dims[-2].extent == 1 and len(dims) <= 3:
        dims, sizes, targets = [*dims[:-2], dims[-1]], [*sizes[:-2], sizes[-1]], 0
    if step is None and not targets:  # one row per call of the module: its steps
        step = next_step(call)

    def made() -> torch.Tensor:
        weights = _arranged(unchanged(kept), order, sizes)
        return weights.transpose(0, 1) if swapped else weights

    with trace_context.module(call.path):
        probe_weights(made, dims, kept.num_bytes, targets=targets, name=name, step=step)


def _arranged(raw: torch.Tensor, order: Sequence[int], sizes: Sequence[int]) -> torch.Tensor:
    """A tensor with its axes in this order and these sizes; the tensor itself if they are already."""
    raw = raw if list(order) == list(range(raw.ndim)) else raw.permute(list(order))
    return raw if list(raw.shape) == list(sizes) else raw.reshape(sizes)


def _order(candidate: WrittenSoftmax) -> tuple[list[int], int]:
    """The axes of the weights: those shared with the values first, then the targets, then the source; and the number of targets."""
    rest = [axis for axis in range(len(candidate.shape)) if axis != candidate.axis]
    targets = [axis for axis in rest if axis not in candidate.shared]
    if len(targets) > 1:  # axes of size 1 carry no information
        targets = [axis for axis in targets if candidate.shape[axis] > 1] or targets[-1:]
        if len(targets) > 1:  # heads that are mixed before they meet the values
            targets = [axis for axis in targets if origin(candidate.scores, axis).kind != "feature"] or targets
    front = [axis for axis in rest if axis not in targets]
    if len(front) > 1 and origin(candidate.scores, front[0]).kind != "input":  # the batch is before the heads
        front.sort(key=lambda axis: origin(candidate.scores, axis).kind != "input")
    return [*front, *targets, candidate.axis], len(targets)


def _dims(call: Call, candidate: WrittenSoftmax, order: Sequence[int], targets: int) -> tuple[list[Dim], list[int]]:
    """The dims of the weights in this order, and the resulting shape of their array."""
    dims, sizes = _told_dims(call, candidate, order, targets)
    for place in range(-1 - targets, 0):  # an unnamed axis that comes from a parameter is not time
        if dims[place].guessed and origin(candidate.scores, order[place]).kind == "param":
            dims[place].name = "latent"
            call.names.unsettle()
        dims[place] = call.names.worded(dims[place], candidate.word_of(order[place]), call)
    return dims, sizes


def _told_dims(
    call: Call, candidate: WrittenSoftmax, order: Sequence[int], targets: int
) -> tuple[list[Dim], list[int]]:
    """The dims derived from the origins of axes, else from sizes."""
    shape = [candidate.shape[axis] for axis in order]
    count = len(shape) - 1 - targets
    known = count == 2 and heads_in(call.module) == shape[1]  # then the origin of the heads need not be traced
    ends = [_HEAD if known and place == 1 else origin(candidate.scores, axis) for place, axis in enumerate(order)]
    told = [dim_of_origin(call, each, size) for each, size in zip(ends, shape)]
    for place in range(-1 - targets, 0):  # a guess that sizes refine: of nodes, or of leading time
        if (guess := told[place]) is not None and guess.kind == "batch":
            told[place] = None
    is_self = (
        targets == 1
        and ends[-1][1:] == ends[-2][1:]
        and shape[-1] == shape[-2]
        and ends[-1].kind not in ("one", "made")
    )
    front = told[: -1 - targets]
    heads = [axis for axis, dim in enumerate(front) if dim is None and ends[axis].kind == "feature"]
    of_heads = _heads_in_batch(call, candidate.scores, order[0]) if len(front) == targets == 1 else None
    if (
        of_heads is None
        and targets < 2
        and len(heads) < 2
        and all(dim is not None or axis in heads for axis, dim in enumerate(told))
    ):
        dims = [dim if dim is not None else heads_of(call.module, size) for dim, size in zip(told, shape)]
        if is_self:
            dims[-1] = _twin(call, dims[-2])
        if len(set(map(id, dims))) == len(dims) and (not front or front[0] is None or front[0].kind == "batch"):
            return dims, shape
    dims, sizes = _dims_by_sizes(call, shape, targets, of_heads)
    if sizes == shape and front and front[0] is not None and front[0].kind == "batch":
        dims[0] = front[0]
    source = told[-1]
    if is_self:
        target = told[-2] or dims[-2]
        dims[-2:] = [target, _twin(call, target)]
        return dims, sizes
    if targets and told[-2] is not None and told[-2].kind != "batch":
        dims[-2] = told[-2]
    if source is not None and source not in dims[:-1]:
        dims[-1] = source
    elif targets and dims[-1].twin_of is not None and ends[-1].kind == ends[-2].kind == "input":
        dims[-1] = Dim(shape[-1], name="source")
    return dims, sizes


def _heads_in_batch(call: Call, scores: AxisNode, axis: int) -> tuple[int, bool] | None:
    """Separate heads from the batch like `folded`; also for a batch of one sequence, which leaves no trace in the axis."""
    first = origin(scores, axis)
    if first.kind in ("feature", "stack") and any(dim.kind == "batch" and dim.extent == 1 for dim in call.dims):
        return scores.shape[axis], False
    return folded(scores, axis)


def _dims_by_sizes(
    call: Call, shape: list[int], targets: int, heads: tuple[int, bool] | None
) -> tuple[list[Dim], list[int]]:
    if heads is not None:
        count, in_front = heads
        dims, sizes = weights_dims(call, [shape[0] // count, count, *shape[1:]])
        return ([dims[1], dims[0], *dims[2:]], [sizes[1], sizes[0], *sizes[2:]]) if in_front else (dims, sizes)
    if targets:
        return weights_dims(call, shape)
    if len(shape) > 2:
        dims, sizes = weights_dims(call, [*shape[:-1], 1, shape[-1]])
        return [*dims[:-2], dims[-1]], [*sizes[:-2], sizes[-1]]
    batch, _, source = sides(call, shape[0] if len(shape) == 2 else None, 1, shape[-1])
    return [each for each in (batch, source) if each is not None], shape


def _twin(call: Call, target: Dim) -> Dim:
    """The dim of the sources of a self-attention, shared throughout a call."""
    twins = call.root.seen.setdefault("twins", {})
    if target not in twins:
        twins[target] = target.copy(match_priority=target.match_priority - 1)
    twin: Dim = twins[target]
    return twin
