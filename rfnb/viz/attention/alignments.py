"""Alignments of labels to frames as a view: a row per label and blank, a column per frame; the posterior of each, and the best path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rfnb.search.label_alignment import LabelAlignment, seconds
from rfnb.viz.attention.rail import with_rail
from rfnb.viz.attention.spec import spec as attention_spec
from rfnb.viz.spec import Spec

_REMARK = {
    "CTC": "Each frame is one label or blank (the rows between labels): a column sums to 1.",
    "transducer": "Each label is in one frame: its row sums to 1. Blanks (the rows between labels) end frames: those of a column sum to 1.",
}


def spec(
    value: LabelAlignment | Sequence[LabelAlignment],
    *,
    title: str | None = None,
    samples: Any = None,
    sampling_rate: float | None = None,
    frame_shift: float | None = None,
    rail: str = "spectrogram",
    path: bool = True,
) -> Spec:
    """The spec of one alignment or of several, an `attention` view of two maps: "posterior" and "best path".

    Args:
        samples, sampling_rate, frame_shift: The sound, as in `rf.viz.attention`. Default: that passed to `rf.ctc_output`.
        path: Whether to include the best path, which an exercise may ask for.
        rail: The form of the sound above the map, "spectrogram" or "waveform", if samples are given.
    """
    every = [value] if isinstance(value, LabelAlignment) else list(value)
    first = every[0]
    shape = (len(every), max(len(one.rows) for one in every), max(one.frames for one in every))
    maps = {"posterior": np.zeros(shape, np.float32), "best path": np.zeros(shape, np.float32)}
    for seq, one in enumerate(every):
        for name, values in (("posterior", one.posteriors), ("best path", one.best_path)):
            maps[name][seq, : len(one.rows), : one.frames] = values
    if not path:
        del maps["best path"]
    made = attention_spec(
        maps,
        dims=["batch", "label", "frame" if first.frame_shift is None else "time (s)"],
        target=[one.rows for one in every],
        source=[_times(one) for one in every],
        names=_names(every),
        slider="map",
        title=title or f"{first.kind} alignment",
    )
    for entry in made.head["maps"]:  # rows are not attention weights of a target: they sum to frames
        for name in ("notes", "sums", "causal", "looks", "remark"):
            entry.pop(name, None)
        entry["label"] = "alignment"
    head: dict[str, Any] = {**made.head, "remark": _REMARK[first.kind], "alignment": True}
    head.pop("badges", None), head.pop("looks", None)
    bare = Spec("attention", head, {name: block for name, block in made.blocks.items() if name != "badges"})
    if samples is None and all(one.samples is not None for one in every):
        samples = [one.samples for one in every]
    rate = first.sampling_rate if sampling_rate is None else sampling_rate
    shift = first.frame_shift if frame_shift is None else frame_shift
    words = [[(word.start, word.end, word.text) for word in one.words] for one in every]
    return with_rail(bare, samples, rate, shift, kind=rail, words=words)


def _names(every: Sequence[LabelAlignment]) -> list[str]:
    """A unique name for each sequence: several outputs may share names, but a view uses each only once."""
    names = [f"{one.name}: {one.text}" for one in every]
    before = [names[:place].count(name) for place, name in enumerate(names)]
    return [f"{name} ({count + 1})" if count else name for name, count in zip(names, before)]


def _times(one: LabelAlignment) -> list[str]:
    if one.frame_shift is None:
        return [str(frame) for frame in range(one.frames)]
    return [seconds(frame, one.frame_shift) for frame in range(one.frames)]
