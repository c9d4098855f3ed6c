"""Searches in a recording as views."""

from __future__ import annotations

from typing import Any

from rfnb.trace.beam_labels import CombinedLabels
from rfnb.trace.stacked_events import loop_dim_of
from rfnb.viz.beams.spec import spec as beams_spec
from rfnb.viz.edit_handles import vocabulary
from rfnb.viz.spec import Spec
from rfnb.viz.trace_labels import RunLabels


def part(page: Any, run: Any, own: RunLabels) -> Spec:
    """The view of a search."""
    history, handles = page.trace.beams[run.path, run.number], page.handles
    held = handles and handles.of_search(run.events, isinstance(history.labels, CombinedLabels))
    title = f"Beam search: {run.path or 'search'}" + (f", {history.about}" if history.about else "")
    labels = set(history.labels_of(0) or ())
    wanted = {seq: each for seq, each in page.expected.items() if set(each) <= labels}
    made = beams_spec(
        history, title=title, live=page.live, ids=bool(held) and "cannot" not in (held or {}),
        reference=[wanted.get(seq) for seq in range(history.num_seqs)] if wanted else None,
    )  # fmt: skip
    made.head["axis"] = page.axis(loop_dim_of(run.events[0]))
    if handles and held:
        known = [] if "cannot" in held else vocabulary(history.labels)
        made.head.update(held=held, hands=handles.marks(run.events), **({"vocab": known} if known else {}))
    return made
