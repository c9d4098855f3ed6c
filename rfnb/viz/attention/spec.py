"""The `attention` view: where each target position looks.

    rf.viz.attention(weights, source=list("though"), target=["DH", "OW"])   # a plain array {target, source}
    rf.viz.attention(array, dims=["head", "target", "source"])              # further axes become maps to choose from
    rf.viz.attention(tensor, source_dim=enc_time)                           # a Tensor: dims, lengths and padding are known
    rf.viz.attention({"layer 0": w0, "layer 1": w1})                        # several

The widget draws the same spec in `widgets/src/attention/`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rfnb.core.errors import dim_error
from rfnb.core.tensor import Tensor
from rfnb.viz.attention.check import judge
from rfnb.viz.axes import Axis, Named, given_lengths, names_of, tokens_of
from rfnb.viz.roles import attention_axes
from rfnb.viz.spec import Spec, host

_EXAMPLE = 'rf.viz.attention(weights, dims=["head", "target", "source"])'


def spec(
    weights: Any,
    *,
    source: Sequence[Any] | None = None,
    target: Sequence[Any] | None = None,
    source_lengths: Any = None,
    target_lengths: Any = None,
    source_dim: Any = None,
    target_dim: Any = None,
    dims: Sequence[str] | None = None,
    names: Sequence[str] | None = None,
    title: str = "Attention",
    live: bool = False,
) -> Spec:
    """The spec of attention weights.

    Args:
        weights: {target, source, ...}: a Tensor, or an array with target and source last; or a dict of them by label.
            Weights of an array that are not computed yet are NaN. Padding is shown as it is, and what is wrong with it is said.
        source: Labels of what is attended over, or a list of labels per sequence. Default: numbers.
        target: Labels of what attends, likewise.
        source_lengths: Length per sequence. Default: those of the dim, else of the labels.
        target_lengths: Likewise.
        source_dim: The dim attended over, a Dim or a name. Default: what was recorded, else a dim with a telling name, else the only
            one that can be; of a plain array the last axis.
        target_dim: The dim that attends. Default: likewise, also by its lengths; of a plain array the last that is left.
        dims: Names of the axes of a plain array. Default: [batch,] [head,] target, source.
        names: One label per sequence.
        live: Whether more may come.

    Raises:
        DimError: If source_dim or target_dim is not a dim of the weights, or is not given and several could be meant.
        ShapeError: If labels, lengths or names do not fit the array.
    """
    given = weights if isinstance(weights, Mapping) else {"": weights}
    maps: list[dict[str, Any]] = []
    seqs: list[dict[str, Any]] = []
    blocks: dict[str, np.ndarray] = {}
    for label, value in given.items():
        one = _Weights.of(value, source, target, source_dim, target_dim, dims)
        lengths = {
            "row": given_lengths(target_lengths, target, one.target, one.seqs, where="attention", role="target"),
            "col": given_lengths(source_lengths, source, one.source, one.seqs, where="attention", role="source"),
        }
        rows = tokens_of(target, lengths["row"], one.seqs, where="attention", role="target")
        cols = tokens_of(source, lengths["col"], one.seqs, where="attention", role="source")
        own = _names(names, one.seqs)
        first = len(seqs)
        for index, name in enumerate(own):
            sizes = {"row_len": int(lengths["row"][index]), "col_len": int(lengths["col"][index])}
            seqs.append({"label": name, "rows": rows[index], "cols": cols[index], **sizes})
        where = _reuse(seqs, first)
        array = one.array()
        row_entry = (
            one.target.entry(0)
            if one.target is not None
            else {"name": "target", "size": 1, "lengths": None, "kind": None, "id": 0}
        )
        for number, name in enumerate(names_of(one.maps)):
            block = f"map{len(maps)}"
            blocks[block] = array[:, number]
            text_ = ", ".join(filter(None, [str(label), name])) or "weights"
            judged = judge(array[:, number], lengths["row"], lengths["col"], rows, partial=live or one.named.plain)
            entry = {
                "label": text_,
                "row_dim": row_entry,
                "col_dim": one.source.entry(1),
                "block": block,
                "seqs": where,
            }
            maps.append({**entry, **judged.entry()})
    return Spec("attention", {"title": title, "live": live, "maps": maps, "seqs": seqs}, blocks)


class _Weights:
    """One tensor of weights, its axes sorted by role."""

    def __init__(self, named: Named, source: Axis, target: Axis | None):
        self.named, self.source, self.target = named, source, target
        self.seqs = named.seq_axes([source, target])
        rest = [axis for axis in named.axes if axis is not source and axis is not target and axis not in self.seqs]
        self.maps = named.sorted(rest)

    @staticmethod
    def of(
        value: Any, source: Any, target: Any, source_dim: Any, target_dim: Any, dims: Sequence[str] | None
    ) -> _Weights:
        if isinstance(value, Tensor):
            named = Named.of(value)
        else:
            array = host(value)
            names = dims if dims is not None else _default_names(array, source, target)
            named = Named.of(array, names, where="attention")
        if not named.axes:
            raise dim_error(
                "attention: the weights have no dims.",
                [("given", "a scalar")],
                "Weights have a source dim and a target dim.",
                _EXAMPLE,
            )
        return _Weights(named, *attention_axes(named, value, source_dim, target_dim))

    def array(self) -> np.ndarray:
        """float32 [seq, map, row, col], the padding as it is: what lies there is a mistake that one wants to see."""
        rows = [self.target] if self.target is not None else []
        return np.asarray(self.named.arranged(self.seqs, self.maps, rows, [self.source]), dtype=np.float32)


def _default_names(array: np.ndarray, source: Any, target: Any) -> list[str]:
    nested = any(
        labels is not None and len(labels) and isinstance(labels[0], (list, tuple)) for labels in (source, target)
    )
    front = {0: [], 1: ["batch" if nested else "head"], 2: ["batch", "head"], 3: ["batch", "layer", "head"]}
    if array.ndim == 1:
        return ["source"]
    if array.ndim - 2 not in front:
        return []  # the message of Named.of says what to do
    return [*front[array.ndim - 2], "target", "source"]


def _names(names: Sequence[str] | None, seq_axes: Sequence[Axis]) -> list[str]:
    own = [name or "sequence 0" for name in names_of(seq_axes)]
    return [str(name) for name in names] if names is not None and len(names) == len(own) else own


def _reuse(seqs: list[dict[str, Any]], first: int) -> list[int]:
    """The entries of `seqs` that the new ones (from `first`) are; those that were there before are taken away again."""
    new, where = seqs[first:], []
    del seqs[first:]
    for entry in new:
        before = next((index for index, other in enumerate(seqs[:first]) if other == entry), None)
        where.append(len(seqs) if before is None else before)
        if before is None:
            seqs.append(entry)
    return where
