"""Trace: the ordered events of one run, looked up by kind, path and step."""

from __future__ import annotations

import re
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any

from rfnb.core.dim import Dim
from rfnb.core.errors import NearNames, message
from rfnb.core.place import warn_user
from rfnb.core.size_queries import on_resize
from rfnb.core.tensor_text import table_lines
from rfnb.trace.event import EVENT_COST, MADE_LATER, Event, Templates, bytes_of
from rfnb.trace.lookup import AttentionLookup, BeamsLookup, ModulesLookup, StatesLookup
from rfnb.trace.match import Steps, kind_filter, path_filter, step_filter, warn_of_kinds, warn_of_paths
from rfnb.trace.probe import Later, Place
from rfnb.trace.recorded_sizes import RecordedSizes
from rfnb.trace.stacked_events import loop_dim_of, step_dim_of

if TYPE_CHECKING:
    from rfnb.trace.run_tree import Tree
    from rfnb.trace.training import Training


@dataclass
class Truncated:
    """The place where a recording reached its limit.

    Attributes:
        kind, path, step: Kind, path and step of the first dropped event.
        limit: The limit in bytes.
        dropped: The number of dropped events so far.
    """

    kind: str
    path: str
    step: int | None
    limit: int
    dropped: int = 1


class Trace(NearNames):
    """The ordered events of one run.

    Attributes:
        truncated: The place where the recording reached its limit, or None.
        closed: Whether the recording has ended.
        guesses: The dims of the data of a torch model with guessed names, see `guessed`.
        num_bytes: Size of the kept values in bytes.
        tree: For a trace loaded with the branches of its run: the branches with their traces.
        training: For a trace loaded from a file of `watch.save`: the observed training.
        model: The class of the recorded model, or of several models all classes; "" without a model.
    """

    def __init__(self, *, limit: int | None = None, model: str = ""):
        self.model = model
        self.tree: Tree | None = None
        self.training: Training | None = None
        self._events: list[Event] = []
        self._noted: deque[Any] = (
            deque()
        )  # behind the events: calls that are none yet, see `CallNotes`, and what came between
        self.truncated: Truncated | None = None
        self.closed = False
        self.guesses: list[Dim] = []
        self.num_bytes = 0
        self._found: dict[type, dict[tuple[str, int], tuple[int, Any]]] = {}
        self._limit = limit
        self._events_by_kind: dict[str, dict[str, list[Event]]] = {}
        self._step_dims: dict[Any, Dim] = {}
        self._sizes = RecordedSizes()
        _traces.add(self)
        self._lock = threading.RLock()
        self._subscribers: list[Callable[[Event], None]] = []
        self._on_close: list[Callable[[Trace], None]] = []

    @property
    def events(self) -> list[Event]:
        """All events, in order. Read only."""
        if self._noted:
            self._make_events()
        return self._events

    @property
    def _by_kind(self) -> dict[str, dict[str, list[Event]]]:
        if self._noted:
            self._make_events()
        return self._events_by_kind

    # Made when they are asked for: a trace that held what holds it would stay, with all its values, until the garbage collector comes.
    @property
    def attention(self) -> AttentionLookup:
        """path -> weights, a Tensor {step, ...}; `trace.attention["decoder.att"]`."""
        return AttentionLookup(self, self._found.setdefault(AttentionLookup, {}))

    @property
    def states(self) -> StatesLookup:
        """path -> {name: Tensor {step, ...}}."""
        return StatesLookup(self, self._found.setdefault(StatesLookup, {}))

    @property
    def beams(self) -> BeamsLookup:
        """path -> BeamHistory."""
        return BeamsLookup(self, self._found.setdefault(BeamsLookup, {}))

    @property
    def modules(self) -> ModulesLookup:
        """path -> the events of its calls."""
        return ModulesLookup(self, self._found.setdefault(ModulesLookup, {}))

    @property
    def kinds(self) -> list[str]:
        """The kinds of events, in the order of their first one."""
        return list(self._by_kind)

    @property
    def paths(self) -> list[str]:
        """The paths of events, in the order of their first one."""
        return list(dict.fromkeys(event.path for event in self.events))

    def counts(self) -> dict[str, int]:
        """The number of events of each kind."""
        return {kind: sum(map(len, paths.values())) for kind, paths in self._by_kind.items()}

    def by_path(self, kind: str) -> dict[str, list[Event]]:
        """The events of one kind by full path."""
        with self._lock:
            return {path: list(events) for path, events in self._by_kind.get(kind, {}).items()}

    def select(
        self,
        kind: str | Iterable[str] | None = None,
        path: str | Iterable[str] | None = None,
        step: Steps | None = None,
    ) -> list[Event]:
        """The events that pass all filters, in order.

        Args:
            kind: One kind, or several.
            path: A pattern ("encoder.*"), or the end of a path ("att"); one or several.
            step: int, range, slice, collection, or function of the step. If given, events outside of loops do not pass.
        """
        kinds, paths, steps = kind_filter(kind), path_filter(path), step_filter(step)
        if kind is not None:
            warn_of_kinds("select", [kind] if isinstance(kind, str) else kind, self.events)
        if path is not None:
            names = [(event.path, event.module) for event in list(self.events)]
            warn_of_paths("select", [path] if isinstance(path, str) else path, names)
        return [
            event
            for event in list(self.events)
            if kinds(event.kind)
            and paths(event.path, event.module)
            and (step is None or (event.step is not None and steps(event.step)))
        ]

    def step_dim(self, run: Sequence[Event]) -> Dim:
        """The dim over the steps of a run; shared by all events of the same run of a loop."""
        dim = loop_dim_of(run[0])
        key = (run[0].entry, tuple(event.step for event in run), dim is not None and dim.is_dim_known())
        with self._lock:
            if key not in self._step_dims:
                self._step_dims[key] = step_dim_of(run)
            return self._step_dims[key]

    def subscribe(self, fn: Callable[[Event], None]) -> Callable[[Event], None]:
        """Call `fn(event)` for each new event, in the thread of the model; return `fn`.

        It should only note the event. A function that raises is removed with a warning, and the run continues.
        """
        self._subscribers.append(fn)
        return fn

    def unsubscribe(self, fn: Callable[[Event], None]) -> None:
        """Stop calling `fn`; no effect if it was not subscribed."""
        self._subscribers = [other for other in self._subscribers if other != fn]

    def on_close(self, fn: Callable[[Trace], None]) -> None:
        """Call `fn(trace)` when the recording ends, or at once if it has ended."""
        if self.closed:
            fn(self)
        else:
            self._on_close.append(fn)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the events to a file that `rf.load_trace` reads: safetensors with JSON, nothing executable.

        Raises:
            TypeError: For a value that is not a Tensor, Dim, NumPy array or plain data.
        """
        from rfnb.trace.file import save_trace  # the file format needs Trace

        save_trace(self, path)

    def __getstate__(self) -> dict[str, Any]:
        """The events so far, for pickle and copies; listeners are not included."""
        with self._lock:
            about = {"truncated": self.truncated, "limit": self._limit, "model": self.model}
            return {"events": list(self.events), **about}

    def __setstate__(self, state: dict[str, Any]) -> None:
        Trace.__init__(self, limit=state["limit"], model=state["model"])
        for event in state["events"]:
            self._keep(event)
        self.truncated, self.closed = state["truncated"], True

    def __len__(self) -> int:
        return len(self.events)

    def __repr__(self) -> str:
        kinds = ", ".join(f"{kind} {count}" for kind, count in self.counts().items()) or "none"
        state = "closed" if self.closed else "recording"
        cut = ", truncated" if self.truncated is not None else ""
        left = f", {few}" if (few := self.left_out_count) else ""
        return f"<Trace: {len(self.events)} events ({kinds}), {self.num_bytes} bytes, {state}{cut}{left}>"

    @property
    def guessed(self) -> str:
        """The names of axes of the data that are guesses, by sizes and places, and that nothing has said since; "" if there are none."""
        return ", ".join(dict.fromkeys(dim.name for dim in self.guesses if dim.guessed))

    @property
    def left_out_count(self) -> str:
        """The number of softmaxes that were not taken for attention, as text; "" if there are none."""
        return re.sub(r" (was|were) not taken for attention.*", " not taken for attention", self.left_out)

    @property
    def left_out(self) -> str:
        """The softmaxes of torch models that were not taken for attention, with the reasons and the line that takes them; "" if there
        are none.
        """
        left = [event for events in self.by_path("unseen").values() for event in events if "softmaxes" in event.values]
        if not left:
            return ""
        count = sum(event.values["softmaxes"] for event in left)
        reasons: dict[str, list[str]] = {}
        for event in left:
            reasons.setdefault(event.values["reason"], []).append(event.path or "the model")
        said = "; ".join(
            f"{', '.join(paths[:3])}{f' and {len(paths) - 3} more' if len(paths) > 3 else ''}: {reason}"
            for reason, paths in reasons.items()
        )
        few = repr([event.path for event in left][:3])
        were = "softmax was" if count == 1 else "softmaxes were"
        return f"{count} {were} not taken for attention: {said}. To take them: rf.record(model=model, attention={few})"

    def summary(self) -> str:
        """A table of what was recorded: kind, path, number of events, steps, bytes."""
        rows = [("kind", "path", "events", "steps", "bytes")]
        for kind in self.kinds:
            for path, events in self.by_path(kind).items():
                steps = [event.step for event in events if event.step is not None]
                span = f"{min(steps)}-{max(steps)}" if steps else "-"
                rows.append((kind, path, str(len(events)), span, str(sum(event.num_bytes for event in events))))
        say = f'Guessed names of axes: {self.guessed}. rf.record(dims={{"path": [...]}}) says them, why=True prints the rules.'
        return "\n".join(
            [repr(self), *filter(None, [self.left_out, self.guessed and say]), *table_lines(rows, range(2, 5))]
        )

    # -- for record and load -------------------------------------------------------------------------------------------

    def add(self, kind: str, place: Place, values: Mapping[str, Any], num_bytes: int | None = None) -> Event | None:
        """Append an event; None if it does not fit in the limit.

        Args:
            num_bytes: Size of the values, if known.
        """
        return self._add(kind, place, values, bytes_of(values) if num_bytes is None else num_bytes)

    def _add(self, kind: str, place: Place, values: Mapping[str, Any], num_bytes: int) -> Event | None:
        with self._lock:
            if self.truncated is not None:
                self.truncated.dropped += 1
                return None
            index = len(self._events) + len(self._noted)
            fits = self._limit is None or self.num_bytes + num_bytes + (index + 1) * EVENT_COST <= self._limit
            if fits:
                self._keep(event := _event(kind, place, index, values, num_bytes))
            else:
                self.truncated = Truncated(kind, place.path, place.step, self._limit or 0)
        if not fits:
            self._warn()
            return None
        for fn in list(self._subscribers) if self._subscribers else ():
            self._tell(fn, event)
        return event

    def _make_events(self) -> None:
        """Make the events of the noted calls."""
        with self._lock:
            while self._noted:
                event = self._noted[0]
                if event.__class__ is not Event:
                    templates, place, look, make, num_bytes, kept, args = event
                    values = templates.made(look, make)
                    if kept is not None:
                        values = Later(partial(kept, *args, values), num_bytes, like=values)
                    event = _event("module", place.place(), len(self._events), values, num_bytes)
                    self._sizes.note(event)
                self._noted.popleft()
                self._append(event)

    def _keep(self, event: Event) -> None:
        self._sizes.note(event)
        self.num_bytes += event.num_bytes
        if self._noted:
            self._noted.append(event)
        else:
            self._append(event)

    def _append(self, event: Event) -> None:
        self._events.append(event)
        by_kind = self._events_by_kind
        by_path = by_kind.get(event.kind) or by_kind.setdefault(event.kind, {})
        of_path = by_path.get(event.path)
        if of_path is None:
            of_path = by_path[event.path] = []
        of_path.append(event)

    def settle_sizes(self) -> None:
        """Preserve the sizes of recorded values, since some dims have changed."""
        with self._lock:
            self._make_events()
            if self._sizes.settle():
                self._step_dims.clear()
                self._found.clear()

    def count_dropped(self) -> None:
        """Count another event that came after the limit."""
        with self._lock:
            assert self.truncated is not None
            self.truncated.dropped += 1

    def close(self) -> None:
        """End the recording."""
        if not self.closed:
            self.closed = True
            told, self._on_close, self._subscribers = self._on_close, [], []
            for fn in told:
                fn(self)

    def _tell(self, fn: Callable[[Event], None], event: Event) -> None:
        try:
            fn(event)
        except Exception as error:  # a view must never break the run that it looks at
            self.unsubscribe(fn)
            warn_user(
                f"A subscriber of a trace raised {type(error).__name__}: {error}\nIt gets no more events. The run continues."
            )

    def _warn(self) -> None:
        cut = self.truncated
        assert cut is not None
        step = "" if cut.step is None else f", step {cut.step}"
        warn_user(
            message(
                "record: the limit is reached. Earlier events are kept, and the run continues.",
                {
                    "kept": f"{len(self.events)} events, {self.num_bytes} bytes",
                    "not kept": f"{cut.kind} at {cut.path}{step}, and what follows",
                    "limit": f"{cut.limit} bytes, {EVENT_COST} per event and its values",
                },
                "Record less, or allow more:",
                f'with rf.record(kinds={{"{cut.kind}"}}, limit={max(2 * cut.limit, 1 << 20)}) as trace:',
            )
        )


class CallNotes:
    """Notes calls of modules in a trace; their events are made when the trace is first read.

    Args:
        templates: Of the recording.
        values: Whether the trace keeps what modules return.
    """

    def __init__(self, trace: Trace, templates: Templates, values: bool):
        self.trace, self.templates, self.values = trace, templates, values

    def __call__(
        self, place: Any, look: tuple[Any, ...], make: Any, num_bytes: int, kept: Any, args: Sequence[Any]
    ) -> bool:
        """Note a call, given as for `probe_call`.

        Returns:
            False if its event must be made now: there are subscribers, the limit is reached, or sizes must be noted.
        """
        trace, template = self.trace, self.templates.noted(look)
        if template is None or trace.closed or trace._subscribers or trace.truncated is not None:
            return False
        if self.values:
            if kept is None:
                return False
        else:
            kept, num_bytes, args = None, 0, ()
        if template is not MADE_LATER and not trace._sizes.knows(template):
            return False
        with trace._lock:
            size = trace.num_bytes + num_bytes
            if trace._limit is not None:
                if size + (len(trace._events) + len(trace._noted) + 1) * EVENT_COST > trace._limit:
                    return False
            trace.num_bytes = size
            trace._noted.append((self.templates, place, look, make, num_bytes, kept, args))
        return True


def _event(kind: str, place: Place, index: int, values: Mapping[str, Any], num_bytes: int) -> Event:
    path, step, axis, module, steps, entry, _, _, call, depth = place
    return Event(kind, path, step, index, values, module, steps, axis, entry, call, num_bytes, depth)


_traces: weakref.WeakSet[Trace] = weakref.WeakSet()


def _settle_all() -> None:
    for trace in list(_traces):
        trace.settle_sizes()


on_resize(_settle_all)
