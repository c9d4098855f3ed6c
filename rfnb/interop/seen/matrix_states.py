"""Matrix states of models of transformers: a model calls a kernel by a name of its file, for all steps at once or for one.

What the kernel is given is kept, and its states are made of that when somebody looks (`linear_recurrences.py`): `states` at the path of the
module, and at "effective" below it the attention that the recurrence amounts to. A state or gate that is edited is computed step by step;
what it adds to the result of the kernel is added there.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F

from rfnb.core.block import Undone
from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor
from rfnb.interop.seen.calls import Call, current
from rfnb.interop.seen.edited import applied, attention_edits
from rfnb.interop.seen.function_calls import _in_model, looking, opens
from rfnb.interop.seen.linear_recurrences import KERNELS, Kernel, Recurrence
from rfnb.interop.seen.readers import unseen
from rfnb.interop.seen.replaced import Place, Replaced
from rfnb.interop.seen.snapshot import ValueSnapshot
from rfnb.interop.seen.streams import attention_dims, head_dim
from rfnb.trace.editing import OF_STATES, ValueEdit, editing
from rfnb.trace.probe import Later, LaterStates, listening, probe_later, trace_context

_MOST_KEPT, _MOST_WEIGHTS, _MOST_HEADS = 1 << 20, 1 << 22, 64
_replaced = Replaced()
RAN = "linear recurrences"
"""In `Call.seen` of an outermost call: whether a kernel ran in it."""


@opens
def kernels_by_name(modules: list[torch.nn.Module]) -> Undone:
    """See the kernels that the files of these modules have, and those that are methods of their classes."""
    return _replaced.during(lambda: _places(modules))


def _places(modules: list[torch.nn.Module]) -> Iterator[Place]:
    kinds = {cls for module in modules for cls in type(module).__mro__}
    for owner in [*kinds, *(sys.modules[name] for name in {cls.__module__ for cls in kinds} & sys.modules.keys())]:
        for name in KERNELS.keys() & vars(owner).keys():
            yield owner, name, partial(_seeing, KERNELS[name])


def _seeing(kernel: Kernel, function: Any) -> Any:
    signature = inspect.signature(function)

    @functools.wraps(function)
    def seen(*args: Any, **kwargs: Any) -> Any:
        call = current()
        edits = attention_edits(call, *OF_STATES) if call is not None and editing.get() else []
        if call is None or not _in_model.get() or not (edits or listening("states") or listening("attention")):
            return function(*args, **kwargs)
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        given = {name: value for name, value in bound.arguments.items() if name not in ("self", "kwargs")}
        if kernel.state and given.get(kernel.state) is not None:  # it is written to, there or in a cache
            given[kernel.state] = given[kernel.state].clone()
        with looking():
            result = function(*args, **kwargs)
            if edits:
                result = _edited(call, kernel, given, bound.arguments, result, edits)
            try:
                _offer(call, kernel, given, result)
            except Exception as error:
                unseen(call, error)
        return result

    return seen


def _offer(call: Call, kernel: Kernel, given: dict[str, Any], result: Any) -> None:
    kept = {
        name: ValueSnapshot(value, name) if isinstance(value, torch.Tensor) else value for name, value in given.items()
    }
    named = call.seen.pop(_MADE, None)

    @functools.cache
    def recurrence() -> Recurrence:
        if named is not None:
            return named
        with torch.no_grad():
            return kernel.read(
                {name: each.read() if isinstance(each, ValueSnapshot) else each for name, each in kept.items()}
            )

    first = next(value for value in given.values() if isinstance(value, torch.Tensor))
    steps = 1 if kernel.time is None else int(first.shape[kernel.time])
    dims = _dims(call, int(first.shape[0]), steps)
    count = first.numel() * first.element_size()
    call.root.seen[RAN] = True
    if listening("states"):
        at = lambda step: _state(call, kernel, recurrence(), dims, step)  # noqa: E731
        probe_later("states", LaterStates(lambda: _states(call, kernel, recurrence(), dims), at, steps, count))
    if listening("attention") and steps > 1 and first.shape[0] * steps * steps <= _MOST_WEIGHTS:
        with trace_context.scope("effective"):
            probe_later("attention", Later(lambda: _attention(kernel, recurrence(), dims), count))


@torch.no_grad()
def _states(call: Call, kernel: Kernel, made: Recurrence, dims: Sequence[Dim]) -> dict[str, Any]:
    batch, time, _ = dims
    names, heads = call.names, Dim(made.value.shape[2], name=kernel.head)
    norm, rank = made.sizes()
    forget = made.log_decay.exp()
    values = {
        "norm": norm,
        "rank": rank,
        "forget_gate": forget if forget.ndim == 3 else forget.mean(-1),
        "write_gate": made.strength,
    }
    given: dict[str, Any] = {name: names.seen(raw, (batch, time, heads), name) for name, raw in values.items()}
    state = made.zeros()
    if not kernel.has_strength:
        del given["write_gate"]
    if min(made.key.shape[-1], made.value.shape[-1]) == 1:
        del given["rank"]
    if state.numel() * made.steps <= _MOST_KEPT:
        given["matrix"] = names.seen(
            torch.cat(list(made.blocks()), 1), (batch, time, heads, *_dims_of(state)), "matrix"
        )
    return {**given, "axis": time}


def _dims_of(state: torch.Tensor) -> list[Dim]:
    return [Dim(size, name=name) for size, name in zip(state.shape[-2:], ("key", "value"))]


@torch.no_grad()
def _state(call: Call, kernel: Kernel, made: Recurrence, dims: Sequence[Dim], step: int) -> Tensor:
    state = made.at(range(made.steps)[step])
    heads = Dim(state.shape[1], name=kernel.head)
    return call.names.seen(state, (dims[0], heads, *_dims_of(state)), "matrix")


@torch.no_grad()
def _attention(kernel: Kernel, made: Recurrence, dims: Sequence[Dim]) -> dict[str, Any]:
    batch, target, source = dims
    weights, remark = made.weights(), _EXACT
    if weights.shape[1] > _MOST_HEADS or weights.numel() > _MOST_WEIGHTS:
        weights, remark = (
            weights.mean(1, keepdim=True),
            f"A heuristic: the mean over {weights.shape[1]} {kernel.head}s. {_EXACT}",
        )
    if made.first is not None:
        remark += " What the state before the first position adds is in no cell."
    heads = head_dim(weights.shape[1])
    return {
        "weights": Tensor("weights", [batch, heads, target, source], raw_tensor=weights), "axis": source, "target": target,
        "causal": True, "remark": remark,
    }  # fmt: skip


_EXACT = (
    "No softmax: how much of what each source writes is read at each target, which for a linear recurrence is exact. "
    "Cells may be negative, and rows sum to anything."
)


def _dims(call: Call, batch: int, steps: int) -> tuple[Dim, Dim, Dim]:
    """batch, target and source."""
    shape = (batch, 1, steps, 1)
    first, _, target, source = attention_dims(call, shape, shape)
    return first, target, source


# -- what is edited --------------------------------------------------------------------------------------------------------------
_MADE = "edited recurrence"  # in `Call.seen`: the one that is offered


class _Edited(Recurrence):
    """A recurrence some of whose states are others."""

    changes: Callable[[torch.Tensor, int], torch.Tensor] = staticmethod(lambda state, index: state)

    def step(self, state: torch.Tensor, index: int) -> torch.Tensor:
        """The state behind a step, as it is edited."""
        return self.changes(super().step(state, index), index)


def _edited(
    call: Call,
    kernel: Kernel,
    given: dict[str, Any],
    arguments: dict[str, Any],
    result: Any,
    edits: Sequence[ValueEdit],
) -> Any:
    """The result of a kernel, with what edited gates and states add to it."""
    plain = kernel.read(given)
    gates = {"forget_gate": plain.log_decay.exp(), "write_gate": plain.strength}
    axes: list[frozenset[str]] = [frozenset({each}) for each in ("batch", "time", kernel.head, "key", "value")]
    for edit in edits:
        if edit.part in gates:
            gates[edit.part] = applied(edit, gates[edit.part], axes[: gates[edit.part].ndim])
    of_states = [edit for edit in edits if edit.part == "matrix"]

    def changes(state: torch.Tensor, index: int) -> torch.Tensor:
        for edit in of_states:
            if index in _steps(edit, plain.steps):
                rest = replace(edit, entries={name: at for name, at in edit.entries.items() if name != "time"})
                state = applied(rest, state, [axes[0], *axes[2:]])
                edit.done += 1
        return state

    parts = {each.name: getattr(plain, each.name) for each in fields(plain) if each.init}
    parts |= {"log_decay": gates["forget_gate"].clamp_min(1e-30).log(), "strength": gates["write_gate"]}
    made = _Edited(**parts)
    if "forget_gate" not in {edit.part for edit in edits}:
        made.log_decay = plain.log_decay
    made.changes = changes
    call.seen[_MADE] = made
    before = after = plain.zeros() if plain.first is None else plain.first
    added = []
    for index in range(plain.steps):
        before, after = plain.step(before, index), made.step(after, index)
        added.append(plain.read(after - before, index))
    return _with_added(kernel, given, arguments, result, torch.stack(added, 1), after)


def _with_added(
    kernel: Kernel,
    given: dict[str, Any],
    arguments: dict[str, Any],
    result: Any,
    added: torch.Tensor,
    last: torch.Tensor,
) -> Any:
    """The result of a kernel with more that is read [batch, time, head, value], and another last state."""
    several = isinstance(result, tuple)
    out = result[0] if several else result
    if kernel.time is None:
        added = added[:, 0]
    elif kernel.time == 2:
        added = added[..., 0].mT
    gate = given.get("z")
    added = added.reshape(out.shape)
    out = out + (added if gate is None else added * F.silu(gate)).to(out.dtype)
    if kernel.in_place:
        old = arguments[kernel.state or ""]
        old.copy_(kernel.outward(last))
        return out
    if not several:
        return out
    return out, None if result[1] is None else kernel.outward(last).to(result[1].dtype), *result[2:]


def _steps(edit: ValueEdit, count: int) -> list[int]:
    """The steps whose state is edited: all where none is said."""
    at = edit.entries.get("time", slice(None))
    if isinstance(at, slice):
        return list(range(count)[at])
    return [
        each % count
        for each in (at if isinstance(at, list) else [at])
        if isinstance(each, int) and -count <= each < count
    ]
