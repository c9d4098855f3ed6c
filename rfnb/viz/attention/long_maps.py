"""Maps too large for memory: their cells are computed by rows, from queries and keys (`trace/long_attention.py`).

A spec has a `LongBlock` in place of an array. A page gets the pooled overview, and requests exact rows; text and
pictures show the overview (`glance`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from rfnb.core.errors import index_error
from rfnb.core.strict_json import JsonObject
from rfnb.core.whole_number import is_place
from rfnb.trace.long_attention import LongAttention
from rfnb.viz.spec import Spec


class LongBlock:
    """One map [sequence, target, source] of a LongAttention; slices are computed on access."""

    by_rows = True
    ndim = 3
    dtype = np.dtype(np.float32)

    def __init__(self, long: LongAttention, head: int, seqs: Sequence[int]):
        self.long, self.head, self.seqs = long, head, list(seqs)
        self.shape = (len(self.seqs), long.targets, long.sources)
        self.size = len(self.seqs) * long.targets * long.sources
        self.nbytes = long.num_bytes

    def __getitem__(self, at: tuple[slice, slice, slice]) -> np.ndarray:
        seqs, rows, cols = (range(*each.indices(size)) for each, size in zip(at, self.shape))
        made = [
            self.long.rows(rows.start, max(rows.start, rows.stop), head=self.head, seq=self.seqs[seq])[
                :, cols.start : cols.stop
            ]
            for seq in seqs
        ]
        return np.stack(made) if made else np.zeros((0, len(rows), len(cols)), np.float32)

    @property
    def factor(self) -> int:
        """The number of rows and columns per cell of the overview."""
        return self.long.factor

    def overview(self) -> np.ndarray:
        """The largest weight of each block of cells, [sequence, row, column]."""
        return np.stack([self.long.overview(head=self.head, seq=seq) for seq in self.seqs])


def long_spec(
    long: LongAttention,
    *,
    heads: Sequence[int] | None = None,
    seqs: Sequence[int] | None = None,
    source: Sequence[Any] | None = None,
    target: Sequence[Any] | None = None,
    tokens: Sequence[Any] | None = None,
    names: Sequence[str] | None = None,
    dims: tuple[str, str] = ("target", "source"),
    title: str = "Attention",
    live: bool = False,
) -> Spec:
    """The spec of the weights of a LongAttention.

    Args:
        heads: Indices of the heads. Default: the first; each takes seconds.
        seqs: Indices of the sequences. Default: the first.
        source, target, tokens: Labels, as for other weights: for all sequences, or a list per sequence.
        names: Names of the target and of the source.

    Raises:
        IndexError: If there is no such head or sequence.
    """
    chosen = {
        what: [0] if given is None else list(given) if isinstance(given, Iterable) else [given]
        for what, given in (("head", heads), ("sequence", seqs))
    }
    for what, count in (("head", long.num_heads), ("sequence", long.num_seqs)):
        if not chosen[what] or not all(is_place(index, count) for index in chosen[what]):
            raise index_error(
                f"attention: there is no such {what}.",
                {"asked": chosen[what], "there": f"{count}, from 0"},
                "Weights that are computed by rows are shown for some heads and sequences: each map takes seconds.",
                f"rf.viz.attention(long, {'heads' if what == 'head' else 'seqs'}=[{count - 1}])",
            )
    labels = [_labels(given if given is not None else tokens, chosen["sequence"]) for given in (target, source)]
    head: JsonObject = {
        "title": title, "live": live, "layers": [""], "heads": [f"head {index}" for index in chosen["head"]], "range": [0.0, 1.0],
        "seqs": [
            {"label": names[at] if names is not None and at < len(names) else f"sequence {at}",
             "rows": labels[0][number], "cols": labels[1][number], "row_len": long.targets, "col_len": long.sources}
            for number, at in enumerate(chosen["sequence"])
        ],
        "maps": [
            {"label": f"head {index}", "row_dim": _dim(dims[0], long.targets, 0), "col_dim": _dim(dims[1], long.sources, 1),
             "at": [0, number], "step": 0, "block": f"map{number}", "seqs": list(range(len(chosen["sequence"]))), "sums": True,
             **({"causal": "given"} if long.causal else {})}
            for number, index in enumerate(chosen["head"])
        ],
    }  # fmt: skip
    if len(chosen["head"]) < long.num_heads or len(chosen["sequence"]) < long.num_seqs:
        more = f"{long.num_heads} heads" + (f" and {long.num_seqs} sequences" if long.num_seqs > 1 else "")
        head["remark"] = f"Of {more} these are shown; others: rf.viz.attention(long, heads=[...], seqs=[...])."
    for seq, (rows, cols) in enumerate(zip(*labels)):
        head["seqs"][seq]["rows"] = rows or list(map(str, range(long.targets)))
        head["seqs"][seq]["cols"] = cols or list(map(str, range(long.sources)))
    blocks: JsonObject = {
        f"map{n}": LongBlock(long, index, chosen["sequence"]) for n, index in enumerate(chosen["head"])
    }
    return Spec("attention", head, blocks)


def _labels(given: Any, seqs: Sequence[int]) -> list[list[str]]:
    if given is None:
        return [[] for _ in seqs]
    nested = len(given) and isinstance(given[0], (list, tuple))
    return [[str(label) for label in (given[seq] if nested else given)] for seq in seqs]


def _dim(name: str, size: int, number: int) -> JsonObject:
    return {"name": name, "size": size, "lengths": None, "kind": None, "id": number}


def is_long(spec: Any) -> bool:
    """Whether maps of the spec are computed by rows."""
    return any(getattr(block, "by_rows", False) for block in spec.blocks.values())


def glance(spec: Any) -> Any:
    """The spec with overviews instead of maps computed by rows, and a label for each of their rows; the same spec if it has none."""
    if not is_long(spec):
        return spec
    factors = {seq: _factor(spec.blocks[entry["block"]]) for entry in spec.head["maps"] for seq in entry["seqs"]}
    few = [
        {**seq, "rows": seq["rows"][::factor], "cols": seq["cols"][::factor], "row_len": -(-seq["row_len"] // factor),
         "col_len": -(-seq["col_len"] // factor)}
        for seq, factor in ((seq, factors.get(index, 1)) for index, seq in enumerate(spec.head["seqs"]))
    ]  # fmt: skip
    blocks = {name: each.overview() if getattr(each, "by_rows", False) else each for name, each in spec.blocks.items()}
    return Spec(spec.kind, {**spec.head, "seqs": few}, blocks)


def _factor(block: Any) -> int:
    return int(block.factor) if getattr(block, "by_rows", False) else 1


def note(spec: Any) -> str:
    """A note that the picture shows overviews."""
    block = next(block for block in spec.blocks.values() if getattr(block, "by_rows", False))
    sizes = f"{block.shape[1]:,} targets by {block.shape[2]:,} sources"
    return f"{sizes}: each cell shows the largest of {block.factor} x {block.factor} weights"
