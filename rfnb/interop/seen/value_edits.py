"""Edits of values in torch models: inputs and outputs of modules, and the values inside attention.

An edited call runs the unmodified module with replaced tensors. Weights are edited after the softmax that makes them; a
fused kernel, which has no weights, is written out for a call with edited weights. Recordings see the edited values.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch.nn.utils.rnn import PackedSequence

from rfnb.core.block import block
from rfnb.core.dim import Dim
from rfnb.core.errors import dim_error, index_error, runtime_error, shape_error, value_error
from rfnb.core.op import Kwargs
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.interop.edit_tensors import PatchValue, another_shape
from rfnb.interop.seen import weights as of_torch
from rfnb.interop.seen.calls import Call, argument, around
from rfnb.interop.seen.function_calls import changes, looking
from rfnb.interop.seen.gates import parts_of
from rfnb.interop.seen.generate import generating
from rfnb.interop.seen.modules import leave
from rfnb.interop.seen.readers import tell
from rfnb.interop.seen.sides import heads_in, says_attention, weights_dims
from rfnb.interop.seen.snapshot import attached, held
from rfnb.rec.hold import Hold
from rfnb.search.labels import text_index
from rfnb.trace.editing import BESIDE, OF_ATTENTION, OF_STATES, ValueEdit, editing, edits_of
from rfnb.trace.long_attention import is_large
from rfnb.trace.probe import held_back

EDITED = "edited weights"
"""In `Call.seen`: weights {batch, head, target, source} that a kernel would have made otherwise, for its reader."""
LEARNED = "learned softmaxes"
"""In `Call.seen` of an outermost call: by path, for each softmax in order, its mapping to weights with named axes; None if it is not
attention."""
_CALLED = "edited calls"  # key of `Call.seen` of an outermost call: number of calls of each module
_OUTSIDE = (
    "edited outside"  # key of `Call.seen`: queries, keys, values and heads belong to a function around the kernel
)
_AXES = ("batch", "head", "target", "source")
_FAST = (torch.nn.TransformerEncoder, torch.nn.TransformerEncoderLayer, torch.nn.MultiheadAttention)
Axes = Sequence["frozenset[str] | Dim"]


def edited_call(call: Call, forward: Callable[..., Any], args: Any, kwargs: Kwargs) -> Any:
    """The result of a call with its edits applied.

    Raises:
        ValueError, DimError, IndexError, ShapeError: If an edit cannot be applied.
    """
    edits = edits_of(call.module)
    turns = call.root.seen.setdefault(_CALLED, {})
    turns[call.module] = turns.get(call.module, 0) + 1
    for edit in edits:
        edit.calls, edit.turns = edit.calls + 1, turns[call.module]
    edits = [edit for edit in edits if edit.is_now]
    if edits:
        _refuse_checkpoints(call, edits[0])
    for edit in edits:
        if edit.part == "input":
            args, kwargs = _with_input(call, edit, args, kwargs)
    before = {id(edit): edit.done for edit in edits}
    with _without_fast_path(call.module):
        result = forward(*args, **kwargs)
    for edit in edits:
        if (
            edit.part in OF_ATTENTION and edit.done == before[id(edit)] and edit.when is None
        ):  # a run reports it at its end
            raise _not_made(call, edit)
    for edit in edits:
        if edit.part in OF_STATES and edit.done > before[id(edit)]:
            continue
        if edit.part not in (*OF_ATTENTION, "input"):
            result = _with_output(call, edit, result)
    return result


# -- inputs and results --------------------------------------------------------------------------------------------------------
def _with_input(call: Call, edit: ValueEdit, args: Any, kwargs: Kwargs) -> tuple[Any, dict[str, Any]]:
    if not call.tensors():
        raise value_error(
            f'edit: "{edit.text}" has no tensor as input.',
            {"module": f"{edit.path}, a {type(call.module).__name__}"},
            "Its input is the first tensor among its arguments.",
        )
    _, raw = call.tensors()[0]
    dims = call.names.dims_of(raw, call)
    return _given(call, args, kwargs, raw, applied(edit, raw, dims), dims)


def _given(
    call: Call, args: Any, kwargs: Kwargs, raw: torch.Tensor, new: torch.Tensor, dims: Sequence[Dim]
) -> tuple[Any, dict[str, Any]]:
    """The arguments of a call with one tensor replaced."""
    call.names.give(new, dims)
    call._args, call._kwargs = args, kwargs = swapped(args, raw, new), swapped(kwargs, raw, new)
    call._inputs = call._tensors = call._named = None
    return args, kwargs


def held_call(hold: Hold, call: Call, args: Any, kwargs: Kwargs) -> tuple[Any, dict[str, Any]]:
    """The arguments of a call before which a run may pause, with its edits applied."""
    names, given = call.names, dict(call.tensors())
    # Copies: a model may modify the input of a module in place, and a branch compares with the original.
    inputs = lambda: {name: new_tensor(raw.detach().clone(), names.dims_of(raw, call)) for name, raw in given.items()}  # noqa: E731
    with looking():
        held = hold.before_call(call.path, inputs)
    for name, new in held[1].items() if held is not None else ():
        if held is not None and new is not held[0][name]:
            args, kwargs = _given(call, args, kwargs, given[name], new.raw_tensor, new.dims)
    return args, kwargs


def _with_output(call: Call, edit: ValueEdit, result: Any) -> Any:
    """The result with one tensor replaced."""
    with held_back(), looking():  # readers identify the axes
        if not isinstance(
            call.module, torch.nn.RNNBase | torch.nn.RNNCellBase
        ):  # these count the steps reported to them
            tell(call, call.facts.readers, result)
        outputs = leave(call, result)
    named = [each for each in outputs if not edit.part or each[0] == edit.part]
    if not named:
        raise value_error(
            f'edit: "{edit.text}" is not a result of this module.',
            {"module": f"{edit.path or 'the model'}, a {type(call.module).__name__}",
             "returns": ", ".join(name or "a tensor" for name, _, _ in outputs) or "no tensor"},
            BESIDE
            if edit.part in parts_of(call.module)
            else "The path of a module stands for its result; for one of several tensors, add a dot and its name or number.",
        )  # fmt: skip
    _, raw, dims = named[0]
    new = applied(edit, raw, dims)
    call.names.give(new, dims)
    return swapped(result, raw, new)


def swapped(value: Any, old: torch.Tensor, new: torch.Tensor) -> Any:
    """Nested values with one tensor replaced."""
    if value is old:
        return new
    if isinstance(value, PackedSequence):
        return value._replace(data=swapped(value.data, old, new))
    if isinstance(value, Mapping):
        made = {key: swapped(item, old, new) for key, item in value.items()}
        if all(made[key] is value[key] for key in made):
            return value
        out: Any = copy.copy(value)
        for key, item in made.items():
            if item is not value[key]:
                out[key] = item
        return out
    if isinstance(value, (tuple, list)):
        items = [swapped(item, old, new) for item in value]
        if all(item is was for item, was in zip(items, value)):
            return value
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


# -- one tensor ----------------------------------------------------------------------------------------------------------------
def applied(edit: ValueEdit, raw: torch.Tensor, axes: Axes) -> torch.Tensor:
    """A tensor with an edit applied to its entries; `raw` is not modified.

    Args:
        axes: For each axis its Dim, or its possible names.

    Raises:
        DimError, IndexError, ShapeError: If the entries do not exist, or the value does not fit them.
    """
    if raw.is_quantized:
        raise value_error(
            f'edit: "{edit.text}" is quantised.',
            {"value": f"{tuple(raw.shape)} {raw.dtype}"},
            "Its entries are codes. Edit the model before it is quantised:",
            f'with rf.edit(model, {{"{edit.text}": ...}}): model(x)',
        )
    if hasattr(raw, "placements"):
        raise value_error(
            f'edit: "{edit.text}" is sharded.',
            {"value": f"{tuple(raw.shape)}, {raw.placements}"},
            "Its entries are on several devices, and later code needs them there. Edit the enclosing module, whose result is not sharded.",
            f'with rf.edit(model, {{"{edit.path.rpartition(".")[0]}": ...}}): model(x)',
        )
    chosen = _Entries(edit, raw.shape, axes)
    edit.done += 1
    there = chosen.of(raw)
    value = _value(edit, chosen, there, raw, axes)
    if not edit.entries:
        return value.expand(raw.shape).clone() if value.shape != raw.shape else value
    out = raw.clone()
    chosen.put(out, value)
    return out


class _Entries:
    """The entries of an edit, as indices into the axes of an array."""

    def __init__(self, edit: ValueEdit, shape: Sequence[int], axes: Axes):
        self._sizes = list(shape)
        index: list[Any] = [slice(None)] * len(shape)
        for name, at in by_rows(edit, shape, axes).entries.items():
            axis = _axis(edit, name, shape, axes)
            index[axis] = _checked(edit, name, at, int(shape[axis]), axes[axis])
        self.index = tuple(index)
        self._is_meshed = any(isinstance(at, list) for at in index)

    def of(self, raw: Any) -> Any:
        """The entries of an array, without the axes at which one index was chosen."""
        if not self._is_meshed:
            return raw[self.index]
        return raw[self._mesh(raw)].reshape(self._kept_sizes())

    def put(self, raw: torch.Tensor, value: torch.Tensor) -> None:
        """Write values into these entries."""
        if not self._is_meshed:
            raw[self.index] = value
            return
        mesh = self._mesh(raw)
        raw[mesh] = value.expand(self._kept_sizes()).reshape([len(each) for each in self._places()])

    def _places(self) -> list[list[int]]:
        places = [list(range(size)) if isinstance(at, slice) else at for at, size in zip(self.index, self._sizes)]
        places = [each if isinstance(each, list) else [each] for each in places]
        return [each if not isinstance(at, slice) else each[at] for each, at in zip(places, self.index)]

    def _mesh(self, raw: Any) -> Any:
        arrays = np.ix_(*map(np.asarray, self._places()))
        return tuple(torch.as_tensor(each, device=raw.device) for each in arrays)

    def _kept_sizes(self) -> list[int]:
        return [len(each) for each, at in zip(self._places(), self.index) if not isinstance(at, int)]


class _OfRows(dict[str, Any]):
    """Entries whose `batch` is over rows."""


def by_rows(edit: ValueEdit, shape: Sequence[int], axes: Axes) -> ValueEdit:
    """The edit, with entries of prompts and of slots of a beam as rows: `generate` has both in one axis, a recording each in its own."""
    session = generating()
    beams = 0 if session is None or session.is_aside else session.beams
    rows = [axis for axis, own in enumerate(axes) if "batch" in _names_of(own)]
    several = "beam" in edit.entries or (beams > 1 and "batch" in edit.entries)
    if not beams or not several or len(rows) != 1 or shape[rows[0]] % beams or isinstance(edit.entries, _OfRows):
        return edit
    grid = torch.arange(shape[rows[0]], device="cpu").view(-1, beams)
    at = [_checked(edit, name, edit.entries.get(name, slice(None)), size, None)
          for name, size in zip(("batch", "beam"), grid.shape)]  # fmt: skip
    chosen = grid[at[0]][..., at[1]]
    others = {name: own for name, own in edit.entries.items() if name not in ("batch", "beam")}
    return replace(edit, entries=_OfRows(others, batch=chosen.flatten().tolist() if chosen.ndim else int(chosen)))


def _axis(edit: ValueEdit, name: str, shape: Sequence[int], axes: Axes) -> int:
    found = [axis for axis, own in enumerate(axes) if name in _names_of(own)]
    if len(found) != 1:
        raise dim_error(
            f'edit: "{edit.text}" has {"several dims" if found else "no dim"} "{name}".',
            {"value": _described(shape, axes)},
            "Entries are selected by the names of its dims; `dims=` of rf.edit sets them, as in rf.record.",
        )
    return found[0]


def _names_of(own: frozenset[str] | Dim) -> frozenset[str] | set[str]:
    """The possible names of an axis: the last axis of scores is a vocabulary, which a product does not know."""
    if not isinstance(own, Dim):
        return own
    return {own.name, "feature", "vocab"} if own.kind == "feature" else {own.name}


def _described(shape: Sequence[int], axes: Axes) -> str:
    names = [
        own.name if isinstance(own, Dim) else next((each for each in _AXES if each in own), min(own, default="?"))
        for own in axes
    ]
    return f"[{', '.join(f'{name}={size}' for name, size in zip(names, shape))}]"


def _checked(edit: ValueEdit, name: str, at: Any, size: int, own: Any) -> Any:
    if isinstance(at, slice):
        return at
    if isinstance(at, list):
        return [_checked(edit, name, each, size, own) for each in at]
    if isinstance(at, str):
        if isinstance(own, Dim) and own.vocab is not None:
            return int(text_index(at, own, f'edit: "{edit.text}"'))
    elif -size <= at < size:
        return at % size
    raise index_error(
        f'edit: "{edit.text}": index out of range.',
        {"given": f"{name}={at}", "size": size},
        f"Entries are 0 to {size - 1}; -1 is the last one." if size else "It has no entries.",
    )


def _value(edit: ValueEdit, chosen: _Entries, there: torch.Tensor, raw: torch.Tensor, axes: Axes) -> torch.Tensor:
    """The new value for the entries, in a shape that broadcasts against them."""
    given = edit.value
    if isinstance(given, PatchValue):
        given = _patch(edit, given, chosen, raw, axes)
    elif isinstance(given, Tensor):
        given = _by_dims(edit, given, chosen, raw, axes)
    elif callable(given):
        with looking():
            given = given(there)
    try:
        value = torch.as_tensor(given, dtype=raw.dtype, device=raw.device)
    except (TypeError, ValueError, RuntimeError) as error:
        raise value_error(
            f'edit: "{edit.text}" cannot be replaced by this value.',
            {"given": type(given).__name__, "why": str(error).split("\n")[0]},
            "A replacement is a number, an array, a Tensor, a recording, or a function of the current value that returns one of these.",
        ) from None
    try:
        value.expand(there.shape)
    except RuntimeError:
        raise shape_error(
            f'edit: "{edit.text}" does not fit.',
            {"there": tuple(there.shape), "given": tuple(value.shape), "of": _described(raw.shape, axes)},
            "A replacement has the shape of the selected entries, without the dims that an index selects from, or broadcasts to it.",
        ) from None
    return value


def _by_dims(edit: ValueEdit, given: Tensor, chosen: _Entries, raw: torch.Tensor, axes: Axes) -> Any:
    """The values of a Tensor: unchanged if it has only the entries, else its matching entries."""
    value = given.raw_tensor
    return chosen.of(value) if tuple(value.shape) == tuple(raw.shape) else value


def _patch(edit: ValueEdit, given: PatchValue, chosen: _Entries, raw: torch.Tensor, axes: Axes) -> Any:
    """The entries of a recorded value for those of an edit."""
    value: Any = given.value.raw_tensor
    if value.ndim == raw.ndim and (given.place is not None or value.shape == raw.shape):
        return chosen.of(value) if given.place is None else _Entries(given.place, value.shape, axes).of(value)
    raise another_shape(edit, given, _described(raw.shape, axes), str(tuple(value.shape)))


# -- attention -----------------------------------------------------------------------------------------------------------------
def attention_edits(call: Call, *parts: str) -> list[ValueEdit]:
    """The edits of values in attention that runs in a call."""
    edits = [edit for edit in editing.get() if edit.part in parts and edit.is_now]
    if not edits:
        return []
    modules = [each.module for each in around(call)]
    return [edit for edit in edits if any(edit.module is module for module in modules)]


def changed(edits: Sequence[ValueEdit], raw: torch.Tensor, axes: Axes, part: str) -> torch.Tensor:
    """A tensor with the edits of this part applied."""
    for edit in edits:
        if edit.part == part:
            raw = applied(edit, raw, axes)
    return raw


@changes(F, "scaled_dot_product_attention")
def kernel(call: Call, original: Callable[..., Any], args: Any, kwargs: Kwargs) -> Any:
    """The fused kernel with edited inputs, written out if its weights are edited."""
    edits = attention_edits(call, *(("weights",) if _OUTSIDE in call.seen else OF_ATTENTION))
    given = of_torch.arguments(args, kwargs)
    query, key, value = given["query"], given["key"], given["value"]
    stays = attached.get() and not (
        given.get("dropout_p") or query.is_nested or is_large((*query.shape[:-1], key.shape[-2]))
    )
    if not edits and not stays:
        return original(*args, **kwargs)
    front = _front(call, (*query.shape[:-1], key.shape[-2]))
    for part, name, side in (("queries", "query", "target"), ("keys", "key", "source"), ("values", "value", "source")):
        given[name] = changed(edits, given[name], _axes_of(*front, side, "feature"), part)
    query, key, value = given["query"], given["key"], given["value"]
    is_edited = any(edit.part == "weights" for edit in edits)
    if is_edited or stays:
        with looking():
            causal = bool(given.get("is_causal"))
            weights = of_torch.made(query, key, given.get("attn_mask"), causal=causal, scale=given.get("scale"))
        weights = changed(edits, weights, _axes_of(*front, "target", "source"), "weights")
        call.seen[EDITED] = held(weights)
        groups = weights.shape[-3] // value.shape[-3] if value.ndim > 2 else 1
        value = value.repeat_interleave(groups, -3) if groups > 1 else value
        out = F.dropout(weights, float(given.get("dropout_p") or 0)).to(value.dtype) @ value
        if not is_edited:
            with torch.no_grad():
                of_kernel = original(given.pop("query"), given.pop("key"), given.pop("value"), **given)
            out = _ByWeights.apply(out, of_kernel)
    else:
        out = original(given.pop("query"), given.pop("key"), given.pop("value"), **given)
    return changed(edits, out, _axes_of(*front, "target", "feature"), "heads")


class _ByWeights(torch.autograd.Function):
    """The bitwise result of a kernel, with the gradient through the weights, which are otherwise not in the graph."""

    @staticmethod
    def forward(ctx: Any, by_weights: torch.Tensor, of_kernel: torch.Tensor) -> torch.Tensor:
        return of_kernel.view_as(of_kernel)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return gradient, None


def _axes_of(*names: str) -> list[frozenset[str]]:
    return [frozenset([name]) for name in names]


def _front(call: Call, shape: Sequence[int]) -> list[str]:
    """The names of the axes before target and source."""
    if len(shape) != 3:
        return list(_AXES[:2][: len(shape) - 2])
    return ["head" if shape[0] == heads_in(call.module) else "batch"]


@changes(torch, "softmax")
@changes(torch.Tensor, "softmax")
def softmax(call: Call, original: Callable[..., Any], args: Any, kwargs: Kwargs) -> Any:
    """A softmax whose result is edited if it is attention weights."""
    result = original(*args, **kwargs)
    edits = attention_edits(call, "weights")
    if attached.get() and not edits and (inside := call.seen.get("multi_head")) is not None:
        unbatched = inside["query"].ndim == 2
        call.seen[EDITED] = result if unbatched else result.unflatten(0, (-1, inside["num_heads"]))
        return call.seen[EDITED].reshape(result.shape)
    axis = argument(args, kwargs, 1, "dim")
    if not edits or not isinstance(axis, int) or not isinstance(result, torch.Tensor) or result.is_nested:
        return result
    place = call.outer if isinstance(call.module, torch.nn.Softmax) and call.outer is not None else call
    if place.path in place.root.seen.get(LEARNED, ()) and not call.seen.get("multi_head"):
        return result if place is call else as_learned(place, result)
    edits = [edit for edit in edits if edit.module is place.module or _is_attention(place)]
    if not edits:
        return result
    raw = result.movedim(axis, -1)
    inside = call.seen.get("multi_head")
    if inside is not None:
        made = changed(edits, raw.unflatten(0, (-1, inside["num_heads"])), _axes_of(*_AXES), "weights").reshape(
            raw.shape
        )
    elif raw.ndim == 4:
        sources = call.seen.get(_OUTSIDE, raw.shape[-1])  # a sink score, which is not a position, follows them
        made = changed(edits, raw[..., :sources], _axes_of(*_AXES), "weights")
        if _OUTSIDE in call.seen:
            call.seen[EDITED] = held(made)
        made = torch.cat([made, raw[..., sources:]], -1)
    elif raw.ndim == 3:
        dims, sizes = weights_dims(place, raw.shape)
        front = [dim.name if dim.name == "head" else "batch" if dim.kind == "batch" else "block" for dim in dims[:-2]]
        made = changed(edits, raw.reshape(sizes), _axes_of(*front, "target", "source"), "weights").reshape(raw.shape)
    else:
        axes = [frozenset(["batch", "target"]), frozenset(["source"])]
        made = changed(edits, raw, axes[-raw.ndim :], "weights")
    return made.movedim(-1, axis)


def as_learned(call: Call, raw: torch.Tensor, begun: int = 0) -> torch.Tensor:
    """The result of a softmax in a call, edited if it is known to be attention weights.

    Args:
        begun: 1: it is the most recently started one; 0: the next one.

    Raises:
        ValueError: If there are several attentions and the edit does not name one.
    """
    ways = call.root.seen.get(LEARNED, {}).get(call.path, ())
    place = len(call.seen.get("softmaxes", ())) - begun
    way, edits = ways[place] if place < len(ways) else None, attention_edits(call, "weights")
    if way is None or not edits:
        return raw
    names = list(dict.fromkeys([each.name for each in ways if each is not None]))
    for edit in edits:
        if len(names) > 1 and not edit.name:
            raise value_error(
                f'edit: "{edit.text}" may belong to several attentions.',
                {
                    "module": f"{call.path or 'the model'}, a {type(call.module).__name__}",
                    "attentions": ", ".join(names),
                },
                "They are named after the variables of their weights:",
                f'{{"{".".join(filter(None, [call.path, names[0]]))}.weights": ...}}',
            )
    edits = [edit for edit in edits if edit.name == way.name]
    result: torch.Tensor = way.changed(raw, lambda weights, axes: changed(edits, weights, axes, "weights"))
    return result


def _is_attention(call: Call) -> bool:
    return says_attention(type(call.module).__name__) or says_attention(call.path)


def with_function(
    call: Call, function: Callable[..., Any], query: Any, key: Any, value: Any, run: Callable[..., Any]
) -> tuple[Any, Any, Any, Any]:
    """The queries, keys and values in the form of a transformers attention function, and its result (batch, target, head, feature).

    Args:
        run: Calls the function with these.
    """
    edits = attention_edits(call, *OF_ATTENTION)
    if not edits:
        return query, key, value, run(query, key, value)
    query = changed(edits, query, _axes_of("batch", "head", "target", "feature"), "queries")
    key = changed(edits, key, _axes_of("batch", "head", "source", "feature"), "keys")
    value = changed(edits, value, _axes_of("batch", "head", "source", "feature"), "values")
    before = {id(edit): edit.done for edit in edits}
    call.seen[_OUTSIDE] = int(key.shape[2])
    try:
        result = run(query, key, value)
    finally:
        call.seen.pop(_OUTSIDE, None)
    for edit in edits:
        if edit.part == "weights" and edit.done == before[id(edit)]:
            raise _not_made(call, edit, getattr(function, "__name__", "its attention function"))
    if any(edit.part == "heads" for edit in edits):
        output, *more = result if isinstance(result, tuple) else (result,)
        output = changed(edits, output, _axes_of("batch", "target", "head", "feature"), "heads")
        result = (output, *more) if isinstance(result, tuple) else output
    return query, key, value, result


def _not_made(call: Call, edit: ValueEdit, by: str = "") -> Exception:
    kind = f"{edit.path or 'the model'}, a {type(call.module).__name__}"
    if edit.part == "weights":
        rule = (
            "Weights can be edited where a softmax is summed with values, and in F.scaled_dot_product_attention; "
            "flash and flex attention kernels have none. For a transformers model, select another implementation:"
        )
        fix = 'model.set_attn_implementation("eager")'
    else:
        rule = (
            f"The {edit.part} of each head exist where F.scaled_dot_product_attention or an attention function of transformers is called. "
            "Elsewhere, scale the weights, or edit the input of the output layer:"
        )
        fix = f'rf.edit(model, {{"{edit.path}.out_proj.input": ...}})'
    return value_error(
        f'edit: no {edit.part} were computed at "{edit.text}".',
        [("module", kind), *([("attends by", by)] if by else [])], rule, fix,
    )  # fmt: skip


# -- cases that would bypass edits -----------------------------------------------------------------------------------------------
@block
def _without_fast_path(module: torch.nn.Module) -> Iterator[None]:
    """Disable the fast path: a single kernel for a whole attention or layer would bypass edits inside it."""
    if not isinstance(module, _FAST):
        yield
        return
    inner = [each for each in module.modules() if each is not module]
    others = any(edit.module is each for edit in editing.get() for each in inner)
    own = isinstance(module, torch.nn.MultiheadAttention) and any(
        edit.part in OF_ATTENTION for edit in edits_of(module)
    )
    before = torch.backends.mha.get_fastpath_enabled()
    if not (others or own) or not before:
        yield
        return
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def _refuse_checkpoints(call: Call, edit: ValueEdit) -> None:
    """Refuse checkpointing: a call repeated in the backward pass after the block would miss the edit."""
    if not torch.is_grad_enabled():
        if _is_in_reentrant_checkpoint():
            refuse_checkpoint(edit, "torch.utils.checkpoint, use_reentrant=True")
        return
    hooks = getattr(torch._C._autograd, "_top_saved_tensors_default_hooks", lambda _: None)(True)
    if hooks and "checkpoint" in getattr(hooks[0], "__module__", ""):
        refuse_checkpoint(edit, "torch.utils.checkpoint")
    for each in around(call):
        if getattr(each.module, "gradient_checkpointing", False) and each.module.training:
            refuse_checkpoint(edit, f"{each.path or 'the model'}, a {type(each.module).__name__}")


def _is_in_reentrant_checkpoint() -> bool:
    """Whether a reentrant checkpoint, which hides its gradients, is running: only the call stack shows it."""
    frame: Any = sys._getframe(1)
    checkpoint = sys.modules.get("torch.utils.checkpoint")
    code = None if checkpoint is None else checkpoint.CheckpointFunction.forward.__code__
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return frame is not None


def refuse_checkpoint(edit: ValueEdit, where: str) -> None:
    """Raise an error if a value would be recomputed in the backward pass."""
    raise runtime_error(
        f'edit: "{edit.text}" is computed again in the backward pass.',
        {"checkpoints in": where},
        "Gradients would be those of the model without the edit. Switch checkpointing off:",
        "model.gradient_checkpointing_disable()    # or without torch.utils.checkpoint",
    )


def refuse_transformed(path: str, edits: Sequence[ValueEdit]) -> None:
    """Raise an error if a module runs under a function transform, or a compiler that traces its code."""
    raise runtime_error(
        f'edit: "{edits[0].text}" runs under torch.func, torch.compile or torch.jit.trace.',
        {"module": path or "the model"},
        "Values there are not real tensors and cannot be edited. Call the model directly:",
        f'with rf.edit(model, {{"{edits[0].text}": ...}}): model(x)',
    )
