"""The ended sequences or hypotheses of a loop, kept on the host so that queries cost nothing.

For a given axis the lengths determine them all before the first step; otherwise a condition does in each step.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from rfnb.backends import registry
from rfnb.core.dim import Dim, Dims
from rfnb.core.dim_sizes import keep_lengths
from rfnb.core.finite_padding import StepWithEnded
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.rec.ended_states import active_in_steps
from rfnb.rec.selection import Selection, align_host


class Ends:
    """Ended sequences, as known after each step.

    Attributes:
        dims: What `host` is over: the dims of the lengths or of the end condition, with the carried beam.
        some: Whether any has ended.
    """

    dims: Dims = ()
    some = False

    def begin_step(self, index: int) -> None:
        """Begin step `index`."""

    def all(self) -> bool:
        """True if all have ended, so that the loop stops before its last step."""
        return False

    @property
    @abstractmethod
    def host(self) -> np.ndarray | None:
        """The ended sequences, bool; None before the first step."""

    @property
    @abstractmethod
    def lengths(self) -> np.ndarray | None:
        """The number of steps of each sequence, int32; None before the first step and in a loop over a given axis."""

    # -- for who holds the loop between two steps --------------------------------------------------------------------------

    @abstractmethod
    def cannot_change(self, stacks: bool | None) -> str | None:
        """The reason why lengths cannot be changed; None if they can.

        Args:
            stacks: Whether the loop collects a value of each step; None: that is not known yet.
        """

    @abstractmethod
    def end_now(self, which: np.ndarray) -> None:
        """End these sequences, bool over `dims`, before the step that is about to begin."""

    @abstractmethod
    def goes_on_from(self, which: np.ndarray) -> bool:
        """True if these ended sequences can resume at this step because none of their data is missing."""

    @abstractmethod
    def go_on(self, which: np.ndarray) -> None:
        """Resume these sequences at this step."""


class EndsOfAxis(Ends):
    """Ends given by the lengths of an axis.

    Args:
        past_length: How many steps after its length a sequence takes to end.
    """

    lengths = None

    def __init__(self, axis: Dim, past_length: int):
        self.axis, self.past_length = axis, past_length
        self._ends_at: np.ndarray | None = None
        self._first, self._shortest, self._done = 0, 0, 0
        self._active: list[Tensor | None] | None = None
        self._counts: np.ndarray | None = None  # the steps that count for each, where that was changed

    def begin_step(self, index: int) -> None:
        if index == 0:
            self._measure()
        self._done = index
        self.some = index >= self._first

    def end_step(self, index: int, like: Callable[[], Tensor | None]) -> Tensor | None:
        """The sequences that step `index` counts for; None means all.

        Args:
            like: A value of the step, which says where the result is needed.
        """
        self._done = index + 1
        if index < self._shortest:
            return None
        if self._counts is not None:
            return self._counted(index, like)
        if self._active is None:
            value = like()
            backend, device = (registry.selected(), None) if value is None else (value.backend, value.device)
            self._active = active_in_steps(self.axis, backend, device)
        return self._active[index]

    def pass_until(self, index: int) -> None:
        """Mark the steps before `index` as done; the first step is not among them."""
        self._done, self.some = index, index > self._first

    def kind(self, index: int) -> tuple[bool, bool]:
        """Whether some sequences ended before step `index`, and whether the step counts for only some of them."""
        return index >= self._first, index >= self._shortest

    def same_until(self, index: int) -> int:
        """The end of the series of steps from `index` on that are of the same kind."""
        return min(end for end in (self._first, self._shortest, self.axis.extent) if end > index)

    @property
    def all_until(self) -> int:
        """The first step that does not count for all sequences; the number of steps if there is none."""
        return min(self._shortest, self.axis.extent)

    def step_with_ended(self, index: int) -> StepWithEnded:
        """The sequences still running in step `index`, for ops; in a loop over lengths."""
        assert self._ends_at is not None
        return StepWithEnded(self.dims, index < self._ends_at)

    def active_in(self, indices: range, like: Tensor) -> list[Any]:
        """The raw mask of the sequences that each of these steps counts for, in a loop over lengths."""
        backend = like.backend
        masks = backend.unbind_raw(self.axis._raw_mask((self.axis, *self.dims), backend, like.device), 0)
        return [masks[index] for index in indices]

    @property
    def host(self) -> np.ndarray | None:
        return None if self._ends_at is None else self._done >= self._ends_at

    def cannot_change(self, stacks: bool | None) -> str | None:
        if self._ends_at is None:
            return f"The loop runs over {self.axis.short_repr()}, which is as long for all sequences."
        if stacks is None:
            return "Before the first step it is not known whether the loop stacks values, which have the lengths of its axis."
        if stacks:
            return f"The loop stacks values of its steps over {self.axis.short_repr()}, whose lengths are known to others too."
        return None

    def end_now(self, which: np.ndarray) -> None:
        assert self._ends_at is not None
        self._set(np.where(which, np.minimum(self._ends_at, self._done), self._ends_at))

    def goes_on_from(self, which: np.ndarray) -> bool:
        return bool((self._own_ends() > self._done)[which].all())

    def go_on(self, which: np.ndarray) -> None:
        assert self._ends_at is not None
        self._set(np.where(which, self._own_ends(), self._ends_at))

    def _own_ends(self) -> np.ndarray:
        assert self.axis.lengths is not None
        own: np.ndarray = self.axis.lengths + self.past_length
        return own

    def _set(self, ends_at: np.ndarray) -> None:
        """Let the sequences end at these steps instead of at their lengths."""
        self._ends_at = ends_at
        self._first = int(ends_at.min(initial=self.axis.extent + 1))
        self._shortest = self._first - self.past_length
        self.some = self._done >= self._first
        self._counts = ends_at - self.past_length

    def _counted(self, index: int, like: Callable[[], Tensor | None]) -> Tensor:
        """The sequences that a step counts for, where their ends differ from their lengths."""
        value = like()
        backend, device = (registry.selected(), None) if value is None else (value.backend, value.device)
        assert self._counts is not None
        return new_tensor(backend.from_numpy(self._counts > index, dtype="bool", device=device), self.dims)

    def _measure(self) -> None:
        lengths, self.dims = self.axis.lengths, self.axis.length_dims
        if lengths is None or not self.dims:
            self._first = self._shortest = self.axis.extent + 1
            return
        self._shortest = int(lengths.min(initial=self.axis.extent))
        self._first, self._ends_at = self._shortest + self.past_length, lengths + self.past_length
        if not lengths.size:
            self._first = self.axis.extent + 1


class EndsByCondition(Ends):
    """Ends determined by a condition."""

    host: np.ndarray | None = None

    def __init__(self) -> None:
        self._lengths: np.ndarray | None = None
        self._steps = 0  # that are over
        self._num_steps: int | None = None  # of all, until the first one has ended

    def begin_step(self, index: int) -> None:
        self._steps = index

    @property
    def lengths(self) -> np.ndarray | None:
        if self._num_steps is not None and self.host is not None:
            return np.full(self.host.shape, self._num_steps, np.int32)
        return self._lengths

    def all(self) -> bool:
        return self.host is not None and (self.some or not self.host.size) and not _has(self.host, False)

    def end_step(self, cond: Tensor, include_eos: bool, selection: Selection | None, index: int) -> Tensor | None:
        """End step `index` with its condition {batch dims, beam}.

        Args:
            include_eos: Whether the step that ends a sequence counts for it.

        Returns:
            Which sequences the step counts for, over `dims`; None: all.
        """
        if selection is not None:
            cond = selection.bring(cond)
        now, dims = cond.numpy() if selection is None else selection.read(cond, parents=self.some), cond.dims
        counted = None
        if self.some:
            dims = self._joined(dims, selection)
            before, lengths = self._followed(self.host, dims, selection), self._followed(self.lengths, dims, selection)
            ended = before | align_host(now, cond.dims, dims)
            counted = np.broadcast_to(~before if include_eos else ~ended, ended.shape)
            self.host, self._lengths = ended, lengths + counted.astype(np.int32)
        elif _has(now, True):
            self.host, self.some = now.copy(), True
            counted = np.ones_like(now) if include_eos else ~now
            self._lengths, self._num_steps = counted.astype(np.int32) + np.int32(index), None
        else:
            self.host, self._num_steps = now.copy(), index + 1
        self.dims = dims if selection is None else selection.carried_dims(dims)
        if counted is None or not _has(counted, False):
            return None
        return new_tensor(cond.backend.from_numpy(counted, dtype="bool", device=cond.device), self.dims)

    def cannot_change(self, stacks: bool | None) -> str | None:
        return None

    def end_now(self, which: np.ndarray) -> None:
        assert self.host is not None
        lengths = self.lengths
        self.host, self._lengths, self._num_steps, self.some = self.host | which, lengths, None, True

    def goes_on_from(self, which: np.ndarray) -> bool:
        assert self._lengths is not None
        return bool((self._lengths[which] == self._steps).all())

    def go_on(self, which: np.ndarray) -> None:
        assert self.host is not None
        self.host = self.host & ~which

    def set_lengths(self, axis: Dim) -> None:
        """Give the loop dim its lengths when the loop is done."""
        known = self.lengths
        axis.declared_length_dims = self.dims
        keep_lengths(axis, known if known is not None else np.zeros((), np.int32), self.dims)

    def _joined(self, dims: Dims, selection: Selection | None) -> Dims:
        """The dims of this step's condition plus those of the ends of earlier steps."""
        for dim in self.dims:
            dim = selection.out_dim if selection is not None and dim is selection.start else dim
            dims = dims if dim in dims else (*dims, dim)
        return dims

    def _followed(self, host: np.ndarray | None, dims: Dims, selection: Selection | None) -> np.ndarray:
        """The ends of each hypothesis before this step, reordered for the hypotheses after it."""
        assert host is not None
        return align_host(host, self.dims, dims) if selection is None else selection.follow_host(host, self.dims, dims)


def _has(host: np.ndarray, value: bool) -> bool:
    """True if a bool array contains this value, in a fifth of the time of `any` and `all`."""
    return (b"\1" if value else b"\0") in host.tobytes()
