"""The `attention` view: validation of its spec, and its page."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from rfnb.core.strict_json import JsonObject
from rfnb.viz.attention.check import remarks, warnings
from rfnb.viz.attention.long_maps import glance, is_long, note
from rfnb.viz.attention.words import effect_labels
from rfnb.viz.kinds import none_yet, title_of
from rfnb.viz.page.array_coding import CodedArray, Grid, finer, fit_in, square, with_codes, words_of
from rfnb.viz.page.budget import Room
from rfnb.viz.page.page_spec import size_of
from rfnb.viz.pool import bounds, extreme, largest
from rfnb.viz.rounding import percent, share
from rfnb.viz.spec import Spec
from rfnb.viz.terminal import WIDTH, bar, clip, pooled, shade, shortened, width_of
from rfnb.viz.visible_text import visible


def problem(spec: Any) -> str | None:
    """The problem with the spec, as a sentence; None if it can be drawn."""
    head = spec.head
    if not isinstance(head.get("maps"), list) or not isinstance(head.get("seqs"), list):
        return "This attention view has no list of maps and of sequences."
    if head.get("fault"):
        return f"{head.get('title', 'Attention')}: {head['fault']}"
    for entry in head["maps"]:
        block = spec.blocks.get(entry.get("block"))
        if block is None or block.ndim != 3:
            return f"Map {entry.get('label')} has no array of sequence, target and source."
        if len(entry["seqs"]) > block.shape[0] or any(not 0 <= seq < len(head["seqs"]) for seq in entry["seqs"]):
            return f"Map {entry.get('label')} names sequences that are not there."
    return None


def missing(spec: Any) -> str:
    """The text for an empty view; "" for any other."""
    return "" if any(entry["seqs"] for entry in spec.head["maps"]) else none_yet(spec, "weights")


_GLANCE = 16  # cells per row of a small map: with fewer, its pattern cannot be recognised
_SCREEN = 320  # the same for a map that fills the screen
_HEIGHT, _MOST_MAPS, _BARS = 36, 24, 24


def text(spec: Any) -> str:
    """The first map of the first sequence as a text picture, the others by name."""
    if is_long(spec):
        return "\n".join([text(glance(spec)), f"  {note(spec)}", *filter(None, [spec.head.get("remark")])])
    head = spec.head
    entry = next(entry for entry in head["maps"] if entry["seqs"])
    seq = head["seqs"][entry["seqs"][0]]
    values = real(spec, entry, 0)
    names = f"rows: {entry['row_dim']['name']}, columns: {entry['col_dim']['name']}"
    label = f"{entry['label']}, " if len(head["maps"]) > 1 else ""
    if head.get("alignment"):
        label = f"{head['slider']['labels'][entry['step']]}, "
    lines = [f"{title_of(spec)}: {label}{seq['label']}  ({names})"]
    if not values.size:
        lines.append("  empty: nothing to look at")
    elif values.shape[0] <= _HEIGHT and _numbers_fit(seq):
        lines += _numbers(values, seq, effect_labels(entry, 0))
    else:
        lines += _shades(values, seq, loudness(spec, entry["seqs"][0]))
    empty = int(np.isnan(values).all(-1).sum()) if values.size else 0
    if empty:
        lines.append(f"  ? {empty} of {len(values)} rows are NaN: not computed")
    lines += [f"! {warning}" for warning in warnings(spec)] + [f"  {remark}" for remark in remarks(spec)]
    lines += heard(head, entry["seqs"][0])
    if len(head["maps"]) > 1 and not head.get("alignment"):
        lines += _maps(spec)
    if len(entry["seqs"]) > 1:
        lines.append(f"Sequences: {len(entry['seqs'])}")
    return "\n".join(lines)


def loudness(spec: Any, seq: int) -> np.ndarray | None:
    """The loudness of a sequence per column of its rail, 0 to 1: the mean over bands of a spectrogram; None without sound."""
    rail = spec.head.get("rail") or {}
    if not rail.get("block"):
        return None
    return np.asarray(spec.blocks[rail["block"]][seq, :, : rail["cols"][seq]].mean(0) / 255)


def heard(head: JsonObject, seq: int) -> list[str]:
    """The rail of a sequence as text: the form of the sound, and the words with their columns."""
    rail = head.get("rail")
    if not rail:
        return []
    cols = head["seqs"][seq]["cols"]
    at = lambda col: visible(str(cols[min(col, len(cols) - 1)])) if cols else str(col)  # noqa: E731
    words = [f"{visible(text)} {at(start)}–{at(end - 1)}" for start, end, text in rail["words"][seq]]
    lines = [f"  sound: {rail['label']}"] if rail.get("label") else []
    return lines + ([f"  words: {', '.join(words)}"] if words else [])


def top(values: np.ndarray) -> float:
    """The value with the full colour: 1 for ordinary weights, so that the scale is stable while rows arrive."""
    most = max(0.0, bounds(values)[1])
    return 1.0 if 0.2 < most <= 1.001 else most or 1.0


def real(spec: Any, entry: JsonObject, index: int) -> np.ndarray:
    """The weights of one sequence of a map, without padding."""
    seq = spec.head["seqs"][entry["seqs"][index]]
    return spec.blocks[entry["block"]][index, : seq["row_len"], : seq["col_len"]]


def _maps(spec: Any) -> list[str]:
    """A line per map: bars for the distribution of its weight over the sources, and a description of its pattern."""
    head = spec.head
    shown = [entry for entry in head["maps"] if entry["seqs"]][:_MOST_MAPS]
    left = min(28, max(width_of(str(entry["label"])) for entry in shown))
    lines = ["", f"Weight on each source, in all {len(head['maps'])} maps:"]
    for entry in shown:
        values = np.nan_to_num(real(spec, entry, 0).astype(np.float64), posinf=0, neginf=0)
        bars, most = "", "empty"
        if values.size:
            scores = bool((values < 0).any())  # not weights, so there are no shares
            mass = values.mean(0) if scores else values.sum(0) / max(float(values.sum()), 1e-30)
            few = pooled(mass[None].astype(np.float32), 1, _BARS)[0][0]
            bars = "".join(bar(max(0.0, float(value / (few.max() or 1)))) for value in few)
            at = int(mass.argmax())
            token = head["seqs"][entry["seqs"][0]]["cols"][at]
            much = f"{mass[at]:.3g} on average" if scores else f"{percent(float(mass[at]))}"
            most = f"{much} on {shortened(visible(token[:60]), 14)}"
        looks = (entry.get("looks") or [None])[0]
        words = [most] if looks is None else [most, f"looks {head['looks'][looks]}"]
        lines.append(f"  {clip(str(entry['label']), left)} {bars}  {', '.join(words)}")
    if len(shown) < len(head["maps"]):
        lines.append(f"  ... and {len(head['maps']) - len(shown)} more maps")
    return lines


def _sizes(seq: JsonObject) -> tuple[int, int]:
    """The width of the row labels, and that of a column of numbers."""
    wide = max([5, *(min(width_of(token), 9) for token in seq["cols"][:WIDTH])])
    return max((min(width_of(token), 16) for token in seq["rows"][:_HEIGHT]), default=0), wide


def _numbers_fit(seq: JsonObject) -> bool:
    return 6 * len(seq["cols"]) < WIDTH and _sizes(seq)[0] + 6 * len(seq["cols"]) <= WIDTH


def _numbers(values: np.ndarray, seq: JsonObject, said: list[list[str]] | None = None) -> list[str]:
    rows, cols = seq["rows"], seq["cols"]
    left, wide = _sizes(seq)
    wide = min(wide, (WIDTH - left) // len(cols) - 1)
    full = top(values)
    lines = [" " * left + " " + " ".join(clip(token, wide) for token in cols)]
    for at, (token, row) in enumerate(zip(rows, values)):
        cells = [clip(shade(value / full) + _number(float(value), wide - 1), wide) for value in row]
        if said:  # a resulting label replaces the number
            plain = ("" if np.isnan(value) else f"{round(float(value), 2) + 0.0:.2f}" for value in row)
            cells = [clip(text or number, wide) for text, number in zip(said[at], plain)]
        lines.append(f"{clip(token, left, right=True)} " + " ".join(cells))
    return [line.rstrip() for line in lines]


def _number(value: float, wide: int) -> str:
    """A value with two decimals, or as many as fit."""
    if np.isnan(value):
        return ""  # the shade is enough
    if not np.isfinite(value):
        return str(value)
    ways = [share(value), share(value).replace("0.", ".", 1), f"{value:.1f}", f"{value:.0f}"]
    return next((text for text in ways if len(text) <= wide), f"{value:.0e}")


def _shades(values: np.ndarray, seq: JsonObject, sound: np.ndarray | None = None) -> list[str]:
    every = max(1, -(-len(seq["rows"]) // _HEIGHT))
    left = max(min(width_of(token), 16) for token in seq["rows"][::every])
    small, down, across = pooled(values, _HEIGHT, WIDTH - left - 3)
    full = top(values)
    lines = []
    if sound is not None and len(sound):
        at = (np.arange(small.shape[1]) + 0.5) * across / len(seq["cols"]) * len(sound)
        bars = "".join(bar(sound[min(int(place), len(sound) - 1)]) for place in at)
        lines.append(f"{clip('♪', left, right=True)} │{bars}│")
    for index, row in enumerate(small):
        token = seq["rows"][index * down]
        lines.append(f"{clip(token, left, right=True)} │{''.join(shade(value / full) for value in row)}│")
    first, last = (shortened(visible(seq["cols"][at][:60]), 16) for at in (0, -1))
    lines.append(f"{' ' * left}  columns: {first} … {last}, {len(seq['cols'])} in all")
    if down > 1 or across > 1:
        lines.append(f"{' ' * left}  each cell shows the largest of {down} x {across} weights")
    return lines


def thin(spec: Spec, room: Room) -> Spec:
    """Pool each map to its largest weights; the map that is shown first loses less than the others."""
    head, grids = spec.head, []
    overviews = glance(spec)
    few = overviews.head
    for entry in head["maps"]:
        values = overviews.blocks[entry["block"]]
        lengths = [(few["seqs"][seq]["row_len"], few["seqs"][seq]["col_len"]) for seq in entry["seqs"]]
        factors = square(*values.shape[1:])
        if head.get("signed"):
            grids.append(Grid(entry["block"], values, lengths, "linear", extreme, factors))
        else:
            grids.append(Grid(entry["block"], values, lengths, "sqrt", largest, factors))
    shown = {grid.name for grid in grids}  # the others, badges and masks, are not changed
    room = room.minus(size_of(Spec("attention", {}, {name: b for name, b in spec.blocks.items() if name not in shown})))
    rung, made = fit_in(grids, room, _GLANCE if len(grids) > 1 else _SCREEN)
    focus = next((grid for grid in grids[head.get("focus", 0) :]), None)
    if focus is not None and len(grids) > 1 and rung.cells > 1:
        made[focus.name] = finer(focus, rung, made, room)
    made = {name: _of_overview(spec.blocks[name], one) for name, one in made.items()}
    which = "the weight farthest from 0" if head.get("signed") else "the largest"
    words = words_of(made, which, "weights", ("rows", "columns"))
    return with_codes(spec, made, {}, words)


def _of_overview(block: Any, made: CodedArray) -> CodedArray:
    """Mark a coded overview as the code of the map itself."""
    if not getattr(block, "by_rows", False):
        return made
    factor, code = block.factor, made.code
    pool = (1, *(factor * each for each in code.pool[1:]))
    return replace(made, code=replace(code, shape=tuple(block.shape), pool=pool))
