"""Labels that are forced or banned from outside in a choice of several sources: one of each source, None where it may be any."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.ops.expand import expand_dims
from rfnb.ops.where import where
from rfnb.rec.decisions import Decided
from rfnb.rec.loop import Loop
from rfnb.search.forced import Ended, cannot_come, check, more_than_go_on, resolved
from rfnb.search.search_state import Search


class SourceDecisions:
    """The decisions for a step that chooses from several sources; those that cannot be done are told to its step.

    Args:
        sources: The scores of each.
    """

    def __init__(self, loop: Loop, search: Search, sources: Sequence[Tensor], axes: Sequence[Dim], ended: Ended):
        in_dim, _ = search.begin()
        if search.last is not None:
            batch = search.batch_dims()
        else:
            every = dict.fromkeys(dim for scores in sources for dim in scores.dims)
            batch = tuple(dim for dim in every if dim not in axes and dim is not in_dim)
        self._loop, self._dims = loop, (*batch, *(() if in_dim is None else (in_dim,)))
        self._count = 1 if in_dim is None else in_dim.extent
        self._rows = math.prod(dim.extent for dim in self._dims)
        self.all: list[Decided] = []
        for given in loop.step.decisions:
            try:
                one = resolved(given, tuple(axes), loop)
                check(one, batch, in_dim, ended)
            except (IndexError, ValueError) as error:
                loop.step.refuse(error)
            else:
                self.all.append(one)

    def over_all(self, log_prob: Tensor, axis: Dim) -> Tensor:
        """The scores of a source over all hypotheses, whose labels differ from here on."""
        order = (*self._dims, axis)
        return expand_dims(log_prob, [dim for dim in order if dim not in log_prob.dims]).copy_transpose(order)

    def limited(self, log_prob: Tensor, axis: Dim, source: int) -> Tensor:
        """The scores of a source, -inf where a label of it alone is banned."""
        banned = np.zeros((self._rows, axis.extent), bool)
        for one in self.all:
            if one.kind == "ban" and [place for place, label in enumerate(one.label) if label is not None] == [source]:
                banned[self._places(one), one.label[source]] = True
        return (
            where(self._tensor(banned, axis, log_prob, "bool"), float("-inf"), log_prob) if banned.any() else log_prob
        )

    def leave_out_impossible(self, log_probs: Sequence[Tensor], sizes: Sequence[int]) -> None:
        """Leave out what cannot be forced, since it is not possible or more than the best `sizes` of a source: then it changes nothing."""
        hosts = [log_prob.numpy().reshape(self._rows, -1) for log_prob in log_probs]
        kept: list[Decided] = []
        for one in self.all:
            why = None
            for source, label in enumerate(one.label if one.kind == "force" else ()):
                if label is not None and hosts[source][self._places(one)[0], label] == -np.inf:
                    why = cannot_come(one)
                elif len(self._forced([*kept, one], source, self._places(one)[0])) > sizes[source]:
                    why = more_than_go_on(len(kept) + 1, sizes[source])
            if why is None:
                kept.append(one)
            else:
                self._loop.step.refuse(why)
        self.all = kept

    def _forced(self, decisions: Sequence[Decided], source: int, row: int) -> list[int]:
        """The labels of a source that are forced for a hypothesis."""
        own = [one for one in decisions if one.kind == "force" and self._places(one) == [row]]
        return list(dict.fromkeys(one.label[source] for one in own if one.label[source] is not None))

    def with_forced(
        self, best: Tensor, label: Tensor, part: Dim, log_prob: Tensor, source: int
    ) -> tuple[Tensor, Tensor]:
        """The best labels of a source, where those that are forced take the place of the last ones."""
        order = (*self._dims, part)
        best, label = best.copy_transpose(order), label.copy_transpose(order)
        labels = label.numpy().reshape(self._rows, part.extent).copy()
        scores = log_prob.numpy().reshape(self._rows, -1)
        changed = np.zeros(labels.shape, bool)
        for row in {self._places(one)[0] for one in self.all if one.kind == "force"}:
            forced = self._forced(self.all, source, row)
            free = [place for place, own in enumerate(labels[row]) if own not in forced]
            for own in forced:
                if own not in labels[row]:
                    place = free.pop()
                    labels[row, place], changed[row, place] = own, True
        if not changed.any():
            return best, label
        mask = self._tensor(changed, part, best, "bool")
        new = self._tensor(np.take_along_axis(scores, labels, 1), part, best, best.dtype)
        out = self._tensor(labels, part, label, label.dtype)
        out.sparse_dim = label.sparse_dim
        return where(mask, new, best), out

    def of_combinations(self, labels: Sequence[Tensor], parts: Sequence[Dim]) -> list[Decided]:
        """The same decisions about combinations of the best labels, of which the first source is the slowest."""
        found = []
        rows = [
            label.copy_transpose((*self._dims, part)).numpy().reshape(self._rows, part.extent)
            for label, part in zip(labels, parts)
        ]
        sizes = [part.extent for part in parts]
        for one in self.all:
            for row in self._places(one):
                places = [
                    list(range(size)) if label is None else np.flatnonzero(own[row] == label).tolist()
                    for label, own, size in zip(one.label, rows, sizes)
                ]
                if one.kind == "force":  # any: the best
                    places = [places_of[:1] for places_of in places]
                for place in itertools.product(*places):
                    index = int(np.ravel_multi_index(place, sizes))
                    found.append(one._replace(label=index, hypothesis=row % self._count))
        return found

    def _places(self, one: Decided) -> list[int]:
        """The rows of the hypotheses that it is about."""
        first = one.seq * self._count
        return [first + one.hypothesis] if one.hypothesis is not None else list(range(first, first + self._count))

    def _tensor(self, host: np.ndarray, last: Dim, like: Tensor, dtype: str) -> Tensor:
        dims = (*self._dims, last)
        array: Any = host.reshape([dim.extent for dim in dims])
        return new_tensor(like.backend.from_numpy(array, dtype=dtype, device=like.device), dims)
