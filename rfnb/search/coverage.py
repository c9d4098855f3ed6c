"""The coverage penalty, which lowers the rank of hypotheses that leave parts of the source unattended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rfnb.backends import registry
from rfnb.core.tensor import Tensor
from rfnb.rec.device_reads import DeviceReads, Value, host_value
from rfnb.rec.selection import align_host
from rfnb.trace.beams import Hypothesis


class Coverage:
    """beta * sum over the source of log(min(attention summed over steps, 1)).

    Source: Wu et al. 2016, "Google's Neural Machine Translation System", section 7, equation (14).
    """

    def __init__(self, beta: float, wanted: DeviceReads):
        self.beta, self._wanted = beta, wanted
        self._later: list[Callable[[], None]] = []  # what is done when the values of the step are on the host
        self.total: np.ndarray | None = None  # {batch, hypotheses before the choice, source}
        self.steps: list[np.ndarray] = []  # in each step, {batch, hypotheses before the choice}: the penalty
        self._mask: np.ndarray | None = None

    def attend(self, out: Any, label: Tensor, raw: bool, step: Any) -> None:
        """Add the attention of a step, the third result of the step function."""
        weights = step.last[2] if raw and len(step.last) > 2 else out[2] if not raw and len(out) > 2 else None
        if weights is None:
            raise ValueError(
                "beam_search: coverage without attention weights.\nThe step function gives them as third value.\n"
                "    return log_prob, state, weights"
            )
        if raw:
            weights = weights.detach() if hasattr(weights, "detach") else weights
            self._when_here(weights, lambda host: self._add(host.reshape(step.batch.extent, -1, host.shape[-1])))
            return
        (source,) = (dim for dim in weights.dims if dim not in label.dims)
        order, dims = (*label.dims, source), weights.dims

        def add(host: np.ndarray) -> None:
            host = np.broadcast_to(align_host(host, dims, order), [dim.extent for dim in order])
            if source.lengths is not None and source.length_dims:
                self._mask = np.broadcast_to(source.host_mask(order), host.shape)
                host = np.where(self._mask, host, 0)
                self._mask = self._mask.reshape(label.dims[0].extent, -1, host.shape[-1])
            self._add(host.reshape(label.dims[0].extent if label.dims else 1, -1, host.shape[-1]))

        self._when_here(weights._raw, add)

    def _add(self, host: np.ndarray) -> None:
        self.total = host if self.total is None else self.total + host
        covered = np.log(np.clip(self.total, 1e-10, 1.0))
        if self._mask is not None:
            covered = np.where(self._mask[:, :1], covered, 0)
        self.steps.append(self.beta * covered.sum(-1))

    def follow(self, parents: Tensor) -> None:
        """Reorder the sums by the parents of the chosen hypotheses."""

        def follow(host: np.ndarray) -> None:
            assert self.total is not None
            index = host.reshape(self.total.shape[0], -1)
            self.total = np.take_along_axis(self.total, index[..., None], 1)

        self._when_here(parents._raw, follow)

    def _when_here(self, raw: Any, then: Callable[[np.ndarray], None]) -> None:
        """Call `then` with an array on the host, at once if it is already there."""
        known = registry.is_raw_tensor_type(type(raw))
        host = host_value(raw, registry.get_backend_by_raw_tensor_type(type(raw))) if known else np.asarray(raw)
        if not isinstance(host, Value):
            then(host)
            return
        self._wanted.add(host)
        self._later.append(lambda: then(host()))

    def settle(self) -> None:
        """End the step: its arrays are on the host now."""
        for each in self._later:
            each()
        self._later.clear()

    def after_last_step(self, seq: int, parent: int) -> float:
        """The penalty of a hypothesis that the last step made from slot `parent`."""
        return float(self.steps[-1][seq, parent])

    def penalty(self, seq: int, item: Hypothesis) -> float:
        """The penalty of a hypothesis when it was completed."""
        step, _ = item.path[-1]
        parent = item.path[-2][1] if step else 0
        return float(self.steps[step][seq, parent])
