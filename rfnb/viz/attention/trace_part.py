"""Attention in a recording as views: for one run, for the best hypothesis of a search, and with the layers of a model in one view."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rfnb.trace.host_copies import on_host
from rfnb.trace.long_attention import LongAttention, long_of
from rfnb.trace.newest_positions import newest
from rfnb.trace.probe import lent
from rfnb.trace.stacked_events import loop_dim_of, names_of
from rfnb.viz.attention import badges
from rfnb.viz.attention.long_maps import is_long, long_spec
from rfnb.viz.attention.maps import finished, index_of
from rfnb.viz.attention.masks import CAUSAL
from rfnb.viz.attention.recomputed_maps import RecomputedBlock, remade, with_change
from rfnb.viz.attention.spec import array_of, maps_of
from rfnb.viz.attention.spec import axes_of as attention_axes_of
from rfnb.viz.attention.spec import spec as attention_spec
from rfnb.viz.axes import Axis, NamedArray, RowsOver
from rfnb.viz.edit_handles import best_slots, sizes
from rfnb.viz.hypotheses import with_slots
from rfnb.viz.roles import attention_axes
from rfnb.viz.spec import Spec
from rfnb.viz.trace_labels import RunLabels
from rfnb.viz.trace_search import SearchValues, search_of


def part(page: Any, run: Any, own: RunLabels) -> Spec | None:
    """The view of a run."""
    long = long_of(run.events[0].values)
    if long is not None:
        return _long(page, run, own, long)
    search = search_of(run.events, page.searches)
    cross = ", cross-attention" if run.events[0].values.get("cross") else ""
    title = f"Attention: {run.path or 'attention'}{cross}"
    events = newest(run.events) if search is None else run.events
    is_whole = events == run.events
    weights = page.trace.attention[run.path, run.number] if is_whole else page.trace.attention.of(events)
    if not is_whole:
        title += f", step {run.events[-1].step}" if events[0].step is None else ""
        run = replace(run, events=events)
    (weights,) = on_host([weights])
    axis = (weights._roles or {}).get("axis")
    followed = SearchValues.of(search, run.events, "weights")
    if followed is not None and axis is not None:
        return _along(page, run, followed, Axis(axis.name, axis.extent, axis), own, title)
    source, target = attention_axes(NamedArray.of(weights), weights, None, None)
    over = source.dim if is_whole else events[-1].values["axis"]  # the dim of the longest step, which has all positions
    read = own.along(over)
    read = list(read) if isinstance(read, RowsOver) and not is_whole else read  # the batch dim differs between steps
    made = attention_spec(
        weights, source_dim=source.dim, target_dim=target.dim if target is not None else None, title=title,
        live=page.live, source=read, target=own.along(target.dim if target is not None else None),
        mask=_mask_of(run),
    )  # fmt: skip
    page.on(made, "row_dim", run, target.dim if target is not None else None, search)
    if made.head["maps"]:
        made.head["col_axis"] = page.axis(over)
    if run.events[0].step is None and is_whole and not page.live and not page.handles:
        made = _few(page, made, run, source.dim, target.dim if target is not None else None)
    if page.handles and target is not None and target.dim in {page.trace.step_dim(run.events)}:
        seqs, maps = map(sizes, attention_axes_of(weights, source.dim, target.dim))
        _held_maps(page, made, run.events, source.name, seqs, maps)
        for entry in () if is_whole else made.head["maps"]:  # the steps compute the others too
            if "held" in entry:
                entry["held"]["always"] = {"target": -1}
    return page.of_slots(made, weights)


def _long(page: Any, run: Any, own: RunLabels, long: LongAttention) -> Spec:
    """The view of weights that are computed by rows."""
    source, target = (run.events[0].values[name] for name in ("axis", "target"))
    labels = [own.along(dim) for dim in (source, target)]
    long_labels = [None if isinstance(given, RowsOver) and len(given) != long.num_seqs else given for given in labels]
    made = long_spec(
        long, source=long_labels[0], target=long_labels[1], dims=(target.name, source.name), live=page.live,
        title=f"Attention: {run.path or 'attention'}",
    )  # fmt: skip
    if "remark" in made.head:
        made.head["remark"] = made.head["remark"].replace(
            "(long,", f'(trace.attention.long("{run.path}", {run.number}),'
        )
    made.head.update(col_axis=page.axis(source))
    return made


def _few(page: Any, made: Spec, run: Any, source: Any, target: Any) -> Spec:
    """The view, without stored weights if all runs together have too many: they are then recomputed on demand."""
    trace, place = page.trace, (run.path, run.number)

    def make() -> np.ndarray:
        with lent() as values:
            array = array_of(on_host([trace.attention[place]])[0], source, target)
            for each in values:
                each.give_back()
        return array

    runs, pattern = sum(map(len, trace.by_path("attention").values())), pattern_of(run.path)
    few = remade(made, make, runs, page.recent, place)
    if few is not made and pattern is not None:  # while both exist
        with_change(few, made, page.before.get(pattern))
        page.before[pattern] = made
    return few


def _held_maps(
    page: Any, made: Spec, events: Sequence[Any], axis: str, seqs: Any, maps: Any, slot: str | None = None
) -> None:
    """Store in each map which step and which entries its rows are."""
    handles, calls = page.handles, page.trace.by_path("attention")
    one = next(event for event in events if event is not None)
    entries = [event.entry for event in calls[one.path]]
    if handles is None or len(set(entries)) < len(entries):  # a module called twice in a step
        return
    shown = made.head["maps"]
    for entry, held in zip(shown, handles.of_maps(events, axis, seqs, maps, len(shown), slot)):
        entry["held"] = held
    made.head["hands"] = handles.marks(events)


def _along(page: Any, run: Any, followed: SearchValues, axis: Axis, own: RunLabels, title: str) -> Spec | None:
    """The maps of the best hypothesis of each sequence, [seq, target, head, source]."""
    names = ["source" if axis.name in names_of(dim) else dim.name for dim in followed.inner]
    at = names.index("source") if "source" in names else None
    out = followed.array(fill_axis=at)  # 0 for steps that attend over fewer frames
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
        target_lengths=[len(labels) for labels, _, _ in followed.best], title=f"{title}, best hypothesis", live=page.live,
    )  # fmt: skip
    for entry in made.head["maps"]:
        entry["row_dim"]["name"], entry["col_dim"]["name"] = followed.history.each_step, axis.name
    slots = None if page.live and not page.handles else followed.in_slots(fill_axis=at, live=page.live)
    if slots is not None:
        flat = slots.swapaxes(1, 2).reshape(-1, slots.shape[1], *slots.shape[3:])
        maps = maps_of(flat, names).reshape(*slots.shape[:1], slots.shape[2], -1, slots.shape[1], out.shape[2 + at])
        with_slots(made.head["maps"], made.blocks, list(np.moveaxis(maps, 2, 0).swapaxes(2, 3)), before=followed.before)
    made.head.update(
        axis=page.axis(loop_dim_of(run.events[0])),
        col_axis=page.axis(axis.dim if before is None else page.after(before)),
        best=True,
    )
    if page.handles and followed.is_whole:
        inner = [Axis(dim.name, dim.extent, dim) for dim in followed.inner if axis.name not in names_of(dim)]
        heads = sizes(sorted(inner, key=lambda each: "head" in each.name))
        _held_maps(page, made, followed.events(run.events), axis.name, followed.seqs, heads, followed.slot)
        made.head["slots_of_best"] = best_slots(followed)
    return made


def _read_and_written(read: Any, followed: SearchValues, size: int) -> list[list[str]] | None:
    """The tokens of a prompt followed by those of the best hypothesis of each sequence; None if the prompt has no tokens."""
    if not read:
        return None
    rows = read if isinstance(read, RowsOver) else [read] * len(followed.best)
    both = [[*map(str, row), *labels] for row, (labels, _, _) in zip(rows, followed.best)]
    return [(row + [""] * size)[:size] for row in both]


def _mask_of(run: Any) -> Any:
    """The mask of an attention event, for its view; None for single steps, which see all previous positions."""
    values = run.events[0].values
    if run.events[0].step is not None:
        return None
    return values.get("mask") if values.get("mask") is not None else CAUSAL if values.get("causal") else None


def put_into(page: Any, parts: list[Spec], new: Spec, run: Any) -> bool:
    """Add the maps of a layer to the view of previous layers, whose path differs only in numbers.

    `page.layers` maps the common form of merged paths to the number of the part and the paths of the layers.
    """
    if not _is_joined(new):
        return False
    layered = page.layers
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
    joined.head["paths"] = list(paths)
    joined.head["title"] = f"Attention: {common}" + str(new.head["title"]).removeprefix(f"Attention: {run.path}")
    parts[index] = joined
    return True


def _is_joined(made: Spec) -> bool:
    """Whether a view may be merged with those of other layers: not if the caller chose its maps."""
    return not is_long(made) or any(isinstance(block, RecomputedBlock) for block in made.blocks.values())


def pattern_of(path: str) -> str | None:
    """The path with wildcards for its numbers, "layers.*.self_att"; None without numbers."""
    parts = path.split(".")
    return ".".join("*" if part.isdigit() else part for part in parts) if any(map(str.isdigit, parts)) else None


def layers_of(paths: Sequence[str]) -> tuple[str, list[str]]:
    """The common form of paths that differ only in numbers, and the layer of each: "layers.*.self_att", ["layer 0", "layer 1"]."""
    rows = [path.split(".") for path in paths]
    numbers = [at for at, part in enumerate(rows[0]) if part.isdigit()]
    # A number that all paths share is not a layer: it is a part of an nn.Sequential.
    differ = [at for at in numbers if len({row[at] for row in rows}) > 1] or numbers
    labels = [", ".join(f"{_singular(row[at - 1]) if at else 'layer'} {row[at]}" for at in differ) for row in rows]
    return ".".join("*" if at in differ else part for at, part in enumerate(rows[0])), labels


def _singular(name: str) -> str:
    if len(name) < 2 or name.isdigit():  # "h" in GPT-2
        return "layer"
    return name[:-1] if name.endswith("s") and not name.endswith("ss") and len(name) > 3 else name


def joined_layers(one: Spec, other: Spec, labels: Sequence[str]) -> Spec:
    """The maps of two specs in one view: the layers of the second follow those of the first.

    Args:
        labels: Labels of all layers.
    """
    maps, blocks = [*one.head["maps"]], dict(one.blocks)
    seqs = [*one.head["seqs"]]
    heads = [*one.head["heads"]]
    first = len(one.head["layers"])
    rename = {name: f"{first}.{name}" for name in other.blocks}
    blocks.update({rename[name]: block for name, block in other.blocks.items() if name != "badges"})
    for entry in other.head["maps"]:
        layer, head = entry["at"]
        at = [first + layer, index_of(heads, other.head["heads"][head])]
        where = []
        for seq in (other.head["seqs"][index] for index in entry["seqs"]):
            if seq not in seqs:
                seqs.append(seq)
            where.append(seqs.index(seq))
        own = {name: rename[entry[name]] for name in ("mask", "slots") if name in entry}
        maps.append({**entry, **own, "at": at, "block": rename[entry["block"]], "seqs": where})
    for entry in maps:
        layer, head = entry["at"]
        entry["label"] = ", ".join(filter(None, [labels[layer], heads[head]]))
    found = [
        [*spec.blocks.get("badges", np.full((len(spec.head["maps"]), 1, len(badges.NAMES)), np.nan))]
        for spec in (one, other)
    ]
    blocks.pop("badges", None)
    head = {**one.head, "maps": maps, "seqs": seqs, "layers": [*labels], "heads": heads}
    lows, highs = zip(*(spec.head["range"] for spec in (one, other)))
    return finished(head, blocks, found[0] + found[1], (min(lows), max(highs)))
