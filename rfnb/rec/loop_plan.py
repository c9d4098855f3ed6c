"""Assigns each op of a recorded step its place: before, inside or after the loop."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.backends import registry
from rfnb.core.dim import Dim, Dims
from rfnb.core.memo import make_room
from rfnb.core.pickling import NotPicklable
from rfnb.core.structure import structure_of
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.core.tree import leaves, map_nested, values_in
from rfnb.ops.dims import range_over_dim
from rfnb.ops.expand import expand_dim
from rfnb.rec.loop_plan_text import graph, state_names, text
from rfnb.rec.modes import modes_again
from rfnb.rec.program import Listing
from rfnb.rec.recorder import Node
from rfnb.rec.step_tensor import StepTensor
from rfnb.trace.probe import held_back, trace_context

if TYPE_CHECKING:
    from rfnb.rec.recording import Recording

_good: dict[Any, frozenset[int]] = {}  # which of the ops of a body are the same for all steps at once
_BODIES = 256
_LARGEST = 1 << 27  # elements of a value of all steps that are still made at once: 512 MiB of float32


class LoopPlan(NotPicklable):
    """The places of a loop's ops.

    Attributes:
        before: Ops that do not need the state: run once, on all frames.
        inside: Ops that the recurrence needs: run in every step.
        after: Ops that only stacked outputs need: run once, on the values of all steps.
        whole: register -> its value for all steps, for those of the frames and of `before`.
        whole_dims: register -> the dims of its value for all steps, for what ran outside of the steps.
        stacked: Registers that are stacked for `after`.
        listings: The programs compiled from the inside ops once they have run, one for each kind of step.
    """

    def __init__(self, recording: Recording, *, move_out: bool):
        self.name = recording.name
        self.axis = recording.axis
        self.before: list[Node] = []
        self.inside: list[Node] = []
        self.after: list[Node] = []
        self.whole: dict[int, Tensor] = {}
        self.whole_dims: dict[int, Dims] = {}
        self.listings: list[Listing] = []
        self._recorder = recording.recorder
        self._recording = recording
        nodes = list(recording.recorder.nodes)
        if move_out:
            self._move_before(nodes)
            self._place_rest(_without(nodes, self.before))
        else:
            self.inside = nodes
        self.stacked = self._frontier()

    # -- before ------------------------------------------------------------------------------------------------------------

    def _move_before(self, nodes: list[Node]) -> None:
        recording, axis = self._recording, self.axis
        if not recording.over_axis:
            return
        for source, frame in recording.frames:
            self.whole[frame.register] = source
        if recording.index is not None:
            self.whole[recording.index.register] = range_over_dim(axis, dtype="int32")
        for node in nodes:
            if not node.reads or not all(register in self.whole for register in node.reads):
                continue
            result = self.run_whole(node, self.whole, axis)
            if result is not None:
                self.whole.update(result)
                self.before.append(node)

    def run_whole(self, node: Node, whole: dict[int, Tensor], axis: Dim) -> dict[int, Tensor] | None:
        """Run the op on the values of all steps; None if the result differs."""
        if node.stays or not self._fits(node, axis):
            return None

        def of_all(leaf: Any) -> Any:
            return whole[leaf.register] if self._recorder.owns(leaf) else leaf

        try:
            with modes_again(node.modes), self._place_of(node):
                result = node.fn(*map_nested(of_all, node.args), **map_nested(of_all, node.kwargs))
        except Exception:
            # E.g. an outer product with the dim of the loop; what is wrong in a step is an error there too.
            return None
        return self._registers(node, result, axis)

    def _registers(self, node: Node, result: Any, axis: Dim) -> dict[int, Tensor] | None:
        """The registers of a result for all steps; None if it is not the step's result with one more dim."""
        recorded, got = leaves(node.result), leaves(result)
        if [path for path, _ in recorded] != [path for path, _ in got]:
            return None
        out: dict[int, Tensor] = {}
        for (_, step), (_, value) in zip(recorded, got, strict=True):
            if self._recorder.owns(step):
                if not isinstance(value, Tensor) or len(value.dims) != len(step.dims) + 1 or value.dtype != step.dtype:
                    return None
                if set(value.dims) != {*step.dims, axis}:
                    return None
                step.mark(value)
                out[step.register] = value
                if axis is self.axis:  # else it is tried only
                    self.whole_dims[step.register] = value.dims
            elif step is not value:
                return None
        return out

    def _place_of(self, node: Node) -> Any:
        """A context in which events of the op for all steps have the place where it was recorded."""
        if node.run_place is None:
            return contextlib.nullcontext()
        return trace_context.again(node.run_place, whole=True)

    def _fits(self, node: Node, axis: Dim) -> bool:
        """True if the result dims do not depend on the step, the values of all steps are not huge, and no dim that marks real frames
        disappears.
        """
        found = node.given
        dims_in = {dim for leaf in found if isinstance(leaf, Tensor) for dim in leaf.dims}
        if self._recorder.growing:
            mentioned = [leaf for leaf in (*found, *values_in(node.result)) if isinstance(leaf, Dim)]
            if any(self._recorder.grows(dim) for dim in (*dims_in, *mentioned)):
                return False
        known = axis.is_dim_known()
        steps, lengths_over = max(axis.extent if known else 1, 1), dims_in & set(axis.length_dims if known else ())
        return all(
            lengths_over <= set(out.dims) and steps * math.prod(dim.extent for dim in out.dims) <= _LARGEST
            for out in node.step_tensors
        )

    # -- inside and after --------------------------------------------------------------------------------------------------

    def _place_rest(self, nodes: list[Node]) -> None:
        needed = self._recording.roots()
        candidates = _not_needed(nodes, needed)
        fixed = {id(node) for node in candidates} - self._vectorizable(candidates)
        needed = self._recording.roots()
        for node in reversed(nodes):
            if node.stays or id(node) in fixed or needed & set(node.writes):
                needed.update(node.reads)
                self.inside.append(node)
        self.inside.reverse()
        wanted = self._wanted()
        for node in reversed(_without(nodes, self.inside)):
            if wanted & set(node.writes) or node.offers:
                wanted.update(node.reads)
                self.after.append(node)
        self.after.reverse()

    def _wanted(self) -> set[int]:
        return self._recorder.reads([value for value, last in self._recording.outputs if not last])

    def _vectorizable(self, candidates: list[Node]) -> set[int]:
        """ids of the nodes that compute the same on the values of all steps; tried once per structure of ops and dims."""
        key = self._structure(candidates)
        good = None if key is None else _good.get(key)
        if good is None:
            good = frozenset(self._try(candidates))
            make_room(_good, _BODIES)
            if key is not None:
                _good[key] = good
        return {id(candidates[number]) for number in good}

    def _structure(self, candidates: list[Node]) -> Any | None:
        """A key of everything that determines which nodes can be vectorized; None if there may be more."""
        end, axis, recorder = self._recording.end, self.axis, self._recorder
        key: list[Any] = [self._recording.over_axis, axis.length_dims if end is None else end[0].dims]
        numbers: dict[int, int] = {}
        for node in candidates:
            if node.modes is not None:
                return None
            key.append(node.fn)
            for path, leaf in leaves((node.args, node.kwargs)):
                if isinstance(leaf, Tensor) and (recorder.owns(leaf) or not isinstance(leaf, StepTensor)):
                    number = numbers.setdefault(leaf.register, len(numbers)) if recorder.owns(leaf) else None
                    key.append((path, number, leaf.dims, leaf.dtype, leaf.sparse_dim, leaf.feature_dim))
                elif leaf is None or isinstance(leaf, (bool, int, float, str, Dim)):
                    key += path, leaf.__class__, leaf
                else:
                    return None
            for value in node.step_tensors:
                numbers[value.register] = len(numbers)
                key += value.dims, value.dtype
        found = structure_of(tuple(key))
        return None if found is None else found[0]

    def _try(self, candidates: list[Node]) -> Iterator[int]:
        """The numbers of the nodes that compute the same in a loop of one step."""
        axis = self._one_step()
        whole: dict[int, Tensor] = {}
        with registry.selected().no_grad(), held_back():
            for number, node in enumerate(candidates):
                for register in node.reads:
                    if register not in whole:
                        value = self._recorder.registers[register].value
                        whole[register] = expand_dim(value, axis)
                result = self.run_whole(node, whole, axis)
                if result is not None:
                    whole.update(result)
                    yield number

    def _one_step(self) -> Dim:
        """A dim like the loop's, with one frame."""
        axis, end = self.axis, self._recording.end
        given = self._recording.over_axis
        over = axis.length_dims if given else () if end is None else end[0].dims
        if not over:
            return Dim(1, name=axis.name)
        lengths = axis.lengths if given else None
        host = np.ones([dim.extent for dim in over], np.int32) if lengths is None else np.minimum(lengths, 1)
        raw = registry.selected().from_numpy(host, dtype="int32", device="cpu")
        return Dim(new_tensor(raw, over), name=axis.name)

    def _frontier(self) -> list[int]:
        """The per-step values that the ops after the loop read."""
        made = {register for node in self.after for register in node.writes}
        reads = {register for node in self.after for register in node.reads}
        return sorted(reads - made - self.whole.keys())

    def forget(self) -> None:
        """Release the values of all steps; the plan remains for display."""
        self.whole.clear()
        self._recording.forget()

    # -- to look at --------------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        counts = [f"{len(nodes)} {where}" for where, nodes in self.places()]
        return f"<LoopPlan of {self.name}: {', '.join(counts)}>"

    def __str__(self) -> str:
        return text(self)

    @property
    def program(self) -> str:
        """The array library calls of the steps, as Python code. Empty before the loop is done, in a loop of few steps, and on a backend
        that does not report its calls.
        """
        return "\n\n".join(map(str, self.listings))

    def graphviz(self) -> str:
        """The source of a graph for graphviz."""
        return graph(self)

    def places(self) -> list[tuple[str, list[Node]]]:
        """Pairs (place, ops) in execution order."""
        return [("before", self.before), ("inside", self.inside), ("after", self.after)]

    def inputs(self) -> dict[int, str]:
        """register -> the body's name for it, for everything it reads."""
        recording = self._recording
        names = state_names(recording.states)
        for number, (source, frame) in enumerate(recording.frames):
            names[frame.register] = f"frame of {source.name or f'input {number}'}"
        if recording.index is not None:
            names[recording.index.register] = "iter_idx"
        return names

    def results(self) -> dict[str, list[int]]:
        """Results of the body -> their registers."""
        recording, reads = self._recording, self._recorder.reads
        found = {f"next {name}": sorted(reads(value)) for name, value in recording.next_states.items()}
        for number, (value, last) in enumerate(recording.outputs):
            found[f"{'last' if last else 'stack'} {number}"] = sorted(reads(value))
        if recording.end is not None:
            found["end"] = sorted(reads(recording.end[0]))
        return found


def _without(nodes: list[Node], others: list[Node]) -> list[Node]:
    """The nodes that are not among the others. Compared by id: a body may have thousands, and searching a list for each is slow."""
    there = {id(node) for node in others}
    return [node for node in nodes if id(node) not in there]


def _not_needed(nodes: list[Node], needed: set[int]) -> list[Node]:
    """The nodes whose results the recurrence does not need, in order."""
    needed, out = set(needed), []
    for node in reversed(nodes):
        if node.stays or needed & set(node.writes):
            needed.update(node.reads)
        else:
            out.append(node)
    return out[::-1]
