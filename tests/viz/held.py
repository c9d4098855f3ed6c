"""Heads of held runs for the tests of their view, without a run."""

from __future__ import annotations

from typing import Any

from rfnb.viz.spec import Spec


def held(title: str = "decay", path: str = "decoder.search", when: str = "h.abs_max() > 5", **more: Any) -> Spec:
    """A run that is paused, one of two branches, with two breakpoints."""
    head = {
        "title": title,
        "live": True,
        "serial": 7,
        "run": 2,
        "state": "paused",
        "words": f'Paused before step 3 of "{path}": breakpoint {when}.',
        "counter": "step 3 of 14",
        "at": {"path": path, "step": 3, "of": 14},
        "steps": 21,
        "speed": 0.0,
        "loops": [
            {"path": "encoder", "last": 16, "runs": 1, "axis": "source"},
            {"path": path, "last": 3, "runs": 2, "axis": "target"},
        ],
        "points": [{"number": 1, "text": when, "hits": 1}, {"number": 3, "text": "nan", "hits": 0}],
        "runs": [
            {"number": 1, "name": "first", "from": "", "state": "done"},
            {"number": 2, "name": title, "from": f'from step 2 of "{path}" of first', "state": "paused"},
        ],
        "note": "",
    }
    return Spec("control", {**head, **more})
