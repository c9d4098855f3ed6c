"""The fields of a `beams` event as arrays [batch, beam] on the host, with the roles of dims: batch and beam."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np

from rfnb.core.beam_dim import is_beam
from rfnb.core.dim import Dim, Dims
from rfnb.core.errors import value_error
from rfnb.core.foreign_arrays import host_array
from rfnb.core.tensor import Tensor
from rfnb.trace.beam_labels import combine_sources
from rfnb.trace.host_copies import on_host

FIELDS = ("tokens", "parents", "scores", "ended")
CANDIDATES = ("cand_tokens", "cand_parents", "cand_scores", "cand_kept")
NUM_NEXT = 5  # best labels that a search tells of each hypothesis, also those that no beam took
NEXT = ("next_tokens", "next_log_probs")  # [batch, hypothesis before the choice, label]; of all alike one of these
# Of searches of rfnb; and those that begin as below.
FURTHER = (
    "log_probs",
    "base",
    "cand_verdict",
    "cand_by",
    "cand_log_probs",
    "merged",
    "left",
    "taken",
    "end_scores",
    *NEXT,
)
_FURTHER = ("part:", "cand_part:", "end_part:", "tokens:", "cand_tokens:")


class CandidateFate(IntEnum):
    """The fate of a candidate, as in `cand_verdict` of a `beams` event."""

    KEPT, CUT, BELOW_THRESHOLD, BLOCKED, MERGED, OVER = range(6)

    @property
    def text(self) -> str:
        """The outcome as text."""
        return ("kept", "cut by rank", "below the threshold", "blocked", "merged", "the search was over")[self]


@dataclass(frozen=True)
class BeamDims:
    """The dims of a search.

    Attributes:
        batch: The batch dims of all steps; with none or several, one index counts through all of them.
        beams: All dims that are a beam in some step.
        candidates: All dims over candidates in some step.
    """

    batch: Dims = ()
    beams: Dims = ()
    candidates: Dims = ()
    _orders: dict[Dims, tuple[list[Dim], int]] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of_values(cls, values: Sequence[Mapping[str, Any]]) -> BeamDims:
        """The dims from the Tensors of `beams` events."""
        beams: dict[Dim, None] = {}
        candidates: dict[Dim, None] = {}
        batch: Dims = ()
        for fields in values:
            beam = _beam_of(fields)
            batch = tuple(dim for dim in fields["tokens"].dims if dim is not beam)
            beams[beam] = None
            parent = fields["parents"].sparse_dim
            if parent is not None:
                beams[parent] = None  # the beam before the first choice may be none of the beams after one
            for name in fields:
                if name.startswith("cand_"):
                    candidates.update({dim: None for dim in fields[name].dims if dim not in batch})
        return cls(batch, tuple(beams), tuple(candidates))

    def host(self, value: Tensor) -> np.ndarray:
        """A field as an array [batch, beam or candidate, ...]."""
        if value.dims[:-1] == self.batch and len(self.batch) == 1:  # most are
            return value.numpy()
        known = self._orders.get(value.dims)
        if known is None:
            batch = sorted((dim for dim in value.dims if dim in self.batch), key=self.batch.index)
            slots = [dim for dim in value.dims if self._is_beam(dim) or dim in self.candidates]
            rest = [dim for dim in value.dims if dim not in batch and dim not in slots]
            known = self._orders[value.dims] = [*batch, *slots, *rest], len(batch)
        order, num_batch = known
        array = value.copy_transpose(order).numpy()
        return array.reshape([math.prod(array.shape[:num_batch]), *array.shape[num_batch:]])

    def pick(self, value: Any, seq: int, slot: int) -> np.ndarray:
        """The entry of one sequence and slot of a Tensor, or of an array [batch, beam, ...]."""
        if not isinstance(value, Tensor):
            array = host_array(value, "BeamHistory.along")[seq]
            return array[0 if array.shape[0] == 1 else slot]
        array = self.host(value)
        array = array[seq if any(dim in self.batch for dim in value.dims) else 0]
        if any(map(self._is_beam, value.dims)):
            array = array[0 if array.shape[0] == 1 else slot]
        return array

    def all_slots(self, value: Tensor, num_seqs: int) -> np.ndarray:
        """The entries of all sequences and slots of a Tensor, [seq, slot, ...]; a value shared by all slots appears once per sequence."""
        array = self.host(value)
        if not any(map(self._is_beam, value.dims)):
            array = array[:, None] if any(dim in self.batch for dim in value.dims) else array[None, None]
        elif not any(dim in self.batch for dim in value.dims):
            array = array[None]
        return np.broadcast_to(array, (num_seqs, *array.shape[1:]))

    def slots_of(self, value: Tensor) -> Dims:
        """The dim over beam slots of a Tensor, or nothing."""
        return tuple(dim for dim in value.dims if self._is_beam(dim))[:1]

    def _is_beam(self, dim: Dim) -> bool:
        # Between its choice and its end, a step has a beam dim of its own.
        return dim in self.beams or (is_beam(dim) and dim not in self.batch)


def host_fields(steps: Sequence[Mapping[str, Any]], dims: BeamDims) -> list[dict[str, np.ndarray]]:
    """The fields of each step as arrays."""
    names = [(step, name) for step, fields in enumerate(steps) for name in _names_in(fields)]
    values = on_host([steps[step][name] for step, name in names])
    out: list[dict[str, np.ndarray]] = [{} for _ in steps]
    for (step, name), value in zip(names, values, strict=True):
        out[step][name] = dims.host(value)
    return [_completed(arrays, fields) for arrays, fields in zip(out, steps, strict=True)]


_SIDES = {
    **dict.fromkeys((*FIELDS, "log_probs", "base", "merged", "left", "taken", "end_scores", "part:", "end_part:"), "tokens"),
    **dict.fromkeys((*CANDIDATES, "cand_verdict", "cand_by", "cand_log_probs", "cand_part:"), "cand_tokens"),
    **dict.fromkeys(NEXT, "next_tokens"),
}  # fmt: skip
_KINDS = {
    **dict.fromkeys(("tokens", "parents", "cand_tokens", "cand_parents", "cand_verdict", "cand_by", "next_tokens"), "iu"),
    **dict.fromkeys(("ended", "merged", "left", "cand_kept"), "biu"),
}  # fmt: skip


def check_steps(steps: Sequence[Mapping[str, np.ndarray]], num_blockers: int) -> None:
    """Check that the fields of each step have consistent shapes, and that the steps form one search. Other code relies on this.

    Raises:
        ValueError: If they do not.
    """
    before = 0
    for index, fields in enumerate(steps):
        for names in (CANDIDATES, NEXT):
            lacking = [name for name in names if name not in fields]
            if 0 < len(lacking) < len(names):
                raise _not_a_step(
                    index, fields, f"{lacking[0]} is missing", f"A step has all of {', '.join(names)}, or none"
                )
        for name, array in fields.items():
            start = name[: name.find(":") + 1] or name
            like, kinds = fields[_SIDES[start]], _KINDS.get(start, "f")
            size = len(steps[0]["tokens"])
            if array.shape != like.shape or array.ndim != 2 + (start in NEXT) or len(array) != size:
                rule = "A field has an entry for each sequence, and each hypothesis after the step (candidate, hypothesis before it)"
                raise _not_a_step(index, fields, f"{name} has another shape", rule)
            if array.dtype.kind not in kinds:
                raise _not_a_step(
                    index, fields, f"{name} are {array.dtype}", "Labels and slots are whole numbers, scores are floats"
                )
            if start == "end_part:" and name.removeprefix("end_") not in fields:
                raise _not_a_step(
                    index, fields, f"{name} is of no part", "What the end adds to a part has the name of that"
                )
        for name, scores, most in (
            ("parents", "scores", before), ("cand_parents", "cand_scores", before), ("cand_verdict", "cand_scores", len(CandidateFate)),
            ("cand_by", "cand_scores", num_blockers + 1),
        ):  # fmt: skip
            if name in fields and (index or not name.endswith("parents")):
                there = fields[name][fields[scores] > -np.inf]
                if there.size and not 0 <= there.min() <= there.max() < most:
                    raise _not_a_step(
                        index, fields, f"{name} are none of {most}", f"They are counted from 0: {name} are below {most}"
                    )
        rows, alive = fields["next_tokens"].shape[1] if "next_tokens" in fields else 1, fields["scores"] > -np.inf
        if index and rows != 1:
            parents, seqs = fields["parents"][alive], np.nonzero(alive)[0]
            going = parents[np.asarray(steps[index - 1]["ended"])[seqs, parents] == 0]
            if going.size and going.max() >= rows:
                raise _not_a_step(
                    index, fields, "next_tokens has too few rows", "It has one for each surviving hypothesis"
                )
        before = fields["tokens"].shape[1]


def _not_a_step(index: int, fields: Mapping[str, np.ndarray], what: str, rule: str) -> ValueError:
    rows = [(name, f"{array.shape} {array.dtype}") for name, array in fields.items()]
    return value_error(f"beams, step {index}: {what}.", rows, f"{rule}.", 'trace.select(kind="beams")')


def _names_in(fields: Mapping[str, Any]) -> list[str]:
    further = [name for name in fields if name in FURTHER or name.startswith(_FURTHER)]
    return [name for name in (*FIELDS, *CANDIDATES, *further) if name in fields]


def _completed(arrays: dict[str, np.ndarray], fields: Mapping[str, Any]) -> dict[str, np.ndarray]:
    for name in NEXT:
        if name in arrays and arrays[name].ndim == 2:
            arrays[name] = arrays[name][:, None]
    combine_sources(arrays, fields)
    return arrays


def _beam_of(fields: Mapping[str, Any]) -> Dim:
    tokens = fields["tokens"].dims
    given = fields.get("beam")
    if isinstance(given, Dim):
        return given
    if "cand_tokens" in fields:
        own = [dim for dim in tokens if dim not in fields["cand_tokens"].dims]
        if len(own) == 1:
            return own[0]
    parent = fields["parents"].sparse_dim
    if parent in tokens:
        return parent
    return next((dim for dim in tokens if "beam" in (dim.kind, dim.name)), tokens[-1])
