"""The view of a recording: a part for each search, attention and state, all linked by one selection.

In a search, the rows of a map and the columns of a state follow the best hypothesis of each sequence, not a slot of the
beam (`trace_search.py`). Axes are labelled with the tokens read or written along them (`trace_labels.py`).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from rfnb.core.dim import Dim
from rfnb.core.errors import DimError
from rfnb.core.tensor import Tensor
from rfnb.trace.lookup import SearchEvents, searches_of
from rfnb.trace.match import kind_filter, path_filter, warn_of_paths
from rfnb.trace.probe import lent
from rfnb.trace.stacked_events import loop_dim_of
from rfnb.viz.attention import trace_part as attention
from rfnb.viz.attention.long_maps import is_long
from rfnb.viz.attention.rail import with_rail
from rfnb.viz.attention.recomputed_maps import RecentWeights
from rfnb.viz.axes import Axis
from rfnb.viz.beams import trace_part as beams
from rfnb.viz.dims.spec import spec as dims_spec
from rfnb.viz.distribution import trace_part as distribution
from rfnb.viz.edit_handles import EditHandles, is_effective
from rfnb.viz.flow.spec import spec as flow_spec
from rfnb.viz.group import spec as group
from rfnb.viz.kinds import KINDS
from rfnb.viz.spec import Spec
from rfnb.viz.states import trace_part as states
from rfnb.viz.trace_labels import Tokens
from rfnb.viz.trace_title import title_of

_MOST_PARTS, _MOST_RUNS = 12, 4
# By kind of event, in the order of the parts.
_MAKERS = {"beams": beams, "outputs": distribution, "attention": attention, "states": states}
_UNNAMED = re.compile(r"sequence (\d+)(?=$|,)")
_SLOTS = "These are slots of the beam, not hypotheses: a hypothesis may move to another slot in each step."


def spec(
    trace: Any,
    *,
    kinds: str | Sequence[str] | None = None,
    path: str | Sequence[str] | None = None,
    labels: Mapping[Any, Sequence[Any]] | Sequence[Any] | None = None,
    tokens: Mapping[Any, Sequence[Any]] | Sequence[Any] | None = None,
    tokenizer: Any = None,
    samples: Any = None,
    sampling_rate: float | None = None,
    frame_shift: float | None = None,
    live: bool | None = None,
    title: str | None = None,
    handles: EditHandles | None = None,
    expected: Mapping[int, Sequence[str]] | None = None,
) -> Spec:
    """The spec of a recording.

    Args:
        trace: A Trace.
        kinds: What to show: "attention", "states", "beams", "outputs", "op" (the flow of dims), "module", or several. Default: all but
            the modules, which are shown if there is nothing else.
        path: Only these paths: one or several patterns ("encoder.*") or suffixes ("att").
        labels: Tokens by dim (a Dim or its name): a list for all sequences, or a list per sequence. Or a single such
            list, for all axes with as many positions. Default: the embedded tokens.
        tokens: An alias of `labels`.
        tokenizer: The text of the embedded tokens: a tokenizer, a list, or a dict from text to index.
        samples, sampling_rate, frame_shift: Sound, drawn above each attention whose sources have no tokens, as in `rf.viz.attention`.
        live: Whether more data may arrive. Default: until the trace is closed.
        title: Default: model and task, unless `kinds` or `path` select parts.
        handles: Edit handles of a held run: its views then have the steps and entries for commands.
        expected: The expected labels of each sequence; the view of its search shows where they were pruned.
    """
    running = not trace.closed if live is None else live
    given = labels if tokens is None else tokens
    page = RecordingPage(trace, Tokens(trace, given, tokenizer), searches_of(trace), running, handles, expected or {})

    def wanted(kind: str) -> bool:
        return kinds is None or kind_filter(kinds)(kind)

    def there(each: str) -> bool:
        return path is None or path_filter(path)(each, each)

    if path is not None and not running:
        warn_of_paths(
            "show", [path] if isinstance(path, str) else path, [(each.path, each.path) for each in trace.events]
        )
    runs = list(page.runs(lambda kind, each: wanted(kind) and there(each)))
    # In the order of the recording, so that numbers do not change when more data arrives.
    by_run = {id(run): page.part(run) for run in sorted(runs, key=lambda run: run.events[0].index)}
    page.done()
    if given is not None and not running:
        page.tokens.check()
    if samples is not None:
        sound = functools.partial(_with_sound, samples, sampling_rate, frame_shift)
        by_run = {run: made if made is None else sound(made) for run, made in by_run.items()}
    parts: list[Spec] = []
    for run in runs:
        made = by_run[id(run)]
        if made is None:
            continue
        put = getattr(_MAKERS[run.kind], "put_into", None)
        if put is None or not put(page, parts, made, run):
            parts.append(made)
    for event, error in page.tokens.unread:
        if wanted(event.kind) and there(event.path):
            parts.append(_fault(f"Tokens: {event.path or event.kind}", error, running))
    if wanted("op") and path is None and not running and trace.by_path("op"):
        parts.append(_or_fault("Flow", lambda: flow_spec(trace), running))
    if wanted("module") and (not parts or kinds is not None) and any(map(there, trace.modules)):
        parts.append(_or_fault("Dims", lambda: dims_spec(trace, live=running), running))
    cut = " (cut off at the limit)" if trace.truncated is not None else ""
    if title is None:  # with a selection, the parts have their own titles
        chosen = kinds is not None or path is not None
        title = "" if chosen and parts and not cut else title_of(trace, page.searches, page.names()) + cut
    if kinds is None and path is None:
        parts = _folded(parts)
    if len(parts) > _MOST_PARTS:
        few = f'the first {_MOST_PARTS} of {len(parts)} views; others: rf.show(trace, path="...")'
        title = f"{title} — {few}" if title else few
    parts = parts[:_MOST_PARTS]
    if title and trace.left_out and path is None and _about_attention(kinds):
        title = f"{title} — {trace.left_out_count}"
    if trace.guessed and parts:
        title = f"{title} — guessed names: {trace.guessed}" if title else f"Guessed names: {trace.guessed}"
    said = [
        f"{event.values.get('module')}: {event.values.get('reason')}."
        for each, events in (trace.by_path("unseen") if _about_attention(kinds) else {}).items()
        for event in events
        if there(each) and "softmaxes" not in event.values
    ]
    if trace.left_out and path is None and _about_attention(kinds):
        parts.append(_said("Left out", trace.left_out, running))
    if said:
        parts.append(_said("Not seen", " ".join(said), running))
    batches = [str(part.head["batch"]) for part in parts if "batch" in part.head]
    batch = max(batches, key=batches.count, default="")
    return group.spec(parts, title=title, live=running, link=f"trace {id(trace)}", batch=batch)


def _folded(parts: list[Spec]) -> list[Spec]:
    """The parts; if a search has its own states, all other states are folded at first: they are most of the page, but not its subject."""
    own = [part for part in parts if part.kind == "states" and part.head.get("best")]
    if not own or not any(part.kind == "beams" for part in parts):
        return parts
    return [
        part if part.kind != "states" or part in own else Spec(part.kind, {**part.head, "folded": True}, part.blocks)
        for part in parts
    ]


def _with_sound(samples: Any, rate: float | None, shift: float | None, made: Spec) -> Spec:
    """A view of weights with the sound above its columns, if these are numbered; any other view unchanged."""
    if made.kind != "attention" or "fault" in made.head or not made.head["seqs"]:
        return made
    numbers = all(seq["cols"] == [str(index) for index in range(len(seq["cols"]))] for seq in made.head["seqs"])
    return with_rail(made, samples, rate, shift) if numbers else made


@dataclass(frozen=True)
class PathRun:
    """One run of the recordings under a path.

    Attributes:
        number, count: Index of the run, and number of runs.
        events: One per step; a single one outside of loops.
    """

    kind: str
    path: str
    number: int
    count: int
    events: list[Any]

    @property
    def text(self) -> str:
        """The index of the run among those of its path, as text."""
        return f", run {self.number + 1} of {self.count}" if self.count > 1 else ""


def _or_fault(title: str, make: Callable[[], Any], live: bool) -> Any:
    """Make a part, or a sentence if that fails: an event that cannot be shown does not affect the other parts."""
    try:
        return make()
    except Exception as error:  # values that cannot be computed any more, or a user's own probe
        return _fault(title, error, live)


def _fault(title: str, error: Exception, live: bool) -> Spec:
    text = str(error) if isinstance(error, (RuntimeError, DimError)) else f"{type(error).__name__}: {error}"
    return _said(title, text, live)


def _said(title: str, text: str, live: bool) -> Spec:
    """A part that consists of a sentence."""
    return Spec("attention", {"title": title, "live": live, "maps": [], "seqs": [], "fault": text})


def _about_attention(kinds: Any) -> bool:
    """Whether a selection of kinds includes notes on attention that could not be recorded."""
    return kinds is None or any(map(kind_filter(kinds), ("attention", "unseen")))


class RecordingPage:
    """Makes the parts of the view of one recording."""

    def __init__(
        self,
        trace: Any,
        tokens: Tokens,
        searches: list[SearchEvents],
        live: bool,
        handles: EditHandles | None = None,
        expected: Mapping[int, Sequence[str]] = MappingProxyType({}),
    ):
        self.trace, self.tokens, self.searches, self.live, self.handles = trace, tokens, searches, live, handles
        self.expected = expected
        self._axes: dict[Dim, str] = {}
        self._batches: dict[Any, str] = {}
        self._written: dict[Dim, Dim] = {}
        self.recent = RecentWeights(2)
        self.layers: dict[Any, tuple[int, list[str]]] = {}
        self.before: dict[str, Spec] = {}  # for layers whose maps are not kept, the previous one

    def done(self) -> None:
        """Release the data that was only needed to make the parts."""
        self.recent.keep(1)
        self.before.clear()

    def runs(self, wanted: Any) -> Iterator[PathRun]:
        """The last runs of each path, in the order of the parts."""
        trace = self.trace
        for kind in _MAKERS:
            for path in trace.by_path(kind):
                if wanted(kind, path):
                    of_path = trace.by_path(kind)[path]
                    runs = distribution.runs(of_path) if kind == "outputs" else getattr(trace, kind).event_runs(path)
                    for number in range(max(0, len(runs) - _MOST_RUNS), len(runs)):
                        yield PathRun(kind, path, number, len(runs), runs[number])

    def part(self, run: PathRun) -> Spec | None:
        """The view of a run; None if there is nothing to show."""
        title = f"{KINDS[{'outputs': 'distribution'}.get(run.kind, run.kind)].title}: {run.path or run.kind}{run.text}"
        with lent() as values:
            part: Spec | None = _or_fault(title, lambda: self._made(run), self.live)
            for each in values:
                each.give_back() if part is not None and is_long(part) else each.keep()
        return part

    def _made(self, run: PathRun) -> Spec | None:
        own = self.tokens.of(run.events)
        made = _MAKERS[run.kind].part(self, run, own)
        if made is None:
            return None
        head = {**made.head, "title": made.head["title"] + run.text, "key": f"{run.kind} {run.path} {run.number}"}
        if isinstance(head.get("seqs"), list):
            head["batch"] = self._batch(run, [seq["label"] for seq in head["seqs"]])
            head["seqs"] = _named(head["seqs"], own.names())
        for entry in head.get("maps", ()) if is_effective(run.path) else ():
            entry.pop("remark", None)  # what its rows sum to is told by the remark of the recording
        said = run.events[0].values.get("remark") if run.kind == "attention" else None  # from the code that recorded it
        remarks = " ".join(filter(None, [head.get("remark"), said, own.remark]))
        return Spec(made.kind, head | ({"remark": remarks} if remarks else {}), made.blocks)

    def names(self) -> list[str]:
        """The names of the sequences in the batch that most of the recording uses."""
        for kind in _MAKERS:
            for events in self.trace.by_path(kind).values():
                with lent() as values:  # values that are kept were read for their own view
                    try:
                        return self.tokens.of(events[:1]).names()
                    except Exception:  # its own view says so
                        continue
                    finally:
                        for each in values:
                            each.give_back()
        return []

    def on(self, made: Spec, role: str, run: PathRun, dim: Dim | None, search: SearchEvents | None) -> None:
        """Set the axis that a view runs over: the steps of a loop are one axis in all views, and those of a search have one name."""
        entries = made.head["maps"] if role == "row_dim" else [made.head]
        if not entries:
            return
        if search is not None:
            for entry in entries:
                entry[role] = {**entry[role], "name": search.history.each_step}
        loop = loop_dim_of(run.events[0]) if run.events[0].step is not None else None
        made.head["axis"] = self.axis(loop if loop is not None and (search or self._same_name(loop, dim)) else dim)
        if dim is None and loop is None:
            made.head["axis"] = entries[0][role]["name"]

    @staticmethod
    def _same_name(loop: Dim, dim: Dim | None) -> bool:
        """Whether a dim was made of the steps of a loop whose own dim came later."""
        return dim is not None and dim.name == loop.name

    def axis(self, dim: Dim | None) -> str:
        """The name of a dim, with a number if another dim has this name: views are linked by identity, not by name."""
        if dim is None:
            return ""
        base = dim.twin_of or dim
        if base not in self._axes:
            same = sum(other.name == base.name for other in self._axes)
            self._axes[base] = f"{base.name} {same + 1}" if same else base.name
        return self._axes[base]

    def after(self, before: Dim) -> Dim:
        """The dim for the positions of a prompt and the positions written after it, the same in all layers."""
        return self._written.setdefault(before, Dim(1, name="source"))

    def _batch(self, run: PathRun, labels: list[str]) -> str:
        """The id of the sequences in a view: "" for those of the first view, else a number. Only views of the same sequences are linked."""
        values = [value for value in run.events[0].values.values() if isinstance(value, Tensor)]
        over = {dim for value in values for dim in value.dims for dim in dim.length_dims}
        dims = {dim for value in values for dim in value.dims if dim in over or Axis(dim.name, 1, dim).kind == "batch"}
        key = frozenset(dims), tuple(labels)
        number = self._batches.setdefault(key, str(len(self._batches) or ""))
        return number

    @staticmethod
    def of_slots(made: Spec, *values: Tensor) -> Spec:
        """The view with a note if its sequences are slots of a beam."""
        if any(_is_beam(dim) for value in values for dim in value.dims):
            made.head["remark"] = _SLOTS
        return made


def _named(seqs: list[dict[str, Any]], names: list[str]) -> list[dict[str, Any]]:
    """The sequences with names instead of numbers, if known."""

    def name(found: re.Match[str]) -> str:
        index = int(found[1])
        return names[index] if index < len(names) else found[0]

    return [{**seq, "label": _UNNAMED.sub(name, seq["label"], count=1)} for seq in seqs]


def _is_beam(dim: Dim) -> bool:
    return Axis(dim.name, 1, dim).kind == "beam"
