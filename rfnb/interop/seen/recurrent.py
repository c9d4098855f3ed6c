"""nn.LSTM, nn.GRU, nn.RNN and their cells: the states and gates of each step.

    i, f, o = sigmoid(...), g = tanh(...);  c' = f c + i g;  h' = o tanh(c')            documentation of torch.nn.LSTM
    r, z = sigmoid(...), n = tanh(W x + r (W_re h));  h' = (1 - z) n + z h                documentation of torch.nn.GRU

A kernel returns only h of the last layer. The rest is computed on demand from the input and the weights (`gates.py`).
Events have the path of the module; with several layers or directions, that of their parameters: "lstm.l0",
"lstm.l0_reverse".
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence

from rfnb.backends.torch_random import device_state
from rfnb.core.dim import Dim, Dims, ragged_dim
from rfnb.interop.seen.axis_flow import AxisNode
from rfnb.interop.seen.axis_reads import carried as carried_dims
from rfnb.interop.seen.axis_reads import node_of, say_time
from rfnb.interop.seen.calls import Call, argument, tensors_of
from rfnb.interop.seen.function_calls import sees
from rfnb.interop.seen.gates import CellStep, Layers, lengths_of, parts_of
from rfnb.interop.seen.layouts import memory_of
from rfnb.interop.seen.readers import reads
from rfnb.interop.seen.snapshot import copied
from rfnb.trace.probe import Later, listening, probe, probe_later, trace_context


@reads(nn.RNNBase, before=True)
def before_recurrent(call: Call) -> None:
    """Record the state of the device's random generator, if dropout between layers will use it."""
    module: Any = call.module
    if module.training and module.dropout and module.num_layers > 1 and listening("states"):
        weight = next(module.parameters())
        of_cudnn = weight.is_cuda and torch.backends.cudnn.is_acceptable(weight)
        call.seen["generator"] = None if of_cudnn else device_state(weight.device)


@reads(nn.RNNBase)
def recurrent(call: Call, result: Any) -> None:
    """Set the dims of the sequence and of the last states {layer, batch, feature}; send the states and gates of each step."""
    output, last = result
    source, state = call.inputs["input"], call.inputs.get("hx")
    names, packed = call.names, isinstance(source, PackedSequence)
    module: Any = call.module
    if packed:
        dims = _dims_of_packed(call, source)
        names.dims(output.data, ["frames", "feature"], call)
    else:
        dims = names.dims_of(source, call)
        names.dims(output, [*dims[:-1], "feature"], call)
    batch = [dim for dim in dims[:-1] if dim.kind == "batch"] if len(dims) == 3 else []
    for raw in last if isinstance(last, tuple) else (last,):
        names.dims(raw, ["layer", *batch, "feature"], call)
    if not listening("states"):
        return
    time = next(dim for dim in dims[:-1] if dim not in batch)
    # A decoder calls it frame by frame: these are steps, as for a cell.
    single = not packed and time.size == 1
    step = _step_of(call, state, last[0] if isinstance(last, tuple) else last) if single else None
    layers = Layers(module, source, state, output, call.seen.get("generator", False), call.path)
    size = module.proj_size or module.hidden_size
    cells = names.of_model("feature", module.hidden_size)
    hidden = names.of_model("feature", size)
    rows = 1 if not batch else batch[0].extent
    num_bytes = (
        time.extent * rows * (module.hidden_size * (len(parts_of(module)) + 1) + size) * output.data.element_size()
    )
    for layer in range(module.num_layers):
        for direction in range(1 + module.bidirectional):
            later = Later(
                partial(_values, names, layers, (layer, direction), dims[:-1], (cells, hidden), time, single), num_bytes
            )
            name = f"l{layer}" + "_reverse" * direction if module.num_layers > 1 or module.bidirectional else ""
            with trace_context.scope(name) if step is None else trace_context.loop(name, step):
                probe_later("states", later)


