"""GenerateSteps: convert events inside `generate` to prompts and beam slots, in the form of a search of rfnb.

`generate` has prompts and slots in one axis of rows. In a step only the last position is new, so the step has only
that; the other positions of the first step (the prompt) are sent separately, at the path with suffix ".prompt", once
for each prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch

from rfnb.core.dim import Dim, Dims
from rfnb.core.tensor import Tensor
from rfnb.interop.seen.names import Names
from rfnb.trace.probe import Later, Place

_IDS = ("decoder_input_ids", "input_ids", "decoder_inputs_embeds", "inputs_embeds")
_AS_IT_IS = ("beams", "module", "op", "unseen")
_SPARSE = {"tokens": "vocab", "cand_tokens": "vocab", "next_tokens": "vocab", "parents": "beam", "cand_parents": "beam"}


class GenerateSteps:
    """The dims of one call of `generate`.

    Attributes:
        batch, beam, rows: The prompts, the slots of each, and both in one dim.
    """

    def __init__(self) -> None:
        self.batch, self.beam, self.rows = (Dim(1, name=name, kind=name) for name in ("batch", "beam", "batch"))
        self._query = self._prompt = Dim(1, name="time")
        self._sources: dict[int, Dim] = {}  # of self-attention in the steps
        self._real: dict[Dim, Dim] = {}  # dims of this call -> dims also known outside of it
        self._read: list[Dims] = []  # dims of tokens read before the first step

    def start(self, batch: int, beams: int) -> None:
        """Start the first step."""
        known = (dims[0] for dims in self._read if len(dims) == 2 and dims[0].extent == batch)
        self.batch = next(known, None) or Dim(batch, name="batch", kind="batch")
        self.beam = Dim(beams, name="beam", kind="beam")
        self.rows = Dim(batch * beams, name="batch", kind="batch")

    def name(self, names: Names, inputs: Mapping[str, Any], step: int) -> None:
        """Name the axes of the inputs in a step."""
        raw = next((inputs[name] for name in _IDS if isinstance(inputs.get(name), torch.Tensor)), None)
        if raw is None:
            return
        self._query = Dim(raw.shape[1], name="time")
        self._prompt = self._query if step == 0 else self._prompt
        more = [Dim(raw.shape[2], name="feature", kind="feature")] if raw.ndim == 3 else []
        names.give(raw, [self.rows, self._query, *more])
        encoded = inputs.get("encoder_outputs")
        hidden = getattr(encoded, "last_hidden_state", None)
        if isinstance(hidden, torch.Tensor) and hidden.ndim == 3 and hidden.shape[0] == self.rows.extent:
            source = next(
                (dims[1] for dims in self._read if len(dims) == 2 and dims[1].extent == hidden.shape[1]), None
            )
            if step == 0:
                inside = Dim(hidden.shape[1], name=source.name if source is not None else "source")
                if source is not None:
                    self._real[inside] = source
                names.give(hidden, [self.rows, inside, Dim(hidden.shape[2], name="feature", kind="feature")])

    def fields(self, arrays: Mapping[str, np.ndarray], vocab: Dim) -> dict[str, Tensor]:
        """The fields of a `beams` event."""
        width = arrays["tokens"].shape[1]
        kept = self.beam if width == self.beam.extent else Dim(width, name="beam", kind="beam")
        candidates, following = Dim(arrays["cand_tokens"].shape[1], name="candidate"), Dim(1, name="next")
        if "next_tokens" in arrays:
            following = Dim(arrays["next_tokens"].shape[-1], name="next")
        sparse = {"vocab": vocab, "beam": self.beam}
        fields = {}
        for name, array in arrays.items():
            last = (
                [candidates]
                if name.startswith("cand_")
                else [self.beam, following]
                if name.startswith("next_")
                else [kept]
            )
            dim = sparse.get(_SPARSE.get(name, ""))
            raw = torch.from_numpy(np.ascontiguousarray(array))
            fields[name] = Tensor(name, [self.batch, *last], raw_tensor=raw, sparse_dim=dim)
        return fields

    def heard(
        self, kind: str, place: Place, values: Mapping[str, Any], step: int | None
    ) -> Iterator[tuple[str, Place, Any]]:
        """The events that one event becomes."""
        if kind in _AS_IT_IS:
            yield kind, place, values
        elif step is None:
            if kind == "tokens" and isinstance(values.get("ids"), Tensor):
                self._read.append(values["ids"].dims)
            yield kind, place, values
        else:
            ids = values.get("ids") if kind == "tokens" else None
            if step == 0 and isinstance(ids, Tensor) and ids.dims[-1].extent > self._prompt.extent:
                self._prompt = ids.dims[-1]  # it continues a cache that has the first tokens of the prompt
            # A head returns the scores of only the last position.
            if (self._query.extent > 1 and kind != "outputs") or (kind == "tokens" and step == 0):
                yield kind, apart(place, "prompt"), _later(values, self._whole)
            if kind != "tokens":
                yield kind, place, _later(values, partial(self._last, step=step, query=self._query))

    def _whole(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The values of the prompt, which are the same in all slots."""
        return {name: self._first_slot(value) if isinstance(value, Tensor) else value for name, value in values.items()}

    def _first_slot(self, value: Tensor) -> Tensor:
        value = self._split(value)
        if self.beam not in value.dims:
            return value
        axis = value.dims.index(self.beam)
        return _taken(value, axis, 0)

    def _last(self, values: Mapping[str, Any], step: int, query: Dim) -> dict[str, Any]:
        """The values of the last position. `before`: the attended positions are those of this dim, followed by the generated ones."""
        target, axis = values.get("target"), values.get("axis")
        over = target if isinstance(target, Dim) else query
        if isinstance(axis, Dim) and not isinstance(target, Dim):
            recurrent = "norm" in values and "hidden" not in values  # of a kernel, which may read a position twice
            over = axis if recurrent or self._is_query(axis, query) else over
        made: dict[str, Any] = {}
        for name, value in values.items():
            if isinstance(value, Tensor):
                at = next((i for i, dim in enumerate(value.dims) if dim is over), None)
                if at is None and not isinstance(target, Dim):
                    at = next((i for i, dim in enumerate(value.dims) if self._is_query(dim, query)), None)
                made[name] = self._split(value if at is None else _taken(value, at, -1))
            elif name not in ("target", "causal") and not (name == "axis" and axis is over):
                made[name] = self._known(value) if isinstance(value, Dim) else value
        if isinstance(target, Dim):
            made["causal"] = False
        if isinstance(axis, Dim) and "weights" in values and self._known(axis) not in self._real.values():
            if axis.extent == self._prompt.extent + step:
                source = self._sources.setdefault(axis.extent, Dim(axis.extent, name="source"))
                made["before"], made["axis"] = self._prompt, source
                for name, value in made.items():  # in the first step they are those of the prompt
                    if isinstance(value, Tensor):
                        dims = [made["axis"] if dim is axis else dim for dim in value.dims]
                        made[name] = Tensor(value.name, dims, raw_tensor=value.raw_tensor)
        return made

    def _is_query(self, dim: Dim, query: Dim) -> bool:
        """Whether a dim is over the positions of the step, or only the last one, even if it is not the dim of the inputs."""
        data = dim.kind not in ("batch", "feature") and "time" in dim.name
        return dim.extent in (1, query.extent) and data and not self._is_rows(dim)

    def _split(self, value: Tensor) -> Tensor:
        """A value split over prompts and slots."""
        raw, dims = value.raw_tensor, list(value.dims)
        for axis, dim in enumerate(dims):
            dims[axis] = self._known(dim)
        at = next((axis for axis, dim in enumerate(dims) if self._is_rows(dim)), None)
        if at is not None:
            raw = raw.unflatten(at, (self.batch.extent, self.beam.extent))
            dims[at : at + 1] = [self.batch, self.beam]
        return Tensor(value.name, dims, raw_tensor=raw, sparse_dim=value.sparse_dim)

    def _is_rows(self, dim: Dim) -> bool:
        return dim is self.rows or (dim.kind == "batch" and dim is not self.batch and dim.extent == self.rows.extent)

    def _known(self, dim: Dim) -> Dim:
        """The dim also known outside of the call; one with lengths over rows loses them."""
        for inside, real in self._real.items():
            if dim is inside or dim.twin_of is inside:
                return real
        if any(map(self._is_rows, dim.length_dims)):
            same = next((real for real in self._real.values() if real.extent == dim.extent), None)
            self._real[dim] = same or Dim(dim.extent, name=dim.name, kind=dim.kind)
            return self._real[dim]
        return dim


def apart(place: Place, name: str) -> Place:
    """The path for values outside any step, although they were sent in one: the path with this suffix."""
    path = f"{place.path}.{name}" if place.path else name
    return place._replace(path=path, module=path, step=None, axis=None, steps=place.steps[:-1], entry=0)


def _taken(value: Tensor, axis: int, index: int) -> Tensor:
    dims = [dim for at, dim in enumerate(value.dims) if at != axis]
    return Tensor(value.name, dims, raw_tensor=value.raw_tensor.select(axis, index), sparse_dim=value.sparse_dim)


def _later(values: Mapping[str, Any], make: Callable[[Mapping[str, Any]], dict[str, Any]]) -> Any:
    if isinstance(values, Later):
        return Later(lambda: make(values.made()), values.num_bytes)
    return make(values)
