"""The state that the choices of a loop keep between steps: scores, beam dims, and information about the hypotheses so far."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from rfnb.core import generations
from rfnb.core.beam_dim import BeamDim
from rfnb.core.dim import Dim, Dims, HostArray
from rfnb.core.errors import value_error
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.ops.const import zeros_like
from rfnb.rec.device_reads import DeviceReads
from rfnb.rec.loop import Loop
from rfnb.rec.selection import align_host
from rfnb.rec.selections import Selections
from rfnb.search.decision import Decision
from rfnb.search.early_stop import EarlyStop
from rfnb.trace.probe import Later, listening

_number = itertools.count()


class Link:
    """One of the consecutive choices in a step.

    Attributes:
        beam_size: The number of surviving hypotheses.
        last: Its decision in the previous step; None before the first one.
        normalized: Exponent of the length normalization, or None.
        cheats: Whether its last hypothesis is the reference path.
        sources: The labels of each source, for a choice of several.
        stay: (dims, dtype, label) -> row of log probabilities after the end.
        rule: The rule for hypotheses, see `label_rules.py`.
        plain: The preparation of the ordinary choice for the next steps, see `choose_plain.py`.
    """

    def __init__(self, search: Search, position: int):
        self.search, self.position = search, position
        self.beam_size: int | None = None
        self.last: Decision | None = None
        self.normalized: float | None = None
        self.cheats = False
        self.sources: Dims | None = None
        self.stay: dict[Any, Tensor] = {}
        self.rule: Any = None
        self.plain: Any = None
        self._dims: dict[int, tuple[BeamDim, BeamDim]] = {}
        self.step = 0  # that its dims are of, if each step has its own

    def forget_dims(self) -> None:
        """Make the next choice create new beam dims."""
        self._dims, self.plain = {}, None

    def dims(self, size: int) -> tuple[BeamDim, BeamDim]:
        """The beam after this choice and the one between steps, of the same size; the same dims in every step, so that cached plans are
        found again.
        """
        found = self._dims.get(size)
        if found is None:
            name = "beam" + "'" * (self.position + 1)
            found = self._dims[size] = (
                BeamDim(size, name=name, search=self.search, choice=self),
                BeamDim(size, name="beam", search=self.search, choice=self),
            )
        return found


class Search:
    """The choices of one loop, attached to their beam dims so that any value with such a dim leads to it.

    Attributes:
        links: One link for each choice of a step.
        final: The scores of the final hypotheses, once the loop is done.
        leave: Whether ended hypotheses leave the beam, see finished_hypotheses.py.
        left: {batch dims}: whether any has left.
        stop: The early stopping rule, or None.
        keep: Receives the full decision of each choice at the end of its step, even without listeners; or None.
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
        """The state of a loop, created with its first choice."""
        if loop.search is None:
            loop.search = cls(loop.selections)
        return loop.search

    @property
    def last(self) -> Decision | None:
        """The most recent decision; None before the first choice."""
        return cast("Decision | None", self._selections.last)

    @property
    def wanted(self) -> DeviceReads:
        """The values of the loop that the host will read."""
        return self._selections.wanted

    def is_watched(self) -> bool:
        """True if full information about a choice is requested."""
        return self.keep is not None or listening("beams")

    def next_link(self, loop: Loop) -> Link:
        """The link of the current choice."""
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
        """The beam before the current choice and the scores of its hypotheses; None before the first choice."""
        last = self.last
        if last is None:
            return None, None
        if self._selections.now is last:
            return last.out_dim, last.scores
        return last.carried, last.carried_scores()

    def decide(self, link: Link, in_dim: Dim | None, parents: Tensor, tokens: Tensor, scores: Tensor) -> Decision:
        """Let the loop follow a choice; all three are {batch dims, its beam}."""
        out_dim, carried = link.dims(tokens.dims[-1].extent)
        now, step = self._selections.now, len(self._selections.steps)
        decision = Decision(in_dim, out_dim, carried, parents, tokens, scores, now, step)
        decision.wanted = self._selections.wanted
        link.last = decision
        self._selections.select(decision)
        return decision

    def finish(self, loop: Loop) -> None:
        """End the loop: move the scores to the beam between steps, with the final division if they are normalized."""
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

    def ended(self, loop: Loop) -> HostArray | None:
        """The hypotheses that ended before this step, in the order of the beam that the current choice starts from; None if there are
        none.
        """
        host = loop.ended_before()
        return None if host is None else self._of_now(host, loop.end_dims)

    def written(self, link: Link, source: int) -> HostArray | None:
        """The labels of a source so far, {dims, step}, for the hypotheses that the current choice starts from; None if there are none,
        or they are not kept.
        """
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

    def _of_now(self, host: np.ndarray, dims: Dims) -> HostArray:
        """A host array from the beginning of the step, reordered for the hypotheses that the current choice starts from."""
        now = self._selections.now
        if now is None or now.start is None or now.start not in dims:
            return host, dims
        after = now.after(dims, now.start)
        return now.follow_host(host, dims, after), after

    def align(self, values: list[Any]) -> list[Any]:
        """Values of this step under the beam after its last choice; before its first one, under the beam it starts with."""
        last = self.last
        if last is None:
            return values
        if not last.closed:
            return [last.bring(value) for value in values]
        over = lambda x: isinstance(x, Tensor) and last.out_dim in x.dims  # noqa: E731
        return [last.to_carried(value) if over(value) else value for value in values]

    def slot_dim(self, size: int) -> Dim:
        """The dim that replaces a beam in values that must not follow their parents."""
        if size not in self._slots:
            self._slots[size] = Dim(size, name="slot")
        return self._slots[size]

    def order_of(self, total: Tensor, in_dim: Dim | None, axis: Dim) -> Dims | None:
        """The batch dims in the order of the previous choice, so that an index means the same sequence in all steps; None: any order."""
        if self.last is None:
            return None
        before = self.batch_dims()
        return before if {*before} == {*total.dims} - {in_dim, axis} else None

    def batch_dims(self) -> Dims:
        """The dims of the scores except the beam."""
        assert self.last is not None
        return tuple(dim for dim in self.last.scores.dims if dim is not self.last.out_dim)

    def decided(self, x: Tensor) -> Decision | None:
        """The decision of this step's choice that x comes from; None if x is from another step."""
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
    """The search that made a value; the later one if a search continued the hypotheses of another.

    Raises:
        ValueError: If the value is not from a search.
    """
    beam = beam_dim_of(x)
    if beam is not None:
        return beam.search
    raise value_error(
        f"{what}: no search has made this.",
        {"value": x},
        "A value of a search has its beam dim.",
        "labels = loop.stack(rf.choice(...))   # then, after the loop: rf.decide(labels)",
    )


