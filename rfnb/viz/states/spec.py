"""The `states` view: the values of a recurrent state, unit by step.

    rf.viz.states({"h": h, "c": c}, steps=["t", "h", "e"])     # plain arrays {step, unit} or {batch, step, unit}
    rf.viz.states(trace.states["decoder"], step_dim=time)      # Tensors know dims, lengths and padding

The widget draws the same spec in `widgets/src/states/`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rfnb.core.errors import dim_error, shape_error
from rfnb.core.strict_json import JsonObject
from rfnb.core.tensor import Tensor
from rfnb.viz.axes import Axis, NamedArray, given_lengths, seq_labels, tokens_of
from rfnb.viz.pool import bounds
from rfnb.viz.roles import step_axis
from rfnb.viz.spec import Spec, single
from rfnb.viz.states.check import AFTER_END, flags_of, judge, summary
from rfnb.viz.states.orders import is_easy, order_of, orders_of
from rfnb.viz.states.tracks import is_gate, is_held, rank_of
from rfnb.viz.view_inputs import STEPS_REMARK, by_label, is_of_steps, joined_steps, of_output

_EXAMPLE = 'rf.viz.states({"h": h}, dims=["batch", "step", "unit"])'


_USUAL = {1: ["step"], 2: ["step", "unit"], 3: ["batch", "step", "unit"]}  # axes of plain arrays


def spec(
    tracks: Any,
    *,
    steps: Sequence[Any] | None = None,
    lengths: Any = None,
    step_dim: Any = None,
    dims: str | Sequence[str] | None = None,
    names: Sequence[str] | None = None,
    title: str = "States",
    live: bool = False,
) -> Spec:
    """The spec of states over steps.

    Args:
        tracks: {step, unit, ...} by name: Tensors, or arrays with step and unit last; or one of them. A tuple or list
            of arrays {batch, step, unit} is a list of layers. Also the output of a model of transformers, and that of
            `generate`.
        steps: Label of each step (the token it read or wrote), or a list of labels per sequence. Default: numbers.
        lengths: Number of steps per sequence. Default: those of the dim, else of the labels.
        step_dim: The dim of the loop, a Dim or a name. Default: that of the recording, else one with a characteristic
            name or lengths, else the only candidate; for a plain array the first remaining axis.
        dims: Names of the axes of plain arrays. Default: [batch,] step, unit.
        names: One label per sequence.
        live: Whether more data may arrive.

    Raises:
        DimError: If step_dim is not a dim of each track, or is not given and ambiguous.
        ShapeError: If the tracks, labels or lengths do not fit together.
    """
    tracks, remark = of_output(tracks, "hidden_states", "states", "output_hidden_states=True", one=True), None
    if is_of_steps(tracks):
        tracks, remark = joined_steps(tracks, "states")[0], STEPS_REMARK
    name = tracks.name if isinstance(tracks, Tensor) else None
    given = by_label(tracks, dims, name or "state")
    # A state that is None (a unit without memory) has nothing to show.
    made = [_Track.of(str(label), value, step_dim, dims) for label, value in given.items() if value is not None]
    made.sort(key=lambda track: rank_of(track.label))
    head: JsonObject = {"title": title, "live": live, "step_dim": None, "tracks": [], "seqs": []}
    if remark is not None:
        head["remark"] = remark
    if not made:
        return Spec("states", head)
    _check(made)
    first = made[0]
    own = given_lengths(lengths, steps, first.step, first.seqs, where="states", role="step")
    tokens = tokens_of(steps, own, first.seqs, where="states", role="step")
    labels = seq_labels(first.seqs, names)
    head["step_dim"] = first.step.entry(0)
    head["seqs"] = [{"label": labels[i], "steps": tokens[i], "len": int(own[i])} for i in range(len(labels))]
    head["orders"] = [] if live else orders_of(head)
    arrays = [track.array() for track in made]
    blocks: dict[str, np.ndarray] = {}
    now = head["orders"] if is_easy([array.shape for array in arrays]) else []
    for index, (track, array) in enumerate(zip(made, arrays)):
        entry = {"label": track.label, "unit_dim": track.unit_entry(index + 1), "block": f"track{index}"}
        entry, of_track = _judged(entry, array, own.tolist(), live=live)
        for order in now:
            of_track[f"track{index}/order/{order['name']}"] = order_of(array, head["seqs"], order["name"])
        head["tracks"].append(entry)
        blocks.update(of_track)
    return Spec("states", head, blocks)


def axes_of(label: str, value: Tensor, step_dim: str) -> tuple[list[Axis], list[Axis]]:
    """The axes of sequences and those of units, in the order of a spec."""
    track = _Track.of(label, value, step_dim, None)
    return track.seqs, track.units


def _judged(entry: JsonObject, array: np.ndarray, lengths: list[int], *, live: bool) -> tuple[JsonObject, JsonObject]:
    """The entry of a track with its range and problems, and its blocks."""
    block = entry["block"]
    low, high = bounds(*(array[seq, :length] for seq, length in enumerate(lengths)))
    gate = is_gate(entry["label"], low, high)
    most = max(abs(low), abs(high))
    units, steps = flags_of(array, lengths, span=most or 1.0, gate=gate, live=live)
    holds = is_held(entry["label"])
    if not holds:
        steps &= 255 - AFTER_END
    ends = [None if holds else length for length in lengths]
    notes = {
        str(seq): note
        for seq, length in enumerate(lengths)
        if (note := judge(array[seq, : ends[seq]], length, live=live))
    }
    says = {str(seq): words for seq in range(len(lengths)) if (words := summary(units[seq], steps[seq]))}
    blocks = {block: array}
    if units.any() or steps.any():
        blocks |= {f"{block}/units": units, f"{block}/steps": steps}
    more = {"notes": notes, "says": says}
    entry = {**entry, "gate": gate, "range": [0.0, 1.0] if gate else [-(most or 1.0), most or 1.0]}
    return entry | {name: said for name, said in more.items() if said}, blocks


class _Track:
    """One state, with its axes sorted by role."""

    def __init__(self, label: str, named: NamedArray, step: Axis):
        self.label, self.named, self.step = label, named, step
        self.seqs = named.seq_axes([step])
        self.seqs += [axis for axis in named.axes if axis.kind == "beam" and axis not in self.seqs and axis is not step]
        self.seqs = named.sorted(self.seqs)
        rest = [axis for axis in named.axes if axis is not step and axis not in self.seqs]
        self.units = named.sorted(rest, heads_first=True)

    @staticmethod
    def of(label: str, value: Any, step_dim: Any, dims: str | Sequence[str] | None) -> _Track:
        named = NamedArray.of(value, dims, _USUAL, where=f'states, track "{label}"')
        if step_dim is not None:
            return _Track(label, named, named.find(step_dim, where=f'states, track "{label}"', role="step_dim"))
        step = step_axis(named, value, f'states, track "{label}"')
        if step is None:
            raise dim_error(
                f'states: track "{label}" has no dim of steps.',
                {"track": named.describe()},
                "A track has a dim that runs over the steps of a loop.",
                _EXAMPLE,
            )
        return _Track(label, named, step)

    def array(self) -> np.ndarray:
        """float32 [seq, step, unit]."""
        return single(self.named.arranged(self.seqs, [self.step], self.units))

    def unit_entry(self, number: int) -> JsonObject:
        if len(self.units) == 1:
            return self.units[0].entry(number)
        size = int(np.prod([axis.size for axis in self.units], dtype=np.int64))
        name = " × ".join(axis.name for axis in self.units) or "value"
        return {"name": name, "size": size, "lengths": None, "kind": None, "id": number}


def _check(tracks: list[_Track]) -> None:
    """Check that all tracks run over the same steps and sequences."""
    sizes = {(track.step.size, tuple(axis.size for axis in track.seqs)) for track in tracks}
    if len(sizes) > 1:
        raise shape_error(
            "states: the tracks differ in their steps or sequences.",
            [(track.label, track.named.describe()) for track in tracks],
            "The tracks of one view are states of the same loop: same steps, same sequences.",
            f'rf.viz.states({{"{tracks[0].label}": ...}})',
        )
