"""What the choices of a loop keep from step to step: scores, beam dims, and what they need of the hypotheses so far."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from rfnb.core import generations
from rfnb.core.beam_dim import BeamDim
from rfnb.core.dim import Dim
from rfnb.core.errors import message
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.core.tensor_text import shape_of
from rfnb.ops.const import zeros_like
from rfnb.rec.loop import Loop
from rfnb.rec.selection import Selection, align_host
from rfnb.rec.selections import Selections

_number = itertools.count()


class Link:
    """One of the choices that a step makes one after the other.

    Attributes:
        beam_size: How many hypotheses it lets go on.
        scores: Of its hypotheses, {batch, chosen}.
        parents: Which hypothesis each continues, {batch, chosen}.
        normalized: Exponent of the length normalization, or None.
        cheats: Whether its last hypothesis is the reference path.
        stay: dims, dtype and label -> row of log probabilities after the end.
        written: Of each source the labels so far, if somebody blocks n-grams (`Written` in constraints.py).
    """

    def __init__(self, search: Search, position: int):
        self.search, self.position = search, position
        self.beam_size: int | None = None
        self.scores: Tensor | None = None
        self.parents: Tensor | None = None
        self.normalized: float | None = None
        self.cheats = False
        self.stay: dict[Any, Tensor] = {}
        self.written: dict[int, Any] = {}
        self._dims: dict[int, tuple[BeamDim, BeamDim]] = {}
        self.step = 0  # that its dims are of, if each step has its own

    def forget_dims(self) -> None:
        """The next choice makes new beam dims."""
        self._dims = {}

    def dims(self, size: int) -> tuple[BeamDim, BeamDim]:
        """The beam after this choice and, of the same size, the one between steps; the same ones in every step, so that plans are
        found again."""
        found = self._dims.get(size)
        if found is None:
            name = "beam" + "'" * (self.position + 1)
            found = self._dims[size] = (
                BeamDim(size, name=name, search=self.search, choice=self),
                BeamDim(size, name="beam", search=self.search, choice=self),
            )
        return found


class Search:
    """The choices of one loop. It hangs on their beam dims, so whoever has a value with one of them finds it."""

    def __init__(self, selections: Selections) -> None:
        self.selections = selections  # of the loop
        self.number = next(_number)  # searches are counted
        self.links: list[Link] = []
        self.scores: Tensor | None = None  # of the last choice so far, {batch, its beam}, natural log
        self._carried_of: Selection | None = None  # the one after which the scores are under the carried beam already
        self.finished = False
        self.leave = False  # what ends leaves the beam, see leaving.py
        self.left: np.ndarray | None = None  # {batch dims}: whether something has

    @classmethod
    def of(cls, loop: Loop) -> Search:
        """That of a loop; made with its first choice."""
        if loop.search is None:
            loop.search = cls(loop.selections)
        return loop.search

    def next_link(self, loop: Loop) -> Link:
        """The link of the choice that is being made."""
        before = self.selections.now
        position = 0 if before is None else before.out_dim.choice.position + 1
        if position == len(self.links):
            self.links.append(Link(self, position))
        link = self.links[position]
        if generations.are_steps_apart() and link.step != loop.num_steps:
            link.step = loop.num_steps
            link.forget_dims()
        return link

    def begin(self, loop: Loop) -> tuple[Dim | None, Tensor | None]:
        """The beam before the choice that is being made, and the scores of its hypotheses; None before the first choice."""
        last = self.selections.last
        if last is None or self.scores is None:
            return None, None
        if self.selections.now is not last:  # the first choice of this step
            if self._carried_of is not last:
                self.scores, self._carried_of = last.to_carried(self.scores), last
            return last.carried, self.scores
        return last.out_dim, self.scores

    def select(
        self, loop: Loop, link: Link, in_dim: Dim | None, values: Tensor, parents: Tensor, out_dim: BeamDim
    ) -> None:
        """Let the loop follow a choice."""
        selection = Selection(in_dim, out_dim, link.dims(out_dim.extent)[1], parents, before=self.selections.now)
        link.scores, link.parents = values, parents
        self.scores = values
        self.selections.select(selection)

    def finish(self, loop: Loop) -> None:
        """The loop is done: scores are under the beam between steps; normalized ones get their last division."""
        last = self.selections.last
        if last is None or self.scores is None:
            return
        self.scores = last.to_carried(self.scores)
        if not loop.num_steps:  # a step was recorded, and none made
            self.scores = zeros_like(self.scores)
        last.close()
        self.finished = True
        if self.links[-1].normalized is not None:
            self.scores = self.scores / float(max(loop.longest_with_end(), 1))

    def ended(self, loop: Loop) -> tuple[np.ndarray, tuple[Dim, ...]] | None:
        """Which hypotheses have ended before this step, for those that the choice being made starts from; None if none."""
        host, dims = loop.ended_before(), loop.end_dims
        if host is None:
            return None
        before = self.selections.now
        if before is None:
            return host, dims
        out = tuple(before.out_dim if dim is before.start else dim for dim in dims)
        if before.start is not None and before.start in dims:
            return before.follow_host(host, dims, out), out
        return host, dims

    def align(self, values: list[Any]) -> list[Any]:
        """Values of this step under the beam after its last choice; before its first one, under the one it starts with."""
        last = self.selections.last
        if last is None:
            return values
        if not last.closed:
            return [last.bring(value) for value in values]
        over = lambda x: isinstance(x, Tensor) and last.out_dim in x.dims  # noqa: E731
        return [last.to_carried(value) if over(value) else value for value in values]

    def batch_dims(self) -> tuple[Dim, ...]:
        """The dims of the scores besides the beam."""
        assert self.scores is not None
        return tuple(dim for dim in self.scores.dims if not self.owns(dim))

    def owns(self, dim: Dim) -> bool:
        """Whether a dim is a beam of this search; that of another one, whose hypotheses are searched on, is a batch dim here."""
        return isinstance(dim, BeamDim) and dim.search is self

    def scores_like(self, x: Tensor) -> Tensor:
        """The scores of the hypotheses that x belongs to."""
        for link in self.links:
            if link.scores is not None and any(dim in x.dims for dim in link.scores.dims if self.owns(dim)):
                return link.scores
        last = self.selections.last
        assert self.scores is not None and last is not None
        return self.scores if self.finished else last.to_carried(self.scores)


def search_of(x: Tensor, what: str) -> Search:
    """The search that made a value: of one that searched on with the hypotheses of another the later one.

    Raises:
        ValueError: If none did.
    """
    beam = beam_dim_of(x)
    if beam is not None:
        return beam.search
    raise ValueError(
        message(f"{what}: no search has made this.", [("value", shape_of(x))], "A value of a search has its beam dim.",
                "labels = loop.stack(rf.choice(...))   # then, after the loop: rf.decide(labels)")
    )  # fmt: skip


def beam_dim_of(x: Tensor) -> BeamDim | None:
    """The beam dim of the search that made a value; None if none did."""
    beams = generations.beams_of(x)
    lost = next((dim for dim in x.dims if "left_search" in dim.__dict__), None)
    if lost is not None and not beams:
        raise ValueError(
            message(
                "The search that made this was left behind when it was pickled.",
                [("value", shape_of(x)), ("beam", lost.short_repr())],
                "A loaded beam is a dim like any other. Decide, or ask for scores, before:",
                "torch.save((rf.decide(labels), rf.get_beam_scores(labels)), path)",
            )
        )
    return max(beams, key=lambda dim: dim.search.number, default=None)


def place_of(loop: Loop) -> str:
    """Where a choice is made, for messages."""
    return f'choice in loop "{loop.name}", step {loop.num_steps - 1}'


def first_of(bad: np.ndarray, dims: tuple[Dim, ...]) -> str:
    """Where in a host array over `dims` the first True is, for messages."""
    return ", ".join(f"{dim.name} {index}" for dim, index in zip(dims, np.argwhere(bad)[0]))


def host_of(value: Tensor, dims: tuple[Dim, ...]) -> np.ndarray:
    """A Tensor as host array in the order of `dims`, broadcast over those that it lacks."""
    return np.broadcast_to(align_host(value.numpy(), value.dims, dims), [dim.extent for dim in dims])


def on_backend(host: Any, dims: tuple[Dim, ...], like: Tensor, dtype: str) -> Tensor:
    """A host array as Tensor of the backend and on the device of another."""
    return new_tensor(like.backend.from_numpy(np.ascontiguousarray(host), dtype=dtype, device=like.device), dims)
