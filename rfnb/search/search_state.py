"""The state that the choices of a loop keep from step to step: scores, beam dims, and what they need of the hypotheses so far."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from rfnb.core import generations
from rfnb.core.beam_dim import BeamDim
from rfnb.core.dim import Dim
from rfnb.core.errors import value_error
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.core.tensor_text import shape_of
from rfnb.ops.const import zeros_like
from rfnb.rec.loop import Loop
from rfnb.rec.selection import align_host
from rfnb.rec.selections import Selections
from rfnb.rec.wanted import Wanted
from rfnb.search.decision import Decision
from rfnb.search.early_stop import EarlyStop
from rfnb.trace.probe import Later, listening

_number = itertools.count()


class Link:
    """One of the choices that a step makes one after the other.

    Attributes:
        beam_size: How many hypotheses it lets go on.
        last: What it has decided in the last step; None before the first one.
        normalized: Exponent of the length normalization, or None.
        cheats: Whether its last hypothesis is the reference path.
        sources: The labels of each source, of a choice of several.
        stay: dims, dtype and label -> row of log probabilities after the end.
        rule: What hypotheses may be, see `allowed.py`.
        plain: What the usual choice prepares for the next steps, see `choose_plain.py`.
    """

    def __init__(self, search: Search, position: int):
        self.search, self.position = search, position
        self.beam_size: int | None = None
        self.last: Decision | None = None
        self.normalized: float | None = None
        self.cheats = False
        self.sources: tuple[Dim, ...] | None = None
        self.stay: dict[Any, Tensor] = {}
        self.rule: Any = None
        self.plain: Any = None
        self._dims: dict[int, tuple[BeamDim, BeamDim]] = {}
        self.step = 0  # that its dims are of, if each step has its own

    def forget_dims(self) -> None:
        """The next choice makes new beam dims."""
        self._dims, self.plain = {}, None

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
    """The choices of one loop. It hangs on their beam dims, so whoever has a value with one of them finds it.

    Attributes:
        links: One for each choice of a step.
        final: The scores of the final hypotheses, once the loop is done.
        leave: Whether what ends leaves the beam, see leaving.py.
        left: {batch dims}: whether something has.
        stop: When it stops before the last step; None: it does not.
        keep: Gets all that each choice has decided at the end of its step, also if nobody listens; None: nobody asks for it.
    """

    def __init__(self, selections: Selections) -> None:
        self.number = next(_number)  # searches are counted
        self._selections = selections  # of the loop
        self.links: list[Link] = []
        self.final: Tensor | None = None
        self.leave = False
        self.left: np.ndarray | None = None
        self.stop: EarlyStop | None = None
        self.keep: Callable[[Later], None] | None = None
        self._slots: dict[int, Dim] = {}

    @classmethod
    def of(cls, loop: Loop) -> Search:
        """The state of a loop; made with its first choice."""
        if loop.search is None:
            loop.search = cls(loop.selections)
        return loop.search

    @property
    def last(self) -> Decision | None:
        """The last decision; None before the first choice."""
        return cast("Decision | None", self._selections.last)

    @property
    def wanted(self) -> Wanted:
        """The values of the loop that the host will look at."""
        return self._selections.wanted

    def is_watched(self) -> bool:
        """Whether somebody wants all that is known of a choice."""
        return self.keep is not None or listening("beams")

    def next_link(self, loop: Loop) -> Link:
        """The link of the choice that is being made."""
        before = self._selections.now
        position = 0 if before is None else before.out_dim.choice.position + 1
        if position == len(self.links):
            self.links.append(Link(self, position))
        link = self.links[position]
        if generations.are_steps_apart() and link.step != loop.num_steps:
            link.step = loop.num_steps
            link.forget_dims()
        return link

    def begin(self) -> tuple[Dim | None, Tensor | None]:
        """The beam before the choice that is being made, and the scores of its hypotheses; None before the first choice."""
        last = self.last
        if last is None:
            return None, None
        if self._selections.now is last:
            return last.out_dim, last.scores
        return last.carried, last.carried_scores()

    def decide(self, link: Link, in_dim: Dim | None, parents: Tensor, tokens: Tensor, scores: Tensor) -> Decision:
        """Let the loop follow a choice; all three {batch dims, its beam}."""
        out_dim, carried = link.dims(tokens.dims[-1].extent)
        now, step = self._selections.now, len(self._selections.steps)
        decision = Decision(in_dim, out_dim, carried, parents, tokens, scores, now, step)
        decision.wanted = self._selections.wanted
        link.last = decision
        self._selections.select(decision)
        return decision

    def finish(self, loop: Loop) -> None:
        """The loop is done: scores are under the beam between steps; normalized ones get their last division."""
        last = self.last
        if last is None:
            return
        scores = last.carried_scores()
        if not loop.num_steps:  # a step was recorded, and none made
            scores = zeros_like(scores)
        last.close()
        if self.links[-1].normalized is not None:
            scores = scores / float(max(loop.longest_with_end(), 1))
        self.final = scores
        # What came out has beam dims, and they this: not the steps before.
        self._selections = Selections()
        self._selections.last = last

    def ended(self, loop: Loop) -> tuple[np.ndarray, tuple[Dim, ...]] | None:
        """The hypotheses that have ended before this step, for those that the choice being made starts from; None if none."""
        host = loop.ended_before()
        return None if host is None else self._of_now(host, loop.end_dims)

    def written(self, link: Link, source: int) -> tuple[np.ndarray, tuple[Dim, ...]] | None:
        """The labels of a source so far, {dims, step}, of the hypotheses that the choice being made starts from; None if there are
        none, or nobody has kept them."""
        last = link.last
        if last is None or source not in last.written:
            return None
        found = last.written[source]
        if isinstance(found, list):
            found = np.array(found).reshape(*[dim.extent for dim in last.tokens.dims], 1), last.tokens.dims
        value, dims = last.written[source] = found if isinstance(found, tuple) else found()
        beam: Dim = last.out_dim
        for one in self._selections.steps[last.step :]:
            if one is None:
                continue
            if one is not last:
                after = one.after(dims, beam)
                value, dims = one.follow_host(value, dims, after, beam), after
            dims, beam = one.carried_dims(dims), one.carried
        return self._of_now(value, dims)

    def _of_now(self, host: np.ndarray, dims: tuple[Dim, ...]) -> tuple[np.ndarray, tuple[Dim, ...]]:
        """A host array of the begin of the step for the hypotheses that the choice being made starts from."""
        now = self._selections.now
        if now is None or now.start is None or now.start not in dims:
            return host, dims
        after = now.after(dims, now.start)
        return now.follow_host(host, dims, after), after

    def align(self, values: list[Any]) -> list[Any]:
        """Values of this step under the beam after its last choice; before its first one, under the one it starts with."""
        last = self.last
        if last is None:
            return values
        if not last.closed:
            return [last.bring(value) for value in values]
        over = lambda x: isinstance(x, Tensor) and last.out_dim in x.dims  # noqa: E731
        return [last.to_carried(value) if over(value) else value for value in values]

    def slot_dim(self, size: int) -> Dim:
        """The dim that a beam is replaced by where values are not to follow their parents."""
        if size not in self._slots:
            self._slots[size] = Dim(size, name="slot")
        return self._slots[size]

    def order_of(self, total: Tensor, in_dim: Dim | None, axis: Dim) -> tuple[Dim, ...] | None:
        """The batch dims in the order of the choice before, so that a number means the same sequence in all steps; None: any order."""
        if self.last is None:
            return None
        before = self.batch_dims()
        return before if {*before} == {*total.dims} - {in_dim, axis} else None

    def batch_dims(self) -> tuple[Dim, ...]:
        """The dims of the scores besides the beam."""
        assert self.last is not None
        return tuple(dim for dim in self.last.scores.dims if dim is not self.last.out_dim)

    def decided(self, x: Tensor) -> Decision | None:
        """The decision of the choice of this step that x comes from; None if x is of another step."""
        found = (link.last for link in self.links if link.last is not None and link.last.out_dim in x.dims)
        return next(found, None)

    def scores_like(self, x: Tensor) -> Tensor:
        """The scores of the hypotheses that x belongs to."""
        decision = self.decided(x)
        if decision is not None:
            return decision.scores
        assert self.last is not None
        return self.last.carried_scores() if self.final is None else self.final


def search_of(x: Tensor, what: str) -> Search:
    """The search that made a value: of one that searched on with the hypotheses of another the later one.

    Raises:
        ValueError: If none did.
    """
    beam = beam_dim_of(x)
    if beam is not None:
        return beam.search
    raise value_error(
        f"{what}: no search has made this.",
        [("value", shape_of(x))],
        "A value of a search has its beam dim.",
        "labels = loop.stack(rf.choice(...))   # then, after the loop: rf.decide(labels)",
    )


def beam_dim_of(x: Tensor) -> BeamDim | None:
    """The beam dim of the search that made a value; None if none did."""
    beams = generations.beams_of(x)
    lost = next((dim for dim in x.dims if "left_search" in dim.__dict__), None)
    if lost is not None and not beams:
        raise value_error(
            "The search that made this was left behind when it was pickled.",
            [("value", shape_of(x)), ("beam", lost.short_repr())],
            "A loaded beam is a dim like any other. Decide, or ask for scores, before:",
            "torch.save((rf.decide(labels), rf.get_beam_scores(labels)), path)",
        )
    return max(beams, key=lambda dim: dim.search.number, default=None)


def place_of(loop: Loop) -> str:
    """The place of a choice, for messages."""
    return f'choice in loop "{loop.name}", step {loop.num_steps - 1}'


def first_of(bad: np.ndarray, dims: tuple[Dim, ...]) -> str:
    """The place in a host array over `dims` where the first True is, for messages."""
    return ", ".join(f"{dim.name} {index}" for dim, index in zip(dims, np.argwhere(bad)[0]))


def host_of(value: Tensor, dims: tuple[Dim, ...]) -> np.ndarray:
    """A Tensor as host array in the order of `dims`, broadcast over those that it lacks."""
    return np.broadcast_to(align_host(value.numpy(), value.dims, dims), [dim.extent for dim in dims])


def on_backend(host: Any, dims: tuple[Dim, ...], like: Tensor, dtype: str) -> Tensor:
    """A host array as Tensor of the backend and on the device of another."""
    return new_tensor(like.backend.from_numpy(np.ascontiguousarray(host), dtype=dtype, device=like.device), dims)
