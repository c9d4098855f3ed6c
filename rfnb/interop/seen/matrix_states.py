"""Matrix states in transformers models: a model calls a kernel by name, for all steps at once or for one.

The kernel's arguments are stored, and its states are computed from them on demand (`linear_recurrences.py`): `states`
at the path of the module, and at "effective" below it the equivalent attention. With an edited state or gate the
recurrence is computed step by step, and the difference is added to the kernel's result.
"""

from __future__ import annotations

import copy
import functools
import inspect
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F

from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor
from rfnb.interop.seen.calls import Call, around, current
from rfnb.interop.seen.function_calls import _in_model, files_of, looking, replaces
from rfnb.interop.seen.generate import generating
from rfnb.interop.seen.linear_recurrences import CONVOLUTIONS, KERNELS, Kernel, Recurrence, joined
from rfnb.interop.seen.readers import unseen
from rfnb.interop.seen.replacements import Place
from rfnb.interop.seen.snapshot import ValueSnapshot
from rfnb.interop.seen.streams import attention_dims, head_dim
from rfnb.interop.seen.value_edits import applied, attention_edits, by_rows
from rfnb.trace.editing import EFFECTIVE, OF_STATES, ValueEdit, editing
from rfnb.trace.probe import Later, LaterStates, listening, probe_later, trace_context
from rfnb.viz.dims.transformers_rows import cache_in

_MOST_KEPT, _MOST_WEIGHTS, _MOST_HEADS = 1 << 20, 1 << 22, 64
RUNS = "runs of kernels"
"""In `Call.seen` of an outermost call: the number of runs by module."""
RAN = "linear recurrences"
"""In `Call.seen` of an outermost call: whether a kernel ran in it."""


@replaces
def kernels_by_name(modules: list[torch.nn.Module]) -> Iterator[Place]:
    """The kernels in the files of these modules, and those that are methods of their classes."""
    kinds = {type(module) for module in modules}
    for owner in [*{cls for kind in kinds for cls in kind.__mro__}, *files_of(modules)]:
        here = vars(owner).keys()
        table = KERNELS if KERNELS.keys() & here else CONVOLUTIONS
        for name in table.keys() & here:
            yield owner, name, partial(_seeing, table[name])
    for module in modules:
        if (kernel := KERNELS.get(f"{type(module).__name__}.forward")) is not None:
            yield module, "forward", partial(_seeing, kernel)


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
        given |= {name: _copied(given[name]) for name in kernel.state}
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

    first = next(value for value in given.values() if isinstance(value, torch.Tensor) and value.ndim > 1)
    steps = 1 if kernel.time is None else int(first.shape[kernel.time])
    dims = _dims(call, int(first.shape[0]), steps)
    count = first.nbytes
    if kernel not in CONVOLUTIONS.values():
        call.root.seen[RAN] = True
    if listening("states"):
        at = lambda step: _state(call, kernel, recurrence(), dims, step)  # noqa: E731
        probe_later("states", LaterStates(lambda: _states(call, kernel, recurrence(), dims), at, steps, count))
    if listening("attention"):
        runs = _runs_so_far(call, _KernelRun(recurrence, steps))
        total = sum(run.steps for run in runs)
        if total > 1 and first.shape[0] * total * total <= _MOST_WEIGHTS:
            over = _dims(call, int(first.shape[0]), steps, total)
            with trace_context.scope(EFFECTIVE):
                probe_later("attention", Later(lambda: _attention(kernel, runs, over), count))


class _KernelRun(NamedTuple):
    """A call of a kernel.

    Attributes:
        made: Returns its recurrence.
        steps: The number of its steps.
        ids: In `generate`, the labels so far of the hypothesis in each row, [row, time].
    """

    made: Callable[[], Recurrence]
    steps: int
    ids: torch.Tensor | None = None


def _runs_so_far(call: Call, run: _KernelRun) -> list[_KernelRun]:
    """This call of a kernel, in `generate` after those of the earlier steps; empty if these do not cover all positions so far."""
    session = generating()
    if session is None or session.is_aside or session.ids is None:
        return [run]
    calls = call.root.seen.setdefault(RUNS, Counter())
    calls[call.module] += 1
    place = call.module, calls[call.module]  # a block that layers share is called several times
    if not session.step:
        session.kept[place] = []
    known = session.kept.setdefault(place, [])
    known.append(run._replace(ids=session.ids))
    if sum(each.steps for each in known) == session.ids.shape[1]:
        return [*known]
    return [] if session.step else [run]


