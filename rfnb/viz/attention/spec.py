"""The `attention` view: the weight that each target gives to each source.

    rf.viz.attention(weights, source=list("though"), target=["DH", "OW"])   # a plain array {target, source}
    rf.viz.attention(array, dims=["head", "target", "source"])              # further axes become selectable maps
    rf.viz.attention(tensor, source_dim=enc_time)                           # a Tensor knows its dims, lengths and padding
    rf.viz.attention({"layer 0": w0, "layer 1": w1})                        # several layers
    rf.viz.attention(w, tokens=["the", "cat"], mask="causal")               # self-attention: the same tokens on both axes
    rf.viz.attention({"1": w1, "2": w2}, slider="epoch")                    # the same weights during a training

The widget draws the same spec in `widgets/src/attention/`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rfnb.core.errors import dim_error, value_error
from rfnb.core.strict_json import JsonObject
from rfnb.core.tensor import Tensor
from rfnb.trace.long_attention import LongAttention
from rfnb.viz.attention.long_maps import long_spec
from rfnb.viz.attention.maps import MapPart, Maps
from rfnb.viz.attention.masks import CAUSAL, hidden_cells
from rfnb.viz.attention.words import Merge
from rfnb.viz.axes import Axis, NamedArray, given_lengths, names_of, seq_labels, tokens_of, vocab_of
from rfnb.viz.roles import attention_axes
from rfnb.viz.spec import Spec, single
from rfnb.viz.view_inputs import STEPS_REMARK, by_label, joined_in, of_output, refuse_missing

_EXAMPLE = 'rf.viz.attention(weights, dims=["head", "target", "source"])'


_SCALES = "root", "linear"


def spec(
    weights: Any,
    *,
    source: Sequence[Any] | None = None,
    target: Sequence[Any] | None = None,
    tokens: Sequence[Any] | None = None,
    source_lengths: Any = None,
    target_lengths: Any = None,
    source_dim: Any = None,
    target_dim: Any = None,
    dims: str | Sequence[str] | None = None,
    names: Sequence[str] | None = None,
    mask: Any = None,
    merge: Merge | None = None,
    slider: str | bool = False,
    samples: Any = None,
    sampling_rate: float | None = None,
    frame_shift: float | None = None,
    rail: str = "spectrogram",
    scale: str = "root",
    title: str = "Attention",
    heads: Sequence[int] | None = None,
    seqs: Sequence[int] | None = None,
    live: bool = False,
) -> Spec:
    """The spec of attention weights.

    Args:
        weights: {target, source, ...}: a Tensor, or an array with target and source last; or a dict of them by label,
            or a tuple or list of layers; or a dict of these over a changing setting (epochs, checkpoints), which becomes a
            slider. Also the output of a model of transformers, and that of `generate`: a tuple of layers for each step. Use
            NaN for weights that are not computed yet. Padding is shown unchanged, with its problems.
        source: Labels of the sources, or a list of labels per sequence. Default: numbers.
        target: Labels of the targets, likewise.
        tokens: Labels of both, for self-attention.
        source_lengths: Length per sequence. Default: those of the dim, else of the labels.
        target_lengths: Likewise.
        source_dim: The dim attended over, a Dim or a name. Default: that of the recording, else a dim with a
            characteristic name, else the only candidate; for a plain array the last axis.
        target_dim: The dim of the targets. Default: likewise, also by its lengths; for a plain array the last remaining axis.
        dims: Names of the axes of a plain array, "batch head target source" or a list. Default: [batch,] [head,] target, source.
        names: One label per sequence.
        mask: True where attention is allowed: a Tensor with dims of the weights, or an array that broadcasts against
            them; or "causal". Default: causal if the weights are (exactly 0 above the diagonal).
        merge: Show words instead of word pieces: a marker of pieces ("##", "▁", "Ġ", "@@"), True to detect it, or a
            function from the pieces to the word index of each. Weights to a word are summed, those from a word averaged.
        slider: Whether the labels of a dict, or the entries of a list, are slider positions instead of layers; a str names them ("epoch").
        samples: The sound whose frames are the sources, (batch, samples) or a list of (samples,): drawn above the columns.
        sampling_rate: Samples per second.
        frame_shift: Seconds between sources. Default: the samples are spread over the sources, and the view says so.
        rail: The form of the sound, "spectrogram" or "waveform".
        scale: The colour scale, "root" (small weights stay visible) or "linear", for print: there a weight of .03 is nearly white.
        heads, seqs: Indices for an `rf.LongAttention`, whose weights are computed by rows. Default: the first.
        live: Whether more data may arrive.

    Raises:
        DimError: If source_dim or target_dim is not a dim of the weights, or is not given and ambiguous; or if the mask has other dims.
        ShapeError: If labels, lengths, names or mask do not fit the array.
        ValueError: If merge is not a known marker, mask is a string other than "causal", samples do not fit the
            sequences, or the model returned no weights: `()`, or None in a tuple.
    """
    weights = of_output(weights, "attentions", "attention", "output_attentions=True")
    refuse_missing(weights)
    seen: Mapping[str, Any] = {}
    if isinstance(weights, LongAttention):
        sides: JsonObject = {"source": source, "target": target, "tokens": tokens, "names": names}
        return long_spec(weights, heads=heads, seqs=seqs, title=title, live=live, **sides)
    if slider and isinstance(weights, (list, tuple)):
        weights = dict(enumerate(weights))
    elif not slider:
        weights, seen = joined_in(weights, "attention")
    if isinstance(mask, str) and mask != CAUSAL:
        raise value_error(
            "attention: unknown value of mask.",
            {"mask": repr(mask), "known": repr(CAUSAL)},
            "A mask is a boolean Tensor or array, True at visible positions, or a known word.",
            f'rf.viz.attention(weights, mask="{CAUSAL}")',
        )
    if scale not in _SCALES:
        raise value_error(
            "attention: unknown value of scale.",
            {"scale": repr(scale), "known": ", ".join(map(repr, _SCALES))},
            "The square root keeps small weights visible; a linear one shows how small they are.",
            'rf.viz.attention(weights, scale="linear")',
        )
    made = Maps(live=live, title=title)
    for step, given in enumerate(_places(weights, slider, dims)):
        for label, value in given.items():
            one = _Weights.of(value, source, target, source_dim, target_dim, dims)
            same = tokens is not None or one.is_self
            sides = {
                "row": tokens if tokens is not None else source if target is None and same else target,
                "col": tokens if tokens is not None else target if source is None and same else source,
            }
            for role, axis in (("row", one.target), ("col", one.source)):
                if sides[role] is None and axis is not None:
                    sides[role] = vocab_of(axis)
            lengths = {
                role: given_lengths(own, sides[role], axis, one.seqs, where="attention", role=name)
                for role, own, axis, name in (
                    ("row", target_lengths, one.target, "target"),
                    ("col", source_lengths, one.source, "source"),
                )
            }
            rows = tokens_of(sides["row"], lengths["row"], one.seqs, where="attention", role="target")
            cols = tokens_of(sides["col"], lengths["col"], one.seqs, where="attention", role="source")
            masked = seen.get(str(label)) if mask is None else mask
            hidden = hidden_cells(masked, one.named, one.seqs, one.maps, one.target, one.source)
            part = MapPart(one.array(), rows, cols, hidden, mask == CAUSAL if isinstance(mask, str) else None)
            if merge is not None and merge is not False:
                part = part.merged(merge)
            entry = one.entry(same)
            partial = live or one.named.plain
            made.add(part, entry, one.places(str(label)), seq_labels(one.seqs, names), step=step, partial=partial)
    if isinstance(weights, Mapping) and _slides(weights, slider):
        name = slider if isinstance(slider, str) else "step"
        made.slider = {"name": name, "labels": list(map(str, weights))}
    out = made.spec()
    if scale == "linear":
        out.head["scale"] = scale
    if seen:
        out.head["remark"] = STEPS_REMARK
    if samples is None:
        return out
    from rfnb.viz.attention.rail import with_rail

    return with_rail(out, samples, sampling_rate, frame_shift, kind=rail)


def _slides(weights: Mapping[Any, Any], slider: str | bool) -> bool:
    return bool(slider) or any(isinstance(value, Mapping) for value in weights.values())


def _places(weights: Any, slider: str | bool, dims: Any) -> list[Mapping[str, Any]]:
    """The weights by label, for each slider position."""
    if isinstance(weights, Mapping) and _slides(weights, slider):
        return [by_label(value, dims) for value in weights.values()]
    return [by_label(weights, dims)]


class _Weights:
    """One tensor of weights, with its axes sorted by role."""

    def __init__(self, named: NamedArray, source: Axis, target: Axis | None):
        self.named, self.source, self.target = named, source, target
        self.seqs = named.seq_axes([source, target])
        rest = [axis for axis in named.axes if axis is not source and axis is not target and axis not in self.seqs]
        self.maps = named.sorted(rest)
        self.maps.sort(key=lambda axis: axis.is_heads)  # heads last, in the order of `places`

    @staticmethod
    def of(
        value: Any, source: Any, target: Any, source_dim: Any, target_dim: Any, dims: str | Sequence[str] | None
    ) -> _Weights:
        named = NamedArray.of(value, dims, _usual(source, target), where="attention")
        if not named.axes:
            raise dim_error(
                "attention: the weights have no dims.",
                {"given": "a scalar"},
                "Weights have a source dim and a target dim.",
                _EXAMPLE,
            )
        return _Weights(named, *attention_axes(named, value, source_dim, target_dim))

    @property
    def is_self(self) -> bool:
        """Whether both axes are the same dim."""
        own, other = (axis.dim if axis is not None else None for axis in (self.source, self.target))
        return own is not None and other is not None and (own.twin_of or own) is (other.twin_of or other)

    def entry(self, same: bool) -> JsonObject:
        """The fields that the entries of the maps of these weights share."""
        one_row = {"name": "target", "size": 1, "lengths": None, "kind": None, "id": 0}
        row = one_row if self.target is None else self.target.entry(0)
        return {"row_dim": row, "col_dim": self.source.entry(1), **({"self": True} if same else {})}

    def places(self, label: str) -> list[tuple[str, str]]:
        """The layer and the head of each map."""
        heads = [axis for axis in self.maps if axis.is_heads][-1:]
        layers = [
            ", ".join(filter(None, [label, name]))
            for name in names_of([axis for axis in self.maps if axis not in heads])
        ]
        return [(layer, head) for layer in layers for head in names_of(heads)]

    def array(self) -> np.ndarray:
        """float32 [seq, map, row, col], with padding unchanged: values there are a mistake that should be visible."""
        rows = [self.target] if self.target is not None else []
        return single(self.named.arranged(self.seqs, self.maps, rows, [self.source]))


def maps_of(array: np.ndarray, dims: Sequence[str]) -> np.ndarray:
    """Weights with axes of these names, including "source" and "target", as [seq, map, row, col] in the order of a spec's maps."""
    return _Weights.of(array, None, None, "source", "target", dims).array()


def array_of(weights: Tensor, source: Any, target: Any) -> np.ndarray:
    """Weights as [seq, map, row, col] in the order of a spec's maps."""
    return _Weights.of(weights, None, None, source, target, None).array()


def axes_of(weights: Tensor, source: Any, target: Any) -> tuple[list[Axis], list[Axis]]:
    """The axes of sequences and those of maps, in the order of a spec."""
    one = _Weights.of(weights, None, None, source, target, None)
    return one.seqs, one.maps


def _usual(source: Any, target: Any) -> dict[int, list[str]]:
    """The default names of the axes of plain arrays, by index."""
    nested = any(
        labels is not None and len(labels) and isinstance(labels[0], (list, tuple)) for labels in (source, target)
    )
    front = [[], ["batch" if nested else "head"], ["batch", "head"], ["batch", "layer", "head"]]
    return {1: ["source"], **{len(names) + 2: [*names, "target", "source"] for names in front}}
