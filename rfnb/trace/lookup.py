"""Recorded values by path: `trace.attention[...]`, `trace.states[...]`, `trace.beams[...]`, `trace.modules[...]`.

A path may be abbreviated to its end; errors list the recorded paths.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from rfnb.core.dim import Dim
from rfnb.core.errors import ErrorOf, message, nearest, value_error
from rfnb.core.tensor import Tensor
from rfnb.core.whole_number import whole
from rfnb.trace.beams import BeamHistory
from rfnb.trace.event import Event
from rfnb.trace.long_attention import LongAttention, long_of
from rfnb.trace.match import is_end_of
from rfnb.trace.probe import LaterStates, is_lent
from rfnb.trace.stacked_events import alike, loop_dim_of, runs_of, stack

if TYPE_CHECKING:
    from rfnb.trace.trace import Trace

Value = TypeVar("Value")


class Lookup(Mapping[str, Value], Generic[Value]):
    """The events of one kind by path. A path may be abbreviated to its end if that is unique.

    `lookup[path]` is the value of the only run there, `lookup[path, i]` that of run `i` (-1: the latest). A run consists of all steps of
    one pass through the innermost loop; outside of loops each event is a run.
    """

    kind = ""
    name = ""

    def __init__(self, trace: Trace, cache: dict[tuple[str, int], tuple[int, Any]]):
        self._trace, self._cache = trace, cache

    def __getitem__(self, key: str | tuple[str, int]) -> Value:
        path, run = key if isinstance(key, tuple) else (key, None)
        full = self.find(path)
        runs = self._runs_of(full)
        if run is None:
            if len(runs) > 1:
                raise PathError(self._several(full, runs))
            run = 0
        index = self._run(full, run, len(runs))
        return self._cached(full, index, runs[index])

    def _run(self, full: str, run: Any, count: int) -> int:
        """The index of a run; negative indices count from the end.

        Raises:
            PathError: If there is no such run.
        """
        index = whole(run)
        if index is None or not -count <= index < count:
            raise path_error(
                f'{self.name}["{full}", {run!r}]: no such run.',
                {"runs": f"{count}, 0 to {count - 1}"},
                "Runs are counted from 0, in the order of the recording.",
                f'{self.name}["{full}", -1]',
            )
        return index % count

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._paths))

    def __len__(self) -> int:
        return len(self._paths)

    def __contains__(self, path: object) -> bool:
        try:
            return isinstance(path, str) and bool(self.find(path))
        except PathError:
            return False

    def __repr__(self) -> str:
        return f"{self.name}: {', '.join(self._paths) or 'nothing'}"

    def find(self, path: str) -> str:
        """The full path for an abbreviated one.

        Raises:
            PathError: If there is none, or several.
        """
        paths = {full: events[0].module for full, events in self._paths.items()}
        kinds = ", ".join(f"{kind} ({count})" for kind, count in self._trace.counts().items())
        return find_path(self.name, path, paths, kinds or "nothing")

    def runs(self, path: str) -> list[Value]:
        """The value of each run at a path, in order."""
        full = self.find(path)
        return [self._cached(full, index, run) for index, run in enumerate(self._runs_of(full))]

    def num_runs(self, path: str) -> int:
        """The number of runs recorded at a path."""
        return len(self._runs_of(self.find(path)))

    def events(self, path: str, run: int = -1) -> list[Event]:
        """The events of one run at a path, one per step."""
        full = self.find(path)
        runs = self._runs_of(full)
        return runs[self._run(full, run, len(runs))]

    def event_runs(self, path: str) -> list[list[Event]]:
        """The events of each run at a path, in order."""
        return self._runs_of(self.find(path))

    def step_dim(self, path: str, run: int = -1) -> Dim | None:
        """The dim over the steps in the value of a run; None outside of loops."""
        events = self.events(path, run)
        return None if events[0].step is None else self._trace.step_dim(events)

    @property
    def _paths(self) -> dict[str, list[Event]]:
        return self._trace.by_path(self.kind)

    def _runs_of(self, full: str) -> list[list[Event]]:
        return runs_of(self._paths[full])

    def _cached(self, path: str, index: int, run: list[Event]) -> Value:
        if is_lent() and run[0].step is None:  # it is the values of the event, which are not to stay
            return self._value(run)
        # In a running loop the dim of the loop gets known only at the end: the same events may then give another value.
        dim = loop_dim_of(run[0])
        state = 2 * len(run) + (dim is not None and dim.is_dim_known())
        known = self._cache.get((path, index))
        if known is None or known[0] != state:
            known = self._cache[path, index] = (state, self._value(run))
        return known[1]

    def _several(self, path: str, runs: list[list[Event]]) -> str:
        steps = ["1 call" if run[0].step is None else f"{len(run)} step{'s' * (len(run) > 1)}" for run in runs]
        shown = ", ".join(steps[:5]) + (", ..." if len(steps) > 5 else "")
        return message(
            f'{self.name}["{path}"]: {len(runs)} runs were recorded.',
            {"runs": shown},
            f'Only a path with one run has one value. Say which; all of them: {self.name}.runs("{path}").',
            f'{self.name}["{path}", -1]    # the latest',
        )

    def _tensors(self, run: Sequence[Event], name: str) -> list[Tensor]:
        """A value in each step of a run.

        Raises:
            ValueError: If a step lacks it.
        """
        found: list[Tensor] = []
        for event in run:
            value = event.values.get(name)
            if not isinstance(value, Tensor) or value._raw is None:
                got = value if isinstance(value, Tensor) else "nothing" if value is None else type(value).__name__
                where = "this event" if event.step is None else f"step {event.step}"
                raise value_error(
                    f'{self.name}["{event.path}"]: {where} has no numbers "{name}".',
                    [(name, got), ("all values", ", ".join(event.values) or "none")],
                    "What was offered at a path is put together by the names of its values, in every step the same. One by one it is here:",
                    f'trace.select(kind="{self.kind}", path="{event.path}")',
                )
            found.append(value)
        return found

    def _value(self, run: list[Event]) -> Value:
        raise NotImplementedError


class AttentionLookup(Lookup[Tensor]):
    """Attention weights {step, ...}: the events of a loop stacked over a step dim. In a search, they are in slots of the beam:
    `trace.beams[path].along(trace.attention.steps(path), seq, slot)` follows one hypothesis.
    """

    kind, name = "attention", "trace.attention"

    def steps(self, path: str, run: int = -1) -> list[Tensor]:
        """The weights of each step of one run, as they were recorded."""
        events = self.events(path, run)
        for event in events:
            self._refuse_large(event)
        return self._tensors(events, "weights")

    def of(self, events: list[Event]) -> Tensor:
        """The weights of the events of one run, stacked over its steps."""
        return self._value(events)

    def long(self, path: str, run: int = -1) -> LongAttention:
        """The weights by rows, for an attention whose queries and keys were recorded because its weights are too many.

        Raises:
            PathError: If there is no such path.
            ValueError: If its weights were recorded.
        """
        event = self.events(path, run)[0]
        found = long_of(event.values)
        if found is None:
            raise value_error(
                f'trace.attention.long("{path}"): these weights are all there.',
                {"weights": self._tensors([event], "weights")[0]},
                "Only of attentions with very many weights queries and keys are kept instead.",
                f'trace.attention["{path}"]',
            )
        return found

    def axis(self, path: str, run: int = -1) -> Dim | None:
        """The dim attended over, in `trace.attention[path]`."""
        return (self[path, run]._roles or {}).get("axis")

    def _refuse_large(self, event: Event) -> None:
        long = long_of(event.values)
        if long is not None:
            count = long.num_seqs * long.num_heads * long.targets * long.sources
            raise value_error(
                f'trace.attention["{event.path}"]: these are too many weights to make all of them.',
                {"weights": f"{long.num_seqs} x {long.num_heads} maps of {long.targets} x {long.sources}",
                 "memory": f"{4 * count / 2**30:.1f} GiB"},
                "Queries and keys were recorded: rows are made of them, exactly, and overviews.",
                f'long = trace.attention.long("{event.path}")\n'
                f"long.rows(0, 10, head=0)    # NumPy [10, {long.sources}]\nrf.viz.attention(long)",
            )  # fmt: skip

    def _value(self, run: list[Event]) -> Tensor:
        for event in run:
            self._refuse_large(event)
        weights = self._tensors(run, "weights")
        if run[0].step is None:
            return _with_roles(weights[0].copy(), run[-1])
        value = stack(weights, self._trace.step_dim(run), [event.values.get("axis") for event in run])
        return _with_roles(value, run[-1], value.dims[0])


class StatesLookup(Lookup[dict[str, Tensor]]):
    """States by name: {name: Tensor {step, ...}}, the events of a loop stacked over a step dim."""

    kind, name = "states", "trace.states"

    def steps(self, path: str, name: str, run: int = -1) -> list[Tensor]:
        """One state in each step of a run, as it was recorded."""
        return self._tensors(self.events(path, run), name)

    def step_dim(self, path: str, run: int = -1) -> Dim | None:
        """The dim over the steps; for states computed for a whole sequence at once, that sequence's dim."""
        events = self.events(path, run)
        axis = events[0].values.get("axis")
        return axis if events[0].step is None and isinstance(axis, Dim) else super().step_dim(path, run)

    def at(self, path: str, step: int, run: int = -1) -> Tensor:
        """The matrix state after one step of a very long recurrence, {batch, head, key, value}, computed by itself.

        Raises:
            PathError: If there is no such path.
            ValueError: If it is not such a recurrence, or has no such step.
        """
        event = self.events(path, run)[0]
        here = f'trace.states.at("{path}", {step})'
        if event.step is not None or not isinstance(event.values, LaterStates):
            raise value_error(
                f"{here}: these states were not recorded as those of a recurrence over a whole sequence.",
                {"states": ", ".join(name for name in event.values if name != "axis")},
                "Where a model calls its kernel for all steps at once, and the recording is not of a file, a state is made for itself.",
                f'trace.states["{path}"]    # what is there of all steps',
            )
        count = event.values.steps
        if not -count <= step < count:
            raise value_error(
                f"{here}: there is no such step.",
                {"steps": count},
                "Steps are counted from 0, from the end as -1.",
                f'trace.states.at("{path}", -1)',
            )
        state: Tensor = event.values.at(step)
        return state

    def _value(self, run: list[Event]) -> dict[str, Tensor]:
        names = [name for name, value in run[0].values.items() if isinstance(value, Tensor)]
        if run[0].step is None:
            axis = run[0].values.get("axis")
            return {name: _with_roles(run[0].values[name].copy(), None, axis) for name in names}
        dim = self._trace.step_dim(run)
        stacked = {name: stack(self._tensors(run, name), dim) for name in names}
        return {name: _with_roles(value, None, value.dims[0]) for name, value in stacked.items()}


