"""The `control` view: a run that is held, with what it does and what can be done with it.

    rf.show(run)

Its head is the state of the run as plain data: `ctx.run.state` in a page. The widget draws it in `widgets/src/control/`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from rfnb.control.run import Run
from rfnb.viz.control.rail import entries
from rfnb.viz.control.words import counter, state_of, words_of
from rfnb.viz.spec import Spec

_serial = itertools.count(1)
OVER = ("done", "failed", "stopped")


def spec(run: Run, *, beside: Run | None = None, note: str = "", changed: Callable[[], None] = lambda: None) -> Spec:
    """The spec of a run as it is now.

    Args:
        beside: Another run of its tree, with which it is compared.
        note: The limitations of the host, as text.
        changed: Called, in any thread, when more is known of its branches.
    """
    number = next(_serial)  # before anything is read: what has a higher one is newer
    state = state_of(run)
    at, steps = run._gate.at, run._holder.steps
    tick = at.tick if at is not None else len(steps) - 1
    here = run._holder.places[tick] if tick >= 0 else None
    lengths = run._holder.lengths
    of = None if here is None else lengths.get(here.path)
    runs, more = entries(run.root, [run, *([] if beside is None else [beside])], changed)
    return Spec(
        "control",
        {
            "title": run.name,
            "live": state not in OVER,
            "serial": number,
            "run": run.number,
            "state": state,
            "words": words_of(run, state),
            "counter": counter(here and (here.path, here.step), of),
            "at": here
            and {"path": here.path, "step": here.step, "nth": here.nth, "of": None if of is None else of.steps},
            "changed": [change.words for change in run.changes if at is not None and change.tick == at.tick],
            "steps": len(steps),
            "speed": run.speed,
            "loops": [
                {"path": path, "last": last, "runs": runs, "axis": lengths[path].axis if path in lengths else ""}
                for path, (last, runs) in run.counted.loops().items()
            ],
            "points": [{"number": p.number, "text": p.text, "hits": p.hits} for p in run.breakpoints],
            "runs": runs,
            "beside": beside and beside.number,
            "note": " ".join(filter(None, [note, more])),
        },
    )