def _made(runs: Sequence[_KernelRun]) -> list[Recurrence] | None:
    """The recurrences of runs, with the rows of the hypotheses in the last one; None if a run does not start with the state that the
    one before it left in these rows: then the model has not put its states in their order.
    """
    made: list[Recurrence] = []
    last = runs[-1]
    for run in runs:
        each = run.made()
        if run is not last and run.ids is not None and last.ids is not None:
            begun = last.ids[:, None, : run.ids.shape[1]] == run.ids
            each = each.of_rows(begun.all(-1).int().argmax(1))
        if made and (each.first is None or not _is_near(made[-1].at(made[-1].steps - 1), each.first)):
            return None
        made.append(each)
    return made


def _is_near(state: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two states are equal up to rounding to the dtype of a cache."""
    return state.shape == other.shape and bool((state - other).abs().max() <= 0.02 * state.abs().max())


@torch.no_grad()
def _states(call: Call, kernel: Kernel, made: Recurrence, dims: Sequence[Dim]) -> dict[str, Any]:
    batch, time, _ = dims
    names, heads = call.names, Dim(made.value.shape[2], name=kernel.head)
    norm, rank = made.sizes()
    gates = {name: gate if gate.ndim == 3 else gate.mean(-1) for name, gate in made.gates().items()}
    values = {"norm": norm, "rank": rank, **gates}
    given: dict[str, Any] = {name: names.seen(raw, (batch, time, heads), name) for name, raw in values.items()}
    state = made.zeros()
    if not kernel.has_strength:
        del given["write_gate"]
    if min(made.content(state).shape[-2:]) == 1:
        del given["rank"]
    if state.numel() * made.steps <= _MOST_KEPT:
        states = torch.cat(list(made.blocks()), 1)
        outer = batch, time, heads
        key, value = _dims_of(made.content(state))
        given["matrix"] = names.seen(made.content(states), (*outer, key, value), "matrix")
        if made.scale is not None:
            given["normaliser"] = names.seen(states[..., -1], (*outer, key), "normaliser")
    return {**given, "axis": time}


def _dims_of(state: torch.Tensor) -> list[Dim]:
    return [Dim(size, name=name) for size, name in zip(state.shape[-2:], ("key", "value"))]


@torch.no_grad()
def _state(call: Call, kernel: Kernel, made: Recurrence, dims: Sequence[Dim], step: int) -> Tensor:
    state = made.content(made.at(range(made.steps)[step]))
    heads = Dim(state.shape[1], name=kernel.head)
    return call.names.seen(state, (dims[0], heads, *_dims_of(state)), "matrix")


@torch.no_grad()
def _attention(kernel: Kernel, runs: Sequence[_KernelRun], dims: Sequence[Dim]) -> dict[str, Any]:
    batch, target, source = dims
    parts = _made(runs)
    made = joined(parts or [run.made() for run in runs])
    weights, exact = made.weights()[:, :, -target.extent :], _EXACT if made.scale is None else f"{_EXACT} {_NORMALISED}"
    if parts is None:
        weights, exact = torch.full_like(weights, math.nan), _OUT_OF_ORDER
    remark = exact
    if weights.shape[1] > _MOST_HEADS or weights.numel() > _MOST_WEIGHTS:
        weights, remark = (
            weights.mean(1, keepdim=True),
            f"A heuristic: the mean over {weights.shape[1]} {kernel.head}s. {exact}",
        )
    if made.first is not None:
        remark += " The contribution of the state before the first position is left out."
    if any(part.changes is not None for part in parts or ()):
        remark += " The contribution of edited states is left out."
    heads = head_dim(weights.shape[1])
    return {
        "weights": Tensor("weights", [batch, heads, target, source], raw_tensor=weights), "axis": source, "target": target,
        "causal": True, "remark": remark,
    }  # fmt: skip


_EXACT = (
    "Not a softmax: the weight with which each target reads the value that each source wrote, exact for a linear recurrence. "
    "Cells may be negative, and rows need not sum to 1."
)
_OUT_OF_ORDER = "The weights of this step are unknown: the states are not in the order of the hypotheses."
_NORMALISED = "Each row is divided by the normaliser of its target."


def _dims(call: Call, batch: int, steps: int, sources: int | None = None) -> tuple[Dim, Dim, Dim]:
    """The dims batch, target and source."""
    first, _, target, source = attention_dims(call, (batch, 1, steps, 1), (batch, 1, sources or steps, 1))
    return first, target, source


# -- edits -----------------------------------------------------------------------------------------------------------------------
_MADE = "edited recurrence"  # key of `Call.seen`: the recurrence to send


def _edited(
    call: Call,
    kernel: Kernel,
    given: dict[str, Any],
    arguments: dict[str, Any],
    result: Any,
    edits: Sequence[ValueEdit],
) -> Any:
    """The result of a kernel, plus the effect of edited gates and states."""
    plain = kernel.read(given)
    gates = plain.gates()
    axes: list[frozenset[str]] = [frozenset({each}) for each in ("batch", "time", kernel.head, "key", "value")]
    for edit in edits:
        if edit.part in gates:
            gates[edit.part] = applied(edit, gates[edit.part], axes[: gates[edit.part].ndim])
    of_states = []  # also for states computed on demand: the rows are the current ones
    for edit in edits:
        if edit.part == "matrix" or edit.part == "normaliser" and plain.scale is not None:
            rest = {name: at for name, at in edit.entries.items() if name != "time"}
            rows = by_rows(replace(edit, entries=rest), plain.value.shape[:1], axes[:1])
            of_states.append((edit, rows, _steps(edit, plain.steps)))

    def changes(state: torch.Tensor, index: int) -> torch.Tensor:
        for edit, rest, steps in of_states:
            if index in steps:
                if edit.part == "matrix":
                    content = applied(rest, plain.content(state), [axes[0], *axes[2:]])
                    state = torch.cat([content, state[..., content.shape[-1] :]], -1)
                else:
                    sums = applied(rest, state[..., -1], [axes[0], *axes[2:4]])
                    state = torch.cat([state[..., :-1], sums[..., None]], -1)
                edit.done += 1
        return state

    made = copy.copy(plain)
    made.marks, made.changes = {}, changes
    edited = {edit.part for edit in edits}
    if "forget_gate" in edited & gates.keys():
        made.log_decay = gates["forget_gate"].clamp_min(1e-30).log()
    if "write_gate" in edited & gates.keys():
        made.strength = gates["write_gate"]
    call.seen[_MADE] = made
    before = after = plain.zeros() if plain.first is None else plain.first
    added = []
    for index in range(plain.steps):
        old, new = before, after
        before, after = plain.step(old, index), made.step(new, index)
        added.append(made.read(new, after, index) - plain.read(old, before, index))
    if kernel.cached is not None:
        _put_in_cache(call, kernel.cached, kernel.outward(before, plain), kernel.outward(after, made))
    return _with_added(kernel, given, arguments, result, torch.stack(added, 1), kernel.outward(after, made))


def _with_added(
    kernel: Kernel,
    given: dict[str, Any],
    arguments: dict[str, Any],
    result: Any,
    added: torch.Tensor,
    last: Any,
) -> Any:
    """The result of a kernel plus [batch, time, head, value], with another last state."""
    several = isinstance(result, tuple)
    out = result[0] if several else result
    if kernel.time is None:
        added = added[:, 0]
    elif kernel.time == 2:
        added = added.transpose(1, 2)
    gate = given.get("z")
    added = added.reshape(out.shape)
    out = out + (added if gate is None else added * F.silu(gate)).to(out.dtype)
    if kernel.in_place:
        arguments[kernel.state[0]].copy_(last)
        return out
    return (out, _like(result[1], last), *result[2:]) if several else out


def _like(old: Any, new: Any) -> Any:
    """A last state in the dtypes of the kernel's; None if it returns none."""
    if isinstance(old, (list, tuple)):
        return type(old)(map(_like, old, new))
    return None if old is None else new.to(old.dtype)


def _copied(state: Any) -> Any:
    if isinstance(state, (list, tuple)):
        return [_copied(each) for each in state]
    return None if state is None else state.clone()


def _put_in_cache(call: Call, name: str, old: torch.Tensor, new: torch.Tensor) -> None:
    """Replace a last state that a module computed itself from its input."""
    for each in around(call):
        for layer in getattr(cache_in(each.inputs), "layers", ()):
            for state in getattr(layer, name, {}).values():
                if state is not None and state.shape == old.shape and torch.equal(state, old.to(state.dtype)):
                    state.copy_(new)
                    return


def _steps(edit: ValueEdit, count: int) -> list[int]:
    """The steps whose state is edited; all by default."""
    at = edit.entries.get("time", slice(None))
    if isinstance(at, slice):
        return list(range(count)[at])
    return [
        each % count
        for each in (at if isinstance(at, list) else [at])
        if isinstance(each, int) and -count <= each < count
    ]