def _values(
    names: Any,
    layers: Layers,
    place: tuple[int, int],
    outer: Sequence[Dim],
    units: tuple[Dim, Dim],
    time: Dim,
    single: bool,
) -> dict[str, Any]:
    """The values of the event for one layer and direction."""
    cells, hidden = units
    values: dict[str, Any] = {}
    kept = tuple(dim for dim in outer if dim is not time or not single)
    for name, raw in layers.states(*place).items():
        raw = raw.squeeze(outer.index(time)) if single else raw
        values[name] = names.seen(raw, (*kept, hidden if name == "h" else cells), name)
    return values if single else {**values, "axis": time}


def _dims_of_packed(call: Call, source: PackedSequence) -> Dims:
    """The dims {batch, time, feature} of a packed sequence when padded, in the axis order of the module."""
    names = call.names
    lengths = _lengths_of(call, source)
    count, longest = len(lengths), int(lengths.max()) if len(lengths) else 0
    around: list[Dim] = [*call.root.dims, *call.root.made]
    batch = next((dim for dim in around if dim.kind == "batch" and dim.extent == count), None)
    if batch is None:
        batch = Dim(count, name="batch", kind="batch")
        call.root.made.append(batch)
    same = (names.now(dim) for dim in around if dim.kind == "spatial" and dim.extent == longest)
    time = next((dim for dim in same if _has_lengths(dim, batch, lengths.tolist())), None)
    if time is None and count and int(lengths.min()) == longest:
        time = next((dim for dim in around if dim.kind == "spatial" and dim.size == longest), None)
    if time is None:
        time = ragged_dim(lengths.numpy().astype("int32"), over=batch, name="time")
        time.kind = "spatial"
        old = next((dim for dim in call.root.dims if dim.kind == "spatial" and dim.size == longest), None)
        if old is not None:  # the outermost module got it padded
            time.name = old.name
            names.becomes(old, time)
        call.root.made.append(time)
    feature = names.dims(source.data, ["frames", "feature"], call)[-1]
    return (batch, time, feature) if call.module.batch_first else (time, batch, feature)


def _lengths_of(call: Call, source: PackedSequence) -> torch.Tensor:
    """The lengths in the user's batch order; for a sequence packed outside the model this waits once for the device."""
    known = call.root.seen.setdefault("packed", {})
    order = source.unsorted_indices
    if order is None or id(order) not in known:
        lengths = lengths_of(source.batch_sizes, order)
        if order is None:
            return lengths
        known[id(order)] = order, lengths  # stored with it, so that the id stays valid
    found: torch.Tensor = known[id(order)][1]
    return found


