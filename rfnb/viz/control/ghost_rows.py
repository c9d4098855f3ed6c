"""The attention rows of a ghost (a hypothetical continuation), for the maps of a page."""

from __future__ import annotations

from typing import Any

import numpy as np

from rfnb.control.ghosts import Ghost
from rfnb.trace.lookup import searches_of
from rfnb.viz.trace_search import SearchValues

_MOST = 20_000  # weights sent to a page per ghost, which appears and disappears with the pointer


def rows_of(ghost: Ghost) -> list[dict[str, Any]]:
    """The weights of each label of its lane, map by map: [{path, fixed, rows}]; [] if there are none, or too many."""
    trace, (_, lane) = ghost.run.trace, ghost.lane()
    if not ghost.rows or trace is None or lane is None:
        return []
    found: list[dict[str, Any]] = []
    for search in searches_of(trace):
        place = ghost.run.place_of(next(iter(search.choices)))
        if place is None or (place.path, place.nth) != (ghost.place.path, ghost.place.nth):
            continue
        for path in trace.attention:
            events = [event for event in trace.attention.events(path) if "weights" in event.values]
            followed = (
                SearchValues.of(search, events, "weights") if events and events[0].entry in search.choices else None
            )
            axis = [] if followed is None else [dim.name == events[0].values["axis"].name for dim in followed.inner]
            if followed is None or not followed.is_whole or sum(axis) != 1:
                continue
            row, slot = lane.end
            all_rows = followed.history.along(followed.steps, ghost.seq, slot, step=row, before_choice=followed.before)
            rows = all_rows[ghost.place.step :]
            if any(each is None for each in rows):
                continue
            rows = [np.moveaxis(each, axis.index(True), -1) for each in rows]
            names = [dim.name for dim, is_axis in zip(followed.inner, axis) if not is_axis]
            for at in np.ndindex(*rows[0].shape[:-1]):
                weights = [np.round(each[at].astype(np.float64), 4).tolist() for each in rows]
                found.append({"path": path, "fixed": dict(zip(names, at)), "rows": weights})
                if sum(len(row) for each in found for row in each["rows"]) > _MOST:
                    return []
    return found
