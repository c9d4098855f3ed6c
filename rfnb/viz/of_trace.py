"""The view of a recording: a part for the searches, the attentions and the states in it, all linked by one selection.

Under a search the rows of a map and the columns of a state follow the best hypothesis of each sequence, not a slot of the beam
(`of_search.py`). Axes are labelled with the tokens that were read or written along them (`of_tokens.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rfnb.core.dim import Dim
from rfnb.core.errors import DimError
from rfnb.core.tensor import Tensor
from rfnb.trace.beam_labels import Combined
from rfnb.trace.long_attention import LongAttention, long_of
from rfnb.trace.match import kind_filter, path_filter
from rfnb.trace.on_host import all_on_host, on_host
from rfnb.trace.probe import lent
from rfnb.trace.stack import loop_dim_of, runs_of
from rfnb.viz.attention.layers import joined_layers, layers_of, pattern_of
from rfnb.viz.attention.long import is_long, long_spec
from rfnb.viz.attention.masks import CAUSAL
from rfnb.viz.attention.remade import Recent, RemadeBlock, remade, with_change
from rfnb.viz.attention.spec import array_of, maps_of
from rfnb.viz.attention.spec import axes_of as attention_axes_of
from rfnb.viz.attention.spec import spec as attention_spec
from rfnb.viz.axes import Axis, NamedArray, RowsOver
from rfnb.viz.beams.spec import spec as beams_spec
from rfnb.viz.dims.spec import spec as dims_spec
from rfnb.viz.flow.spec import spec as flow_spec
from rfnb.viz.group import spec as group
from rfnb.viz.hands import Hands, best_slots, sizes, vocabulary
from rfnb.viz.hypotheses import with_slots
from rfnb.viz.of_outputs import KIND, one_after_the_other, outputs
from rfnb.viz.of_search import Followed, SearchEvents, search_of, searches_of
from rfnb.viz.of_title import title_of
from rfnb.viz.of_tokens import RunLabels, Tokens
from rfnb.viz.roles import attention_axes
from rfnb.viz.spec import Spec
from rfnb.viz.states.spec import axes_of as states_axes_of
from rfnb.viz.states.spec import spec as states_spec
from rfnb.viz.states.tracks import joined

_MOST_PARTS, _MOST_RUNS = 12, 4
_STATES = "States: "
_TITLES = {"beams": "Beam search", KIND: "Output", "attention": "Attention", "states": "States"}
_SHARED = (
    "seqs",
    "axis",
    "batch",
    "best",
    "remark",
    "slots_of_best",
)  # what views have in common whose tracks are put together
_UNNAMED = re.compile(r"sequence (\d+)(?=$|,)")
_SLOTS = "These are slots of the beam, not hypotheses: a hypothesis may move to another slot in each step."


def spec(
    trace: Any,
    *,
    kinds: str | Sequence[str] | None = None,
    path: str | Sequence[str] | None = None,
    labels: Mapping[Any, Sequence[Any]] | None = None,
    live: bool | None = None,
    title: str | None = None,
    hands: Hands | None = None,
) -> Spec:
    """The spec of what a trace has.

    Args:
        trace: A Trace.
        kinds: What to show: "attention", "states", "beams", "outputs", "op" (the flow of dims), "module", or several. Default: all but
            the modules, which are shown if there is nothing else.
        path: Only these paths: a pattern ("encoder.*"), or the end of a path ("att"); one or several.
        labels: Tokens by dim (a Dim or its name): a list for all sequences, or a list per sequence. Default: what was embedded.
        live: Whether more may come. Default: while the trace is not closed.
        title: Default says what ran, unless `kinds` or `path` choose.
        hands: Of a run that is held: its views then say which steps and entries commands name.
    """
    running = not trace.closed if live is None else live
    page = _Page(trace, Tokens(trace, labels), searches_of(trace), running, hands)

    def wanted(kind: str) -> bool:
        return kinds is None or kind_filter(kinds)(kind)

    def there(each: str) -> bool:
        return path is None or path_filter(path)(each, each)

    runs = list(page.runs(lambda kind, each: wanted(kind) and there(each)))
    # Made in the order of the recording: what is numbered then keeps its number when more comes.
    by_run = {id(run): page.part(run) for run in sorted(runs, key=lambda run: run.events[0].index)}
    page.done()
    parts: list[Spec] = []
    layered: dict[Any, tuple[int, list[str]]] = {}
    for run in runs:
        made = by_run[id(run)]
        if made is None:
            continue
        if made.kind == "attention" and _is_joined(made) and _layered(parts, layered, made, run):
            continue
        if run.count > 1 or not _joined(parts, made):
            parts.append(made)
    for event, error in page.tokens.unread:
        if wanted(event.kind) and there(event.path):
            parts.append(_fault(f"Tokens: {event.path or event.kind}", error, running))
    if wanted("op") and path is None and not running and trace.by_path("op"):
        parts.append(_or_fault("Flow", lambda: flow_spec(trace), running))
    if wanted("module") and (not parts or kinds is not None) and any(map(there, trace.modules)):
        parts.append(_or_fault("Dims", lambda: dims_spec(trace, live=running), running))
    cut = " (cut off at the limit)" if trace.truncated is not None else ""
    if title is None:  # of a choice, the parts say themselves what they are
        chosen = kinds is not None or path is not None
        title = "" if chosen and parts and not cut else title_of(trace, page.searches, page.names()) + cut
    if len(parts) > _MOST_PARTS:
        few = f'the first {_MOST_PARTS} of {len(parts)} views; others: rf.show(trace, path="...")'
        title = f"{title} — {few}" if title else few
    parts = parts[:_MOST_PARTS]
    said = [
        f"{event.values.get('module')}: {event.values.get('reason')}."
        for each, events in (trace.by_path("unseen") if _about_attention(kinds) else {}).items()
        for event in events
        if there(each)
    ]
    if said:
        parts.append(_said("Not seen", " ".join(said), running))
    batches = [str(part.head["batch"]) for part in parts if "batch" in part.head]
    batch = max(batches, key=batches.count, default="")
    return group.spec(parts, title=title, live=running, link=f"trace {id(trace)}", batch=batch)


@dataclass(frozen=True)
class _PathRun:
    """One run of what was recorded under a path.

    Attributes:
        number, count: Which of how many.
        events: One per step; of what is in no loop, one.
    """

    kind: str
    path: str
    number: int
    count: int
    events: list[Any]

    @property
    def text(self) -> str:
        return f", run {self.number + 1} of {self.count}" if self.count > 1 else ""


def _runs_of_outputs(events: Sequence[Any]) -> list[list[Any]]:
    runs = runs_of(events)
    try:
        return one_after_the_other(runs)
    except Exception:  # of values that cannot be made any more: their part says so
        return runs


def _or_fault(title: str, make: Callable[[], Any], live: bool) -> Any:
    """Make a part, or a sentence where that fails: what cannot be made of one event leaves the others as they are."""
    try:
        return make()
    except Exception as error:  # of values that cannot be made any more, or of a probe of the user's own
        return _fault(title, error, live)


def _fault(title: str, error: Exception, live: bool) -> Spec:
    text = str(error) if isinstance(error, (RuntimeError, DimError)) else f"{type(error).__name__}: {error}"
    return _said(title, text, live)


def _said(title: str, text: str, live: bool) -> Spec:
    """A part that is a sentence."""
    return Spec("attention", {"title": title, "live": live, "maps": [], "seqs": [], "fault": text})


def _about_attention(kinds: Any) -> bool:
    """Whether a choice of kinds has what is said of attentions that could not be seen."""
    return kinds is None or any(map(kind_filter(kinds), ("attention", "unseen")))


def _mask_of(run: _PathRun) -> Any:
    """The mask that an event of attention names, for its view; of steps, which see what there is by then, none."""
    values = run.events[0].values
    if run.events[0].step is not None:
        return None
    return values.get("mask") if values.get("mask") is not None else CAUSAL if values.get("causal") else None


class _Page:
    """Makes the parts of one recording."""

    def __init__(
        self, trace: Any, tokens: Tokens, searches: list[SearchEvents], live: bool, hands: Hands | None = None
    ):
        self.trace, self.tokens, self.searches, self.live, self.hands = trace, tokens, searches, live, hands
        self._axes: dict[Dim, str] = {}
        self._batches: dict[Any, str] = {}
        self._written: dict[Dim, Dim] = {}
        self.recent = Recent(2)
        self._before: dict[str, Spec] = {}  # of layers whose maps do not stay, the last one

    def done(self) -> None:
        """All parts are made: keep little of what was needed for that."""
        self.recent.keep(1)
        self._before.clear()

    def runs(self, wanted: Any) -> Iterator[_PathRun]:
        """The last runs of each path, in the order of the parts."""
        trace = self.trace
        for kind, lookup in (
            ("beams", trace.beams),
            (KIND, None),
            ("attention", trace.attention),
            ("states", trace.states),
        ):
            for path in trace.by_path(kind):
                if wanted(kind, path):
                    of_path = trace.by_path(kind)[path]
                    runs = _runs_of_outputs(of_path) if lookup is None else lookup.event_runs(path)
                    for number in range(max(0, len(runs) - _MOST_RUNS), len(runs)):
                        yield _PathRun(kind, path, number, len(runs), runs[number])

    def part(self, run: _PathRun) -> Spec | None:
        """The view of a run; None if it has nothing to show."""
        title = f"{_TITLES[run.kind]}: {run.path or run.kind}{run.text}"
        with lent() as values:
            part: Spec | None = _or_fault(title, lambda: self._made(run), self.live)
            for each in values:
                each.give_back() if part is not None and is_long(part) else each.keep()
        return part

    def _made(self, run: _PathRun) -> Spec | None:
        own = self.tokens.of(run.events)
        made = {"beams": self._beams, KIND: self._outputs, "attention": self._attention, "states": self._states}[
            run.kind
        ](run, own)
        if made is None:
            return None
        head = {**made.head, "title": made.head["title"] + run.text, "key": f"{run.kind} {run.path} {run.number}"}
        if isinstance(head.get("seqs"), list):
            head["batch"] = self._batch(run, [seq["label"] for seq in head["seqs"]])
            head["seqs"] = _named(head["seqs"], own.names())
        said = run.events[0].values.get("remark") if run.kind == "attention" else None  # by who has recorded it
        remarks = " ".join(filter(None, [head.get("remark"), said, own.remark]))
        return Spec(made.kind, head | ({"remark": remarks} if remarks else {}), made.blocks)

    def names(self) -> list[str]:
        """The names of the sequences of the batch that most of the recording is about."""
        for kind in ("beams", KIND, "attention", "states"):
            for events in self.trace.by_path(kind).values():
                with lent() as values:  # what stays has been made for its view
                    try:
                        return self.tokens.of(events[:1]).names()
                    except Exception:  # its own view says so
                        continue
                    finally:
                        for each in values:
                            each.give_back()
        return []

    def _beams(self, run: _PathRun, own: RunLabels) -> Spec:
        history, hands = self.trace.beams[run.path, run.number], self.hands
        held = hands and hands.of_search(run.events, isinstance(history.labels, Combined))
        title = f"Beam search: {run.path or 'search'}" + (f", {history.about}" if history.about else "")
        made = beams_spec(history, title=title, live=self.live, ids=bool(held) and "cannot" not in (held or {}))
        made.head["axis"] = self._axis(loop_dim_of(run.events[0]))
        if hands and held:
            labels = [] if "cannot" in held else vocabulary(history.labels)
            made.head.update(held=held, hands=hands.marks(run.events), **({"vocab": labels} if labels else {}))
        return made

    def _outputs(self, run: _PathRun, own: RunLabels) -> Spec | None:
        search = search_of(run.events, self.searches)
        made = outputs(self.trace, run.path, run.events, own.along, self.live, search, own.names())
        if made is not None and made.head.get("step_dim") is not None:
            self._on(made, "step_dim", run, self._dim_named(run, made.head["step_dim"]["name"]), search)
        return made

    def _long(self, run: _PathRun, own: RunLabels, long: LongAttention) -> Spec:
        """The view of weights that are made by rows."""
        source, target = (run.events[0].values[name] for name in ("axis", "target"))
        labels = [own.along(dim) for dim in (source, target)]
        long_labels = [
            None if isinstance(given, RowsOver) and len(given) != long.num_seqs else given for given in labels
        ]
        made = long_spec(
            long, source=long_labels[0], target=long_labels[1], dims=(target.name, source.name), live=self.live,
            title=f"Attention: {run.path or 'attention'}",
        )  # fmt: skip
        if "remark" in made.head:
            made.head["remark"] = made.head["remark"].replace(
                "(long,", f'(trace.attention.long("{run.path}", {run.number}),'
            )
        made.head.update(col_axis=self._axis(source))
        return made

    def _attention(self, run: _PathRun, own: RunLabels) -> Spec | None:
        long = long_of(run.events[0].values)
        if long is not None:
            return self._long(run, own, long)
        (weights,) = on_host([self.trace.attention[run.path, run.number]])
        search = search_of(run.events, self.searches)
        cross = ", cross-attention" if run.events[0].values.get("cross") else ""
        title = f"Attention: {run.path or 'attention'}{cross}"
        axis = self.trace.attention.axis(run.path, run.number)
        followed = Followed.of(search, run.events, "weights")
        if followed is not None and axis is not None:
            return self._along(run, followed, Axis(axis.name, axis.extent, axis), own, title)
        source, target = attention_axes(NamedArray.of(weights), weights, None, None)
        made = attention_spec(
            weights, source_dim=source.dim, target_dim=target.dim if target is not None else None, title=title,
            live=self.live, source=own.along(source.dim), target=own.along(target.dim if target is not None else None),
            mask=_mask_of(run),
        )  # fmt: skip
        self._on(made, "row_dim", run, target.dim if target is not None else None, search)
        if made.head["maps"]:
            made.head["col_axis"] = self._axis(source.dim)
        if run.events[0].step is None and not self.live and not self.hands:
            made = self._few(made, run, source.dim, target.dim if target is not None else None)
        if self.hands and target is not None and target.dim in {self.trace.step_dim(run.events)}:
            seqs, maps = map(sizes, attention_axes_of(weights, source.dim, target.dim))
            self._held_maps(made, run.events, source.name, seqs, maps)
        return self._of_slots(made, weights)

    def _few(self, made: Spec, run: _PathRun, source: Any, target: Any) -> Spec:
        """The view, which keeps no weights if all runs together have too many: they are made once more when they are looked at."""
        trace, place = self.trace, (run.path, run.number)

        def make() -> np.ndarray:
            with lent() as values:
                array = array_of(on_host([trace.attention[place]])[0], source, target)
                for each in values:
                    each.give_back()
            return array

        runs, pattern = sum(map(len, trace.by_path("attention").values())), pattern_of(run.path)
        few = remade(made, make, runs, self.recent, place)
        if few is not made and pattern is not None:  # while both are there
            with_change(few, made, self._before.get(pattern))
            self._before[pattern] = made
        return few

    def _held_maps(
        self, made: Spec, events: Sequence[Any], axis: str, seqs: Any, maps: Any, slot: str | None = None
    ) -> None:
        """Say of each map which step and which entries its rows are."""
        hands, calls = self.hands, self.trace.by_path("attention")
        one = next(event for event in events if event is not None)
        entries = [event.entry for event in calls[one.path]]
        if hands is None or len(set(entries)) < len(entries):  # a module that is called twice in a step
            return
        shown = made.head["maps"]
        for entry, held in zip(shown, hands.of_maps(events, axis, seqs, maps, len(shown), slot)):
            entry["held"] = held
        made.head["hands"] = hands.marks(events)

    def _along(self, run: _PathRun, followed: Followed, axis: Axis, own: RunLabels, title: str) -> Spec | None:
        """The maps of the best hypothesis of each sequence, [seq, target, head, source]."""
        names = ["source" if dim.name == axis.name else dim.name for dim in followed.inner]
        at = names.index("source") if "source" in names else None
        out = followed.array(fill_axis=at)  # a step that attends over fewer frames than others attends to none of these
        if out is None or at is None:
            return None
        names = ["batch", "target", *names]
        source, source_lengths = own.along(axis.dim), None
        if isinstance(source, RowsOver):
            source = list(source) if followed.history.batch == (source.over,) else None
        before = next((event.values["before"] for event in run.events if "before" in event.values), None)
        if source is None and before is not None:
            source = _read_and_written(
                own.along(before), followed, out.shape[out.ndim - len(names) + names.index("source")]
            )
        if axis.ragged and axis.dim is not None and axis.dim.lengths is not None and axis.dim.lengths.size == len(out):
            source_lengths = np.ravel(axis.dim.lengths)
        made = attention_spec(
            out, dims=names, source_dim="source", target_dim="target", source=source,
            target=[labels for labels, _, _ in followed.best], source_lengths=source_lengths,
            target_lengths=[len(labels) for labels, _, _ in followed.best], title=f"{title}, best hypothesis", live=self.live,
        )  # fmt: skip
        for entry in made.head["maps"]:
            entry["row_dim"]["name"], entry["col_dim"]["name"] = followed.history.each_step, axis.name
        slots = None if self.live and not self.hands else followed.in_slots(fill_axis=at, live=self.live)
        if slots is not None:
            flat = slots.swapaxes(1, 2).reshape(-1, slots.shape[1], *slots.shape[3:])
            maps = maps_of(flat, names).reshape(*slots.shape[:1], slots.shape[2], -1, slots.shape[1], out.shape[2 + at])
            with_slots(
                made.head["maps"], made.blocks, list(np.moveaxis(maps, 2, 0).swapaxes(2, 3)), before=followed.before
            )
        made.head.update(
            axis=self._axis(loop_dim_of(run.events[0])),
            col_axis=self._axis(axis.dim if before is None else self._after(before)),
            best=True,
        )
        if self.hands and followed.is_whole:
            inner = [Axis(dim.name, dim.extent, dim) for dim in followed.inner if dim.name != axis.name]
            heads = sizes(sorted(inner, key=lambda each: "head" in each.name))
            self._held_maps(made, followed.events(run.events), axis.name, followed.seqs, heads, followed.slot)
            made.head["slots_of_best"] = best_slots(followed)
        return made

    def _states(self, run: _PathRun, own: RunLabels) -> Spec | None:
        tracks = self.trace.states[run.path, run.number]
        step = self.trace.states.step_dim(run.path, run.number)
        if not tracks or step is None:
            return None
        search, title = search_of(run.events, self.searches), f"{_STATES}{run.path or 'loop'}"
        if search is not None:
            made = self._states_along(search, run, step, title)
            if made is not None:
                return made
        shown = {
            name: value
            for name, value in tracks.items()
            if isinstance(value, Tensor) and _has(value, step) and _is_float(value)
        }
        shown = all_on_host(shown)
        # One track may lack the batch (a counter): it holds for all, and says nothing about one.
        most = max((len(NamedArray.of(value).seq_axes([])) for value in shown.values()), default=0)
        shown = {name: value for name, value in shown.items() if len(NamedArray.of(value).seq_axes([])) == most}
        if not shown:
            return None
        made = states_spec(shown, step_dim=step.name, steps=own.along(step), title=title, live=self.live)
        self._on(made, "step_dim", run, step, search)
        for entry in made.head["tracks"]:
            name = entry["label"]
            seqs, units = map(sizes, states_axes_of(name, shown[name], step.name))
            self._held_track(made, entry, run.events, seqs, units)
        return self._of_slots(made, *shown.values())

    def _held_track(
        self, made: Spec, entry: dict[str, Any], events: Sequence[Any], seqs: Any, units: Any, slot: str | None = None
    ) -> None:
        """Say of a track which steps and entries its rows are, if it is a state of the loop."""
        if self.hands is None:
            return
        made.head["hands"] = self.hands.marks(events)
        one = next(event for event in events if event is not None)
        last = {event.entry: event for event in self.trace.by_path("states")[one.path]}
        # The loop tells its own at the end of a step.
        if all(event is None or last[event.entry] is event for event in events):
            held = self.hands.of_state(events, entry["label"], seqs, units, slot)
            if held:
                entry["held"] = held

    def _states_along(self, search: SearchEvents, run: _PathRun, step: Dim, title: str) -> Spec | None:
        """The states of the best hypothesis of each sequence, [seq, step, unit]; None if they are in no slots."""
        shown: dict[str, np.ndarray] = {}
        found: dict[str, Followed] = {}
        for name, value in run.events[0].values.items():
            if (
                not isinstance(value, Tensor)
                or not _is_float(value)
                or any(name not in each.values for each in run.events)
            ):
                continue
            followed = Followed.of(search, run.events, name)
            array = followed.array() if followed is not None and len(followed.inner) == 1 else None
            if followed is not None and array is not None:
                shown[name], found[name] = array, followed
        if not shown:
            return None
        best = next(iter(found.values())).best
        made = states_spec(
            shown, dims=["batch", "step", "unit"], step_dim="step", steps=[labels for labels, _, _ in best],
            lengths=[len(labels) for labels, _, _ in best], title=f"{title}, best hypothesis", live=self.live,
        )  # fmt: skip
        self._on(made, "step_dim", run, step, search)
        made.head["best"] = True
        given = {} if self.live and not self.hands else {name: found[name].in_slots(live=self.live) for name in shown}
        slots = {name: array for name, array in given.items() if array is not None}
        if len(slots) == len(shown):
            for entry in made.head["tracks"]:
                name = entry["label"]
                with_slots([entry], made.blocks, [slots[name]], before=found[name].before)
        for entry in made.head["tracks"]:
            own = found[entry["label"]]
            if self.hands and own.is_whole:
                made.head["slots_of_best"] = best_slots(own)
                if not own.before:
                    units = [(dim.name, dim.extent) for dim in own.inner]
                    self._held_track(made, entry, own.events(run.events), own.seqs, units, own.slot)
        return made

    def _on(self, made: Spec, role: str, run: _PathRun, dim: Dim | None, search: SearchEvents | None) -> None:
        """Say over what a view runs: the steps of a loop are one axis in all views, and those of a search have one name."""
        entries = made.head["maps"] if role == "row_dim" else [made.head]
        if not entries:
            return
        if search is not None:
            for entry in entries:
                entry[role] = {**entry[role], "name": search.history.each_step}
        loop = loop_dim_of(run.events[0]) if run.events[0].step is not None else None
        made.head["axis"] = self._axis(loop if loop is not None and (search or self._same_name(loop, dim)) else dim)
        if dim is None and loop is None:
            made.head["axis"] = entries[0][role]["name"]

    @staticmethod
    def _same_name(loop: Dim, dim: Dim | None) -> bool:
        """Whether a dim was made of the steps of a loop that got its own dim later."""
        return dim is not None and dim.name == loop.name

    def _axis(self, dim: Dim | None) -> str:
        """The name of a dim, with a number if another one has that name: views link what is the same, not what is called so."""
        if dim is None:
            return ""
        base = dim.twin_of or dim
        if base not in self._axes:
            same = sum(other.name == base.name for other in self._axes)
            self._axes[base] = f"{base.name} {same + 1}" if same else base.name
        return self._axes[base]

    def _after(self, before: Dim) -> Dim:
        """The dim that stands for the positions of a prompt and those that were written after it, the same in all layers."""
        return self._written.setdefault(before, Dim(1, name="source"))

    def _batch(self, run: _PathRun, labels: list[str]) -> str:
        """The sequences that a view is of: "" those of the first view, else a number. Only views of the same ones are linked."""
        values = [value for value in run.events[0].values.values() if isinstance(value, Tensor)]
        over = {dim for value in values for dim in value.dims for dim in dim.length_dims}
        dims = {dim for value in values for dim in value.dims if dim in over or Axis(dim.name, 1, dim).kind == "batch"}
        key = frozenset(dims), tuple(labels)
        number = self._batches.setdefault(key, str(len(self._batches) or ""))
        return number

    def _dim_named(self, run: _PathRun, name: str) -> Dim | None:
        dims = {dim for value in run.events[0].values.values() if isinstance(value, Tensor) for dim in value.dims}
        found = [dim for dim in dims if dim.name == name]
        return found[0] if len(found) == 1 else None

    @staticmethod
    def _of_slots(made: Spec, *values: Tensor) -> Spec:
        """The view with a remark if its sequences are slots of a beam."""
        if any(_is_beam(dim) for value in values for dim in value.dims):
            made.head["remark"] = _SLOTS
        return made


def _read_and_written(read: Any, followed: Followed, size: int) -> list[list[str]] | None:
    """The tokens of a prompt, and then those that the best hypothesis of each sequence has written; None if the prompt has none."""
    if not read:
        return None
    rows = read if isinstance(read, RowsOver) else [read] * len(followed.best)
    both = [[*map(str, row), *labels] for row, (labels, _, _) in zip(rows, followed.best)]
    return [(row + [""] * size)[:size] for row in both]


def _named(seqs: list[dict[str, Any]], names: list[str]) -> list[dict[str, Any]]:
    """The sequences with names instead of numbers, where they have some."""

    def name(found: re.Match[str]) -> str:
        index = int(found[1])
        return names[index] if index < len(names) else found[0]

    return [{**seq, "label": _UNNAMED.sub(name, seq["label"], count=1)} for seq in seqs]


def _layered(parts: list[Spec], layered: dict[Any, tuple[int, list[str]]], new: Spec, run: _PathRun) -> bool:
    """Put the maps of a layer into the view of the layers before it, which has a path that differs in numbers only.

    Args:
        layered: Of what was put together so far, by what it has in common: the number of the part, and the paths of the layers.
    """
    pattern = pattern_of(run.path)
    if pattern is None or not new.head["maps"] or "fault" in new.head:
        return False
    key = (pattern, run.text, *(str(new.head.get(name)) for name in ("axis", "col_axis", "best", "batch")))
    if key not in layered:
        layered[key] = (len(parts), [run.path])
        return False
    index, paths = layered[key]
    paths.append(run.path)
    common, labels = layers_of(paths)
    joined = joined_layers(parts[index], new, labels)
    joined.head["title"] = f"Attention: {common}" + str(new.head["title"]).removeprefix(f"Attention: {run.path}")
    parts[index] = joined
    return True


def _joined(parts: list[Spec], new: Spec) -> bool:
    """Put the tracks of states into the part before, if that runs over the same steps of the same sequences (layers of an encoder)."""
    last = parts[-1] if parts else None
    if last is None or new.kind != "states" or last.kind != "states" or not new.head["tracks"]:
        return False
    if any(last.head.get(name) != new.head.get(name) for name in _SHARED):
        return False
    ends = [", best hypothesis" if spec.head.get("best") else "" for spec in (last, new)]
    paths = [str(spec.head["title"]).removeprefix(_STATES).removesuffix(end) for spec, end in zip((last, new), ends)]
    common = _common(*paths)
    named = [(path[len(common) :].strip("."), spec) for path, spec in zip(paths, (last, new))]
    both = " and ".join(paths)
    parts[-1] = joined(named, f"{_STATES}{common or (both if len(both) < 60 else 'several')}{ends[0]}")
    return True


def _common(one: str, other: str) -> str:
    """The path that both begin with."""
    same = [a for a, b in zip(one.split("."), other.split(".")) if a == b]
    return ".".join(same if one.split(".")[: len(same)] == same else [])


def _is_joined(made: Spec) -> bool:
    """Whether a view may be put together with those of other layers: not if its maps are chosen by the caller."""
    return not is_long(made) or any(isinstance(block, RemadeBlock) for block in made.blocks.values())


def _is_beam(dim: Dim) -> bool:
    return Axis(dim.name, 1, dim).kind == "beam"


def _has(value: Tensor, dim: Dim) -> bool:
    return sum(other.name == dim.name for other in value.dims) == 1


def _is_float(value: Tensor) -> bool:
    return value.dtype.startswith(("float", "bfloat"))