class BeamsLookup(Lookup[BeamHistory]):
    """Searches by path."""

    kind, name = "beams", "trace.beams"

    def _runs_of(self, full: str) -> list[list[Event]]:
        return runs_of(self._paths[full], chained=True)

    def _value(self, run: list[Event]) -> BeamHistory:
        return BeamHistory.of_values([event.values for event in run], [event.step for event in run])


@dataclass(frozen=True)
class SearchEvents:
    """One run of a search.

    Attributes:
        path, run: Path and run of its `beams` events.
        choices: Entry of a step -> the choices in it: each event, and its step in the history.
    """

    path: str
    run: int
    choices: dict[int, list[tuple[Event, int]]]
    history: BeamHistory


def searches_of(trace: Trace) -> list[SearchEvents]:
    """The searches of a recording; events that do not form a search are skipped."""
    found = []
    for path in trace.beams:
        for run, events in enumerate(trace.beams.event_runs(path)):
            try:
                history = trace.beams[path, run]
            except Exception:  # a user's own probe, whose view says so
                continue
            choices: dict[int, list[tuple[Event, int]]] = {}
            for number, event in enumerate(events):
                choices.setdefault(event.entry, []).append((event, number))
            found.append(SearchEvents(path, run, choices, history))
    return found


class ModulesLookup(Lookup[list[Event]]):
    """The calls of a module: their events have `inputs` and `outputs`, lists of (name, Tensor without values)."""

    kind, name = "module", "trace.modules"

    def __getitem__(self, key: Any) -> list[Event]:
        return list(self._paths[self.find(key)])

    def _value(self, run: list[Event]) -> list[Event]:
        return run