@sees(torch.nn.utils.rnn, "pack_padded_sequence")
def packed(call: Call, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
    """Record the lengths of sequences packed in a model, which are on the host there."""
    lengths = argument(args, kwargs, 1, "lengths")
    if isinstance(result, PackedSequence) and result.unsorted_indices is not None:
        known = call.root.seen.setdefault("packed", {})
        known[id(result.unsorted_indices)] = result.unsorted_indices, torch.as_tensor(lengths, device="cpu").long()


def _has_lengths(dim: Dim, batch: Dim, lengths: list[int]) -> bool:
    return (
        dim.size is None and dim.length_dims == (batch,) and dim.lengths is not None and dim.lengths.tolist() == lengths
    )


# -- cells -----------------------------------------------------------------------------------------------------------------------
@reads(nn.RNNCellBase)
def cell(call: Call, result: Any) -> None:
    """Send the states and gates of a step: a call that continues from the cell's last result, or a further call within an
    outermost call, is the next step.
    """
    names, source = call.names, call.inputs["input"]
    dims = names.dims_of(source, call)
    states = result if isinstance(result, tuple) else (result,)
    for raw in states:
        names.dims(raw, [*dims[:-1], "feature"], call)
    step = _step_of(call, call.inputs.get("hx"), states[0])
    if not listening("states"):
        return
    made = CellStep(call.module, source, call.inputs.get("hx"), states, call.path)
    out = names.of(states[0])
    assert out is not None

    def make() -> dict[str, Any]:
        return {name: names.seen(raw, out, name) for name, raw in made.states().items()}

    later = Later(make, states[0].nbytes * (len(parts_of(call.module)) + len(states)))
    if step is None:
        probe_later("states", later)
        return
    with trace_context.loop("", step):
        probe_later("states", later)


def _step_of(call: Call, given: Any, h: torch.Tensor) -> int | None:
    """The step index of a call; None if the current path has a step already.

    Args:
        given: The state that it continues.
        h: The state that it returns.
    """
    if trace_context.place.step is not None:
        return None
    given = given[0] if isinstance(given, (tuple, list)) else given
    before, counted = call.names.steps.get(call.path), call.root.seen.setdefault("steps", set())
    goes_on = before is not None and given is not None and before[0]() is memory_of(given)
    sources: dict[str, Any] = call.root.seen.setdefault("cell sources", {})
    if (source := node_of(call, call.inputs["input"])) is not None:
        if goes_on and (first := sources.pop(call.path, None)) is not None:
            say_time(call, [first], [source])
        elif not goes_on:
            sources[call.path] = source
    step = before[1] + 1 if before is not None and (goes_on or call.path in counted) else 0
    counted.add(call.path)
    memory = memory_of(h)
    call.names.steps[call.path] = (lambda: None) if memory is None else weakref.ref(memory), step
    return step


# -- custom cells ------------------------------------------------------------------------------------------------------------------
def written_cell(call: Call, result: Any) -> None:
    """Send the states of a user's module that is called again with its own result: a step for each call within one outer call."""
    if call.outer is None or not listening("states") or _has_own_states(call.module):
        return
    made = [raw for _, raw in tensors_of(result) if raw.is_floating_point() and raw.ndim]
    cells: dict[str, _WrittenCell] = call.outer.seen.setdefault("written cells", {})
    cell = cells.setdefault(call.path, _WrittenCell())
    given = {id(raw): name for name, raw in call.tensors()}
    carried = {index: given[id(raw)] for index, raw in enumerate(cell.made) if id(raw) in given}
    if carried and [raw.shape for raw in made] == [raw.shape for raw in cell.made]:
        if not cell.names:
            cell.instead = say_time(call, cell.read, _nodes(call, {id(raw) for raw in cell.made}))
            cell.names = _names_of_states(carried)
            cell.offer(call, cell.made)
        cell.step += 1
        cell.offer(call, made)
    cell.made, cell.read = made, [] if cell.names else _nodes(call, set())


def _nodes(call: Call, states: set[int]) -> list[AxisNode]:
    """The nodes of a call's inputs, except states."""
    return [node for _, raw in call.tensors() if id(raw) not in states and (node := node_of(call, raw)) is not None]


class _WrittenCell:
    """One such module within an enclosing call: its last result, the step of that, and the names of its states."""

    def __init__(self) -> None:
        self.made: list[torch.Tensor] = []
        self.read: list[AxisNode] = []  # the inputs of the first call
        self.step, self.names, self.instead = 0, dict[int, str](), dict[Dim, Dim]()

    def offer(self, call: Call, made: Sequence[torch.Tensor]) -> None:
        names, states = call.names, {}
        for index, name in self.names.items():
            raw = made[index]
            dims = names.dims_of(raw, call)
            states[name] = names.seen(copied(raw), carried_dims(dims, self.instead), name)
        with trace_context.loop("", self.step):
            probe("states", **states)


def _names_of_states(carried: dict[int, str]) -> dict[int, str]:
    """Names of states, from the parameters that take them; a pair in a tuple is h and c, as for nn.LSTMCell."""
    words = [name.split(".") for name in carried.values()]
    if len(words) == 2 and [word[1:] for word in words] == [["0"], ["1"]]:
        return dict(zip(carried, ("h", "c")))
    return {index: name.replace(".", "_") for index, name in carried.items()}


def _has_own_states(module: nn.Module) -> bool:
    """Whether a module contains one of torch that reports its own states."""
    known = _told_inside.get(module)
    if known is None:
        inside = any(isinstance(each, (nn.RNNBase, nn.RNNCellBase)) for each in module.modules())
        known = _told_inside[module] = inside
    return known


_told_inside: weakref.WeakKeyDictionary[nn.Module, bool] = weakref.WeakKeyDictionary()
