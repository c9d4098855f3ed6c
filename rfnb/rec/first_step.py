"""Uses the recorded step as the watched one: if it resembles the steps that follow, the loop has its program before the second step,
and no further step runs op by op.

It does not always resemble them. An initial value may have other marks than a later one, or no gradient; the body may create something
once (a mask); two names may share one array, or a constant. Each of these is detected, and then a later step is watched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rfnb.backends import registry
from rfnb.backends.raw_calls import MADE, RawCall
from rfnb.core.memo import is_kept
from rfnb.core.tensor import Tensor
from rfnb.core.tree import leaves
from rfnb.rec.ends import Ends, EndsOfAxis
from rfnb.rec.lowering import NotLowered
from rfnb.rec.program import Program
from rfnb.rec.raw_trace import Circumstances, TracedOps, guard, input_names, own_array
from rfnb.rec.recorder import Node
from rfnb.rec.recording import Recording
from rfnb.rec.shared_code import program_of
from rfnb.rec.states import States
from rfnb.rec.step_tensor import StepTensor

FEWEST = 5  # steps of a kind, for which a program is worth to be made
_APART = 16  # steps before the first sequence has ended, for which a program of their own is worth to be made


def are_together(ends: EndsOfAxis, index: int) -> bool:
    """True if one program serves the steps from `index` on, including those before the first sequence ends."""
    return ends.all_until < ends.axis.extent and ends.all_until - index < _APART


def program_of_steps(
    seen: TracedOps,
    given: Mapping[int, Tensor],
    before: Mapping[str, Tensor],
    results: Iterable[Tensor],
    names: Mapping[Any, str],
    note: Callable[[int], str],
    further: Mapping[str, Any] | None = None,
    end: Sequence[RawCall] = (),
) -> Program | None:
    """The program for many steps like this one; None if there is none.

    Args:
        given: register -> a value that each step gets.
        before: Path -> a value that the steps carry.
        results: The carried values after the step, and its outputs.
        names: register -> its name.
        further: Name -> an array that each step gets besides.
        end: Calls after all ops.
    """
    further = further or {}
    named = input_names([*given, *before], {**names, **{path: path for path in before}})
    inputs = {id(value._raw): named[key] for key, value in (*given.items(), *before.items())}
    inputs |= {id(raw): name for name, raw in further.items()}
    carried, over = [named[path] for path in before], [*(named[register] for register in given), *further]
    raws, backend = [value._raw for value in results], next(iter(before.values())).backend
    try:
        made = program_of(seen, inputs, raws, note, carried, over=over, end=end, backend=backend)
    except NotLowered:
        return None
    return made if isinstance(made, Program) else None


class FirstStep:
    """Watches the ops of the recorded step."""

    def __init__(self, recording: Recording):
        self._recording = recording
        self._key: Any = None

    def watch(self, states: States, ends: Ends) -> bool:
        """Start watching if the step may resemble those that follow; the states get arrays of their own."""
        if not isinstance(ends, EndsOfAxis) or ends.axis.extent <= FEWEST or are_together(ends, 1):
            return False
        now, values = Circumstances(), list(states.tensors().values())
        # Debugging switches and loops around this one want to see every op: `Stretch` would not use a program.
        if now.steps or now.listeners or not now.unseen():
            return False
        backend = values[0].backend if values else None
        if backend is None or any(type(value) is not Tensor or value.backend is not backend for value in values):
            return False
        tracked = backend.grad_enabled() and not all(backend.tracks_gradient_raw(value._raw) for value in values)
        if tracked or backend.trace_calls() is None or backend is not registry.selected():
            return False
        states.replace(own_array)
        self._key, self._recording.recorder.watched = now.key, True
        return True

    def program(
        self,
        nodes: Sequence[Node],
        registers: Sequence[int],
        names: dict[Any, str],
        after: dict[str, Tensor],
        stacked: Sequence[Tensor],
        note: Callable[[int], str],
    ) -> tuple[Program, Any, dict[str, Tensor], dict[int, Tensor]] | None:
        """The program for the following steps, the key of its circumstances, and values like those that it carries, by path, and that it
        is given, by register; None if they may differ.

        Args:
            nodes: All that a step does.
            registers: Those that each step is given.
            names: register -> what to call it.
            after: Path -> value after the step, of all that is carried.
            stacked: The values that the step has given to outputs.
        """
        found = self._recording.recorder.registers
        states = {path: leaf for path, leaf in leaves(self._recording.states, "state") if isinstance(leaf, StepTensor)}
        made = {register for node in self._recording.recorder.nodes for register in node.writes}
        marked = any(leaf.marked_late or (leaf.was_marked and leaf.register not in made) for leaf in found)
        # Both in the order of the first structure; else values would change places.
        if marked or list(states) != list(after) or not all(map(self._is_fresh, registers)):
            return None
        before, given = (
            {path: leaf.value for path, leaf in states.items()},
            {each: found[each].value for each in registers},
        )
        if not all(_is_like(value, after[path]) for path, value in before.items()):
            return None
        calls = [without_kept(node.calls) for node in nodes if node.calls is not None]
        seen = TracedOps(nodes, [each.value for each in found], [(each, []) for each in calls])
        arrays = {id(value._raw) for value in (*given.values(), *before.values())}
        if len(calls) != len(nodes) or len(arrays) != len(given) + len(before) or seen.changes:
            return None
        program = program_of_steps(seen, given, before, (*after.values(), *stacked), names, note)
        return None if program is None else (program, self._key, {path: after[path] for path in before}, given)

    def _is_fresh(self, register: int) -> bool:
        """True if no other register shares the array: it is a frame, or an op of this step created it.

        An op before the loop is not known to produce such an array: its result for all steps has the loop dim. It is checked all the
        same, since a value wrongly taken for a constant would be a silent error.
        """
        raw = self._recording.recorder.registers[register].value._raw
        node = next((node for node in self._recording.recorder.nodes if register in node.writes), None)
        if node is None:
            return True
        calls = node.calls or ()
        made = any(raw is out for call in calls for out in _arrays(call.out))
        used = (item for call in calls for item in _arrays((call.args, call.kwargs)))
        return made and not any(raw is item for item in used) and not is_kept(raw)


def _is_like(before: Tensor, after: Tensor) -> bool:
    """True if a program for the first value also serves the second: nothing that ops look at differs. There may be no padding, and work
    done without knowing that padding is finite remains correct.
    """
    one, other = guard(before), guard(after)
    if one == other:
        return True
    known = not before._finite and not any(dim.has_padding() for dim in before.dims)
    return known and one[:3] == other[:3] and one[4:] == other[4:]


def without_kept(calls: Sequence[RawCall]) -> list[RawCall]:
    """The calls without those that computed values kept for the next step, where they are constants."""
    return [call for call in calls if call.kind != MADE or not is_kept(call.out)]


def _arrays(x: Any) -> list[Any]:
    return [leaf for _, leaf in leaves(x)]
