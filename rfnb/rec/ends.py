"""Which sequences or hypotheses of a loop have ended, and how many steps each of them has: on the host, so that asking costs nothing."""

from __future__ import annotations

import numpy as np

from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor
from rfnb.rec.selection import Selection, align_host


class Ends:
    """Known after each step.

    Args:
        past_length: How many steps after its length a sequence of a given axis takes to end.

    Attributes:
        dims: What `host` is over: the dims of the end condition, with the carried beam.
        host: Which have ended, bool; None before the first step.
        some: Whether any has.
    """

    def __init__(self, past_length: int = 0) -> None:
        self.past_length = past_length
        self.dims: tuple[Dim, ...] = ()
        self.host: np.ndarray | None = None
        self.some = False
        self._lengths: np.ndarray | None = None
        self._num_steps: int | None = None  # of all, until the first one has ended

    @property
    def lengths(self) -> np.ndarray | None:
        """How many steps each has, int32; None before the first step, and in a loop over a given axis."""
        if self._num_steps is not None and self.host is not None:
            return np.full(self.host.shape, self._num_steps, np.int32)
        return self._lengths

    def all(self) -> bool:
        """Whether all have ended, so that the loop is done."""
        return self.host is not None and (self.some or not self.host.size) and bool(self.host.all())

    def begin_step_of(self, axis: Dim, index: int) -> None:
        """In a loop over a ragged axis: what has ended before a step."""
        assert axis.lengths is not None
        self.dims, self.host = axis.length_dims, index >= axis.lengths + self.past_length
        self.some = bool(self.host.any())

    def end_step_of(self, axis: Dim, index: int) -> np.ndarray | None:
        """The same after it; which sequences the step counts for, None: all."""
        assert axis.lengths is not None
        self.host = index + 1 >= axis.lengths + self.past_length
        return None if index < axis.lengths.min(initial=index + 1) else index < axis.lengths

    def update(self, cond: Tensor, include_eos: bool, selection: Selection | None, index: int) -> np.ndarray | None:
        """After step `index`, with its condition {batch dims, beam}.

        Args:
            include_eos: Whether the step that ends a sequence counts for it.

        Returns:
            Which sequences the step counts for, over `dims`; None: all.
        """
        if selection is not None:
            cond = selection.bring(cond)
        now, dims = cond.numpy(), cond.dims
        counted = None
        if self.some:
            dims = self._joined(dims, selection)
            before, lengths = self._followed(self.host, dims, selection), self._followed(self.lengths, dims, selection)
            ended = before | align_host(now, cond.dims, dims)
            counted = np.broadcast_to(~before if include_eos else ~ended, ended.shape)
            self.host, self._lengths = ended, lengths + counted.astype(np.int32)
        elif now.any():
            self.host, self.some = now.copy(), True
            counted = np.ones_like(now) if include_eos else ~now
            self._lengths, self._num_steps = counted.astype(np.int32) + np.int32(index), None
        else:
            self.host, self._num_steps = now.copy(), index + 1
        self.dims = dims if selection is None else selection.carried_dims(dims)
        return None if counted is None or counted.all() else counted

    def _joined(self, dims: tuple[Dim, ...], selection: Selection | None) -> tuple[Dim, ...]:
        """The dims of this step's condition and those that the ends of the steps before have besides."""
        for dim in self.dims:
            dim = selection.out_dim if selection is not None and dim is selection.start else dim
            dims = dims if dim in dims else (*dims, dim)
        return dims

    def _followed(self, host: np.ndarray | None, dims: tuple[Dim, ...], selection: Selection | None) -> np.ndarray:
        """What is known per hypothesis from before this step, for the hypotheses after it."""
        assert host is not None
        return align_host(host, self.dims, dims) if selection is None else selection.follow_host(host, self.dims, dims)
