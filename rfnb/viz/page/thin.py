"""page_spec: of the exact spec that a view holds, one that is small enough for a page.

    page_spec(spec, Room(250_000, 20_000))

Small specs are as they are. Of large ones each kind knows what may be lost: cells of maps and states are pooled and coded in one
byte (attention: the largest weight of a block; states: the value farthest from 0, NaN if there is one), curves keep the least and
the largest point of each stretch, beams the best hypotheses of each step, outputs the best labels. `head.thinned` says so in
words. Exact numbers stay in the kernel (`viz/exact.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from rfnb.viz.attention.long import glance, is_long
from rfnb.viz.group.spec import join, parts_of
from rfnb.viz.hypotheses import without_slots
from rfnb.viz.page.budget import Room
from rfnb.viz.page.coded import Coded, Grid, Rung, coded, cols_first, fit, ladder, square
from rfnb.viz.page.differences import thin_diff
from rfnb.viz.page.heads import lessened, slim
from rfnb.viz.page.labels import thin_labels
from rfnb.viz.page.points import thin_curves
from rfnb.viz.page.steps import thin_beams
from rfnb.viz.pool import extreme, largest
from rfnb.viz.spec import Spec, pack
from rfnb.viz.states.tracks import changes, line_of

_GLANCE = 16  # cells in a row of a small map: with fewer, one does not see what it is
_ROUGH = 5  # values that one cell may stand for in each direction where there is room for more
_SCREEN = 320  # of one that has the screen for itself
_FOCUS = 0.3  # of the room: for the map that is on the screen at first


def page_spec(spec: Spec, room: Room) -> Spec:
    """The spec that a page gets: the same if it is small, else one whose frame has at most `room.most` bytes.

    A frame has no less than its title, so there are rooms that nothing fits in.
    """
    if _is_small(spec, room.small):
        return spec
    if spec.kind in ("group", "branches"):
        return _group(spec, room)
    if spec.kind in _HEADS:
        return _HEADS[spec.kind](spec, room)
    best = without_slots(spec)
    if best is not spec:  # what belongs to other hypotheses comes from the kernel
        return page_spec(best, room)
    slimmer = slim(spec, room)
    left = room.minus(_size(Spec(spec.kind, slimmer.head)) + 40 * len(spec.blocks))
    thinner = _KINDS.get(spec.kind)
    return thinner(slimmer, left) if thinner and spec.blocks else slimmer


def _is_small(spec: Spec, size: int) -> bool:
    """Whether the frame of a spec has at most so many bytes as it is."""
    if is_long(spec):
        return False
    raw = sum(block.nbytes for block in spec.blocks.values())
    if raw > 40 * size:  # zeros would be small all the same; then they are coded, and exactly that
        return False
    if raw < size and _size(Spec(spec.kind, spec.head)) + raw + 200 * len(spec.blocks) < size:
        return True
    return _size(spec) <= size


def _size(spec: Spec) -> int:
    return len(pack(spec))


def _group(spec: Spec, room: Room) -> Spec:
    """Each part gets an equal part of the room; what a small one leaves is for those that are larger."""
    parts = parts_of(spec)
    raw = [sum(block.nbytes for block in part.blocks.values()) + len(str(part.head)) for part in parts]
    made: dict[int, Spec] = {}
    left = room.minus(300 if spec.kind == "group" else _size(Spec(spec.kind, {**spec.head, "parts": []})))
    for index in sorted(range(len(parts)), key=raw.__getitem__):
        waiting = len(parts) - len(made)
        share = Room(left.most // waiting, left.easy // waiting)
        made[index] = page_spec(parts[index], share)
        left = left.minus(_size(made[index]))
    return join(spec.head, [made[index] for index in range(len(parts))], spec.kind)


def _attention(spec: Spec, room: Room) -> Spec:
    """Each map pooled to its largest weights, the one that is on the screen at first less than the others."""
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
    shown = {grid.name for grid in grids}  # the others, badges and masks, stay as they are
    room = room.minus(_size(Spec("attention", {}, {name: b for name, b in spec.blocks.items() if name not in shown})))
    rung, made = _fit(grids, room, _GLANCE if len(grids) > 1 else _SCREEN)
    focus = next((grid for grid in grids[head.get("focus", 0) :]), None)
    if focus is not None and len(grids) > 1 and rung.cells > 1:
        made[focus.name] = _finer(focus, rung, made, room)
    made = {name: _of_overview(spec.blocks[name], one) for name, one in made.items()}
    which = "the weight farthest from 0" if head.get("signed") else "the largest"
    words = _words(made, which, "weights", ("rows", "columns"))
    return _with(spec, made, {}, words)


def _of_overview(block: Any, made: Coded) -> Coded:
    """Say of a coded overview that it is of the map itself."""
    if not getattr(block, "by_rows", False):
        return made
    factor, code = block.factor, made.code
    pool = (1, *(factor * each for each in code.pool[1:]))
    return replace(made, code=replace(code, shape=tuple(block.shape), pool=pool))


def _states(spec: Spec, room: Room) -> Spec:
    """Each track pooled to the values farthest from 0; the numbers of the steps, which are drawn as lines, and the flags stay exact."""
    head, grids, lines = spec.head, [], {}
    own = {name: block for name, block in spec.blocks.items() if "/order/" not in name}
    orders = {name: block for name, block in spec.blocks.items() if "/order/" in name}
    bare = Spec("states", head, own)
    if _is_small(bare, room.small):
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
        if _size(Spec("states", {}, lines)) > room.most // 4:
            lines = {name: line for name, line in lines.items() if not name.endswith(end)}
    flags = {name: own[name] for entry in tracks for name in _flags(entry["block"]) if name in own}
    fixed = {**lines, **flags}
    _, made = _fit(grids, Room(room.most, room.most).minus(_size(Spec("states", {}, fixed))), 0)  # no glance sees all
    words = _words(made, "the value farthest from 0", "values", ("steps", "units"))
    return _with_orders(_with(bare, made, lines, words), orders, room.most)


def _flags(track: str) -> tuple[str, str]:
    return f"{track}/units", f"{track}/steps"


def _with_orders(spec: Spec, orders: dict[str, np.ndarray], room: int) -> Spec:
    """The spec with the orders that fit: each for all tracks or for none; a page asks for the others."""
    for name in dict.fromkeys(block.partition("/order/")[2] for block in orders):
        more = {block: value for block, value in orders.items() if block.partition("/order/")[2] == name}
        larger = Spec(spec.kind, spec.head, {**spec.blocks, **more}, spec.codes)
        if _size(larger) > room:
            break
        spec = larger
    return spec


def _fit(grids: list[Grid], room: Room, glance: int) -> tuple[Rung, dict[str, Coded]]:
    """The finest that fits into the easy room if that can be seen at one glance, else into all of it."""
    several = 1 - _FOCUS if len(grids) > 1 else 1.0
    if room.easy < glance * glance * len(grids) // 8:  # not even one bit for each cell that should be seen
        return fit(grids, int(several * room.most))
    rung, made = fit(grids, int(several * room.easy))
    sides = [(grid.values.shape[2], one.levels.shape[2]) for grid, one in zip(grids, made.values())]
    seen = all(shown >= min(cols, max(glance, cols // _ROUGH)) for cols, shown in sides)
    if room.most == room.easy or (seen and sum(one.size for one in made.values()) <= room.easy):
        return rung, made
    return fit(grids, int(several * room.most))


def _finer(grid: Grid, than: Rung, made: dict[str, Coded], room: Room) -> Coded:
    """A grid in what the others leave: on the finest rung that fits."""
    used = sum(one.size for one in made.values())
    left = (room.easy if used <= room.easy else room.most) - used + made[grid.name].size
    for rung in ladder():
        if rung.cells >= than.cells:
            break
        if grid.values.size // rung.cells * 0.01 <= left and (one := coded(grid, rung)).size <= left:
            return one
    return made[grid.name]


def _with(spec: Spec, made: dict[str, Coded], more: dict[str, np.ndarray], words: str) -> Spec:
    blocks = {name: made[name].levels if name in made else block for name, block in spec.blocks.items()}
    codes = {name: one.code for name, one in made.items()}
    return lessened(spec, {}, {**blocks, **more}, codes, words)


def _words(made: dict[str, Coded], what: str, nouns: str, axes: tuple[str, str]) -> str:
    """A sentence on what the page has instead of each number."""
    pools = sorted({one.code.pool[1:] for one in made.values()})
    down, across = pools[-1] if pools else (1, 1)
    if (down, across) == (1, 1):
        return f"The page has these {nouns} rounded to one byte each."
    block = f"{down} {axes[0]} × {across} {axes[1]}"
    finer = " or fewer" if len(pools) > 1 else ""
    return f"The page has {what} of each {block}{finer}, rounded to one byte."


_KINDS: dict[str, Callable[[Spec, Room], Spec]] = {
    "attention": _attention,
    "states": _states,
    "curves": thin_curves,
    "distribution": thin_labels,
    "diff": thin_diff,
}
_HEADS: dict[str, Callable[[Spec, Room], Spec]] = {"beams": thin_beams}  # what is large there is in the head


def frame_of(spec: Spec, room: Room, *, level: int | None = None, **head: Any) -> bytes:
    """The frame that a page gets, with more in its head; deflated quickly while more may come."""
    made = page_spec(spec, room)
    level = (1 if made.live else 6) if level is None else level
    return pack(Spec(made.kind, {**made.head, **head}, made.blocks, made.codes), level=level)
