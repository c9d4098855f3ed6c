"""Diffs that are too large for a page: values of fewer places, then steps by paths pooled to the largest difference of some steps."""

from __future__ import annotations

import numpy as np

from rfnb.viz.page.budget import Room
from rfnb.viz.page.coded import Grid, cols_first, fit
from rfnb.viz.page.heads import lessened
from rfnb.viz.pool import largest
from rfnb.viz.spec import Spec, pack

_MAPS = ("log", "abs")


def thin_diff(spec: Spec, room: Room) -> Spec:
    """The first difference keeps its values as long as anything does; those of other places are asked for."""
    head, blocks, said = spec.head, dict(spec.blocks), []
    maps = {name: blocks[name] for name in _MAPS if name in blocks}
    pairs = [pair["block"] for pair in head["pairs"] if pair.get("block") in blocks]
    size = len(pack(Spec("diff", {}, maps)))
    codes = {}
    if size > room.most // 2:
        _, rows, cols = maps["log"].shape
        grids = [
            Grid(name, block, [(rows, cols)], "linear", largest, cols_first(cols, 100)) for name, block in maps.items()
        ]
        _, made = fit(grids, room.most // 2)
        maps, codes = {name: one.levels for name, one in made.items()}, {name: one.code for name, one in made.items()}
        size = sum(one.size for one in made.values())
        across = max(one.code.pool[2] for one in made.values())
        of = f"the largest difference of each {across} steps, rounded" if across > 1 else "these differences rounded"
        said.append(f"The page has {of} to one byte.")
    kept: dict[str, np.ndarray] = {}
    for name in pairs:
        more = len(pack(Spec("diff", {}, {name: blocks[name]})))
        if size + more > room.most:
            break
        kept[name], size = blocks[name], size + more
    if len(kept) < len(pairs):
        said.append(f"It has the values of {len(kept)} places; those of others come from the kernel.")
    entries = [pair if pair.get("block") in kept else {**pair, "block": None} for pair in head["pairs"]]
    return lessened(spec, {"pairs": entries}, {**maps, **kept}, codes, *said)
