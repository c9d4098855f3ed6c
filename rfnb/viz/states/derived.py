"""Blocks of states that are made when a page asks for them: "track0/order/cluster", "track0/on/<seq>/<start>/<stop>/<threshold>"."""

from __future__ import annotations

from typing import Any

import numpy as np

from rfnb.viz.states.brush import Brush, counts, elsewhere
from rfnb.viz.states.orders import order_of


def derived(spec: Any, name: str) -> np.ndarray | None:
    """The block of this name; None if there is none."""
    track, _, rest = name.partition("/")
    what, _, which = rest.partition("/")
    values, seqs = spec.blocks.get(track), spec.head.get("seqs")
    if values is None or values.ndim != 3 or not seqs:
        return None
    if what == "order":
        known = any(order["name"] == which for order in spec.head.get("orders") or [])
        return order_of(values, seqs, which) if known else None
    brush = _brush(which, values.shape, seqs) if what in ("on", "elsewhere") else None
    if brush is None:
        return None
    return (counts if what == "on" else elsewhere)(values, [seq["len"] for seq in seqs], brush)


def _brush(text: str, shape: tuple[int, ...], seqs: Any) -> Brush | None:
    try:
        seq, start, stop, threshold = text.split("/")
        brush = Brush(int(seq), int(start), int(stop), float(threshold))
    except ValueError:
        return None
    fits = (
        0 <= brush.seq < len(seqs) and 0 <= brush.start < brush.stop <= shape[1] and brush.threshold == brush.threshold
    )
    return brush if fits else None
