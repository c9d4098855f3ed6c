"""Builds the maps of an attention view: their positions by layer and head, masks, problems and badges.

Fields of the entry of a map, apart from those in `docs/contracts/views.md`: `at` are the indices of its layer and head,
`step` its position on the slider, `causal` whether the mask is causal ("seen": inferred from the weights), `mask` the
block of masked cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from rfnb.core.strict_json import JsonObject
from rfnb.viz.attention import badges
from rfnb.viz.attention.check import judge
from rfnb.viz.attention.masks import above, hidden_of, is_causal
from rfnb.viz.attention.words import Merge, joined, merged, starts
from rfnb.viz.pool import bounds, together
from rfnb.viz.spec import Spec

_LIVE_CELLS = 1 << 21  # cells of all maps: beyond, badges are computed when the recording ends


class MapPart(NamedTuple):
    """The weights of one tensor with the labels of both sides.

    Attributes:
        array: [seq, map, row, col]
        rows, cols: Labels per sequence, one per position.
        hidden: Masked cells, bool [seq, map or 1, row, col].
        causal: Whether the mask is causal; None to detect it.
    """

    array: np.ndarray
    rows: list[list[str]]
    cols: list[list[str]]
    hidden: np.ndarray | None = None
    causal: bool | None = None

    @property
    def lengths(self) -> tuple[np.ndarray, np.ndarray]:
        """The lengths of the rows and columns of each sequence."""
        rows, cols = (np.array([len(labels) for labels in side], np.int32) for side in (self.rows, self.cols))
        return rows, cols

    def merged(self, merge: Merge) -> MapPart:
        """The same weights between words."""
        masks = self.hidden
        if self.causal:  # a mask over pieces, since words may have several pieces on one side only
            masks = np.zeros((len(self.array), 1, *self.array.shape[2:]), bool)
            for mask, rows, cols in zip(masks, *self.lengths):
                mask[0, :rows, :cols] = above(rows, cols)
        arrays, hidden = [], []
        words: tuple[list[list[str]], list[list[str]]] = ([], [])
        for seq, sides in enumerate(zip(self.rows, self.cols)):
            begins = [starts(labels, merge) for labels in sides]
            one = (begins[0], len(sides[0]), begins[1], len(sides[1]))
            arrays.append(merged(self.array[seq], *one))
            if masks is not None:  # a word is masked if all of its pieces are
                hidden.append(merged(~masks[seq], *one) == 0)
            for side, labels, at in zip(words, sides, begins):
                side.append(joined(labels, at))
        array = together([array[None] for array in arrays])
        return MapPart(array, *words, together([mask[None] for mask in hidden], 1) if hidden else None)


class Maps:
    """Collects the content of a spec; `spec()` returns it.

    Attributes:
        slider: The slider over the steps of maps: {name, labels}.
    """

    def __init__(self, *, live: bool, title: str):
        self.live, self.title = live, title
        self.maps: list[JsonObject] = []
        self.seqs: list[JsonObject] = []
        self.layers: list[str] = []
        self.heads: list[str] = []
        self.slider: JsonObject | None = None
        self.blocks: dict[str, np.ndarray] = {}
        self.badges: list[np.ndarray] = []

    def add(
        self,
        part: MapPart,
        entry: JsonObject,
        places: Sequence[tuple[str, str]],
        names: Sequence[str],
        *,
        step: int,
        partial: bool,
    ) -> None:
        """Add the maps of one tensor.

        Args:
            entry: Common fields of their entries.
            places: Layer and head of each map.
            names: Names of the sequences.
            partial: Whether rows of all NaN may be rows that are not computed yet.
        """
        where = self._sequences(names, part)
        rows, cols = part.lengths
        for number, (layer, head) in enumerate(places):
            values, block = np.ascontiguousarray(part.array[:, number]), f"map{len(self.maps)}"
            self.blocks[block] = values
            one: JsonObject = {
                "label": ", ".join(filter(None, [layer, head])) or "weights", **entry,
                "at": [index_of(self.layers, layer), index_of(self.heads, head)], "step": step, "block": block, "seqs": where,
            }  # fmt: skip
            if part.hidden is not None:
                one["mask"] = self._mask(part.hidden[:, number if part.hidden.shape[1] > 1 else 0])
            elif part.causal or is_causal(values, rows, cols):
                one["causal"] = "given" if part.causal else "seen"
            self.maps.append(one)
            masks = [hidden_of(self, one, index) for index in range(len(where))]
            found = judge(values, rows, cols, part.rows, partial=partial, hidden=masks)
            one.update(found)
            self.badges.append(self._measured(values, rows, cols, masks, "causal" in one, "sums" in found))

    def spec(self) -> Spec:
        """The spec of all added maps."""
        head: JsonObject = {
            "title": self.title, "live": self.live, "layers": self.layers, "heads": self.heads, "maps": self.maps,
            "seqs": self.seqs,
        }  # fmt: skip
        if self.slider is not None:
            head["slider"] = self.slider
        return finished(head, self.blocks, self.badges)

    @property
    def head(self) -> JsonObject:
        """The head so far, for code that needs a spec."""
        return {"seqs": self.seqs}

    def _sequences(self, names: Sequence[str], part: MapPart) -> list[int]:
        """The indices of the sequences; existing ones are reused."""
        where = []
        for name, rows, cols in zip(names, part.rows, part.cols):
            entry = {"label": name, "rows": rows, "cols": cols, "row_len": len(rows), "col_len": len(cols)}
            if entry not in self.seqs:
                self.seqs.append(entry)
            where.append(self.seqs.index(entry))
        return where

    def _mask(self, hidden: np.ndarray) -> str:
        """The name of the block of a mask; maps with equal masks share it."""
        known = [name for name in self.blocks if name.startswith("mask")]
        for name in known:
            if np.array_equal(self.blocks[name], hidden):
                return name
        name = f"mask{len(known)}"
        self.blocks[name] = hidden.astype(np.uint8)
        return name

    def _measured(
        self, values: np.ndarray, rows: np.ndarray, cols: np.ndarray, masks: Sequence[Any], causal: bool, sums: bool
    ) -> np.ndarray:
        """The badges of a map, [seq, badge]; NaN if its rows should not sum to 1."""
        if not sums or (self.live and sum(block.size for block in self.blocks.values()) > _LIVE_CELLS):
            return np.full((len(values), len(badges.NAMES)), np.nan)
        return np.stack(
            [
                badges.measure(array, int(row), int(col), causal=causal, hidden=None if causal else mask)
                for array, row, col, mask in zip(values, rows, cols, masks)
            ]
        )


def finished(head: JsonObject, blocks: JsonObject, found: list[np.ndarray], ends: Any = None) -> Spec:
    """The spec with fields that depend on all of its maps: the colour range, and the badges including changes between layers.

    Args:
        ends: The range, if known.
    """
    spec = Spec("attention", head, blocks)
    head["range"] = _range(spec) if ends is None else list(ends)
    if any(np.isfinite(one).any() for one in found):
        every = np.full((len(found), max(map(len, found)), len(badges.NAMES)), np.nan, np.float32)
        for index, one in enumerate(found):
            every[index, : len(one)] = one
        _changes(spec, every)
        head["badges"], head["looks"] = list(badges.NAMES), list(badges.LOOKS)
        for entry, one in zip(head["maps"], every):
            entry["looks"] = [badges.looks(seq) for seq in one[: len(entry["seqs"])]]
        spec = Spec("attention", head, {**spec.blocks, "badges": every})
    return spec


def _changes(spec: Spec, every: np.ndarray) -> None:
    """Add the changes relative to the same head of the previous layer to the badges."""
    at = {(entry.get("step", 0), *entry["at"]): index for index, entry in enumerate(spec.head["maps"])}
    where = badges.NAMES.index("change")
    for index, entry in enumerate(spec.head["maps"]):
        layer, head = entry["at"]
        before = at.get((entry.get("step", 0), layer - 1, head))
        if before is None or np.isnan(every[[index, before], :, 0]).all(-1).any():
            continue
        other = spec.head["maps"][before]
        for seq, number in enumerate(entry["seqs"]):
            if seq < len(other["seqs"]) and other["seqs"][seq] == number and np.isnan(every[index, seq, where]):
                size = spec.head["seqs"][number]
                rows, cols = size["row_len"], size["col_len"]
                pair = [spec.blocks[each["block"]][seq, :rows, :cols] for each in (entry, other)]
                every[index, seq, where] = badges.change(*pair)


def _range(spec: Spec) -> list[float]:
    """The lowest (at most 0) and highest finite value outside padding and masks; over all columns if a problem was found."""
    low, high = 0.0, 0.0
    for entry in spec.head["maps"]:
        for seq, number in enumerate(entry["seqs"]):
            size = spec.head["seqs"][number]
            wrong = str(seq) in entry.get("notes", ())
            values = spec.blocks[entry["block"]][seq, : size["row_len"], : None if wrong else size["col_len"]]
            hidden = hidden_of(spec, entry, seq) if entry.get("mask") else None
            if hidden is not None:
                values = values[:, : size["col_len"]][~hidden]
            least, most = bounds(values)
            low, high = min(low, least), max(high, most)
    return [low, high]


def index_of(labels: list[str], label: str) -> int:
    """The index of a label in the list; a new label is appended."""
    if label not in labels:
        labels.append(label)
    return labels.index(label)