def _with_roles(value: Tensor, event: Event | None, step: Any = None) -> Tensor:
    """`value`, marked with the dims that the event named as axis, target and step."""
    named = {role: event.values.get(role) for role in ("axis", "target")} if event is not None else {}
    roles = {"step": step} if isinstance(step, Dim) and step in value.dims else {}
    for role, dim in named.items():
        if not isinstance(dim, Dim):
            continue
        # Stacking makes a new dim where the old ones differ from step to step, with the name of what they are computed from.
        same = [other for other in value.dims if alike(other, dim) and other is not roles.get("step")]
        if dim in value.dims and dim is not roles.get("step"):
            roles[role] = dim
        elif len(same) == 1:
            roles[role] = same[0]
    value._roles = roles
    return value


class PathError(KeyError):
    """A path, or the end of one, that was not recorded or is ambiguous."""

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would show the repr, with \\n for each new line


path_error = ErrorOf(PathError)


def find_path(what: str, path: str, paths: Mapping[str, str], others: str) -> str:
    """The recorded path that is meant.

    Args:
        what: The expression as typed, e.g. "trace.attention".
        path: A recorded path, or the end of exactly one, with or without the names of its loops.
        paths: Recorded paths, each mapped to the path without loop names.
        others: Everything that was recorded, for the message if there is nothing of this kind.

    Raises:
        PathError: If there is none, or several.
    """
    if not isinstance(path, str):
        raise path_error(
            f"{what}: no path {path!r}.",
            {"paths": ", ".join(paths) or "none"},
            "A path is a text: a recorded path, or the end of exactly one.",
        )
    if path in paths:
        return path
    for form in ({name: name for name in paths}, paths):
        exact = [full for full, short in form.items() if short == path]
        found = exact or [full for full, short in form.items() if is_end_of(path, short)]
        if len(found) == 1:
            return found[0]
        if found:
            raise path_error(
                f'{what}: "{path}" is the end of {len(found)} paths.',
                {"paths": ", ".join(found)},
                "A path is a recorded path, or the end of exactly one.",
                f'{what}("{found[0]}")' if what.startswith("diff.") else f'{what}["{found[0]}"]',
            )
    if not paths:
        raise path_error(
            f'{what}: nothing of this kind was recorded, so there is no "{path}".',
            {"recorded": others},
            "A trace has what was offered inside of its with-block and passed its filters.",
            "with rf.record() as trace:    # no filters\n    ...",
        )
    meant = nearest(path, paths)
    raise path_error(
        f'{what}: no path "{path}".',
        {"paths": ", ".join(paths)},
        "A path is a recorded path, or the end of exactly one.",
        f'{what}("{meant}")' if what.startswith("diff.") else f'{what}["{meant}"]',
    )
