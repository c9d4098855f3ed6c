"""The `states` view: validation of its spec, and its page."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from rfnb.viz.kinds import none_yet, title_of
from rfnb.viz.page.array_coding import Grid, cols_first, fit_in, with_codes, words_of
from rfnb.viz.page.budget import Room
from rfnb.viz.page.page_spec import is_small, size_of
from rfnb.viz.pool import bounds, extreme, merged
from rfnb.viz.rounding import brief, share
from rfnb.viz.spec import Spec
from rfnb.viz.states.check import warnings
from rfnb.viz.states.tracks import changes, line_of, name_of
from rfnb.viz.terminal import WIDTH, bar, clip, shortened, width_of
from rfnb.viz.visible_text import visible


def problem(spec: Any) -> str | None:
    """The problem with the spec, as a sentence; None if it can be drawn."""
    head = spec.head
    if not isinstance(head.get("tracks"), list) or not isinstance(head.get("seqs"), list):
        return "This states view has no list of tracks and of sequences."
    for track in head["tracks"]:
        block = spec.blocks.get(track.get("block"))
        if block is None or block.ndim != 3:
            return f"Track {track.get('label')} has no array of sequence, step and unit."
        if block.shape[0] < len(head["seqs"]):
            return f"Track {track.get('label')} has {block.shape[0]} sequences, not {len(head['seqs'])}."
    return None


def missing(spec: Any) -> str:
    """The text for an empty view; "" for any other."""
    return "" if spec.head["tracks"] and spec.head["seqs"] else none_yet(spec, "states")


_MOST_UNITS, _MOST_STEPS, _MOST_TRACKS = 8, 40, 12
_STRONG = 0.8  # a correlation worth mentioning


def text(spec: Any) -> str:
    """The tracks of the first sequence: the norm per step, and the units with the largest variance as bars."""
    head = spec.head
    seq = head["seqs"][0]
    lines = [f"{title_of(spec)}: {seq['label']}, {seq['len']} steps"]
    tracks = head["tracks"][:_MOST_TRACKS]
    names = [f"{shortened(track['unit_dim']['name'], 18)} {spec.blocks[track['block']].shape[2]}" for track in tracks]
    left = max(13, *(min(width_of(name), 24) + 1 for name in names))
    every = max(1, -(-seq["len"] // _MOST_STEPS))
    shown = list(range(0, seq["len"], every))
    if not shown:
        return "\n".join([*lines, "  empty: no steps"])
    room = (WIDTH - left - 2) // len(shown) - 1  # for a number and the label above it
    wide = min(room, max(5, min(7, max(width_of(seq["steps"][step]) for step in shown)))) if room >= 5 else 1
    gap = " " if wide > 1 else ""
    if wide > 1:
        lines.append(" " * (left + 2) + gap.join(clip(seq["steps"][step], wide) for step in shown).rstrip())
    else:
        more = f"; each column is that farthest from 0 of {every} steps" if every > 1 else ""
        first, last = (shortened(visible(seq["steps"][at][:40]), 16) for at in (0, -1))
        lines.append(f"{' ' * left}  steps {first} … {last}{more}")
    for track in tracks:
        values = spec.blocks[track["block"]][0, : seq["len"]]
        lines += _track(track, values, np.array(shown), left, wide, gap)
        if said := (track.get("says") or {}).get("0"):
            lines.append(f"  {said}.")
    if len(tracks) < len(head["tracks"]):
        lines.append(f"... and {len(head['tracks']) - len(tracks)} more tracks")
    lines += [f"* {words}" for words in _finds(spec)]
    lines += [f"! {warning}" for warning in warnings(spec)]
    if len(head["seqs"]) > 1:
        lines.append(f"Sequences: {len(head['seqs'])}")
    return "\n".join(lines)


def _finds(spec: Any) -> list[str]:
    """The units that correlate with a feature of the steps, the strongest of each order."""
    said = []
    for order in spec.head.get("orders") or []:
        if not order["number"].startswith("correlation with the ") and order["name"] != "end":
            continue
        strong = []
        for track in spec.head["tracks"]:
            block = spec.blocks.get(f"{track['block']}/order/{order['name']}")
            for unit, number in block[0].T if block is not None and block.size else ():
                if abs(number) >= _STRONG:
                    strong.append(
                        (float(number), f"{track['label']} {track['unit_dim']['name']} {int(unit)} ({number:+.2f})")
                    )
        strong.sort(key=lambda one: -abs(one[0]))
        if strong and order["name"] != "cluster":
            more = f", and {len(strong) - 3} more" if len(strong) > 3 else ""
            said.append(
                f"{order['number'][0].upper()}{order['number'][1:]}: {', '.join(name for _, name in strong[:3])}{more}."
            )
    return said


def _track(track: dict[str, Any], values: np.ndarray, shown: np.ndarray, left: int, wide: int, gap: str) -> list[str]:
    """The lines of a track.

    Args:
        shown: The first step of each column, which covers all steps up to the next one: no spike and no NaN is missed.
    """
    unit = track["unit_dim"]
    size = values.shape[1]
    gate = bool(track.get("gate"))
    line_, change = line_of(values, gate=gate), changes(values, gate=gate)
    low, high = track["range"] if "range" in track else bounds(values)
    top = bounds(line_)[1] or 1.0
    name = name_of(gate=gate)
    span = "0 to 1" if gate else f"largest magnitude {max(abs(low), abs(high)):.3g}"
    lines = [f"{track['label']}: {unit['name']}={size}, {span}, {name} up to {top:.3g}"]

    def line(label: str, shares: Iterable[float], texts: Iterable[str]) -> str:
        cells = [
            clip((bar(share) if text_ else " ") + (text_ if wide > 1 else ""), wide)
            for share, text_ in zip(shares, texts)
        ]
        return f"  {clip(label, left)}{gap.join(cells)}".rstrip()

    for label, numbers, most in ((name, line_, 1.0 if gate else top), ("change", change, 1.0 if gate else top)):
        few = merged(np.r_[0.0, numbers[1:]] if numbers is change else numbers, shown, 0, extreme)
        texts = [_number(f"{value:.2g}", value, wide) for value in few]
        if numbers is change and len(shown) == len(values):
            texts[0] = ""
        lines.append(line(label, few / most, texts))
    with np.errstate(invalid="ignore"):
        spread = np.ptp(values.astype(np.float64), axis=0) if len(values) else np.zeros(size)
    spread = np.where(np.isnan(spread), np.inf, spread)  # NaN and infinities come first
    chosen = sorted(np.argsort(-spread, kind="stable")[:_MOST_UNITS].tolist())
    for index in chosen:
        column = merged(values[:, index].astype(np.float64), shown, 0, extreme)
        shares = (column - low) / ((high - low) or 1.0)
        lines.append(
            line(
                f"{shortened(unit['name'], left - 1 - len(f' {index}'))} {index}",  # the number is not cut off
                shares,
                [_number(share(value) if gate else f"{value:+.1f}", value, wide) for value in column],
            )
        )
    if size > len(chosen):
        lines.append(f"  (the {len(chosen)} that vary most)")
    return lines


def _number(text: str, value: float, wide: int) -> str:
    """A number in its default form; shorter or with more digits if that is cut, or shows 0 for a nonzero value."""
    return text if len(text) < wide and (value == 0 or text.strip("+-0.")) else brief(value, wide - 1)


def thin(spec: Spec, room: Room) -> Spec:
    """Pool each track to the values farthest from 0; the values that are drawn as lines, and the flags, stay exact."""
    head, grids, lines = spec.head, [], {}
    own = {name: block for name, block in spec.blocks.items() if "/order/" not in name}
    orders = {name: block for name, block in spec.blocks.items() if "/order/" in name}
    bare = Spec("states", head, own)
    if is_small(bare, room.small):
        return _with_orders(bare, orders, room.small)
    tracks = head["tracks"]
    for entry in tracks:
        name, gate = entry["block"], bool(entry.get("gate"))
        values = spec.blocks[name]
        lengths = [(seq["len"], values.shape[2]) for seq in head["seqs"]]
        grids.append(Grid(name, values, lengths, "linear", extreme, cols_first(values.shape[2], 64)))
        lines[f"{name}/line"] = line_of(values, gate=gate).astype(np.float32)
        lines[f"{name}/change"] = changes(values, gate=gate).astype(np.float32)
    for end in ("/change", "/line"):
        if size_of(Spec("states", {}, lines)) > room.most // 4:
            lines = {name: line for name, line in lines.items() if not name.endswith(end)}
    flags = {name: own[name] for entry in tracks for name in _flags(entry["block"]) if name in own}
    fixed = {**lines, **flags}
    _, made = fit_in(
        grids, Room(room.most, room.most).minus(size_of(Spec("states", {}, fixed))), 0
    )  # too many to recognise
    words = words_of(made, "the value farthest from 0", "values", ("steps", "units"))
    return _with_orders(with_codes(bare, made, lines, words), orders, room.most)


def _flags(track: str) -> tuple[str, str]:
    return f"{track}/units", f"{track}/steps"


def _with_orders(spec: Spec, orders: dict[str, np.ndarray], room: int) -> Spec:
    """The spec with the orders that fit: each for all tracks or for none; a page requests the others."""
    for name in dict.fromkeys(block.partition("/order/")[2] for block in orders):
        more = {block: value for block, value in orders.items() if block.partition("/order/")[2] == name}
        larger = Spec(spec.kind, spec.head, {**spec.blocks, **more}, spec.codes)
        if size_of(larger) > room:
            break
        spec = larger
    return spec