def beam_dim_of(x: Tensor) -> BeamDim | None:
    """The beam dim of the search that made a value, or None."""
    beams = generations.beams_of(x)
    lost = next((dim for dim in x.dims if "left_search" in dim.__dict__), None)
    if lost is not None and not beams:
        raise value_error(
            "The search that made this was left behind when it was pickled.",
            {"value": x, "beam": lost},
            "A loaded beam is a dim like any other. Decide, or ask for scores, before:",
            "torch.save((rf.decide(labels), rf.get_beam_scores(labels)), path)",
        )
    return max(beams, key=lambda dim: dim.search.number, default=None)


def place_of(loop: Loop) -> str:
    """The place of a choice, for messages."""
    return f'choice in loop "{loop.name}", step {loop.num_steps - 1}'


def first_of(bad: np.ndarray, dims: Dims) -> str:
    """The place of the first True in a host array over `dims`, for messages."""
    return ", ".join(f"{dim.name} {index}" for dim, index in zip(dims, np.argwhere(bad)[0]))


def host_of(value: Tensor, dims: Dims) -> np.ndarray:
    """A Tensor as a host array in the order of `dims`, broadcast over missing dims."""
    return np.broadcast_to(align_host(value.numpy(), value.dims, dims), [dim.extent for dim in dims])


def on_backend(host: Any, dims: Dims, like: Tensor, dtype: str) -> Tensor:
    """A host array as a Tensor on the backend and device of another."""
    return new_tensor(like.backend.from_numpy(np.ascontiguousarray(host), dtype=dtype, device=like.device), dims)
